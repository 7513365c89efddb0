"""The batch machine against the interpreter, field by field, and on input that is no program at all."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from karelsynth.errors import WorldError
from karelsynth.karel.formats.codes import BEYOND, worlds_to_codes
from karelsynth.karel.interpreter import MAX_TICKS, PAPER_TICKS, Status, run
from karelsynth.karel.machine import BatchRun, encode_programs, run_batch
from karelsynth.karel.program import Action, Program, Repeat, While
from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.karel.tokens import ID, VOCABULARY_SIZE
from karelsynth.karel.world import World
from tests.strategies import programs, random_condition, random_program, random_world, worlds

CONDITIONALS = ("IF", "IFELSE", "WHILE")


def assert_equal(runs: BatchRun, row: int, number: int, program: Program, world: World, max_ticks: int) -> None:
    """Every field of one run of the machine is the interpreter's."""
    plain = run(program, world, max_ticks=max_ticks)
    context = (program, world)
    assert runs.status[row, number] == plain.status, context
    assert runs.ticks[row, number] == plain.ticks, context
    assert runs.where[row, number] == (-1 if plain.where is None else plain.where), context
    assert runs.worlds is not None
    assert np.array_equal(runs.worlds[row, number], plain.world.to_codes()), context
    assert runs.traces is not None
    assert runs.trace_lengths is not None
    length = runs.trace_lengths[row, number]
    assert runs.traces[row, number, :length].tolist() == [ID[action.value] for action in plain.trace], context
    assert not runs.traces[row, number, length:].any()
    assert runs.coverage is not None
    heads = [at for at, _ in program.walk() if program.tokens[at] in CONDITIONALS]
    seen = {
        (at, outcome)
        for at, bits in zip(heads, runs.coverage[row, number], strict=False)
        for outcome in (False, True)
        if bits >> outcome & 1
    }
    assert seen == plain.outcomes, context


@pytest.mark.parametrize("seed", range(4))
def test_equals_the_interpreter_on_random_pairs(seed: int) -> None:
    """4 × 5,000 programs × 5 worlds = 100,000 pairs, with crashes of each kind, time-outs and endless loops."""
    rng = random.Random(seed)
    max_ticks = (PAPER_TICKS, 7, PAPER_TICKS, 40)[seed]
    some_programs = [random_program(rng, depth=rng.randint(0, 4)) for _ in range(5000)]
    some_worlds = [[random_world(rng) for _ in range(5)] for _ in some_programs]
    codes = np.stack([worlds_to_codes(row) for row in some_worlds])
    runs = run_batch(some_programs, codes, traces=True, coverage=True, max_ticks=max_ticks)
    for row, program in enumerate(some_programs):
        for number, world in enumerate(some_worlds[row]):
            assert_equal(runs, row, number, program, world, max_ticks)
    counts = np.bincount(runs.status.ravel(), minlength=len(Status))
    common = (Status.OK, Status.HIT_WALL, Status.NO_MARKER_TO_PICK, Status.OUT_OF_TICKS)
    rare = (Status.RUNS_FOREVER, Status.PILE_TOO_HIGH) if max_ticks == PAPER_TICKS else ()
    assert all(counts[status] >= 100 for status in (*common, *rare))


