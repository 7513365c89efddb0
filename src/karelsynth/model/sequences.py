"""The network over packed programs, with gradient: teacher forcing.

    decode_packed(weights, of_programs, present, packed, parts)    # scores float32 [P, 52], and penalties

It computes what `decode_step` does step by step. A layer's gates are a sum whose parts depend on different things
(`Gates`), and a part is computed once for all that share it: an example's code is the same for all tokens of its
program, a token the same for all examples. Products with what is known beforehand are done for all tokens at once;
those with states go from step to step (`Sequences`). The programs are laid out by step, the longest first (`packing`),
so that the programs that have another token are always the first rows of the step before, and no index is needed.

The backward pass is written by hand: it reads and writes less than PyTorch's, and less than cuDNN's, which cannot use
the parts. On a GPU both passes use the kernels of `cell_gpu`, elsewhere the same formulas as tensor operations.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model import cell_gpu
from karelsynth.model.execution_encoder import one_hot
from karelsynth.model.recurrent import pooled, product
from karelsynth.model.transfer import to_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from karelsynth.model.decoder import StepModel
    from karelsynth.model.packing import PackedPrograms
    from karelsynth.model.recurrent import StepWeights


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


def decode_packed(
    model: StepModel,
    of_programs: Tensor,
    present: Tensor | None,
    packed: PackedPrograms,
    parts: Parts,
) -> tuple[Tensor, Tensor | None]:
    """Scores of the tokens at every place, float32 [P, 52], and the penalties of the learned syntax, if there is one.

    The penalties are not taken off the scores here, and the handwritten syntax masks nothing yet.

    Args:
        model: as `decode_step` has it, but with gradient.
        of_programs: [N, K, 4 · hidden_size], what the codes of their examples add to the first layer's gates, programs
            in the order of the first step.
        present: bool [P, K], which examples there are; None for all.
        packed: the programs.
        parts: what may be compiled.
    """
    own: Tensor | None = None
    if model.execution is not None and packed.features is not None:
        own = model.execution.gates_of(packed.features, parts.one_hot)
    gates = Gates(own, _of_tokens(model.decoder, packed), of_programs)
    hidden = run_layers(model.decoder, gates, partial(sequences, packed.step_sizes), present, parts.pooled)
    scores = model.output.scores(parts.pooled(hidden, present))
    return scores, syntax_penalties(model, packed)


def syntax_penalties(model: StepModel, packed: PackedPrograms) -> Tensor | None:
    """exp(score) by the learned syntax at every place, float32 [P, 52]; None without it."""
    if model.syntax is None or model.syntax_output is None:
        return None
    gates = Gates(None, _of_tokens(model.syntax, packed))
    hidden = run_layers(model.syntax, gates, partial(sequences, packed.step_sizes), None)
    return model.syntax_output.scores(hidden[:, 0]).exp()


def _of_tokens(weights: StepWeights, packed: PackedPrograms) -> Tensor:
    """[P, 4 · H]. A product with one-hot rows: its gradient is a product too, while that of a look-up is slow."""
    table = weights.token_gates
    return functional.one_hot(packed.inputs, VOCABULARY_SIZE).to(table.dtype) @ table


def run_layers(
    weights: StepWeights,
    gates: Gates,
    run: Callable[[Gates, Tensor, Tensor, Tensor], Tensor],
    present: Tensor | None,
    pooled: Callable[[Tensor, Tensor | None], Tensor] = pooled,
) -> Tensor:
    """The top layer's outputs [P, K, H] from the first one's gates.

    Args:
        run: one layer's outputs from its gates, its matrix [H, 4 · H], and h and c [H] before the first token.
        present: bool [P, K], which examples there are; None for all.
    """
    hidden: Tensor | None = None
    for number, layer in enumerate(weights.layers):
        if hidden is not None and layer.below is not None:
            if layer.mixed is None:
                gates = Gates(product(hidden, layer.below, layer.bias))
            else:
                of_tokens = product(pooled(hidden, present), layer.mixed, layer.bias)
                gates = Gates(product(hidden, layer.below), of_tokens)
        assert isinstance(layer.states, Tensor)
        hidden = run(gates, layer.states, *weights.initial[2 * number : 2 * number + 2])
    assert hidden is not None
    return hidden


def sequences(step_sizes: Tensor, gates: Gates, matrix: Tensor, h: Tensor, c: Tensor) -> Tensor:
    """One layer's outputs [P, K, H] for packed programs; see `run_layers`. Overwrites `gates.own`.

    `step_sizes`, int64 [T] on the host: how many programs have a token at each step.
    """
    apply: Any = Sequences.apply
    hidden: Tensor = apply(*gates, matrix, h, c, step_sizes, gates.examples())
    return hidden


class Sequences(torch.autograd.Function):
    """See `sequences`."""

    @staticmethod
    def forward(
        ctx: Any,
        own: Tensor | None,
        of_tokens: Tensor | None,
        of_programs: Tensor | None,
        matrix: Tensor,
        h: Tensor,
        c: Tensor,
        step_sizes: Tensor,
        examples: int,
    ) -> Tensor:
        rows, size = [count * examples for count in step_sizes.tolist()], len(h)
        shape = (sum(rows) // examples, examples)
        wanted = ((*shape, 4 * size), (shape[0], 4 * size), (rows[0] // examples, examples, 4 * size))
        for part, sizes in zip((own, of_tokens, of_programs), wanted, strict=True):
            if part is not None and part.shape != sizes:  # kernels would read something else
                raise ValueError(f"a part of the gates has shape {list(part.shape)}; these programs need {list(sizes)}")
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
        ctx.rows, ctx.step_sizes, ctx.used = rows, step_sizes, False
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
            step_sums(gates, ctx.step_sizes) if ctx.needs_input_grad[2] else None,
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


def step_sums(values: Tensor, step_sizes: Tensor) -> Tensor:
    """The sums over each program's tokens of values [P, K, 4 · H], [N, K, 4 · H], programs as in the first step."""
    if _by_kernels(values.device):
        sizes = to_device(step_sizes.numpy(), values.device)
        first = int(step_sizes[0])
        steps = (sizes > torch.arange(first, device=values.device)[:, None]).sum(1)
        sums = values.new_empty(first, *values.shape[1:])
        cell_gpu.step_sums(values, steps, sizes, sums)
        return sums
    parts = torch.split(values, step_sizes.tolist())
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
