"""Repair of near misses: best-first search over edits, from programs that are correct on some examples to one for all.

    found = repair(tokens, lengths, logprobs, inputs, outputs, longest=60, stop=lambda: time.monotonic() > deadline)

A network that has found no answer has often written most of one: a branch is missing, or a condition is wrong. The
search takes the most promising programs so far, makes every program that is one edit away, and runs all of them on the
examples. Two cores run about a hundred thousand programs a second. A run ends early when its program can no longer
become promising.

A program is promising if it is correct on many examples and nearly correct on the others, if the program it came from
was likely, if it is short, and if it took few edits. Programs that leave all examples in the same states are
equivalent so far: only a few of them are queued.

`karel.structure_kernel` defines how edits are recorded and applied. Every edit makes a program that parses. Edits that
violate the normal form are left out, unless the program itself violates it: a shorter program mostly does the same.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.generator.random_kernel import GAMMA, mix
from karelsynth.karel.compiled import compiled
from karelsynth.karel.grammar import KAREL, NORMAL_FORM
from karelsynth.karel.interpreter import MAX_TICKS, Status
from karelsynth.karel.machine import heroes_of
from karelsynth.karel.machine_kernel import (
    CELLS,
    IF,
    REPEAT,
    WHILE,
    code_buffers,
    compile_program,
    put_hero_back,
    run_code,
    take_hero_out,
)
from karelsynth.karel.structure_kernel import (
    ACTION,
    ACTION_KINDS,
    BEGINS,
    CLOSE_I,
    CLOSE_R,
    CLOSE_W,
    CLOSES,
    CONDITION,
    CONDITION_KINDS,
    COUNT,
    COUNT_KINDS,
    ELSE,
    ELSE_WITH,
    FIRST_ACTION,
    IF_HEAD,
    IFELSE_HEAD,
    LAST_ACTION,
    OPEN_I,
    OPEN_W,
    OPENS,
    PARTS,
    REPEAT_HEAD,
    TO_IF,
    TO_IFELSE,
    TO_WHILE,
    WHILE_HEAD,
    edited_length,
    find_statements,
    new_statements,
    note_edit,
    write_edited,
)
from karelsynth.karel.syntax_compiler import ParserTables, compile_grammar
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.tokens import ID, PAD, VOCABULARY_SIZE

PER_EXAMPLE: Final = 2.0
"""A program's priority value falls by this for each correct example; the lowest value is expanded first."""
PER_CELL: Final = 0.5
"""It rises by this for each wrong cell."""
PER_NAT: Final = 0.15
"""It rises by this for each nat that the network's own program is less likely."""
PER_EDIT: Final = 1.0
"""It rises by this for each edit."""
PER_TOKEN: Final = 0.05
"""It rises by this for each token."""
CRASH_CELLS: Final = 8
"""The number of wrong cells that a crash counts as."""
MOST_EXPANDED: Final = 8
"""Programs that are expanded at the same time. More keep all cores busy; fewer follow the priorities more closely."""
QUEUED_PER_PROGRAM: Final = 20
"""The most neighbours of an expanded program that are queued, on average."""
MOST_EQUIVALENT: Final = 3
"""The most queued programs that leave all examples in the same states."""
QUEUE_SIZE: Final = 512
"""Programs in the queue. At twice as many the less promising half is dropped. From then on, while the queue has at
least this many, programs less promising than all that were kept are dropped early."""
MOST_EDITS: Final = 10_000
"""Room for the edits of a program; the rest is left out. A plain action has 152, and 60 tokens hold 56."""
LONGEST_WRAPPED: Final = 4
"""The most statements that one edit wraps in a block."""
_SEEN_SIZE: Final = 1 << 22
"""Slots of the hash table of programs that have been made; it is never more than half full."""
_OK = int(Status.OK)
_ZERO, _ONE, _S8 = np.uint64(0), np.uint64(1), np.uint64(8)


def _never() -> NDArray[np.bool_]:
    never = np.zeros((VOCABULARY_SIZE, VOCABULARY_SIZE), np.bool_)
    for one, other in NORMAL_FORM.never_adjacent:
        never[ID[one], ID[other]] = True
    return never


_NEVER: Final = _never()
"""bool [52, 52]: pairs of tokens that the normal form forbids."""


