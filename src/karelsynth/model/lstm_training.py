"""One LSTM layer after the other over a prefix trie, with gradient: teacher forcing.

It computes what `LSTMSteps.step` computes step by step. A layer's gates are a sum of terms that depend on different
things (`Gates`). Each term is computed once for all nodes that share it: an example's code is the same for all tokens
of its program, a token is the same for all examples. Products with known inputs are done for all nodes at once;
products with states go from depth to depth.

The backward pass is written by hand (`Recurrence`). It reads and writes less than PyTorch's, and less than cuDNN's,
which cannot use the terms. On a GPU both passes use the kernels of `triton_launch`, elsewhere the same formulas as
tensor operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from karelsynth.model import triton_launch
from karelsynth.model.decoder import pooled
from karelsynth.model.devices import product, to_device
from karelsynth.model.encoder import one_hot

if TYPE_CHECKING:
    from collections.abc import Callable

    from karelsynth.model.lstm import StepWeights
    from karelsynth.model.prefix_trie import PrefixTrie, SharedPrefixes


class Gates(NamedTuple):
    """The terms of a layer's gates without the states' term; None for a term that is zero."""

    own: Tensor | None
    """[P, K, 4 · H]; `run_layer` overwrites it."""
    of_tokens: Tensor | None = None
    """[P, 4 · H]: the same for all examples."""
    of_programs: Tensor | None = None
    """[N, K, 4 · H]: the same for all tokens, for tries without sharing; programs in the order of depth 0."""

    def examples(self) -> int:
        """K; 1 if nothing depends on examples."""
        given = self.own if self.own is not None else self.of_programs
        return 1 if given is None else given.shape[1]


class Parts(NamedTuple):
    """The functions around the layers, compiled or not. They read and write much and compute little."""

    pooled: Callable[[Tensor, Tensor | None], Tensor] = pooled
    one_hot: Callable[[Tensor, Tensor, torch.dtype], Tensor] = one_hot

    def compiled(self) -> Parts:
        """The same, compiled."""
        return Parts(*(torch.compile(part) for part in self))


def run_layers(
    weights: StepWeights,
    gates: Gates,
    trie: PrefixTrie,
    present: Tensor | None,
    pooled: Callable[[Tensor, Tensor | None], Tensor] = pooled,
) -> Tensor:
    """The top layer's outputs [P, K, H] from the first layer's gates; `present` is bool [P, K] or None."""
    hidden: Tensor | None = None
    for number, layer in enumerate(weights.layers):
        if hidden is not None and layer.below is not None:
            if layer.mixed is None:
                gates = Gates(product(hidden, layer.below, layer.bias))
            else:
                of_tokens = product(pooled(hidden, present), layer.mixed, layer.bias)
                gates = Gates(product(hidden, layer.below), of_tokens)
        assert isinstance(layer.states, Tensor)
        hidden = run_layer(trie, gates, layer.states, *weights.initial[2 * number : 2 * number + 2])
    assert hidden is not None
    return hidden


def run_layer(trie: PrefixTrie, gates: Gates, matrix: Tensor, h: Tensor, c: Tensor) -> Tensor:
    """One layer's outputs [P, K, H]. Overwrites `gates.own`.

    Args:
        gates: all of them but the states' term.
        matrix: [H, 4 · H], of the states.
        h, c: [H], the state before the first token.
    """
    recurrence: Any = Recurrence.apply
    hidden: Tensor = recurrence(*gates, matrix, h, c, trie, gates.examples())
    return hidden


class Recurrence(torch.autograd.Function):
    """`run_layer`. Rows are nodes times examples; the rows of a depth are adjacent."""

    @staticmethod
    def forward(
        ctx: Any,
        own: Tensor | None,
        of_tokens: Tensor | None,
        of_programs: Tensor | None,
        matrix: Tensor,
        h: Tensor,
        c: Tensor,
        trie: PrefixTrie,
        examples: int,
    ) -> Tensor:
        rows, size = [count * examples for count in trie.sizes], len(h)
        shape = (sum(rows) // examples, examples)
        _check_shapes(own, (*shape, 4 * size))
        _check_shapes(of_tokens, (shape[0], 4 * size))
        _check_shapes(of_programs, None if trie.shared is not None else (rows[0] // examples, examples, 4 * size))
        matrix = matrix.contiguous()
        if own is not None:
            gates = own.contiguous()
        else:
            gates = (matrix.new_empty if trie.shared is None else matrix.new_zeros)(*shape, 4 * size)
        hidden, cell = matrix.new_empty(*shape, size), matrix.new_empty(*shape, size, dtype=torch.float32)
        terms = (gates, _contiguous(of_programs), _contiguous(of_tokens))
        cells = _cells(terms, _initial_c(c, rows[0], trie, examples), cell, hidden, trie)
        outputs, first, earlier = hidden.view(-1, size), 0, None
        with triton_launch.on_device_of(matrix):
            for depth, part in enumerate(torch.split(gates.view(-1, 4 * size), rows)):
                count, of_states = rows[depth], None
                if trie.shared is None:
                    states = h.expand(count, size) if earlier is None else outputs.narrow(0, earlier, count)
                    if own is None:
                        torch.mm(states, matrix, out=part)
                    else:
                        part.addmm_(states, matrix)
                else:  # one product for all children of a node
                    of_states = (h.expand(examples, size) if earlier is None else outputs[earlier:first]) @ matrix
                cells.forward(first, count, earlier, of_states)
                first, earlier = first + count, first
        ctx.save_for_backward(hidden, cell, gates, matrix, h, c)
        ctx.rows, ctx.trie, ctx.used = rows, trie, False
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.used:
            raise RuntimeError("backward() can run only once: it overwrites the tensors saved for it")
        ctx.used = True
        hidden, cell, gates, matrix, h, c = ctx.saved_tensors
        rows, trie, size, examples = ctx.rows, ctx.trie, len(h), hidden.shape[1]
        grad_h, grad_c, transposed = grads[0].contiguous(), torch.empty_like(cell), matrix.t()
        cells = _cells((gates, None, None), _initial_c(c, rows[0], trie, examples), cell, hidden, trie)
        parts = torch.split(gates.view(-1, 4 * size), rows)
        children = None if trie.shared is None else Children(trie, trie.shared, gates, grad_c)
        first, more = sum(rows), None
        with triton_launch.on_device_of(matrix):
            for depth in reversed(range(len(rows))):
                first -= rows[depth]
                after = grad_c
                if children is not None:
                    children.add_up(depth)
                    after = children.of_c
                    more = None if depth + 1 == len(rows) else children.gates_at(depth) @ transposed
                earlier = first - rows[depth - 1] if depth else None
                cells.backward(grad_h, more, grad_c, after, first, rows[depth], earlier)
                if children is None and depth:
                    more = parts[depth] @ transposed
        # The initial state is the same for all rows of depth 0.
        of_start = parts[0].sum(0, dtype=torch.float32)
        grad_matrix = torch.outer(h.float(), of_start).to(matrix.dtype)
        if children is not None:
            grad_matrix.addmm_(hidden.view(-1, size).t(), children.of_gates.view(-1, 4 * size))
        elif len(rows) > 1:
            # Of each depth the rows that have a child, one for each row of the next depth.
            depths = torch.split(hidden.view(-1, size), rows)[:-1]
            states = torch.cat([part[:count] for part, count in zip(depths, rows[1:], strict=True)])
            grad_matrix.addmm_(states.t(), gates.view(-1, 4 * size)[rows[0] :])
        return (
            gates if ctx.needs_input_grad[0] else None,
            gates.sum(1) if ctx.needs_input_grad[1] else None,
            step_sums(gates, trie.sizes) if ctx.needs_input_grad[2] else None,
            grad_matrix,
            (of_start @ transposed.float()).to(h.dtype),
            grad_c.view(-1, size)[: rows[0]].sum(0).to(c.dtype),
            None,
            None,
        )


class Children:
    """Sums over the children of every node of a trie with sharing, of the gradients of their gates and of their c.

    So the backward pass needs one product per node, like the forward pass, and its sums have a fixed order.
    """

    def __init__(self, trie: PrefixTrie, shared: SharedPrefixes, grad_gates: Tensor, grad_c: Tensor) -> None:
        self.of_gates, self.of_c = torch.empty_like(grad_gates), torch.empty_like(grad_c)
        """[P, K, 4 · H] and float32 [P, K, H]."""
        tensors = (grad_gates, grad_c, self.of_gates, self.of_c, shared.parents, shared.first, shared.last)
        self._depths = list(zip(*(torch.split(tensor, list(trie.sizes)) for tensor in tensors), strict=True))

    def gates_at(self, depth: int) -> Tensor:
        """[rows, 4 · H]."""
        of_gates: Tensor = self._depths[depth][2]
        return of_gates.flatten(0, 1)

    def add_up(self, depth: int) -> None:
        """Fill in the sums for the nodes at a depth. The gradients of the next depth are complete."""
        _, _, of_gates, of_c, _, first, last = self._depths[depth]
        if depth + 1 == len(self._depths):
            of_gates.zero_()
            return
        grad_gates, grad_c, _, _, parents, _, _ = self._depths[depth + 1]
        if _by_kernels(of_c.device):
            triton_launch.children_sums(grad_gates, grad_c, first, last, of_gates, of_c)
        else:
            total = torch.zeros_like(of_gates, dtype=torch.float32)
            of_gates.copy_(total.index_add_(0, parents, grad_gates.float()))
            of_c.zero_().index_add_(0, parents, grad_c)


def _check_shapes(term: Tensor | None, needed: tuple[int, ...] | None) -> None:
    """Kernels go by pointers and would read something else."""
    if term is not None and term.shape != needed:
        raise ValueError(f"a term of the gates has shape {list(term.shape)}; these programs need {needed}")


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _initial_c(c: Tensor, rows: int, trie: PrefixTrie, examples: int) -> Tensor:
    """c before the first token: float32 [rows, H], or with sharing [K, H], of the one parent of all roots."""
    return c.float().expand(rows if trie.shared is None else examples, -1).contiguous()


def step_sums(values: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The sums over each program's tokens of values [P, K, 4 · H]: [N, K, 4 · H], programs as at depth 0."""
    if _by_kernels(values.device):
        first, on_device = sizes[0], to_device(np.array(sizes), values.device)
        steps = (on_device > torch.arange(first, device=values.device)[:, None]).sum(1)
        sums = values.new_empty(first, *values.shape[1:])
        triton_launch.step_sums(values, steps, on_device, sums)
        return sums
    parts = torch.split(values, list(sizes))
    total = parts[0].to(torch.float32, copy=True)
    for part in parts[1:]:
        total[: len(part)] += part
    return total.to(values.dtype)


