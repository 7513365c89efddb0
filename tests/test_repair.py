"""Repair: neighbours against plain trees, judging against the interpreter, and that near misses are repaired."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from karelsynth.errors import WorldError
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.grammar import NORMAL_FORM
from karelsynth.karel.interpreter import run
from karelsynth.karel.machine import encode_programs
from karelsynth.karel.program import (
    Action,
    Block,
    Condition,
    If,
    IfElse,
    Not,
    Program,
    Repeat,
    Sensor,
    Statement,
    While,
)
from karelsynth.karel.tokens import ACTIONS, ID
from karelsynth.karel.world import World
from karelsynth.search.repair import (
    CRASH_CELLS,
    MOST_EDITS,
    MOST_EQUIVALENT,
    PER_CELL,
    PER_EXAMPLE,
    QUEUE_SIZE,
    ProgramScorer,
    RepairQueue,
    neighbours,
    repair,
)
from tests.strategies import programs, random_program, random_world

CONDITIONS: list[Condition] = [
    *Sensor,
    *(Not(sensor) for sensor in (Sensor.LEFT_IS_CLEAR, Sensor.RIGHT_IS_CLEAR, Sensor.FRONT_IS_CLEAR)),
]
COUNTS = range(2, 11)


def changed_blocks(block: Block) -> Iterator[Block]:
    """Every block that is one change away, by the tree; the blocks inside it too."""
    for at in range(len(block) + 1):
        for action in Action:
            yield (*block[:at], action, *block[at:])
    for at, statement in enumerate(block):
        before, after = block[:at], block[at + 1 :]
        if len(block) > 1:
            yield before + after
        if after:
            yield (*before, after[0], statement, *after[1:])
        for other in changed_statements(statement):
            yield before + other + after
        for end in range(at + 1, min(at + 4, len(block)) + 1):
            inside, rest = block[at:end], block[end:]
            for condition in CONDITIONS:
                yield (*before, While(condition, inside), *rest)
                yield (*before, If(condition, inside), *rest)
                if len(inside) == 1:
                    yield from ((*before, IfElse(condition, inside, (action,)), *rest) for action in Action)
            yield from ((*before, Repeat(count, inside), *rest) for count in COUNTS)


def changed_statements(statement: Statement) -> Iterator[Block]:
    """What may stand in a statement's place."""
    match statement:
        case Action():
            yield from ((action,) for action in Action)
        case Repeat(_, body):
            yield body
            yield from ((Repeat(count, body),) for count in COUNTS)
            yield from ((While(condition, body),) for condition in CONDITIONS)
            yield from ((replace(statement, body=other),) for other in changed_blocks(body))
        case While(condition, body):
            yield body
            yield from ((While(other, body),) for other in CONDITIONS)
            yield (If(condition, body),)
            yield from ((Repeat(count, body),) for count in COUNTS)
            yield from ((replace(statement, body=other),) for other in changed_blocks(body))
        case If(condition, body):
            yield body
            yield from ((If(other, body),) for other in CONDITIONS)
            yield (While(condition, body),)
            yield from ((IfElse(condition, body, (action,)),) for action in Action)
            yield from ((replace(statement, body=other),) for other in changed_blocks(body))
        case IfElse(condition, body, otherwise):
            yield body
            yield otherwise
            yield (If(condition, body),)
            yield (IfElse(condition, otherwise, body),)
            yield from ((IfElse(other, body, otherwise),) for other in CONDITIONS)
            yield from ((IfElse(condition, other, otherwise),) for other in changed_blocks(body))
            yield from ((IfElse(condition, body, other),) for other in changed_blocks(otherwise))


def faults(tokens: tuple[str, ...]) -> int:
    """How many times a program leaves the normal form."""
    triples = zip(tokens, tokens[1:], tokens[2:], strict=False)
    return sum(
        (two, three) in NORMAL_FORM.never_adjacent or (one == two == three and one in ACTIONS)
        for one, two, three in triples
    )


def found_neighbours(program: Program, longest: int) -> list[tuple[int, ...]]:
    tokens, out, lengths = (
        encode_programs([program])[0],
        np.zeros((MOST_EDITS, longest), np.uint8),
        np.empty(MOST_EDITS, np.int64),
    )
    count = neighbours(tokens, program.size, longest, np.zeros(1 << 16, np.uint64), out, lengths)
    return [tuple(out[row, : lengths[row]].tolist()) for row in range(count)]