@dataclass(frozen=True)
class Repaired:
    """The result of a repair.

    Either programs that are correct on all examples, found in the same step. Or, without any, the queued program that
    came nearest; or nothing, if there was no program to start from.
    """

    tokens: NDArray[np.uint8]
    """[N, L], padded with `<pad>`."""
    lengths: NDArray[np.int64]
    solves: bool
    tried: int
    """How many programs were run."""


class ProgramScorer:
    """Runs programs on a task's examples, [K, 18, 18] each."""

    def __init__(self, inputs: NDArray[np.uint8], outputs: NDArray[np.uint8], max_ticks: int = MAX_TICKS) -> None:
        self.examples, self.max_ticks = len(inputs), max_ticks
        self._heroes = heroes_of("inputs", inputs[None])[0]
        self._inputs, self._targets = (np.ascontiguousarray(part).reshape(-1, CELLS) for part in (inputs, outputs))

    def __call__(
        self, tokens: NDArray[np.uint8], lengths: NDArray[np.int64], bounds: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
        """Correct examples, wrong cells and a hash of the final states of programs [N, L]: three arrays [N].

        The number of correct examples is -1 for programs that do not parse, and for those that certainly exceed their
        bounds [N]: see `_score_range`.
        """
        right, wrong = np.empty(len(tokens), np.int64), np.empty(len(tokens), np.int64)
        behaviour, parser = np.empty(len(tokens), np.uint64), compile_grammar(KAREL).parser

        def work(first: int, last: int) -> None:
            _score_range(
                first, last, tokens, lengths, self._inputs, self._heroes, self._targets, parser, self.max_ticks, bounds,
                right, wrong, behaviour,
            )  # fmt: skip

        parallel_for(work, len(tokens), self.examples, None)
        return right, wrong, behaviour


class RepairQueue:
    """Programs that wait to be expanded; the lowest priority value comes first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, NDArray[np.uint8], float, int]] = []
        self._by_behaviour: Counter[int] = Counter()
        self._pushed, self._highest = 0, np.inf

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def bound(self) -> float:
        """The priority value above which a program need not be queued: enough better ones are or have been."""
        return self._highest if len(self._heap) >= QUEUE_SIZE else np.inf

    def push(self, priority: float, program: NDArray[np.uint8], cost: float, behaviour: int) -> bool:
        """Queue a program and its cost so far, unless enough equivalent ones are or have been queued."""
        if self._by_behaviour[behaviour] >= MOST_EQUIVALENT:
            return False
        self._by_behaviour[behaviour] += 1
        self._pushed += 1  # of two equal programs the older one goes first
        heapq.heappush(self._heap, (priority, self._pushed, program.copy(), cost, behaviour))
        return True

    def pop(self) -> tuple[NDArray[np.uint8], float]:
        """The most promising program and its cost so far."""
        _, _, program, cost, _ = heapq.heappop(self._heap)
        return program, cost

    def trim(self) -> None:
        """Drop the less promising half if the queue is too long. Programs equivalent to those may then be queued."""
        if len(self._heap) > 2 * QUEUE_SIZE:
            self._heap.sort()  # a sorted list is a heap
            self._by_behaviour.subtract(entry[-1] for entry in self._heap[QUEUE_SIZE:])
            del self._heap[QUEUE_SIZE:]
            self._highest = self._heap[-1][0]


class _BestFirstSearch:
    """The state of one repair."""

    def __init__(self, scorer: ProgramScorer, longest: int) -> None:
        self.scorer, self.longest = scorer, longest
        self.queue, self.tried = RepairQueue(), 0
        self.nearest = np.zeros(0, np.uint8)
        """The queued program with most correct examples, and among those fewest wrong cells."""
        self._nearest_score = (-1, 0)
        self._seen = np.zeros(_SEEN_SIZE, np.uint64)
        room = MOST_EXPANDED * MOST_EDITS
        self._made, self._sizes = np.zeros((room, longest), np.uint8), np.empty(room, np.int64)

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to expand, or the hash table could become more than half full."""
        return not len(self.queue) or self.tried >= _SEEN_SIZE // 2 - MOST_EXPANDED * MOST_EDITS

    def score(
        self, rows: NDArray[np.uint8], lengths: NDArray[np.int64], costs: NDArray[np.float64], most: int
    ) -> Repaired | None:
        """Run programs with costs so far [N] and queue the `most` promising; returns those that are correct."""
        own = costs + PER_TOKEN * lengths
        right, wrong, behaviour = self.scorer(rows, lengths, self.queue.bound - own)
        priorities = own + PER_CELL * wrong - PER_EXAMPLE * right
        pushed = 0
        scored = np.flatnonzero(right >= 0)
        for row in scored[priorities[scored].argsort(kind="stable")]:
            program = rows[row, : lengths[row]]
            if self.queue.push(priorities[row], program, costs[row], int(behaviour[row])):
                if (right[row], -wrong[row]) > self._nearest_score:
                    self._nearest_score, self.nearest = (right[row], -wrong[row]), program.copy()
                pushed += 1
                if pushed == most:
                    break
        self.queue.trim()
        correct = np.flatnonzero(right == self.scorer.examples)
        return self.result(rows[correct], lengths[correct], solves=True) if len(correct) else None

    def expand(self) -> Repaired | None:
        """Run all programs one edit away from the most promising ones; returns those that are correct."""
        count, costs = 0, []
        for _ in range(min(MOST_EXPANDED, len(self.queue))):
            program, cost = self.queue.pop()
            made, sizes = self._made[count : count + MOST_EDITS], self._sizes[count:]
            more = neighbours(program, len(program), self.longest, self._seen, made, sizes)
            costs.append(np.full(more, cost + PER_EDIT))
            count += more
        self.tried += count
        most = QUEUED_PER_PROGRAM * len(costs)
        return self.score(self._made[:count], self._sizes[:count], np.concatenate(costs), most)

    def result(self, rows: NDArray[np.uint8], lengths: NDArray[np.int64], *, solves: bool) -> Repaired:
        """Programs [N, L] as a result, padded."""
        padded = np.where(np.arange(rows.shape[1]) < lengths[:, None], rows, PAD).astype(np.uint8)
        return Repaired(padded, lengths, solves, self.tried)


def repair(
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    logprobs: NDArray[np.floating],
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    *,
    longest: int,
    stop: Callable[[], bool],
    max_ticks: int = MAX_TICKS,
    on_tried: Callable[[int], None] | None = None,
) -> Repaired:
    """Search from programs [N, L] until one is correct on all examples. Programs that do not parse are left out.

    Args:
        logprobs: [N], the programs' log-probabilities.
        inputs, outputs: the examples, uint8 [K, 18, 18].
        longest: the most tokens of a program.
        stop: called after every MOST_EXPANDED programs, some dozen times a second; True ends the search.
        max_ticks: the most ticks of a run.
        on_tried: called as often as `stop`, with the number of programs that were run so far.
    """
    search = _BestFirstSearch(ProgramScorer(inputs, outputs, max_ticks), longest)
    short = lengths <= longest
    given, counts = np.ascontiguousarray(tokens[short]), lengths[short].astype(np.int64)
    found = search.score(given, counts, -PER_NAT * logprobs[short].astype(np.float64), len(given))
    while found is None and not search.exhausted and not stop():
        found = search.expand()
        if on_tried is not None:
            on_tried(search.tried)
    if found is None:
        nearest = search.nearest[None][: len(search.nearest)]  # no row without a program
        found = search.result(nearest, np.full(len(nearest), len(search.nearest)), solves=False)
    return found


@compiled()
def _is_new(bits: np.uint64, seen: NDArray[np.uint64]) -> bool:
    """Add a number to a set; whether it is new. The set is an open hash table, its size a power of two; 0 is empty."""
    bits = bits | _ONE
    last = np.uint64(seen.shape[0] - 1)
    place = (bits >> _S8) & last
    while seen[place] != _ZERO:
        if seen[place] == bits:
            return False
        place = (place + _ONE) & last
    seen[place] = bits
    return True


@compiled()
def _within(edits: NDArray[np.int64], count: int, kind: int, at: int, opened: int, otherwise: int, end: int) -> int:
    """Record edits of a control statement: another condition, count or kind, or only its body; the new count."""
    close = otherwise - 1 if otherwise > 0 else end - 1  # of the first block
    body = opened + 1
    count = note_edit(edits, count, at, 0, body, close, 0, 0, 0, 0, end)
    if kind == REPEAT:
        for times in range(COUNT_KINDS):
            count = note_edit(edits, count, at + 1, COUNT + times, 0, 0, 0, 0, 0, 0, at + 2)
        for condition in range(CONDITION_KINDS):
            count = note_edit(edits, count, at, WHILE_HEAD + condition, body, close, CLOSE_W, 0, 0, 0, end)
        return count
    for condition in range(CONDITION_KINDS):
        count = note_edit(edits, count, at + 2, CONDITION + condition, 0, 0, 0, 0, 0, 0, opened - 1)
    if kind == IF:
        count = note_edit(edits, count, at, TO_WHILE, at + 1, opened, OPEN_W, body, close, CLOSE_W, end)
        for action in range(ACTION_KINDS):
            count = note_edit(edits, count, at, TO_IFELSE, at + 1, close, ELSE_WITH + action, 0, 0, 0, end)
    elif kind == WHILE:
        count = note_edit(edits, count, at, TO_IF, at + 1, opened, OPEN_I, body, close, CLOSE_I, end)
        for times in range(COUNT_KINDS):
            count = note_edit(edits, count, at, REPEAT_HEAD + times, body, close, CLOSE_R, 0, 0, 0, end)
    else:
        other = otherwise + 2
        count = note_edit(edits, count, at, 0, other, end - 1, 0, 0, 0, 0, end)
        count = note_edit(edits, count, at, TO_IF, at + 1, close + 1, 0, 0, 0, 0, end)
        count = note_edit(edits, count, body, 0, other, end - 1, ELSE, body, close, 0, end - 1)  # swap both blocks
    return count


@compiled()
def _around(edits: NDArray[np.int64], count: int, at: int, last: int, single: bool) -> int:
    """Record edits that wrap the tokens from `at` to `last` in a block; the new count."""
    for condition in range(CONDITION_KINDS):
        count = note_edit(edits, count, at, WHILE_HEAD + condition, at, last, CLOSE_W, 0, 0, 0, last)
        count = note_edit(edits, count, at, IF_HEAD + condition, at, last, CLOSE_I, 0, 0, 0, last)
        if single:
            for action in range(ACTION_KINDS):
                count = note_edit(
                    edits, count, at, IFELSE_HEAD + condition, at, last, ELSE_WITH + action, 0, 0, 0, last
                )
    for times in range(COUNT_KINDS):
        count = note_edit(edits, count, at, REPEAT_HEAD + times, at, last, CLOSE_R, 0, 0, 0, last)
    return count


@compiled()
def _all_edits(tokens: NDArray[np.uint8], length: int, edits: NDArray[np.int64]) -> int:
    """Record every edit of a program in `edits` [·, 9]; returns how many."""
    statements = new_statements(length)
    find_statements(tokens, length, statements)
    ends, opens, elses = statements
    count = 0
    for at in range(3, length):
        here = tokens[at]
        if not BEGINS[here] and not CLOSES[here]:
            continue
        for action in range(ACTION_KINDS):  # insert an action
            count = note_edit(edits, count, at, ACTION + action, 0, 0, 0, 0, 0, 0, at)
        end = ends[at]
        if end == 0:
            continue
        if not (OPENS[tokens[at - 1]] and CLOSES[tokens[end]]):  # delete a statement
            count = note_edit(edits, count, at, 0, 0, 0, 0, 0, 0, 0, end)
        after = ends[end]
        if after > 0:  # swap two statements
            count = note_edit(edits, count, at, 0, end, after, 0, at, end, 0, after)
        if FIRST_ACTION <= here <= LAST_ACTION:  # replace an action
            for action in range(ACTION_KINDS):
                count = note_edit(edits, count, at, ACTION + action, 0, 0, 0, 0, 0, 0, end)
        else:
            count = _within(edits, count, here, at, opens[at], elses[at], end)
        last = end
        for number in range(LONGEST_WRAPPED):
            count = _around(edits, count, at, last, number == 0)
            if ends[last] == 0:
                break
            last = ends[last]
    return count


@compiled()
def neighbours(
    tokens: NDArray[np.uint8],
    length: int,
    longest: int,
    seen: NDArray[np.uint64],
    out: NDArray[np.uint8],
    lengths: NDArray[np.int64],
) -> int:
    """Write the programs one edit away from a program [L] to `out` [·, longest]; returns how many.

    Programs longer than `longest` are left out, and those in the hash table `seen`. All others are added to `seen`.
    """
    edits = np.empty((MOST_EDITS, PARTS), np.int64)
    faults = _faults(tokens, length)
    count = 0
    for number in range(_all_edits(tokens, length, edits)):
        if count == out.shape[0]:
            break
        size = edited_length(edits, number, length)
        if size > longest:
            continue
        write_edited(tokens, length, edits, number, out, count)
        if _faults(out[count], size) <= faults and _is_new(_hash_program(out[count], size), seen):
            lengths[count] = size
            count += 1
    return count


@compiled()
def _faults(row: NDArray[np.uint8], size: int) -> int:
    """How many times the program in row[:size] violates the normal form."""
    faults = 0
    for place in range(2, size):
        token, before = row[place], row[place - 1]
        if _NEVER[before, token] or (token == before == row[place - 2] and FIRST_ACTION <= token <= LAST_ACTION):
            faults += 1
    return faults


@compiled()
def _hash_program(row: NDArray[np.uint8], size: int) -> np.uint64:
    """A hash of the program in row[:size]."""
    bits = np.uint64(size)
    for place in range(size):
        bits = mix(bits + np.uint64(row[place]) * GAMMA)
    return bits


@compiled()
def _hash_byte(example: int, place: int, value: int) -> np.uint64:
    """A hash of one byte of an example's final state: a cell's code, or at place CELLS the status."""
    number: np.uint64 = mix(np.uint64(((example * (CELLS + 1) + place) << 8) + value + 1) * GAMMA)
    return number


@compiled()
def _compare(cells: NDArray[np.uint8], targets: NDArray[np.uint8], example: int) -> tuple[int, np.uint64]:
    """How many cells of cells [1, 324] differ from an example's target, and a hash of those."""
    different, bits = 0, _ZERO
    for cell in range(CELLS):
        different += cells[0, cell] != targets[example, cell]
    if different > 0:
        for cell in range(CELLS):
            if cells[0, cell] != targets[example, cell]:
                bits += _hash_byte(example, cell, int(cells[0, cell]))
    return different, bits


@compiled()
def _score_range(
    first: int,
    last: int,
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    inputs: NDArray[np.uint8],
    heroes: NDArray[np.int16],
    targets: NDArray[np.uint8],
    parser: ParserTables,
    max_ticks: int,
    bounds: NDArray[np.float64],
    right: NDArray[np.int64],
    wrong: NDArray[np.int64],
    behaviour: NDArray[np.uint64],
) -> None:
    """Run programs first … last − 1 of tokens [N, L] on inputs [K, 324].

    Writes for each program: the number of correct examples, or -1 if it does not parse; the number of wrong cells, a
    crash counting as CRASH_CELLS more; and a hash of the final states. The run of a program ends, with -1, as soon as
    PER_CELL · wrong − PER_EXAMPLE · right certainly exceeds its bound.
    """
    code, origin, stack, opened, counters = code_buffers(tokens.shape[1])
    cells = np.empty((1, CELLS), np.uint8)
    for number in range(first, last):
        text = tokens[number, : lengths[number]]
        if compile_program(text, parser, code, origin, stack, opened) >= 0:
            right[number], wrong[number], behaviour[number] = -1, 0, _ZERO
            continue
        good, bad, bits = 0, 0, _ZERO
        for example in range(inputs.shape[0]):
            at = int(heroes[example])
            heading = take_hero_out(inputs, example, at, cells, 0)
            status, _, _, _, at, heading = run_code(
                code, counters, cells, 0, at, heading, max_ticks, cells, False, cells, False, 0, True, True
            )
            put_hero_back(cells, 0, at, heading)
            different, own = _compare(cells, targets, example)
            bits += own
            if status == _OK:
                good += different == 0
                bad += different
            else:
                bad += different + CRASH_CELLS
                bits += _hash_byte(example, CELLS, status)
            left = inputs.shape[0] - 1 - example
            if bad > 0 and PER_CELL * bad - PER_EXAMPLE * (good + left) > bounds[number]:
                good = -1
                break
        right[number], wrong[number], behaviour[number] = good, bad, bits
