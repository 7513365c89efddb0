"""One LSTM layer after the other over a prefix trie, with gradient: teacher forcing.

It computes what `LSTMSteps.step` computes step by step. A layer's gates are a sum of terms that depend on different
things (`Gates`). Each term is computed once for all nodes that share it: an example's code is the same for all tokens
of its program, a token is the same for all examples. Products with known inputs are done for all nodes at once;
products with states go from depth to depth.

The backward passes are written by hand. They read and write less than PyTorch's, and less than cuDNN's, which cannot
use the terms. In a trie with sharing, a parent first adds up its children's gradients: the backward pass needs as few
products as the forward pass, and its sums have a fixed order. On a GPU both passes use the kernels of `cell_gpu`,
elsewhere the same formulas as tensor operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from karelsynth.model import cell_gpu
from karelsynth.model.decoder import pooled
from karelsynth.model.devices import to_device
from karelsynth.model.execution_encoder import one_hot
from karelsynth.model.lstm_step import product

if TYPE_CHECKING:
    from collections.abc import Callable

    from karelsynth.model.lstm_step import StepWeights
    from karelsynth.model.prefix_trie import PrefixTrie, SharedPrefixes


class Gates(NamedTuple):
    """A layer's gates but for what the states add, as parts of a sum; None for nothing."""

    own: Tensor | None
    """[P, K, 4 · H]; overwritten by whoever uses them."""
    of_tokens: Tensor | None = None
    """[P, 4 · H]: the same for all examples."""
    of_programs: Tensor | None = None
    """[N, K, 4 · H]: the same for all tokens; programs in the order of the first step."""

    def examples(self) -> int:
        """K; 1 if nothing depends on examples."""
        given = self.own if self.own is not None else self.of_programs
        return 1 if given is None else given.shape[1]


class Parts(NamedTuple):
    """What is worth compiling around the layers, compiled or not."""

    pooled: Callable[[Tensor, Tensor | None], Tensor] = pooled
    one_hot: Callable[[Tensor, Tensor, torch.dtype], Tensor] = one_hot

    def compiled(self) -> Parts:
        """The same, compiled: these read and write much and compute little."""
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
    recurrence: Any
    if trie.shared is None:
        recurrence = PackedRecurrence.apply
        hidden: Tensor = recurrence(*gates, matrix, h, c, trie.sizes, gates.examples())
    else:
        assert gates.own is not None
        whole = gates.own if gates.of_tokens is None else gates.own + gates.of_tokens[:, None]
        recurrence = TrieRecurrence.apply if _by_kernels(whole.device) else trie_recurrence
        hidden = recurrence(whole, matrix, h, c, trie)
    return hidden


