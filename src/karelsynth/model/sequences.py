"""The network over packed programs, with gradient: teacher forcing.

    decode_packed(weights, of_programs, present, packed)    # scores float32 [P, 52], and penalties

It computes what `decode_step` does step by step. A layer's gates are a sum whose parts depend on different things
(`Gates`), and a part is computed once for all that share it: an example's code is the same for all tokens of its
program, a token the same for all examples. Products with what is known beforehand are done for all tokens at once;
those with states go from step to step (`Sequences`). The programs are laid out by step, the longest first (`packing`),
so that those that go on are always the first ones of the step before, and no index is needed.

The way back is written by hand: it reads and writes less than PyTorch's, and less than that of cuDNN, which has no
use for parts. On a GPU both ways go by the kernels of `cell_gpu`, elsewhere by the same formulas as tensor operations.
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
from karelsynth.model.execution import one_hot
from karelsynth.model.recurrent import pooled, product

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
    parts: Parts = Parts(),  # noqa: B008 - a tuple
) -> tuple[Tensor, Tensor | None]:
    """Scores of the tokens at every place, float32 [P, 52], and the penalties of the learned syntax, if there is one.

    Neither has been taken off the other, nor has the handwritten syntax been heard.

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
        sizes, size = step_sizes.tolist(), len(h)
        shape = (sum(sizes), examples)
        acts = matrix.new_empty(*shape, 4 * size) if own is None else own.contiguous()
        hidden, cell = matrix.new_empty(*shape, size), matrix.new_empty(*shape, size, dtype=torch.float32)
        above: Tensor = h.expand(sizes[0], examples, size)
        before = c.float().expand(sizes[0], examples, size).contiguous()
        of_programs = None if of_programs is None else of_programs.contiguous()
        shared = [None] * len(sizes) if of_tokens is None else torch.split(of_tokens.contiguous(), sizes)
        cells = _Cells(sizes[0], matrix.device)
        each = zip(sizes, shared, *(torch.split(part, sizes) for part in (acts, hidden, cell)), strict=True)
        for count, token, gates, new_h, new_c in each:
            flat, states = gates.view(-1, 4 * size), above[:count].reshape(-1, size)
            if own is None:
                torch.mm(states, matrix, out=flat)
            else:
                flat.addmm_(states, matrix)
            cells.there(gates, None if of_programs is None else of_programs[:count], token, before, new_h, new_c)
            above, before = new_h, new_c
        ctx.save_for_backward(hidden, cell, acts, matrix, h, c)
        ctx.sizes, ctx.step_sizes, ctx.gone = sizes, step_sizes, False
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gone:
            raise RuntimeError("the way back takes the place of what was kept for it: it can be gone once")
        ctx.gone = True
        hidden, cell, acts, matrix, h, c = ctx.saved_tensors
        sizes, (examples, size) = ctx.sizes, hidden.shape[1:]
        of_cells = torch.empty_like(cell)
        start = c.float().expand(sizes[0], examples, size).contiguous()
        cells = _Cells(sizes[0], matrix.device)
        of_hidden = grads[0].contiguous()
        levels = list(zip(*(torch.split(part, sizes) for part in (of_hidden, acts, cell, of_cells)), strict=True))
        turned, more = matrix.t(), None
        for step in reversed(range(len(sizes))):
            of_h, gates, own_c, own_before = levels[step]
            cells.back(of_h, more, gates, own_c, levels[step - 1][2] if step else start, own_before)
            if step:
                more = ((gates.view(-1, 4 * size) @ turned).view_as(of_h), own_before)
        first = sizes[0]
        of_start = acts[:first].float().sum((0, 1))
        grad_matrix = torch.outer(h.float(), of_start).to(matrix.dtype)
        if len(sizes) > 1:
            # Of each step the states that go on, one for each row of the next.
            states = torch.cat(
                [part[:count] for part, count in zip(torch.split(hidden, sizes), sizes[1:], strict=False)]
            )
            grad_matrix.addmm_(states.view(-1, size).t(), acts[first:].view(-1, 4 * size))
        return (
            acts if ctx.needs_input_grad[0] else None,
            acts.sum(1) if ctx.needs_input_grad[1] else None,
            step_sums(acts, ctx.step_sizes) if ctx.needs_input_grad[2] else None,
            grad_matrix,
            (of_start @ turned.float()).to(h.dtype),
            of_cells[:first].sum((0, 1)).to(c.dtype),
            None,
            None,
        )


def step_sums(values: Tensor, step_sizes: Tensor) -> Tensor:
    """The sums over each program's tokens of values [P, K, 4 · H], [N, K, 4 · H], programs as in the first step."""
    if _by_kernels(values.device):
        sizes = step_sizes.to(values.device, non_blocking=True)
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


class _Cells:
    """An LSTM's cell for the rows of one step, there and back; on a GPU by kernels, if it has them."""

    def __init__(self, most: int, device: torch.device) -> None:
        self._numbers = torch.arange(most, device=device)
        self._by_kernels = _by_kernels(device)

    def there(
        self, gates: Tensor, of_programs: Tensor | None, of_tokens: Tensor | None, before: Tensor, h: Tensor, c: Tensor
    ) -> None:
        """From gates [n, K, 4 · H] and other parts of them to h and c [n, K, H], which are filled.

        Row i goes on from row i of `before`, float32, which may have more. Gates after sigmoid and tanh take the place
        of `gates`.
        """
        if self._by_kernels:
            own = self._numbers[: len(h)]
            tokens = None if of_tokens is None else own
            cell_gpu.cells(gates, own, of_programs, None, of_tokens, tokens, before, own, h, c, gates)
            return
        whole, size = gates.float(), h.shape[-1]
        if of_programs is not None:
            whole += of_programs
        if of_tokens is not None:
            whole += of_tokens[:, None]
        enter, forget, leave = whole[..., : 3 * size].sigmoid_().chunk(3, dim=-1)
        fresh = whole[..., 3 * size :].tanh_()
        torch.addcmul(enter * fresh, forget, before[: len(h)], out=c)
        h.copy_(leave * c.tanh())
        if whole is not gates:
            gates.copy_(whole)

    def back(
        self,
        of_h: Tensor,
        more: tuple[Tensor, Tensor] | None,
        gates: Tensor,
        c: Tensor,
        before: Tensor,
        of_before: Tensor,
    ) -> None:
        """From the gradient of h [n, K, H] to that of the gates, which takes the place of what `there` left in them.

        Args:
            more: of the first rows, to be added to the gradient of h, and the gradient of c; None for nothing.
            before: as `there` had it.
            of_before: [n, K, H], to be filled with its gradient.
        """
        if self._by_kernels:
            cell_gpu.cells_back(of_h, more, gates, c, before, self._numbers[: len(c)], of_before)
            return
        of_h = of_h.float()
        of_c = torch.zeros_like(c)
        if more is not None:
            of_h = of_h.index_add(0, self._numbers[: len(more[0])], more[0].float())
            of_c[: len(more[1])] = more[1]
        enter, forget, leave, fresh = gates.float().chunk(4, dim=-1)
        bent = c.tanh()
        of_c += of_h * leave * (1 - bent * bent)
        parts = [
            of_c * fresh * enter * (1 - enter),
            of_c * before[: len(c)] * forget * (1 - forget),
            of_h * bent * leave * (1 - leave),
            of_c * enter * (1 - fresh * fresh),
        ]
        torch.mul(of_c, forget, out=of_before)
        gates.copy_(torch.cat(parts, dim=-1))
