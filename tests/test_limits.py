"""The limits of runs wherever programs are judged: ticks of people's tasks, endless loops, piles in passing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from karelsynth.karel.interpreter import MAX_TICKS, PAPER_TICKS, Status, run
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.world import Hero, World
from karelsynth.search.pruning import Pruning
from karelsynth.search.repair import ProgramScorer
from karelsynth.solve.answers import SearchState, check_programs
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate
from karelsynth.tasks.msr_tasks import verify_file, write_tasks
from karelsynth.tasks.simplify import simplify
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.task_files import read_tasks

MARK = "WHILE c( noMarkersPresent c) w( putMarker w)"
ROW = f"{MARK} WHILE c( frontIsClear c) w( move IF c( frontIsClear c) i( move {MARK} i) w)"
TURN_BACK = "turnRight IF c( frontIsClear c) i( move i) turnRight"
CHECKERBOARD = Program.parse(f"DEF run m( REPEAT R=4 r( {ROW} turnLeft move turnLeft {ROW} {TURN_BACK} r) m)")
FIELD = World(8, 8, Hero(0, 0, "east"))
UP, DOWN = "REPEAT R=12 r( putMarker r)", "REPEAT R=12 r( pickMarker r)"
THROUGH_A_PILE = Program.parse(f"DEF run m( {UP} move turnLeft turnLeft move turnLeft turnLeft {DOWN} move m)")


def codes(program: Program, world: World) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A task of one example: what a program does to a world."""
    return Task((Example(world, run(program, world).world),)).codes()


def test_a_checkerboard_is_right_everywhere() -> None:
    result = run(CHECKERBOARD, FIELD)
    assert result.ok
    assert result.ticks > PAPER_TICKS
    assert set(result.world.markers) == {(row, col) for row in range(8) for col in range(8) if (row + col) % 2 == 0}
    inputs, outputs = codes(CHECKERBOARD, FIELD)
    tokens, lengths = encode_programs([CHECKERBOARD]), np.array([CHECKERBOARD.size])
    for limit, right in (({}, True), ({"max_ticks": PAPER_TICKS}, False)):
        assert run_batch(tokens, inputs, expected=outputs, **limit).correct.all() == right  # type: ignore[union-attr, arg-type]
        checked = check_programs(SearchState(inputs, outputs, **limit), tokens, lengths, np.zeros(1, np.float32))  # type: ignore[arg-type]
        assert checked.correct.all() == right
        verdict = Pruning(inputs[None], outputs[None], **limit).judge(tokens, np.zeros(1, np.int64))  # type: ignore[arg-type]
        assert verdict.right[0] == right
        assert verdict.alive[0] == right
        scores = ProgramScorer(inputs, outputs, **limit)(tokens, lengths, np.full(1, np.inf))
        assert scores[0][0] == right


def test_a_pile_in_passing_is_no_reason_to_drop_a_prefix() -> None:
    inputs, outputs = codes(THROUGH_A_PILE, FIELD)
    whole = encode_programs([THROUGH_A_PILE])
    for length in range(3, THROUGH_A_PILE.size):
        prefix = whole[:, :length]
        assert Pruning(inputs[None], outputs[None]).judge(prefix, np.zeros(1, np.int64)).alive.all(), length
    verdict = Pruning(inputs[None], outputs[None]).judge(whole, np.zeros(1, np.int64))
    assert verdict.right[0] == 1


def test_prefixes_with_piles_of_different_heights_are_not_merged() -> None:
    """Worlds show ten for both, but only one of them ends well with what follows."""
    inputs, outputs = codes(THROUGH_A_PILE, FIELD)
    prefixes = encode_programs(
        [[*Program.parse(f"DEF run m( REPEAT R={n} r( putMarker r) m)").token_ids[:-1]] for n in (12, 13, 3, 3)]
    )
    verdict = Pruning(inputs[None], outputs[None]).judge(prefixes, np.zeros(4, np.int64))
    assert verdict.alive.tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    ("body", "status"), [(UP, Status.PILE_TOO_HIGH), ("WHILE c( frontIsClear c) w( turnLeft w)", Status.RUNS_FOREVER)]
)
def test_what_ends_so_is_wrong(body: str, status: Status) -> None:
    """Even if the world that is reported happens to be the expected one."""
    program = Program.parse(f"DEF run m( {body} m)")
    world = World(3, 3, Hero(1, 1, "east"))
    result = run(program, world)
    assert result.status is status
    example = Task((Example(world, result.world),))
    inputs, outputs = example.codes()
    tokens = encode_programs([program])
    assert not run_batch(tokens, inputs, expected=outputs).correct.any()  # type: ignore[union-attr]
    right, _, _ = ProgramScorer(inputs, outputs)(tokens, np.array([program.size]), np.full(1, np.inf))
    assert right[0] == 0


def test_tasks_in_the_original_format_have_the_papers_ticks(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    write_tasks([generate(0, 0, 2)], path)
    assert [task.max_ticks for task in read_tasks(path)] == [PAPER_TICKS] * 2
    assert Task((Example(FIELD, FIELD),)).max_ticks > PAPER_TICKS


def test_a_task_that_passes_a_pile_is_written_and_replayed(tmp_path: Path) -> None:
    tokens = encode_programs([THROUGH_A_PILE])
    inputs, outputs = (np.repeat(part[None], 6, axis=1) for part in codes(THROUGH_A_PILE, FIELD))
    path = tmp_path / "tasks.jsonl"
    lengths = np.array([THROUGH_A_PILE.size], np.uint8)
    write_tasks([TaskBatch(tokens, lengths, inputs, outputs, np.zeros(1, np.bool_))], path)
    assert verify_file(path).all_equal


def test_a_long_program_is_simplified_too() -> None:
    longer = Program.parse(f"DEF run m( turnLeft turnRight {' '.join(CHECKERBOARD.tokens[3:])}")
    inputs, outputs = (part[None] for part in codes(CHECKERBOARD, FIELD))
    tasks = TaskBatch(
        encode_programs([longer]), np.array([longer.size], np.uint8), inputs, outputs, np.zeros(1, np.bool_)
    )
    assert simplify(tasks).lengths[0] == longer.size  # wrong within the paper's ticks, so nothing is better
    simpler = simplify(tasks, max_ticks=MAX_TICKS)
    assert simpler.lengths[0] < longer.size
    runs = run_batch(simpler.tokens, inputs, expected=outputs)
    assert runs.correct is not None
    assert runs.correct.all()
