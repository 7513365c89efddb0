"""The interpreter on worked examples: what Karel means here."""

from __future__ import annotations

import pytest
from hypothesis import given

from karelsynth.karel.interpreter import FIRST_REMEMBERED, MAX_TICKS, PAPER_TICKS, Status, Tick, run
from karelsynth.karel.program import Action, Program
from karelsynth.karel.world import World
from tests.strategies import programs, worlds


def program(body: str) -> Program:
    return Program.from_tokens(f"DEF run m( {body} m)".split())


ROOM = World.parse("""
    . . .
    > 1 #
""")


@pytest.mark.parametrize(
    ("body", "after", "ticks"),
    [
        ("move", ". . .\n. >1 #", 1),
        ("move pickMarker", ". . .\n. > #", 2),
        ("putMarker putMarker", ". . .\n>2 1 #", 2),
        ("turnLeft move turnRight", "> . .\n. 1 #", 3),
        ("turnLeft turnLeft turnLeft turnLeft turnLeft", ". . .\n^ 1 #", 5),
        # A REPEAT pays one tick for each iteration, none for its end.
        ("REPEAT R=3 r( turnRight r)", ". . .\n^ 1 #", 6),
        ("REPEAT R=0 r( move r)", ". . .\n> 1 #", 0),
        # A WHILE pays for its last, false test too; `not` is free.
        ("WHILE c( frontIsClear c) w( move w)", ". . .\n. >1 #", 3),
        ("WHILE c( not c( frontIsClear c) c) w( turnLeft w)", ". . .\n> 1 #", 1),
        ("IF c( markersPresent c) i( pickMarker i) move", ". . .\n. >1 #", 2),
        ("IF c( noMarkersPresent c) i( putMarker i)", ". . .\n>1 1 #", 2),
        ("IFELSE c( rightIsClear c) i( turnRight i) ELSE e( turnLeft e)", ". . .\n^ 1 #", 2),
        ("IFELSE c( leftIsClear c) i( turnLeft i) ELSE e( turnRight e)", ". . .\n^ 1 #", 2),
    ],
)
def test_meaning(body: str, after: str, ticks: int) -> None:
    result = run(program(body), ROOM)
    assert result.ok
    assert result.world == World.parse(after)
    assert result.ticks == ticks
    assert result.where is None


@pytest.mark.parametrize(
    ("body", "status", "where", "ticks", "done"),
    [
        ("move move", Status.HIT_WALL, 4, 2, 1),
        ("turnRight move", Status.HIT_WALL, 4, 2, 1),
        ("pickMarker", Status.NO_MARKER_TO_PICK, 3, 1, 0),
        ("WHILE c( frontIsClear c) w( putMarker w)", Status.TOO_MANY_MARKERS, 8, 204, 101),
        ("REPEAT R=11 r( putMarker r)", Status.PILE_TOO_HIGH, None, 22, 11),
        ("WHILE c( noMarkersPresent c) w( turnLeft w)", Status.RUNS_FOREVER, 3, 40, 20),
        ("REPEAT R=19 r( REPEAT R=19 r( REPEAT R=19 r( turnLeft r) r) r)", Status.OUT_OF_TICKS, 12, 10_000, 4864),
    ],
)
def test_ends_that_are_not_well(body: str, status: Status, where: int | None, ticks: int, done: int) -> None:
    result = run(program(body), ROOM)
    assert (result.status, result.where, result.ticks, len(result.trace)) == (status, where, ticks, done)
    assert not result.ok
    assert result.status.reason in result.explain()


def test_exactly_all_ticks_are_enough() -> None:
    body = "REPEAT R=10 r( REPEAT R=9 r( turnLeft r) turnLeft r)"  # 10 · (1 + 9 · 2 + 1) = 200
    exact = run(program(body), ROOM, max_ticks=PAPER_TICKS)
    assert exact.ok
    assert exact.ticks == PAPER_TICKS
    longer = run(program(body + " turnLeft"), ROOM, max_ticks=PAPER_TICKS)
    assert longer.status is Status.OUT_OF_TICKS
    assert longer.ticks == PAPER_TICKS
    assert run(program(body + " turnLeft"), ROOM).ok


def test_a_program_may_take_more_ticks_than_the_paper_allows() -> None:
    """A walk through every cell of a field of 16 × 16, there and back in every row."""
    body = (
        "REPEAT R=15 r( WHILE c( frontIsClear c) w( move w) turnLeft turnLeft "
        "WHILE c( frontIsClear c) w( move w) turnRight move turnRight r)"
    )
    field = World(16, 16, ROOM.hero._replace(row=0, col=0))
    result = run(program(body), field)
    assert result.ok
    assert PAPER_TICKS < result.ticks == 15 * (1 + 2 * 31 + 5) < MAX_TICKS
    assert result.world.hero[:2] == (15, 0)
    assert run(program(body), field, max_ticks=PAPER_TICKS).status is Status.OUT_OF_TICKS


