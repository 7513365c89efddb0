"""Candidate programs of a search, as tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from karelsynth.tasks.batch import GIVEN_EXAMPLES
from karelsynth.tasks.outcomes import Outcomes, run_candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    """Checks candidates in a background thread while the search goes on with other tasks.

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
        self._submitted: list[tuple[Tensor, Future[tuple[Candidates, Outcomes]]]] = []

    def submit(self, numbers: Tensor, candidates: Candidates) -> None:
        """Check the candidates of tasks int64 [n], on the host."""
        self._submitted.append((numbers, _background().submit(self._check, numbers, candidates)))

    def _check(self, numbers: Tensor, candidates: Candidates) -> tuple[Candidates, Outcomes]:
        tokens, lengths = (part[numbers] for part in self._reference)
        if self._add_reference:
            candidates = with_reference(candidates, tokens, lengths)
        examples = self._examples(numbers.numpy())
        return candidates, check(candidates, *examples, given=self._given, reference=tokens.numpy())

    def results(self) -> tuple[Candidates, Outcomes]:
        """All candidates and their outcomes, by task; waits for the checks."""
        order = torch.cat([numbers for numbers, _ in self._submitted]).argsort()
        parts = [check.result() for _, check in self._submitted]
        candidates = Candidates(*(torch.cat(values)[order] for values in _by_field([part for part, _ in parts])))
        rows = order.numpy()
        return candidates, Outcomes(
            *(np.concatenate(values)[rows] for values in _by_field([part for _, part in parts]))
        )


def _by_field(parts: Sequence[Any]) -> list[list[Any]]:
    """The values of dataclasses, field by field."""
    return [[getattr(part, field.name) for part in parts] for field in fields(parts[0])]


@cache
def _background() -> ThreadPoolExecutor:
    """One thread: a check uses all cores by itself."""
    return ThreadPoolExecutor(1, thread_name_prefix="karel-checks")


if hasattr(os, "register_at_fork"):  # a forked child inherits the pool but not its thread
    os.register_at_fork(after_in_child=_background.cache_clear)