def test_equals_the_interpreter_on_long_runs_with_high_piles() -> None:
    """Loops around programs that put, pick and turn: piles pass ten and come back, loops end late or never."""
    rng = random.Random(1)
    some_programs, some_worlds = [], []
    for _ in range(300):
        inner = random_program(rng, depth=2).body
        put, pick = (Repeat(rng.randint(5, 19), (action,)) for action in (Action.PUT_MARKER, Action.PICK_MARKER))
        body = tuple(rng.sample((put, pick, *inner), 2 + len(inner)))
        outer = While(random_condition(rng), body) if rng.random() < 0.5 else Repeat(rng.randint(5, 19), body)
        some_programs.append(Program((put, Repeat(rng.randint(0, 7), (outer, pick)), rng.choice((pick, put)))))
        some_worlds.append([random_world(rng) for _ in range(3)])
    codes = np.stack([worlds_to_codes(row) for row in some_worlds])
    runs = run_batch(some_programs, codes, traces=True, coverage=True)
    for row, program in enumerate(some_programs):
        for number, world in enumerate(some_worlds[row]):
            assert_equal(runs, row, number, program, world, MAX_TICKS)
    counts = np.bincount(runs.status.ravel(), minlength=len(Status))
    assert counts[Status.RUNS_FOREVER] >= 20
    assert counts[Status.PILE_TOO_HIGH] >= 20
    assert (runs.ticks > PAPER_TICKS).sum() >= 20
    assert counts[Status.TOO_MANY_MARKERS] >= 5


@given(programs(), worlds(), st.integers(0, 100))
def test_equals_the_interpreter_where_hypothesis_looks(program: Program, world: World, max_ticks: int) -> None:
    runs = run_batch([program], [world], traces=True, coverage=True, max_ticks=max_ticks)
    assert_equal(runs, 0, 0, program, world, max_ticks)