@settings(max_examples=60)
@given(programs(depth=2))
def test_neighbours_are_those_of_the_tree(program: Program) -> None:
    assume(program.size <= 70)  # of much longer ones, no neighbour is short enough
    found = found_neighbours(program, 60)
    texts = {Program(block).tokens for block in changed_blocks(program.body)}
    most = faults(program.tokens)
    expected = {tuple(ID[token] for token in text) for text in texts if len(text) <= 60 and faults(text) <= most}
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_the_end_of_a_long_flat_program_is_changed_too() -> None:
    actions = ["move", "putMarker", "turnLeft", "turnLeft"] * 14
    long, other = (
        Program.parse(f"DEF run m( {' '.join([*actions[:-1], last])} m)") for last in ("pickMarker", "putMarker")
    )
    assert long.size == 60
    assert tuple(other.token_ids) in found_neighbours(long, 60)


def test_a_program_outside_the_normal_form_keeps_its_neighbours() -> None:
    found = found_neighbours(Program.parse("DEF run m( move move move putMarker m)"), 30)
    assert tuple(Program.parse("DEF run m( move move move putMarker turnLeft m)").token_ids) in found
    assert tuple(Program.parse("DEF run m( move move move move putMarker m)").token_ids) not in found


def test_a_program_that_was_met_is_no_neighbour_again() -> None:
    program = Program.parse("DEF run m( move putMarker m)")
    tokens, out, lengths = (
        encode_programs([program])[0],
        np.zeros((MOST_EDITS, 30), np.uint8),
        np.empty(MOST_EDITS, np.int64),
    )
    seen = np.zeros(1 << 16, np.uint64)
    assert neighbours(tokens, program.size, 30, seen, out, lengths) > 100
    assert neighbours(tokens, program.size, 30, seen, out, lengths) == 0
    assert neighbours(tokens, program.size, 30, np.zeros(1 << 16, np.uint64), out[:7], lengths) == 7


@given(st.integers(0, 2**32 - 1))
def test_judging_is_the_interpreters(seed: int) -> None:
    rng = random.Random(seed)
    several = [random_program(rng, 2) for _ in range(8)]
    befores = [random_world(rng) for _ in range(3)]
    afters = [run(several[0], world).world if rng.random() < 0.7 else random_world(rng) for world in befores]
    scorer = ProgramScorer(worlds_to_codes(befores), worlds_to_codes(afters))
    tokens, sizes = encode_programs(several), np.array([program.size for program in several])
    right, wrong, behaviour = scorer(tokens, sizes, np.full(8, np.inf))
    bounds = np.array([rng.uniform(-12, 40) for _ in several])
    bounded = scorer(tokens, sizes, bounds)
    # Given up is what comes to more than its bound, but never what is right; all else is judged the same.
    beyond = (wrong > 0) & (PER_CELL * wrong - PER_EXAMPLE * right > bounds)
    np.testing.assert_array_equal(bounded[0], np.where(beyond, -1, right))
    for part, whole in zip(bounded[1:], (wrong, behaviour), strict=True):
        np.testing.assert_array_equal(part[~beyond], whole[~beyond])
    ends = []
    for number, program in enumerate(several):
        runs = [run(program, world) for world in befores]
        good = [one.ok and one.world == after for one, after in zip(runs, afters, strict=True)]
        cells = [
            int((one.world.to_codes() != after.to_codes()).sum()) + (0 if one.ok else CRASH_CELLS)
            for one, after in zip(runs, afters, strict=True)
        ]
        assert right[number] == sum(good)
        assert wrong[number] == sum(cells)
        ends.append(tuple((one.status, one.world.to_codes().tobytes()) for one in runs))
    for one in range(8):
        for other in range(one):
            assert (behaviour[one] == behaviour[other]) == (ends[one] == ends[other])


def test_what_is_no_world_is_refused() -> None:
    codes = worlds_to_codes([random_world(random.Random(seed)) for seed in range(3)])
    bad = codes.copy()
    bad[1] &= 15  # without its hero
    with pytest.raises(WorldError, match=r"inputs\[0, 1\] is not a world"):
        repair(np.zeros((0, 5), np.uint8), np.zeros(0, np.int64), np.zeros(0), bad, codes, longest=9, stop=lambda: True)


def examples_of(program: Program, seed: int) -> tuple[list[World], NDArray[np.uint8], NDArray[np.uint8]]:
    """Five worlds that a program can run in, and what it makes of them."""
    rng = random.Random(seed)
    befores: list[World] = []
    afters: list[World] = []
    while len(befores) < 5:
        world = random_world(rng)
        done = run(program, world)
        if done.ok:
            befores.append(world)
            afters.append(done.world)
    return befores, worlds_to_codes(befores), worlds_to_codes(afters)


