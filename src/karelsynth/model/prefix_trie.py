"""The prefix tries of many programs for each task, and the decoder evaluated once at every node, with gradient.

Candidates for a task share prefixes, and the network's output after a prefix depends on nothing else. So the distinct
prefixes of a task's programs are the nodes of a trie, whose root is the empty prefix. A batch has one root per task:

    trie = pack_trie(tokens, lengths, tasks, device=device)     # programs [N, L], and the task of each
    logits = decode_trie(weights, step_tasks, trie)             # [P, 52], for each of the P nodes
    trie.program_logprobs(logits)                               # [N]; all of it: `Synthesizer.trie_logprobs`

For models with `skip_forced_tokens` prefixes have no forced tokens. Nodes are sorted by depth, then by task, then by
tokens: a node's children are adjacent. `decode_trie` computes what `decode_step` computes step by step and
`Synthesizer.score` for whole programs. Products with known inputs are done for all nodes at once; products with states
go from depth to depth. On a GPU the backward pass is written by hand (`_Recurrence`), with the kernels of `cell_gpu`: a
parent first adds up its children's gradients. So the backward pass needs as few products as the forward pass, and its
sums have a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from karelsynth.karel.syntax_kernel import masks_along
from karelsynth.karel.tokens import VOCABULARY_SIZE, token_bytes
from karelsynth.model import cell_gpu
from karelsynth.model.packing import no_program
from karelsynth.model.packing_kernel import packed_places
from karelsynth.model.prefix_trie_kernel import lay_out
from karelsynth.model.recurrent import pooled
from karelsynth.model.sequences import Gates, run_layers
from karelsynth.model.syntax import handwritten_syntax
from karelsynth.model.transfer import to_device

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.decoder import StepModel, StepTasks
    from karelsynth.model.prefix_runner import PrefixRunner


@dataclass(frozen=True)
class PrefixTrie:
    """P distinct prefixes of N programs; see the module's docstring."""

    count: int
    """N."""
    sizes: tuple[int, ...]
    """[T]: how many nodes there are at each depth."""
    parents: Tensor
    """int64 [P]: the number of the node's parent among the nodes one depth above; 0 at depth 0."""
    first: Tensor
    """int64 [P]: the number of the node's first child among the nodes one depth below."""
    last: Tensor
    """int64 [P]: the number after that of its last child."""
    tokens: Tensor
    """int64 [P]: the last token, `<s>` at depth 0."""
    tasks: Tensor
    """int64 [P]."""
    admitted: Tensor | None
    """bool [P, 52]: tokens that the handwritten syntax admits there; None without it."""
    features: Tensor | None
    """uint8 [P, K, 114]: the execution features of the prefixes; None for models without `execution`."""
    next_tokens: Tensor
    """int64: of every packed token of every program, 52 times the number of the node before it, plus the token."""
    programs: Tensor
    """int64: of every packed token of every program, the program's number."""

    def program_logprobs(self, logits: Tensor) -> Tensor:
        """log p(program | examples), float32 [N], from the scores of tokens at every node, float32 [P, 52]."""
        if self.admitted is not None:
            logits = logits.masked_fill(~self.admitted, -torch.inf)
        chosen = logits.log_softmax(1).flatten().index_select(0, self.next_tokens)
        return chosen.new_zeros(self.count).index_add(0, self.programs, chosen)