def syntax_says(tokens: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which rows are programs, by the syntax machine, all rows at once."""
    machine = SyntaxMachine(max_length=tokens.shape[1])
    state = machine.initial(len(tokens))
    for column in np.where(tokens < VOCABULARY_SIZE, tokens, ID["<s>"]).T:
        state = machine.advance(state, column)
    return np.asarray(machine.accepts(state))


def test_any_token_sequence_gets_a_status() -> None:
    """Random tokens, mutated programs and plain nonsense: programs run, everything else is INVALID."""
    rng = np.random.default_rng(0)
    plain = random.Random(1)
    valid = encode_programs([random_program(plain, depth=2) for _ in range(3000)])
    mutated = valid.copy()
    changes = rng.integers(0, 3, size=len(valid))
    for row in range(len(mutated)):
        for _ in range(changes[row]):
            mutated[row, rng.integers(0, max(1, int((valid[row] > 0).sum())))] = rng.integers(0, VOCABULARY_SIZE)
    noise = rng.integers(0, 256, size=(3000, valid.shape[1])).astype(np.uint8)
    tokens = np.concatenate([mutated, noise])
    worlds_ = [random_world(plain) for _ in range(3)]
    runs = run_batch(tokens, worlds_)
    right = syntax_says(tokens)
    assert np.array_equal(runs.status != Status.INVALID_PROGRAM, np.repeat(right[:, None], 3, axis=1))
    assert 200 < right.sum() < 3000
    invalid = runs.status == Status.INVALID_PROGRAM
    assert (runs.ticks[invalid] == 0).all()
    assert runs.worlds is not None
    unchanged = (runs.worlds == worlds_to_codes(worlds_)).all(axis=(-1, -2))
    assert unchanged[invalid].all()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("DEF run m( move m)", None),
        ("DEF run m( move", 4),
        ("DEF run m( m)", 3),
        ("DEF run m( move m) move", 5),
        ("DEF run m( IF c( frontIsClear c) i( i) m)", 8),
        ("move", 0),
        ("DEF run m( REPEAT R=3 r( move w) m)", 7),
    ],
)
def test_invalid_programs_say_where(text: str, where: int | None) -> None:
    tokens = np.array([[ID[token] for token in text.split()]])
    runs = run_batch(tokens, [World.parse("> . .\n. . .")])
    assert runs.where[0, 0] == (-1 if where is None else where)
    assert (runs.status[0, 0] == Status.INVALID_PROGRAM) == (where is not None)


def test_numbers_that_are_no_tokens_are_invalid() -> None:
    for number in (-1, 52, 255, 256, 3 + 256, 10**6):
        runs = run_batch(np.array([[number, 0]]), [World.parse("> .\n. .")])
        assert runs.status[0, 0] == Status.INVALID_PROGRAM


def test_deep_nesting_and_long_loops_end() -> None:
    deep = ["DEF", "run", "m("] + ["REPEAT", "R=19", "r("] * 900 + ["turnLeft"] + ["r)"] * 900 + ["m)"]
    ever = "DEF run m( WHILE c( noMarkersPresent c) w( REPEAT R=0 r( move r) w) m)".split()
    world = World.parse("> .\n. .")
    for words, status, ticks in ((deep, Status.OUT_OF_TICKS, MAX_TICKS), (ever, Status.RUNS_FOREVER, 33)):
        tokens = np.array([[ID[token] for token in words]], np.uint8)
        runs = run_batch(tokens, [world])
        assert runs.status[0, 0] == status
        assert runs.ticks[0, 0] == ticks


def test_which_expected_and_sharing() -> None:
    rng = random.Random(5)
    some = [random_program(rng) for _ in range(400)]
    tokens = encode_programs(some)
    codes = np.stack([worlds_to_codes([random_world(rng) for _ in range(3)]) for _ in range(7)])
    which = np.array([rng.randrange(7) for _ in some])
    by_which = run_batch(tokens, codes, which=which)
    spelled_out = run_batch(tokens, codes[which])
    assert by_which.worlds is not None
    assert spelled_out.worlds is not None
    assert np.array_equal(by_which.worlds, spelled_out.worlds)
    checked = run_batch(tokens, codes[which], expected=spelled_out.worlds, keep_worlds=False)
    assert checked.worlds is None
    assert checked.correct is not None
    assert np.array_equal(checked.correct, spelled_out.ok)
    wrong = spelled_out.worlds.copy()
    wrong[:, :, 1, 1] ^= 1
    checked = run_batch(tokens, codes[which], expected=wrong)
    assert checked.correct is not None
    assert not checked.correct.any()


def test_threads_agree_and_calls_may_overlap() -> None:
    rng = random.Random(6)
    tokens = encode_programs([random_program(rng) for _ in range(2000)])
    codes = worlds_to_codes([random_world(rng) for _ in range(4)])
    one = run_batch(tokens, codes, threads=1)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda threads: run_batch(tokens, codes, threads=threads), [None, 1, 2, 3, None, None]))
    for result in results:
        assert result.worlds is not None
        assert np.array_equal(result.worlds, one.worlds)  # type: ignore[arg-type]
        assert np.array_equal(result.status, one.status)


def test_read_only_arrays_and_other_integers_are_welcome() -> None:
    program = Program.from_tokens("DEF run m( move m)".split())
    codes = worlds_to_codes([World.parse("> .\n. .")])
    codes.setflags(write=False)
    for kind in (np.uint8, np.int16, np.int64):
        tokens = encode_programs([program]).astype(kind)
        tokens.setflags(write=False)
        assert run_batch(tokens, codes).ok.all()


def test_empty_batches() -> None:
    world = World.parse("> .\n. .")
    assert run_batch(np.empty((0, 10), np.uint8), [world]).status.shape == (0, 1)
    assert run_batch([], [world], traces=True, coverage=True).status.shape == (0, 1)
    runs = run_batch([Program.from_tokens("DEF run m( move m)".split())], np.empty((1, 0, 18, 18), np.uint8))
    assert runs.status.shape == (1, 0)


def test_impossible_worlds_are_refused() -> None:
    good = worlds_to_codes([World.parse("> .\n. .")] * 3)[None]
    program = [Program.from_tokens("DEF run m( move m)".split())]
    no_hero, two_heroes, in_wall, open_border, no_heading = (good.copy() for _ in range(5))
    no_hero[0, 1] &= 15
    two_heroes[0, 1, 1, 1] = 16
    in_wall[0, 1, 2, 1] += 11
    open_border[0, 1, 0, 3] = 0
    no_heading[0, 1, 2, 1] = 16 * 6
    for bad in (no_hero, two_heroes, in_wall, open_border, no_heading, np.full_like(good, BEYOND)):
        with pytest.raises(WorldError, match=r"worlds\[0, [01]\] is not a world"):
            run_batch(program, bad)


HERE = World.parse("> .\n. .")


def test_programs_and_worlds_may_be_lists() -> None:
    """Of ids, which need not be programs, and of rows of worlds."""
    there = World.parse("^ .\n. .")
    programs = [Program.parse("def run(): move()"), Program.parse("def run():\n  turnLeft()\n  move()")]
    ids = [program.token_ids for program in programs]
    wanted = run_batch(programs, worlds_to_codes([HERE, there, there, HERE]).reshape(2, 2, 18, 18))
    for form in (ids, [tuple(row) for row in ids], [np.array(row) for row in ids], [programs[0], ids[1]]):
        runs = run_batch(form, [[HERE, there], [there, HERE]], expected=[[HERE, there], [there, HERE]])  # type: ignore[arg-type]
        assert np.array_equal(runs.status, wanted.status)
        assert np.array_equal(runs.worlds, wanted.worlds)  # type: ignore[arg-type]
        assert np.array_equal(encode_programs(form), encode_programs(programs))  # type: ignore[arg-type]
    strange = run_batch([[], [3, 4, -1], [3, 259], ids[0]], [HERE])
    assert strange.status[:, 0].tolist() == [Status.INVALID_PROGRAM] * 3 + [Status.OK]
    assert strange.where[:3, 0].tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"programs": np.zeros(5, np.uint8)}, "programs are integers"),
        ({"programs": np.zeros((5, 5))}, "programs are integers"),
        ({"programs": np.zeros((1, 40_000), np.uint8)}, "at most 32000 tokens"),
        ({"programs": [Program((Action.MOVE,) * 33_000)] * 2}, "at most 32000 tokens"),
        ({"worlds": np.zeros((1, 1, 16, 16), np.uint8)}, "worlds are uint8"),
        ({"worlds": np.zeros((3, 1, 18, 18), np.uint8)}, "`which` must give each program's row"),
        ({"expected": np.zeros((2, 1, 18, 18), np.uint8)}, "must be the same"),
        ({"which": np.array([1, 0])}, "names a row of worlds"),
        ({"max_ticks": -1}, "max_ticks is a whole number from 0 to 30,000, not -1"),
        ({"max_ticks": 200.0, "traces": True}, "max_ticks is a whole number from 0 to 30,000, not 200.0"),
        ({"max_ticks": "200"}, "max_ticks is a whole number from 0 to 30,000, not '200'"),
        ({"programs": ["def run(): move()"] * 2}, r"programs\[0\] is a text.* Program.parse reads texts"),
        ({"programs": [[3, 4], ["DEF", "run"]]}, r"programs\[1\] is .*'DEF'.* Program.from_tokens the names"),
        ({"programs": [[3.5], [3]]}, r"programs\[0\] is `\[3.5\]`"),
        ({"programs": [None, [3]]}, r"programs\[0\] is `None`"),
        ({"worlds": ["> .\n. ."]}, "which is no World; World.parse reads drawings"),
        ({"worlds": [[HERE], [HERE, HERE]]}, "rows of 1 and of 2 worlds"),
        ({"worlds": [HERE, [HERE]]}, "which is no World"),
        ({"threads": 0}, "threads is a whole number from 1 on, not 0"),
        ({"threads": -1}, "threads is a whole number from 1 on, not -1"),
        ({"threads": 1.5}, "threads is a whole number from 1 on, not 1.5"),
    ],
)
def test_wrong_arguments(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "programs": encode_programs([Program.from_tokens("DEF run m( move m)".split())] * 2),
        "worlds": worlds_to_codes([World.parse("> .\n. .")])[None],
    }
    with pytest.raises(ValueError, match=message):
        run_batch(**(arguments | change))  # type: ignore[arg-type]
