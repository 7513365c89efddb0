"""Programs as prefix tries, for teacher forcing: the network is evaluated once at every prefix, and never at padding.

The decoder's output after a prefix depends on nothing else. The P prefixes of N programs are the nodes of a trie per
task. There are two layouts of the same data, `PrefixTrie`:

    pack_programs(tokens, lengths)          # every program has its own branch: for batches with one program per task
    pack_trie(tokens, lengths, tasks)       # programs of a task share prefixes: for candidates

Nodes are sorted by depth. Without sharing, the nodes of a depth are sorted by program, the longest program first (the
layout of PyTorch's packed sequences): node n continues node n of the depth above, and no index is needed. With sharing
they are sorted by task, then by tokens: a node's children are adjacent.

For models with `skip_forced_tokens`, prefixes have no forced tokens. With K examples a node's K rows are adjacent: an
array [P · K, …] is a view [P, K, …], and pooling over examples needs no index. The layout is computed on the host, so
that the loop over depths knows their sizes without synchronising with the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from karelsynth.errors import KarelsynthError
from karelsynth.karel.tokens import VOCABULARY_SIZE, token_bytes, token_name
from karelsynth.model.devices import to_device
from karelsynth.model.prefix_trie_kernel import ALL_TOKENS, UNFORCED, PackedLayout, packed_layout, trie_layout
from karelsynth.model.syntax import handwritten_syntax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.prefix_runner import PrefixRunner


class SharedPrefixes(NamedTuple):
    """The edges of a trie whose programs share prefixes."""

    parents: Tensor
    """int64 [P]: the index of a node's parent among the nodes one depth above; 0 at depth 0."""
    first: Tensor
    """int64 [P]: the index of the node's first child among the nodes one depth below."""
    last: Tensor
    """int64 [P]: one more than the index of its last child."""
    nodes: Tensor
    """int64 [M]: the node at which each target is predicted."""


@dataclass(frozen=True)
class PrefixTrie:
    """P prefixes of N programs with M tokens; see the module's docstring."""

    count: int
    """N."""
    sizes: tuple[int, ...]
    """[T]: the number of nodes at each depth."""
    tokens: Tensor
    """int64 [P]: the last token of the prefix, `<s>` at depth 0."""
    tasks: Tensor
    """int64 [P]: the prefix's task."""
    targets: Tensor
    """int64 [M]: the programs' tokens. Without sharing, M = P, and target n is predicted at node n."""
    programs: Tensor
    """int64 [M]: the program of each target, in the order given."""
    admitted: Tensor | None
    """bool [P, 52]: tokens that the handwritten syntax admits after the prefix; None without it."""
    features: Tensor | None = None
    """uint8 [P, K, 114]: the execution features of the prefixes; None for models without `execution`."""
    shared: SharedPrefixes | None = None
    """The edges; None if every program has its own branch."""

    def parents_at(self, depth: int) -> Tensor:
        """int64 [size]: the parents of the nodes at a depth above 0, as indices among the nodes one depth above."""
        size = self.sizes[depth]
        if self.shared is None:
            return torch.arange(size, device=self.tokens.device)
        return self.shared.parents.narrow(0, sum(self.sizes[:depth]), size)

    def without_examples(self) -> PrefixTrie:
        """The same prefixes, of one task without examples."""
        return replace(self, tasks=torch.zeros_like(self.tasks), features=None)

    def logprobs(self, logits: Tensor) -> Tensor:
        """Log-probabilities of the targets, float32 [M], from logits at every node, float32 [P, 52]."""
        if self.shared is None:
            return -functional.cross_entropy(logits, self.targets, reduction="none")
        places = self.shared.nodes * VOCABULARY_SIZE + self.targets
        return logits.log_softmax(1).flatten().index_select(0, places)

    def program_logprobs(self, logits: Tensor) -> Tensor:
        """log p(program | examples), float32 [N], from logits at every node, float32 [P, 52]."""
        logprobs = self.logprobs(logits)
        return logprobs.new_zeros(self.count).index_add(0, self.programs, logprobs)


def pack_programs(
    tokens: NDArray[np.integer],
    lengths: NDArray[np.integer],
    tasks: NDArray[np.integer] | None = None,
    *,
    machine: SyntaxMachine | None = None,
    device: torch.device | str = "cpu",
    runner: PrefixRunner | None = None,
    which: NDArray[np.integer] | None = None,
    threads: int | None = None,
    skip_forced_tokens: bool = False,
) -> PrefixTrie:
    """Lay out programs [N, L] of 1 … L tokens [N] without sharing prefixes.

    Args:
        tasks: [N], each program's task; by default program n is for task n.
        machine: a syntax; the trie then has `admitted`. KarelsynthError if the syntax does not admit a program.
        device: where the trie's tensors go.
        runner: runs prefixes on examples, for models with `execution`.
        which: [N, K], the examples that each program is run on, as indices among all of the runner's; by default those
            of its task.
        threads: how many threads run them; by default one for each core.
        skip_forced_tokens: leave out forced tokens.
    """
    _check_lengths(tokens, lengths)
    ids, long = token_bytes(tokens), lengths.astype(np.int64)
    layout = packed_layout(ids, long, UNFORCED if skip_forced_tokens else ALL_TOKENS)
    if not layout.columns.size:
        raise ValueError("all tokens of these programs are forced: there is nothing to score")
    ordered, sizes = ids[layout.order], long[layout.order]
    masks = None if machine is None else _masks(ordered, sizes, layout, machine)
    features = None
    if runner is not None:
        if which is None:
            count, examples = runner.shape
            which = np.arange(count * examples).reshape(count, examples)
            which = which if tasks is None else which[tasks]
        features = runner.features_along(ordered, sizes, layout, which[layout.order], threads)
        if features.device.type != torch.device(device).type:
            features = to_device(features.numpy(), device)
    last, targets, programs = to_device(layout.columns[:3], device).long()
    return PrefixTrie(
        len(tokens),
        tuple(layout.step_sizes.tolist()),
        last,
        programs if tasks is None else to_device(np.asarray(tasks)[layout.columns[2]].astype(np.int64), device),
        targets,
        programs,
        None if masks is None else to_device(masks, device),
        features,
    )