def pack_trie(
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.integer],
    tasks: NDArray[np.integer],
    *,
    machine: SyntaxMachine | None = None,
    device: torch.device | str = "cpu",
    runner: PrefixRunner | None = None,
    skip_forced_tokens: bool = False,
) -> PrefixTrie:
    """Build the prefix tries of programs [N, L] of 1 … L tokens [N] for tasks [N].

    Args:
        machine: a syntax; the tokens that it admits are found too. KarelsynthError if it does not admit a program.
        device: where to.
        runner: runs prefixes on the examples of all tasks, for models with `execution`.
        skip_forced_tokens: leave out forced tokens.
    """
    if not len(tokens) or lengths.min() < 1 or lengths.max() > tokens.shape[1]:
        raise ValueError(f"there must be at least one program, and each must have 1 to {tokens.shape[1]} tokens")
    order = _sorted(tokens, lengths, tasks)
    tokens = token_bytes(tokens[order])
    long, owners = lengths[order].astype(np.int64), tasks[order].astype(np.int64)
    packed, ahead = packed_places(tokens, long, skip_forced_tokens=skip_forced_tokens)
    counts = packed.sum(1)
    if not counts.any():
        raise ValueError("all tokens of these programs are forced: there is nothing to score")
    if skip_forced_tokens and machine is not None:  # the masks below do not cover forced tokens
        _, wrong = masks_along(machine, tokens, long, np.full(tokens.shape, -1))
        if wrong is not None:
            raise no_program(tokens[wrong[0], : long[wrong[0]]], wrong[1], machine)
    nodes = lay_out(np.take_along_axis(tokens, ahead[:, : counts.max()], 1), counts, owners)
    of_nodes = [nodes.tokens, nodes.parents, nodes.first, nodes.last, owners[nodes.rows].astype(np.int32)]
    last, parents, first, end, task = to_device(np.stack(of_nodes), device).long()
    of_tokens = to_device(np.stack([nodes.before, tokens[packed], np.repeat(order, counts)]).astype(np.int32), device)
    before, chosen, programs = of_tokens.long()
    sizes = tuple(nodes.sizes.tolist())
    features = None
    if runner is not None:
        depths = np.repeat(np.arange(len(sizes)), nodes.sizes)
        places = ahead[nodes.rows, depths]
        prefixes = to_device(tokens[nodes.rows][:, : places.max()], device)
        features = runner.features(prefixes, to_device(places, device), task)
    next_tokens = before * VOCABULARY_SIZE + chosen
    admitted = None
    if machine is not None:
        admitted = _admitted(machine, sizes, parents, last, skip_forced_tokens=skip_forced_tokens)
        refused = (~admitted.flatten().index_select(0, next_tokens)).nonzero()[:, 0].cpu().numpy()
        if len(refused):
            number = int(np.searchsorted(np.cumsum(counts), refused[0], side="right"))
            at = int(ahead[number, refused[0] - counts[:number].sum()])
            raise no_program(tokens[number, : long[number]], at, machine)
    return PrefixTrie(
        len(tokens),
        sizes,
        parents,
        first,
        end,
        last,
        task,
        admitted,
        features,
        next_tokens,
        programs,
    )


def _sorted(tokens: NDArray[np.uint8], lengths: NDArray[np.integer], tasks: NDArray[np.integer]) -> NDArray[np.int64]:
    """The order of programs by task and then by tokens. What comes after a program's end does not matter."""
    inside = np.arange(tokens.shape[1]) < lengths[:, None]
    keys = np.concatenate([tasks.astype(">u4")[:, None].view(np.uint8), (tokens + 1) * inside], axis=1, dtype=np.uint8)
    return np.argsort(np.ascontiguousarray(keys).view(f"S{keys.shape[1]}")[:, 0], kind="stable")


def _admitted(
    machine: SyntaxMachine, sizes: tuple[int, ...], parents: Tensor, tokens: Tensor, *, skip_forced_tokens: bool
) -> Tensor:
    """bool [P, 52]: what the machine admits at each node."""
    syntax = handwritten_syntax(machine, parents.device)
    states = syntax.initial(sizes[0])
    states = syntax.after_forced_tokens(states) if skip_forced_tokens else states
    masks = [syntax.mask(states)]
    for own, last in list(zip(*(torch.split(part, list(sizes)) for part in (parents, tokens)), strict=True))[1:]:
        states = syntax.advance(states.index_select(0, own), last)
        states = syntax.after_forced_tokens(states) if skip_forced_tokens else states
        masks.append(syntax.mask(states))
    return torch.cat(masks)