def _by_kernels(device: torch.device) -> bool:
    return device.type == "cuda" and triton_launch.available()


def _cells(
    terms: tuple[Tensor, Tensor | None, Tensor | None], start: Tensor, c: Tensor, h: Tensor, trie: PrefixTrie
) -> TensorCells | triton_launch.TritonCells:
    """On a GPU by kernels, if it has them."""
    parents = None if trie.shared is None else trie.shared.parents
    return (triton_launch.TritonCells if _by_kernels(h.device) else TensorCells)(*terms, start, c, h, parents)


class TensorCells:
    """The LSTM cells of a prefix trie, depth by depth, forward and backward, as tensor operations.

    Args:
        gates: [P, K, 4 · H].
        of_programs: [N, K, 4 · H], of_tokens: [P, 4 · H]: other terms of the gates.
        start: float32 [rows, H], c before the first token.
        c: float32 [P, K, H], and h: [P, K, H], to be filled.
        parents: int64 [P], among the nodes one depth above; None if row n continues row n of the depth above.
    """

    def __init__(
        self,
        gates: Tensor,
        of_programs: Tensor | None,
        of_tokens: Tensor | None,
        start: Tensor,
        c: Tensor,
        h: Tensor,
        parents: Tensor | None,
    ) -> None:
        self._gates, self._c, self._h = (part.flatten(0, 1) for part in (gates, c, h))
        self._of_programs = None if of_programs is None else of_programs.flatten(0, 1)
        self._of_tokens, self._start, self._examples = of_tokens, start, h.shape[1]
        self._parents: Tensor | None = None
        if parents is not None:
            examples = torch.arange(self._examples, device=parents.device)
            self._parents = (parents[:, None] * self._examples + examples).flatten()

    def forward(self, first: int, rows: int, earlier: int | None, of_states: Tensor | None) -> None:
        """One depth: `rows` rows from `first` on. The rows of the depth above begin at `earlier`; None at depth 0.

        The activated gates replace `gates`. `of_states`, [rows above, 4 · H], is the states' term where there are
        `parents`; elsewhere it is part of `gates`.
        """
        gates = self._gates[first : first + rows]
        whole = gates.float()
        if self._parents is not None and of_states is not None:
            whole += of_states.index_select(0, self._parents[first : first + rows])
        if self._of_programs is not None:
            whole += self._of_programs[:rows]
        if self._of_tokens is not None:
            own = self._of_tokens[first // self._examples : (first + rows) // self._examples]
            whole += own[:, None].expand(-1, self._examples, -1).flatten(0, 1)
        _, h = lstm_cell(whole, self._before(first, rows, earlier), out=self._c[first : first + rows])
        self._h[first : first + rows] = h
        gates.copy_(whole)

    def backward(
        self,
        grad_h: Tensor,
        more: Tensor | None,
        grad_c: Tensor,
        after: Tensor,
        first: int,
        rows: int,
        earlier: int | None,
    ) -> None:
        """From the gradient of h to that of the gates, which replaces the activated gates.

        Args:
            grad_h: [P, K, H], without the next depth's part.
            more: [M, H], the next depth's part, of the first M rows; None at the last depth.
            grad_c: float32 [P, K, H]: each row's gradient of the c before it, to be filled in for this depth.
            after: float32 [P, K, H]: where the next depth's gradients of c are. Without `parents` that is `grad_c`
                itself, in the rows of the next depth; with `parents` their sums, in the rows of this depth.
            first, rows, earlier: as in `forward`.
        """
        gates, grad_c = self._gates[first : first + rows], grad_c.flatten(0, 1)
        of_h = grad_h.flatten(0, 1)[first : first + rows].to(torch.float32, copy=True)
        of_c = torch.zeros_like(of_h)
        if more is not None:
            later = first + rows if self._parents is None else first
            of_h[: len(more)] += more
            of_c[: len(more)] = after.flatten(0, 1)[later : later + len(more)]
        i, f, o, g = gates.float().chunk(4, dim=1)
        tanh_c = self._c[first : first + rows].tanh()
        of_c += of_h * o * (1 - tanh_c * tanh_c)
        parts = [
            of_c * g * i * (1 - i),
            of_c * self._before(first, rows, earlier) * f * (1 - f),
            of_h * tanh_c * o * (1 - o),
            of_c * i * (1 - g * g),
        ]
        grad_c[first : first + rows] = of_c * f
        gates.copy_(torch.cat(parts, dim=1))

    def _before(self, first: int, rows: int, earlier: int | None) -> Tensor:
        """c of the rows' parents."""
        if self._parents is None:
            return self._start if earlier is None else self._c[earlier : earlier + rows]
        above = self._start if earlier is None else self._c[earlier:first]
        return above.index_select(0, self._parents[first : first + rows])


def lstm_cell(gates: Tensor, before: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """c, written to `out` if given, and h from gates float32 [..., 4 · H] and the c before, float32 [..., H].

    The activated gates replace `gates`.
    """
    size = before.shape[-1]
    i, f, o = gates[..., : 3 * size].sigmoid_().chunk(3, dim=-1)
    g = gates[..., 3 * size :].tanh_()
    c = torch.addcmul(i * g, f, before, out=out)
    return c, o * c.tanh()