def pack_trie(
    tokens: NDArray[np.integer],
    lengths: NDArray[np.integer],
    tasks: NDArray[np.integer],
    *,
    machine: SyntaxMachine | None = None,
    device: torch.device | str = "cpu",
    runner: PrefixRunner | None = None,
    skip_forced_tokens: bool = False,
) -> PrefixTrie:
    """Lay out programs [N, L] of 1 … L tokens [N] for tasks [N] so that a task's programs share prefixes.

    Arguments as in `pack_programs`; `runner` runs the prefixes on all examples of their tasks.
    """
    _check_lengths(tokens, lengths)
    ids, long = token_bytes(tokens), lengths.astype(np.int64)
    layout = trie_layout(ids, long, tasks.astype(np.int64), UNFORCED if skip_forced_tokens else ALL_TOKENS)
    if not layout.targets.size:
        raise ValueError("all tokens of these programs are forced: there is nothing to score")
    if skip_forced_tokens and machine is not None:  # the masks below do not cover forced tokens
        _, wrong = machine.masks_along(ids, long, np.full(ids.shape, -1))
        if wrong is not None:
            raise _refused(ids[wrong[0], : long[wrong[0]]], wrong[1], machine)
    last, parents, first, end, task = to_device(layout.nodes, device).long()
    before, targets, programs = to_device(layout.targets, device).long()
    sizes = tuple(layout.sizes.tolist())
    features = None
    if runner is not None:
        rows, places = layout.rows
        prefixes = to_device(ids[rows][:, : places.max()], device)
        features = runner.features(prefixes, to_device(places.astype(np.int64), device), task)
    admitted = None
    if machine is not None:
        admitted = _admitted(machine, sizes, parents, last, skip_forced_tokens=skip_forced_tokens)
        refused = (~admitted.flatten().index_select(0, before * VOCABULARY_SIZE + targets)).nonzero()[:, 0].cpu()
        if len(refused):
            wrong_node, _, program = layout.targets[:, int(refused[0])]
            at = int(np.searchsorted(np.cumsum(layout.sizes), wrong_node, side="right"))
            place = np.flatnonzero((UNFORCED if skip_forced_tokens else ALL_TOKENS)[ids[program]])[at]
            raise _refused(ids[program, : long[program]], int(place), machine)
    shared = SharedPrefixes(parents, first, end, before)
    return PrefixTrie(len(tokens), sizes, last, task, targets, programs, admitted, features, shared)


def _check_lengths(tokens: NDArray[np.integer], lengths: NDArray[np.integer]) -> None:
    if not len(tokens) or lengths.min() < 1 or lengths.max() > tokens.shape[1]:
        raise ValueError(f"there must be at least one program, and each must have 1 to {tokens.shape[1]} tokens")


def _masks(
    ordered: NDArray[np.uint8], sizes: NDArray[np.int64], layout: PackedLayout, machine: SyntaxMachine
) -> NDArray[np.bool_]:
    """bool [P, 52]: the tokens that the machine admits at each node of a trie without sharing."""
    masks, refused = machine.masks_along(ordered, sizes, layout.rows)
    if refused is not None:
        program, token = refused
        raise _refused(ordered[program, : sizes[program]], token, machine)
    return masks


def _admitted(
    machine: SyntaxMachine, sizes: tuple[int, ...], parents: Tensor, tokens: Tensor, *, skip_forced_tokens: bool
) -> Tensor:
    """bool [P, 52]: the tokens that the machine admits at each node of a trie with sharing."""
    syntax = handwritten_syntax(machine, parents.device)
    states = syntax.initial(sizes[0])
    states = syntax.after_forced_tokens(states) if skip_forced_tokens else states
    masks = [syntax.mask(states)]
    for own, last in list(zip(*(torch.split(part, list(sizes)) for part in (parents, tokens)), strict=True))[1:]:
        states = syntax.advance(states.index_select(0, own), last)
        states = syntax.after_forced_tokens(states) if skip_forced_tokens else states
        masks.append(syntax.mask(states))
    return torch.cat(masks)


def _refused(tokens: NDArray[np.integer], at: int, machine: SyntaxMachine) -> KarelsynthError:
    """The error for a program whose token number `at` the machine does not admit."""
    return KarelsynthError(
        f"`{' '.join(map(token_name, tokens))}` is not a program of at most {machine.max_length} tokens: "
        f"token {at + 1} is not allowed there; leave it out, or raise `max_length`"
    )