class PackedRecurrence(torch.autograd.Function):
    """`run_layer` over a trie without sharing."""

    @staticmethod
    def forward(
        ctx: Any,
        own: Tensor | None,
        of_tokens: Tensor | None,
        of_programs: Tensor | None,
        matrix: Tensor,
        h: Tensor,
        c: Tensor,
        sizes: tuple[int, ...],
        examples: int,
    ) -> Tensor:
        rows, size = [count * examples for count in sizes], len(h)
        shape = (sum(rows) // examples, examples)
        expected = ((*shape, 4 * size), (shape[0], 4 * size), (rows[0] // examples, examples, 4 * size))
        for part, needed in zip((own, of_tokens, of_programs), expected, strict=True):
            if part is not None and part.shape != needed:  # kernels would read something else
                raise ValueError(
                    f"a part of the gates has shape {list(part.shape)}; these programs need {list(needed)}"
                )
        gates = matrix.new_empty(*shape, 4 * size) if own is None else own.contiguous()
        hidden, cell = matrix.new_empty(*shape, size), matrix.new_empty(*shape, size, dtype=torch.float32)
        cells = _cells(gates, _contiguous(of_programs), _contiguous(of_tokens), _first(c, rows[0]), cell, hidden)
        states, above = h.expand(rows[0], size), hidden.view(-1, size)
        first, earlier = 0, None
        with cell_gpu.on_device_of(matrix):
            for count, part in zip(rows, torch.split(gates.view(-1, 4 * size), rows), strict=True):
                if earlier is not None:
                    states = above.narrow(0, earlier, count)
                if own is None:
                    torch.mm(states, matrix, out=part)
                else:
                    part.addmm_(states, matrix)
                cells.forward(first, count, earlier)
                first, earlier = first + count, first
        ctx.save_for_backward(hidden, cell, gates, matrix, h, c)
        ctx.rows, ctx.sizes, ctx.used = rows, sizes, False
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.used:
            raise RuntimeError("backward() can run only once: it overwrites the tensors saved for it")
        ctx.used = True
        hidden, cell, gates, matrix, h, c = ctx.saved_tensors
        rows, size = ctx.rows, len(h)
        of_hidden, of_cells, turned = grads[0].contiguous(), torch.empty_like(cell), matrix.t()
        cells = _cells(gates, None, None, _first(c, rows[0]), cell, hidden)
        parts = torch.split(gates.view(-1, 4 * size), rows)
        first, more = sum(rows), None
        with cell_gpu.on_device_of(matrix):
            for step in reversed(range(len(rows))):
                first -= rows[step]
                cells.backward(of_hidden, more, of_cells, first, rows[step], first - rows[step - 1] if step else None)
                if step:
                    more = parts[step] @ turned
        of_start = parts[0].sum(0, dtype=torch.float32)
        grad_matrix = torch.outer(h.float(), of_start).to(matrix.dtype)
        if len(rows) > 1:
            # Of each step the states that go on, one for each row of the next.
            steps = torch.split(hidden.view(-1, size), rows)[:-1]
            states = torch.cat([part[:count] for part, count in zip(steps, rows[1:], strict=True)])
            grad_matrix.addmm_(states.t(), gates.view(-1, 4 * size)[rows[0] :])
        return (
            gates if ctx.needs_input_grad[0] else None,
            gates.sum(1) if ctx.needs_input_grad[1] else None,
            step_sums(gates, ctx.sizes) if ctx.needs_input_grad[2] else None,
            grad_matrix,
            (of_start @ turned.float()).to(h.dtype),
            of_cells.view(-1, size)[: rows[0]].sum(0).to(c.dtype),
            None,
            None,
        )


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _first(c: Tensor, rows: int) -> Tensor:
    """c before the first token [H], float32 [rows, H]."""
    return c.float().expand(rows, -1).contiguous()


def step_sums(values: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The sums over each program's tokens of values [P, K, 4 · H]: [N, K, 4 · H], programs as at depth 0."""
    if _by_kernels(values.device):
        first, on_device = sizes[0], to_device(np.array(sizes), values.device)
        steps = (on_device > torch.arange(first, device=values.device)[:, None]).sum(1)
        sums = values.new_empty(first, *values.shape[1:])
        cell_gpu.step_sums(values, steps, on_device, sums)
        return sums
    parts = torch.split(values, list(sizes))
    total = parts[0].to(torch.float32, copy=True)
    for part in parts[1:]:
        total[: len(part)] += part
    return total.to(values.dtype)


def _by_kernels(device: torch.device) -> bool:
    return device.type == "cuda" and cell_gpu.available()


def _cells(
    gates: Tensor, of_programs: Tensor | None, of_tokens: Tensor | None, start: Tensor, c: Tensor, h: Tensor
) -> Cells | cell_gpu.SequenceCells:
    """On a GPU by kernels, if it has them."""
    return (cell_gpu.SequenceCells if _by_kernels(h.device) else Cells)(gates, of_programs, of_tokens, start, c, h)


class Cells:
    """The LSTM cells of packed programs, step by step, forward and backward.

    Args:
        gates: [P, K, 4 · H].
        of_programs: [N, K, 4 · H], of_tokens: [P, 4 · H]: other parts of them.
        start: float32 [N · K, H], c before the first token.
        c: float32 [P, K, H], and h: [P, K, H], to be filled.
    """

    def __init__(
        self, gates: Tensor, of_programs: Tensor | None, of_tokens: Tensor | None, start: Tensor, c: Tensor, h: Tensor
    ) -> None:
        self._gates, self._c, self._h = (part.flatten(0, 1) for part in (gates, c, h))
        self._of_programs = None if of_programs is None else of_programs.flatten(0, 1)
        self._of_tokens, self._start, self._examples = of_tokens, start, h.shape[1]

    def forward(self, first: int, rows: int, earlier: int | None) -> None:
        """A step of so many rows from `first` on, which go on from as many from `earlier` on; None at the beginning.

        Gates after sigmoid and tanh take the place of `gates`.
        """
        gates, c, size = self._gates[first : first + rows], self._c[first : first + rows], self._c.shape[1]
        whole = gates.float()
        if self._of_programs is not None:
            whole += self._of_programs[:rows]
        if self._of_tokens is not None:
            own = self._of_tokens[first // self._examples : (first + rows) // self._examples]
            whole += own[:, None].expand(-1, self._examples, -1).flatten(0, 1)
        i, f, o = whole[:, : 3 * size].sigmoid_().chunk(3, dim=1)
        g = whole[:, 3 * size :].tanh_()
        torch.addcmul(i * g, f, self._before(rows, earlier), out=c)
        self._h[first : first + rows] = o * c.tanh()
        gates.copy_(whole)

    def backward(
        self, grad_h: Tensor, more: Tensor | None, grad_c: Tensor, first: int, rows: int, earlier: int | None
    ) -> None:
        """From the gradient of h to those of the gates, which take the place of what `forward` left in them.

        Args:
            grad_h: [P, K, H].
            more: [rows of the next step, H], what these add to it; None at the end.
            grad_c: float32 [P, K, H]: of each row the gradient of c before it. Those of later steps are there, and
                this step's are filled in.
            first, rows, earlier: as `forward` had them.
        """
        gates, grad_c = self._gates[first : first + rows], grad_c.flatten(0, 1)
        of_h = grad_h.flatten(0, 1)[first : first + rows].to(torch.float32, copy=True)
        of_c = torch.zeros_like(of_h)
        if more is not None:
            of_h[: len(more)] += more
            of_c[: len(more)] = grad_c[first + rows : first + rows + len(more)]
        i, f, o, g = gates.float().chunk(4, dim=1)
        tanh_c = self._c[first : first + rows].tanh()
        of_c += of_h * o * (1 - tanh_c * tanh_c)
        parts = [
            of_c * g * i * (1 - i),
            of_c * self._before(rows, earlier) * f * (1 - f),
            of_h * tanh_c * o * (1 - o),
            of_c * i * (1 - g * g),
        ]
        grad_c[first : first + rows] = of_c * f
        gates.copy_(torch.cat(parts, dim=1))

    def _before(self, rows: int, earlier: int | None) -> Tensor:
        return self._start if earlier is None else self._c[earlier : earlier + rows]


def trie_recurrence(gates: Tensor, matrix: Tensor, h: Tensor, c: Tensor, trie: PrefixTrie) -> Tensor:
    """`run_layer` over a trie with sharing, from gates [P, K, 4 · H], as tensor operations.

    Args:
        matrix: [H, 4 · H].
        h, c: [H], the state before the first token.
    """
    size, examples = len(h), gates.shape[1]
    above: Tensor = h.expand(1, examples, size)
    cell: Tensor = c.expand(1, examples, size).float()
    outputs = []
    for own, parents in _by_depth(trie, gates, _shared(trie).parents):
        whole = (own + (above @ matrix).index_select(0, parents)).float()
        i, f, o = whole[..., : 3 * size].sigmoid().chunk(3, dim=-1)
        cell = f * cell.index_select(0, parents) + i * whole[..., 3 * size :].tanh()
        above = (o * cell.tanh()).to(gates.dtype)
        outputs.append(above)
    return torch.cat(outputs)


class TrieRecurrence(torch.autograd.Function):
    """`trie_recurrence` with a backward pass written by hand, for GPUs."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, matrix: Tensor, h: Tensor, c: Tensor, trie: PrefixTrie) -> Tensor:
        gates, matrix = gates.contiguous(), matrix.contiguous()
        count, examples, size = *gates.shape[:2], len(h)
        hidden = gates.new_empty(count, examples, size)
        cell = torch.empty_like(hidden, dtype=torch.float32)
        acts = torch.empty_like(gates)
        above: Tensor = h.expand(1, examples, size)
        before: Tensor = c.float().expand(1, examples, size).contiguous()
        for own, parents, new_h, new_c, kept in _by_depth(trie, gates, _shared(trie).parents, hidden, cell, acts):
            of_states = above.reshape(-1, size) @ matrix
            cell_gpu.cells(of_states, parents, own, None, None, None, before, parents, new_h, new_c, kept)
            above, before = new_h, new_c
        ctx.save_for_backward(hidden, cell, acts, matrix, h, c)
        ctx.trie, ctx.used = trie, False
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        if ctx.used:
            raise RuntimeError("backward() can run only once: it overwrites the tensors saved for it")
        ctx.used = True
        hidden, cell, acts, matrix, h, c = ctx.saved_tensors
        trie: PrefixTrie = ctx.trie
        examples, size = hidden.shape[1:]
        grad = grads[0].contiguous()
        sums = torch.empty_like(acts)  # of the children's gradients
        grad_before = torch.empty_like(cell)
        of_cells = torch.empty_like(cell)
        levels = list(_by_depth(trie, grad, acts, cell, grad_before, sums, of_cells, *_shared(trie)[:3]))
        start = c.float().expand(1, examples, size).contiguous()
        for depth in reversed(range(len(levels))):
            of_h, kept, own_c, own_before, own_sums, own_cells, parents, first, last = levels[depth]
            more = None
            if depth + 1 < len(levels):
                below = levels[depth + 1]
                cell_gpu.children_sums(below[1], below[3], first, last, own_sums, own_cells)
                more = ((own_sums.view(-1, 4 * size) @ matrix.t()).view_as(of_h), own_cells)
            else:
                own_sums.zero_()
            c_before = levels[depth - 1][2] if depth else start
            cell_gpu.cells_backward(of_h, more, kept, own_c, c_before, parents, own_before)
        # The gradient of the initial state, which all roots share.
        roots = trie.sizes[0]
        of_start = acts[:roots].float().sum((0, 1))
        grad_matrix = hidden.view(-1, size).t() @ sums.view(-1, 4 * size)
        grad_matrix = grad_matrix + torch.outer(h.float(), of_start).to(grad_matrix.dtype)
        grad_h = (of_start @ matrix.float().t()).to(h.dtype)
        return acts, grad_matrix, grad_h, grad_before[:roots].sum((0, 1)).to(c.dtype), None


def _shared(trie: PrefixTrie) -> SharedPrefixes:
    assert trie.shared is not None
    return trie.shared


def _by_depth(trie: PrefixTrie, *tensors: Tensor) -> Any:
    """Tensors [P, …] split by depth, zipped."""
    return zip(*(torch.split(tensor, list(trie.sizes)) for tensor in tensors), strict=True)
