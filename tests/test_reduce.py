"""Reduced programs: never longer, and in every world the same as the original, in no more ticks."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.karel.interpreter import Status
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import DEEPEST, Action, Block, If, Program, Sensor, While
from karelsynth.karel.reduce import reduced
from tests.strategies import programs, random_program, random_world

ENDLESS = (Status.OUT_OF_TICKS, Status.RUNS_FOREVER)


def program(body: str) -> Program:
    return Program.from_tokens(f"DEF run m( {body} m)".split())


def check_same(originals: list[Program], seed: int) -> None:
    """Run programs and what they are reduced to on random worlds."""
    rng = Random(seed)
    smaller = [reduced(each) for each in originals]
    worlds = [random_world(rng) for _ in range(12)]
    one, other = (run_batch(encode_programs(each), worlds) for each in (originals, smaller))
    assert one.worlds is not None
    assert other.worlds is not None
    endless, still_endless = np.isin(one.status, ENDLESS), np.isin(other.status, ENDLESS)
    same = (one.status == other.status) & (one.worlds == other.worlds).all((2, 3)) & (other.ticks <= one.ticks)
    may_end = one.status == Status.OUT_OF_TICKS
    bad = np.flatnonzero(~np.where(endless, still_endless | may_end, same).all(1))
    assert not [(originals[at].to("tokens"), smaller[at].to("tokens")) for at in bad]
    for original, short in zip(originals, smaller, strict=True):
        assert short.size <= original.size
        assert reduced(short) == short


@settings(deadline=None)
@given(original=programs(2), seed=st.integers(0, 2**32 - 1))
def test_a_reduced_program_does_the_same(original: Program, seed: int) -> None:
    check_same([original], seed)


@pytest.mark.parametrize("seed", range(8))
def test_many_reduced_programs_do_the_same(seed: int) -> None:
    rng = Random(seed)
    originals = [random_program(rng, rng.choice((1, 2, 3))) for _ in range(60)]
    originals = [each for each in originals if each.size < 250]
    assert sum(reduced(each) != each for each in originals) > 10
    check_same(originals, seed)


FRONT, MARKERS = "c( frontIsClear c)", "c( markersPresent c)"
MOVE = f"WHILE {FRONT} w( move w)"


@pytest.mark.parametrize(
    ("body", "smaller"),
    [
        # turns
        ("turnLeft turnLeft turnLeft move", "turnRight move"),
        ("turnLeft move turnLeft turnRight", "turnLeft move"),
        ("turnRight turnRight move", "turnLeft turnLeft move"),
        ("REPEAT R=7 r( turnLeft r) move", "turnRight move"),
        # conditions
        (f"WHILE c( not c( not {FRONT} c) c) w( move w)", MOVE),
        ("IF c( not c( markersPresent c) c) i( move i)", "IF c( noMarkersPresent c) i( move i)"),
        # branches
        (f"IFELSE {MARKERS} i( putMarker i) ELSE e( putMarker e)", "putMarker"),
        (
            f"IFELSE c( not {FRONT} c) i( turnLeft i) ELSE e( move e)",
            f"IFELSE {FRONT} i( move i) ELSE e( turnLeft e)",
        ),
        (
            f"IFELSE {FRONT} i( putMarker move turnLeft i) ELSE e( putMarker turnRight turnLeft e)",
            f"putMarker IF {FRONT} i( move turnLeft i)",
        ),
        (f"IF {FRONT} i( turnLeft turnRight i) move", "move"),
        # the same test twice
        (f"IF {FRONT} i( putMarker i) IF {FRONT} i( move i)", f"IF {FRONT} i( putMarker move i)"),
        (
            f"IF {MARKERS} i( turnLeft i) IF c( noMarkersPresent c) i( move i)",
            f"IFELSE {MARKERS} i( turnLeft i) ELSE e( move e)",
        ),
        (f"WHILE {FRONT} w( IF {FRONT} i( move i) w)", MOVE),
        (f"IF {FRONT} i( move {MOVE} i)", MOVE),
        (f"IF {FRONT} i( move i) {MOVE}", MOVE),
        (f"IF {MARKERS} i( WHILE {MARKERS} w( pickMarker w) i)", f"WHILE {MARKERS} w( pickMarker w)"),
        # a test whose outcome is known
        (f"{MOVE} putMarker {MOVE}", f"{MOVE} putMarker"),
        (f"{MOVE} turnLeft IF c( rightIsClear c) i( move i)", f"{MOVE} turnLeft"),
        ("move turnRight IF c( rightIsClear c) i( putMarker i)", "move turnRight putMarker"),
        ("move turnLeft IF c( leftIsClear c) i( putMarker i)", "move turnLeft putMarker"),
        (f"putMarker IFELSE {MARKERS} i( move i) ELSE e( turnLeft e)", "putMarker move"),
        # loops
        (f"REPEAT R=3 r( {MOVE} r)", MOVE),
        (f"WHILE {FRONT} w( move {MOVE} w)", MOVE),
        ("REPEAT R=0 r( move r) putMarker", "putMarker"),
        ("REPEAT R=1 r( move r)", "move"),
    ],
)
def test_what_never_has_an_effect_goes(body: str, smaller: str) -> None:
    assert reduced(program(body)) == program(smaller)
    check_same([program(body)], 0)


@pytest.mark.parametrize(
    "body",
    [
        "putMarker pickMarker",  # it crashes where 101 markers are
        f"REPEAT R=3 r( {MOVE} turnLeft r)",
        f"move {MOVE}",  # it crashes at a wall
        f"IF {FRONT} i( move i) IF {FRONT} i( move i)",
        f"IFELSE {FRONT} i( move putMarker i) ELSE e( move turnLeft e)",
        f"WHILE {FRONT} w( turnLeft turnRight w)",  # it runs forever
        "REPEAT R=2 r( move r)",  # what only reads differently stays as it is
        "REPEAT R=2 r( REPEAT R=4 r( move turnLeft r) r)",
        "move turnLeft IF c( rightIsClear c) i( putMarker i)",
        "turnLeft turnRight",  # no block is empty
    ],
)
def test_what_may_have_an_effect_stays(body: str) -> None:
    assert reduced(program(body)) == program(body)


@pytest.mark.parametrize("inner", [(), (Action.PICK_MARKER,)])
def test_the_deepest_programs_are_reduced(inner: Block) -> None:
    body: Block = (Action.MOVE,)
    for _ in range(DEEPEST // 2):
        body = (While(Sensor.FRONT_IS_CLEAR, (If(Sensor.MARKERS_PRESENT, body), *inner)),)
    check_same([Program(body)], 0)