def decode_trie(model: StepModel, tasks: StepTasks, trie: PrefixTrie) -> Tensor:
    """Scores of the next tokens at every node, float32 [P, 52], without handwritten syntax; differentiable.

    Args:
        model, tasks: as `decode_step` has them, but with gradient.
    """
    # Products with one-hot rows, for their gradients are products too, while those of look-ups are slow.
    count, dtype = len(tasks.gates), tasks.gates.dtype
    of_tasks = (trie.tasks[:, None] == torch.arange(count, device=trie.tasks.device)).to(dtype)
    of_tokens = functional.one_hot(trie.tokens, VOCABULARY_SIZE).to(dtype)
    gates = (of_tasks @ tasks.gates.flatten(1)).view(-1, *tasks.gates.shape[1:])
    gates = gates + (of_tokens @ model.decoder.token_gates)[:, None]
    if model.execution is not None and trie.features is not None:
        gates = model.execution.added_to(gates, trie.features)
    present = None if tasks.present is None else tasks.present.index_select(0, trie.tasks)
    run = partial(_run, trie)
    scores = model.output.scores(pooled(run_layers(model.decoder, Gates(gates), run, present), present))
    if model.syntax is not None and model.syntax_output is not None:
        gates = (of_tokens @ model.syntax.token_gates)[:, None]
        hidden = run_layers(model.syntax, Gates(gates), run, None)
        scores = scores - model.syntax_output.scores(hidden[:, 0]).exp()
    return scores


def _run(trie: PrefixTrie, gates: Gates, matrix: Tensor, h: Tensor, c: Tensor) -> Tensor:
    """One layer's outputs: see `run_layers`."""
    whole = gates.own
    assert whole is not None
    if gates.of_tokens is not None:
        whole = whole + gates.of_tokens[:, None]
    recurrence: Any = _Recurrence.apply if whole.is_cuda and cell_gpu.available() else _recurrence
    hidden: Tensor = recurrence(whole, matrix, h, c, trie)
    return hidden


def _recurrence(gates: Tensor, matrix: Tensor, h: Tensor, c: Tensor, trie: PrefixTrie) -> Tensor:
    """One layer's outputs [P, K, H] from all of its gates [P, K, 4 · H] but what the states add.

    Args:
        matrix: [H, 4 · H].
        h, c: [H], the state before the first token.
    """
    size, examples = len(h), gates.shape[1]
    above: Tensor = h.expand(1, examples, size)
    cell: Tensor = c.expand(1, examples, size).float()
    outputs = []
    for own, parents in _by_depth(trie, gates, trie.parents):
        whole = (own + (above @ matrix).index_select(0, parents)).float()
        i, f, o = whole[..., : 3 * size].sigmoid().chunk(3, dim=-1)
        cell = f * cell.index_select(0, parents) + i * whole[..., 3 * size :].tanh()
        above = (o * cell.tanh()).to(gates.dtype)
        outputs.append(above)
    return torch.cat(outputs)


class _Recurrence(torch.autograd.Function):
    """`_recurrence` on a GPU."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, matrix: Tensor, h: Tensor, c: Tensor, trie: PrefixTrie) -> Tensor:
        gates, matrix = gates.contiguous(), matrix.contiguous()
        count, examples, size = *gates.shape[:2], len(h)
        hidden = gates.new_empty(count, examples, size)
        cell = torch.empty_like(hidden, dtype=torch.float32)
        acts = torch.empty_like(gates)
        above: Tensor = h.expand(1, examples, size)
        before: Tensor = c.float().expand(1, examples, size).contiguous()
        for own, parents, new_h, new_c, kept in _by_depth(trie, gates, trie.parents, hidden, cell, acts):
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
        levels = list(
            _by_depth(trie, grad, acts, cell, grad_before, sums, of_cells, trie.parents, trie.first, trie.last)
        )
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


def _by_depth(trie: PrefixTrie, *tensors: Tensor) -> Any:
    """Tensors [P, …] in their parts at each depth, side by side."""
    return zip(*(torch.split(tensor, list(trie.sizes)) for tensor in tensors), strict=True)
