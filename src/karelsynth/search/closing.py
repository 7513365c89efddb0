"""Completing prefixes: the open hypotheses of a search as programs that can be run and repaired.

    tokens, lengths = close_programs(prefixes)

Every open block is closed. An IFELSE without an ELSE, or with an empty one, becomes an IF. A prefix that ends within a
head or in an empty block cannot be closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.structure_kernel import CLOSES, FIRST_ACTION, LAST_ACTION, OPENS
from karelsynth.karel.tokens import CLOSERS, ID, OPENERS, PAD

if TYPE_CHECKING:
    from torch import Tensor

MOST_RECORDED: Final = 64
"""The most open hypotheses of a task that are recorded after each step."""
_IF, _IFELSE, _WHILE, _REPEAT = ID["IF"], ID["IFELSE"], ID["WHILE"], ID["REPEAT"]
_OPEN_I, _CLOSE_I, _OPEN_E = ID["i("], ID["i)"], ID["e("]
_CLOSER = np.zeros(256, np.uint8)
_CLOSER[[ID[name] for name in OPENERS]] = [ID[name] for name in CLOSERS]


class OpenHypotheses:
    """The likeliest open hypotheses of a search after every step, recorded for repair."""

    def __init__(self) -> None:
        self._recorded: list[tuple[Tensor, Tensor, Tensor]] = []

    def record(self, number: Tensor, tokens: Tensor, scores: Tensor) -> None:
        """The `left_open` callback of `beam_search`."""
        first = slice(MOST_RECORDED)
        self._recorded.append((number.cpu(), tokens[:, first].cpu().clone(), scores[:, first].cpu()))

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
    _close_rows(np.ascontiguousarray(prefixes), tokens, lengths)
    tokens[lengths == 0] = PAD
    return tokens, lengths


@compiled()
def _close_rows(
    prefixes: NDArray[np.uint8], tokens: NDArray[np.uint8], lengths: NDArray[np.int64]
) -> None:  # pragma: no cover - compiled
    """Write closed prefixes [N, L] to `tokens` [N, 2 L or more], and their lengths; 0 where it is impossible."""
    opened, heads = np.empty(prefixes.shape[1] + 1, np.int64), np.empty(prefixes.shape[1] + 1, np.int64)
    for row in range(len(prefixes)):
        lengths[row] = 0
        length = prefixes.shape[1]
        while length > 0 and prefixes[row, length - 1] == PAD:
            length -= 1
        if length > 1 and prefixes[row, length - 1] == _OPEN_E:
            length -= 2  # drop an empty ELSE
        if length == 0:
            continue
        last = prefixes[row, length - 1]
        if not (FIRST_ACTION <= last <= LAST_ACTION or CLOSES[last]):
            continue  # within a head, or in an empty block
        depth, head, ended = 0, 0, -1
        for at in range(length):
            token = prefixes[row, at]
            tokens[row, at] = token
            ended = -1
            if token == _IF or token == _IFELSE or token == _WHILE or token == _REPEAT:
                head = at
            elif OPENS[token]:
                opened[depth], heads[depth] = token, head
                depth += 1
            elif CLOSES[token]:
                if depth == 0:  # more blocks closed than opened
                    length = 0
                    break
                depth -= 1
                if token == _CLOSE_I and tokens[row, heads[depth]] == _IFELSE:
                    ended = heads[depth]  # its ELSE is still to come
        if length == 0:
            continue
        if ended >= 0:
            tokens[row, ended] = _IF
        size = length
        while depth > 0:
            depth -= 1
            if opened[depth] == _OPEN_I and tokens[row, heads[depth]] == _IFELSE:
                tokens[row, heads[depth]] = _IF
            tokens[row, size] = _CLOSER[opened[depth]]
            size += 1
        lengths[row] = size