@pytest.mark.parametrize(
    ("body", "ticks"),
    [
        # The state that repeats may include markers, and what is left of a REPEAT.
        ("WHILE c( frontIsClear c) w( putMarker pickMarker w)", 36),
        ("REPEAT R=2 r( WHILE c( noMarkersPresent c) w( turnLeft turnRight w) r)", 37),
        ("WHILE c( noMarkersPresent c) w( REPEAT R=3 r( turnLeft r) w)", 63),
        ("WHILE c( noMarkersPresent c) w( WHILE c( not c( leftIsClear c) c) w( turnLeft w) turnLeft w)", 43),
    ],
)
def test_endless_loops_are_recognised(body: str, ticks: int) -> None:
    result = run(program(body), World(2, 2, ROOM.hero))
    assert (result.status, result.ticks) == (Status.RUNS_FOREVER, ticks)
    assert "runs forever: the state repeats at row 1, column 1" in result.explain()


def test_what_comes_back_but_ends_is_no_endless_loop() -> None:
    """The same cell, heading and markers in another iteration of a REPEAT is another state."""
    body = "REPEAT R=19 r( WHILE c( frontIsClear c) w( turnLeft turnLeft turnLeft move w) turnLeft turnLeft r)"
    result = run(program("REPEAT R=19 r( WHILE c( frontIsClear c) w( move w) turnLeft turnLeft r)"), ROOM)
    assert result.ok
    assert result.ticks > 2 * FIRST_REMEMBERED
    assert run(program(body), ROOM).status is not Status.RUNS_FOREVER


def test_a_pile_may_pass_ten_but_not_stay() -> None:
    up, down = "REPEAT R=19 r( putMarker r)", "REPEAT R=19 r( pickMarker r)"
    assert run(program(f"{up} {down}"), ROOM).world == ROOM
    highest = run(program(f"{up} {up} {up} {up} {up} REPEAT R=6 r( putMarker r)"), ROOM)
    assert highest.status is Status.PILE_TOO_HIGH
    assert highest.piles == {(0, 0): 101}
    assert highest.world.markers[0, 0] == 10  # a world cannot show more
    assert highest.explain() == "ended with more than 10 markers on a cell: 101 at row 1, column 1 (tick 202)"
    one_more = run(program(f"{up} {up} {up} {up} {up} REPEAT R=7 r( putMarker r)"), ROOM)
    assert one_more.status is Status.TOO_MANY_MARKERS
    ticks: list[Tick] = []
    run(program(up), ROOM, observe=ticks.append)
    assert ticks[-1].piles[0, 0] == 19
    assert ticks[-1].world.markers[0, 0] == 10


def test_there_are_no_fewer_ticks_than_none() -> None:
    with pytest.raises(ValueError, match="max_ticks is a whole number from 0 on, not -1"):
        Program.parse("def run(): move()").run(World.parse("> .\n. ."), max_ticks=-1)


def test_outcomes_name_the_conditional_and_what_was_seen() -> None:
    both = run(program("WHILE c( frontIsClear c) w( move w) IF c( not c( markersPresent c) c) i( move i)"), ROOM)
    assert both.outcomes == {(3, True), (3, False), (10, False)}


def test_a_crash_leaves_the_world_as_it_was_just_before() -> None:
    result = run(program("putMarker move pickMarker move"), ROOM)
    assert result.status is Status.HIT_WALL
    assert result.world == World.parse(". . .\n1 > #")
    assert result.trace == (Action.PUT_MARKER, Action.MOVE, Action.PICK_MARKER)
    assert "row 1, column 2, facing east" in result.explain()


@given(programs(), worlds())
def test_the_observer_sees_every_tick(some_program: Program, world: World) -> None:
    seen: list[Tick] = []
    result = run(some_program, world, observe=seen.append)
    crashing = result.status.crashed
    assert [tick.number for tick in seen] == list(range(1, result.ticks + 1 - crashing))
    assert [tick.action for tick in seen if tick.action] == list(result.trace)
    assert {(tick.where, tick.outcome) for tick in seen if tick.outcome is not None} == result.outcomes
    heads = {at: some_program.tokens[at] for at, _ in some_program.walk()}
    assert all(tick.where in heads for tick in seen)
    if seen:
        assert seen[-1].world == result.world
    # Walls and the size of the grid never change.
    assert (result.world.walls, result.world.rows, result.world.cols) == (world.walls, world.rows, world.cols)


@pytest.mark.parametrize("ticks", [10.5, -1, float("inf"), float("nan")])
def test_ticks_are_whole_numbers(ticks: float) -> None:
    """One and a half ticks would never be over."""
    endless = Program.parse("DEF run m( WHILE c( frontIsClear c) w( turnLeft w) m)")
    with pytest.raises(ValueError, match="a whole number"):
        endless.run(World.parse("> .\n. ."), max_ticks=ticks)  # type: ignore[arg-type]
