"""Candidate programs of a search, as tensors: finished programs, and open hypotheses completed to programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor

from karelsynth.karel.structure_kernel import close_prefixes
from karelsynth.karel.tokens import PAD
from karelsynth.model.devices import new_single_threaded, to_host
from karelsynth.tasks.batch import GIVEN_EXAMPLES, Outcomes, run_candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_RECORDED: Final = 64
"""The most open hypotheses of a task that are recorded after each step."""


@dataclass(frozen=True)
class Candidates:
    """S candidates for each of B tasks, of at most L tokens. Where there are fewer, slots are empty."""

    tokens: Tensor
    """uint8 [B, S, L]: padded with `<pad>`."""
    lengths: Tensor
    """int64 [B, S]: numbers of tokens; 0 in an empty slot."""
    logprobs: Tensor
    """float32 [B, S]: log p(program | examples); −∞ in an empty slot."""

    def cpu(self) -> Candidates:
        """The same on the host. Synchronises with the device once."""
        return Candidates(self.tokens.cpu(), self.lengths.cpu(), self.logprobs.cpu())


def with_reference(candidates: Candidates, tokens: Tensor, lengths: Tensor) -> Candidates:
    """The candidates and one more slot: the reference program, uint8 [B, L'], [B], of each task that lacks it.

    All of them are on the host. Its log-probability is NaN until `rescore` computes it.
    """
    width = max(candidates.tokens.shape[2], tokens.shape[1])
    padded = torch.nn.functional.pad(candidates.tokens, (0, width - candidates.tokens.shape[2]))
    reference = torch.nn.functional.pad(tokens, (0, width - tokens.shape[1]))
    # Few candidates are as long as the reference: only these are compared.
    rows, slots = (candidates.lengths == lengths[:, None]).nonzero(as_tuple=True)
    same = (padded[rows, slots] == reference[rows]).all(1)
    found = torch.zeros(len(tokens), 1, dtype=torch.bool).index_fill_(0, rows[same], value=True)
    empty, unknown = candidates.logprobs.new_tensor([-torch.inf, torch.nan])
    return Candidates(
        torch.cat([padded, reference[:, None].masked_fill(found[:, :, None], 0)], dim=1),
        torch.cat([candidates.lengths, lengths.long()[:, None].masked_fill(found, 0)], dim=1),
        torch.cat([candidates.logprobs, torch.where(found, empty, unknown)], dim=1),
    )


def check(
    candidates: Candidates,
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    *,
    given: int = GIVEN_EXAMPLES,
    reference: NDArray[np.uint8] | None = None,
) -> Outcomes:
    """Run every candidate on its task's examples, cell codes [B, E, 18, 18], of which the first `given` are given.

    The reference programs, [B, L] and padded, are run for their ticks, if given.
    """
    tokens, lengths = candidates.tokens.cpu().numpy(), candidates.lengths.cpu().numpy()
    return run_candidates(tokens, lengths, inputs, outputs, given=given, reference=reference)


class BackgroundChecks:
    """Checks candidates of all tasks in a background thread, part by part, while the search continues with other tasks.

        checks = BackgroundChecks(examples, given=5, reference=reference, add_reference=True)
        beam_search(model, encoded, finished=checks.submit)
        candidates, outcomes = checks.results()         # the same as of all tasks at once

    Args:
        examples: returns inputs and outputs [n, E, 18, 18] of tasks int64 [n]; it is called in the background.
        given: how many of the examples are given.
        reference: programs uint8 [B, L] and lengths [B]; they are run for their ticks, too.
        add_reference: whether they are added to the candidates (`with_reference`).
    """

    def __init__(
        self,
        examples: Callable[[NDArray[np.int64]], tuple[NDArray[np.uint8], NDArray[np.uint8]]],
        *,
        given: int,
        reference: tuple[Tensor, Tensor],
        add_reference: bool,
    ) -> None:
        self._examples, self._given = examples, given
        self._reference, self._add_reference = reference, add_reference
        self._submitted: list[Future[None]] = []
        self._found: list[Any] = []
        """The fields of `Candidates` and `Outcomes` of all tasks, filled by the background thread."""

    def submit(self, numbers: Tensor, candidates: Candidates) -> None:
        """Check the candidates of tasks int64 [n], on the host or a GPU. Does not synchronise with it."""
        copies, wait = to_host(vars(candidates).values())
        self._submitted.append(_background().submit(self._check, numbers, Candidates(*copies), wait))

    def _check(self, numbers: Tensor, candidates: Candidates, wait: Callable[[], object]) -> None:
        wait()
        tokens, lengths = (part[numbers] for part in self._reference)
        if self._add_reference:
            candidates = with_reference(candidates, tokens, lengths)
        examples = self._examples(numbers.numpy())
        outcomes = check(candidates, *examples, given=self._given, reference=tokens.numpy())
        parts = [*(part.numpy() for part in vars(candidates).values()), *vars(outcomes).values()]
        if not self._found:
            count = len(self._reference[0])
            self._found = [None if part is None else np.empty((count, *part.shape[1:]), part.dtype) for part in parts]
        for whole, part in zip(self._found, parts, strict=True):
            if whole is not None:
                whole[numbers.numpy()] = part

    def results(self) -> tuple[Candidates, Outcomes]:
        """All candidates and their outcomes, by task; waits for the checks."""
        for submitted in self._submitted:
            submitted.result()
        tokens, lengths, logprobs, *outcomes = self._found
        return Candidates(*map(torch.from_numpy, (tokens, lengths, logprobs))), Outcomes(*outcomes)


@cache
def _background() -> ThreadPoolExecutor:
    """One thread: a check uses all cores by itself."""
    return new_single_threaded(1, "karel-checks")


if hasattr(os, "register_at_fork"):  # a forked child inherits the pool but not its thread
    os.register_at_fork(after_in_child=_background.cache_clear)


class OpenHypotheses:
    """The likeliest open hypotheses of a search after every step, recorded for repair."""

    def __init__(self) -> None:
        self._recorded: list[tuple[Tensor, Tensor, Tensor]] = []

    def record(self, number: Tensor, tokens: Tensor, scores: Tensor) -> None:
        """The `left_open` callback of `beam_search`."""
        first = slice(MOST_RECORDED)
        self._recorded.append((number.cpu(), tokens[:, first].to("cpu", copy=True), scores[:, first].cpu()))

    def closed(self, task: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float32]]:
        """A task's hypotheses, closed: distinct programs [N, L], their lengths [N], and the open ones' scores [N]."""
        programs: dict[bytes, float] = {}
        for number, tokens, scores in self._recorded:
            for row in (number == task).nonzero()[:, 0].tolist():
                filled = scores[row] > -torch.inf
                closed, lengths = close_programs(tokens[row, filled].numpy())
                for program, length, score in zip(closed, lengths, scores[row, filled].tolist(), strict=True):
                    if length:
                        programs.setdefault(program[:length].tobytes(), score)
        lengths = np.array([len(program) for program in programs], np.int64)
        padded = np.full((len(programs), lengths.max(initial=1)), PAD, np.uint8)
        for row, program in enumerate(programs):
            padded[row, : len(program)] = np.frombuffer(program, np.uint8)
        return padded, lengths, np.array(list(programs.values()), np.float32)


def close_programs(prefixes: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Close padded prefixes [N, L]: padded programs uint8 [N, 2 L] and lengths [N], 0 where it is impossible."""
    tokens = np.full((len(prefixes), 2 * prefixes.shape[1]), PAD, np.uint8)
    lengths = np.empty(len(prefixes), np.int64)
    close_prefixes(np.ascontiguousarray(prefixes), tokens, lengths)
    tokens[lengths == 0] = PAD
    return tokens, lengths