WANTED = Program.parse(
    "DEF run m( WHILE c( frontIsClear c) w( IFELSE c( markersPresent c) i( pickMarker i) ELSE e( putMarker e) move w) "
    "turnLeft m)"
)


@pytest.mark.parametrize(
    "start",
    [
        "DEF run m( WHILE c( frontIsClear c) w( pickMarker move w) turnLeft m)",  # a branch is missing
        "DEF run m( WHILE c( leftIsClear c) w( IF c( markersPresent c) i( pickMarker i) move w) m)",  # three changes
        "DEF run m( REPEAT R=3 r( IFELSE c( markersPresent c) i( pickMarker i) ELSE e( putMarker e) move r) m)",
    ],
)
@pytest.mark.parametrize("open_", [QUEUE_SIZE, 24], ids=["all wait", "few may wait"])
def test_near_misses_are_repaired(start: str, open_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karelsynth.search.repair.QUEUE_SIZE", open_)
    befores, inputs, outputs = examples_of(WANTED, 3)
    program = Program.parse(start)
    rounds = iter(range(400))
    found = repair(
        encode_programs([program]),
        np.array([program.size]),
        np.array([-3.0]),
        inputs,
        outputs,
        longest=40,
        stop=lambda: next(rounds, None) is None,
    )
    assert found.solves
    assert len(found.tokens) > 0
    assert found.tried > 100
    for tokens, length in zip(found.tokens, found.lengths, strict=True):
        assert not tokens[length:].any()
        answer = Program.from_tokens(tokens[:length].tolist())
        assert [run(answer, world).world.to_codes().tobytes() for world in befores] == [
            after.tobytes() for after in outputs
        ]


def test_the_least_promising_go_and_leave_their_places() -> None:
    waiting, program = RepairQueue(), np.zeros(5, np.uint8)
    kinds = iter(range(10 * QUEUE_SIZE))
    for price in range(2 * QUEUE_SIZE):
        assert waiting.push(float(price), program, 0.0, next(kinds))
    waiting.trim()
    assert (len(waiting), waiting.bound) == (2 * QUEUE_SIZE, np.inf)  # not yet too many
    dear = next(kinds)
    assert [waiting.push(1e9, program, 0.0, dear) for _ in range(MOST_EQUIVALENT + 1)] == [True] * MOST_EQUIVALENT + [
        False
    ]
    waiting.trim()
    assert (len(waiting), waiting.bound) == (QUEUE_SIZE, QUEUE_SIZE - 1)
    assert waiting.push(-1.0, program, 7.0, dear)  # those of its kind were never changed
    assert waiting.pop()[1] == 7.0
    waiting.pop()
    assert waiting.bound == np.inf  # fewer wait than may: whatever comes is welcome


def test_repair_finds_work_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karelsynth.search.repair.QUEUE_SIZE", 16)
    _, inputs, _ = examples_of(WANTED, 3)
    outputs = examples_of(Program.parse("DEF run m( turnLeft m)"), 5)[2]  # of other worlds: there is no answer
    program, asked = Program.parse("DEF run m( move turnLeft m)"), iter(range(60))
    start = (encode_programs([program]), np.array([program.size]), np.array([-1.0]))
    assert not repair(*start, inputs, outputs, longest=30, stop=lambda: next(asked, None) is None).solves
    assert next(asked, None) is None


def test_it_stops_on_request_and_where_there_is_nothing_to_repair() -> None:
    _, inputs, outputs = examples_of(WANTED, 3)
    program = Program.parse("DEF run m( move m)")
    start = (encode_programs([program]), np.array([program.size]), np.array([-1.0]))
    found = repair(*start, inputs, outputs, longest=40, stop=lambda: True)
    assert (found.solves, found.tried) == (False, 0)
    assert found.tokens.tolist() == start[0].tolist()  # the nearest so far
    few = iter(range(3))
    nearer = repair(*start, inputs, outputs, longest=40, stop=lambda: next(few, None) is None)
    assert not nearer.solves
    scorer, all_of_them = ProgramScorer(inputs, outputs), np.full(1, np.inf)
    assert scorer(nearer.tokens, nearer.lengths, all_of_them)[1] < scorer(start[0], start[1], all_of_them)[1]
    none = (np.zeros((0, 5), np.uint8), np.zeros(0, np.int64), np.zeros(0))
    assert not len(repair(*none, inputs, outputs, longest=40, stop=lambda: False).tokens)
    broken = (start[0][:, :-1], start[1] - 1, start[2])  # does not parse
    assert not len(repair(*broken, inputs, outputs, longest=40, stop=lambda: False).tokens)
    assert not len(repair(*start, inputs, outputs, longest=4, stop=lambda: False).tokens)  # too long to begin with
