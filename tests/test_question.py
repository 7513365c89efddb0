"""Variations of a person's worlds, and the question that they make possible."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.karel.formats.codes import world_to_codes, worlds_to_codes
from karelsynth.karel.machine import encode_programs
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.solve.ranking import MOST_OUTCOMES, find_ambiguity, run_variations
from karelsynth.solve.solution import Ambiguity
from karelsynth.tasks.task_files import gallery
from karelsynth.tasks.variations import QUOTAS, RandomVariations, apply, fingerprints, smaller, vary
from tests.posed import ROW
from tests.strategies import worlds

ONCE = "def run(): move()"
TO_THE_WALL = "def run():\n  while(frontIsClear): move()"


def question(texts: list[str], world: World, probabilities: list[float]) -> Ambiguity | None:
    programs = encode_programs([Program.parse(text) for text in texts])
    return find_ambiguity(programs, np.array(probabilities), run_variations(programs, world.to_codes()[None]))


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_a_variation_is_a_world_with_one_change(world: World) -> None:
    variations, changed = vary(world_to_codes(world)[None])
    assert len(variations) == len(changed) <= sum(QUOTAS.values())
    assert len({World.from_codes(codes) for codes in changed} - {world}) > 0
    for variation, codes in zip(variations, changed, strict=True):
        other = World.from_codes(codes)  # raises where it is no world
        assert other != world or variation.kind == "size"
        size = (other.rows - world.rows, other.cols - world.cols)
        expected = {"wider": (0, 1), "narrower": (0, -1), "higher": (1, 0), "lower": (-1, 0)}
        assert size == expected.get(variation.change, (0, 0))
        if variation.change == "markers":
            cell = (variation.row - 1, variation.column - 1)
            assert other.markers.get(cell, 0) == variation.markers
            rest = dict(world.markers)
            rest.pop(cell, None)
            assert {place: count for place, count in other.markers.items() if place != cell} == rest
        elif variation.change == "start":
            assert other.hero[:2] == (variation.row - 1, variation.column - 1)
            assert other.hero.heading == world.hero.heading
        elif variation.kind == "walls":
            assert other.walls ^ world.walls == {(variation.row - 1, variation.column - 1)}
        assert str(variation).startswith("Example 1 changed: ")


def test_a_copied_column_keeps_walls_and_markers() -> None:
    codes = World.parse("# . 2\n> 1 .").to_codes()
    variations, _ = vary(codes[None])
    wider = next(one for one in variations if one.change == "wider" and one.column == 1)
    assert World.from_codes(apply(wider, codes)) == World.parse("# # . 2\n> . 1 .")
    assert str(wider) == "Example 1 changed: the world is one column wider (column 1 occurs twice)."
    narrower = next(one for one in variations if one.change == "narrower" and one.column == 2)
    assert World.from_codes(apply(narrower, codes)) == World.parse("# 2\n> .")


def test_variations_are_the_same_every_time() -> None:
    inputs = np.stack([example.input.to_codes() for example in gallery()[-1].task.examples])
    first, second = vary(inputs), vary(inputs)
    assert first[0] == second[0]
    assert np.array_equal(first[1], second[1])
    assert {variation.example for variation in first[0]} == set(range(len(inputs)))


@settings(max_examples=30, deadline=None)
@given(st.lists(worlds(), min_size=1, max_size=3), st.integers(0, 99))
def test_random_variations_are_worlds_of_the_same_kind(inputs: list[World], seed: int) -> None:
    made = RandomVariations(worlds_to_codes(inputs), seed).worlds(12)
    assert np.array_equal(made, RandomVariations(worlds_to_codes(inputs), seed).worlds(12))
    for number, codes in enumerate(made):
        world = World.from_codes(codes)  # raises where it is no world
        origin = inputs[number % len(inputs)]
        assert abs(world.rows - origin.rows) + abs(world.cols - origin.cols) <= 4
        assert world.hero.heading in {each.hero.heading for each in inputs}
        assert not world.walls or any(each.walls for each in inputs)
        assert not world.markers or any(each.markers for each in inputs)


@settings(max_examples=30, deadline=None)
@given(worlds())
def test_smaller_worlds_have_less_in_them(world: World) -> None:
    def things(each: World) -> tuple[int, int]:
        return each.rows * each.cols, len(each.walls) + sum(each.markers.values())

    made = [World.from_codes(codes) for codes in smaller(world_to_codes(world))]
    assert all(things(each) < things(world) for each in made)
    assert made or things(world) <= (4, 0)


def test_fingerprints_tell_worlds_and_statuses_apart() -> None:
    one, other = ROW.to_codes(), World.parse("> 1 .\n. . .").to_codes()
    prints = fingerprints(np.stack([[one, other, one]]), np.array([[0, 0, 2]], np.uint8))[0]
    assert len(set(prints.tolist())) == 3
    assert np.array_equal(prints, fingerprints(np.stack([[one, other, one]]), np.array([[0, 0, 2]], np.uint8))[0])


def test_programs_that_differ_come_with_a_changed_world() -> None:
    """One example of a step: once, or to the wall? A person's own world, one column wider, decides."""
    programs = [Program.parse(text) for text in (ONCE, TO_THE_WALL)]
    ambiguity = question([ONCE, TO_THE_WALL], World.parse(". .\n> ."), [0.9, 0.8])
    assert ambiguity is not None
    assert [outcome.answers for outcome in ambiguity.outcomes] == [(0,), (1,)]
    for outcome in ambiguity.outcomes:
        run = programs[outcome.answers[0]].run(ambiguity.world)
        assert (run.status, run.world) == (outcome.status, outcome.world)
    assert ambiguity.example == 0
    assert (ambiguity.world.rows, ambiguity.world.cols) == (2, 3)
    assert "one column wider" in ambiguity.change
    assert set(json.loads(json.dumps(ambiguity.to_json()))) == {"world", "outcomes", "example", "change"}


def test_a_question_has_few_outcomes() -> None:
    """Programs that differ in every way: only worlds with at most three outcomes are shown."""
    ends = ("turnLeft()", "turnRight()", "putMarker()", "turnLeft(); turnLeft()")
    texts = [f"def run():\n  move()\n  if(markersPresent): {end}" for end in ends]
    programs = encode_programs([Program.parse(text) for text in texts])
    row = run_variations(programs, World.parse(". . .\n> . .").to_codes()[None])
    assert find_ambiguity(programs, np.full(4, 0.7), row) is None, "a marker there makes four outcomes at once"
    ambiguity = find_ambiguity(programs, np.array([0.7, 0.6, 0.6, 0.01]), row)
    assert ambiguity is not None
    assert len(ambiguity.outcomes) == MOST_OUTCOMES
    assert sorted(place for outcome in ambiguity.outcomes for place in outcome.answers) == [0, 1, 2]


def test_unlikely_programs_raise_no_question() -> None:
    assert question([ONCE, TO_THE_WALL], World.parse(". .\n> ."), [0.99, 0.3]) is None


def test_programs_that_do_the_same_raise_no_question() -> None:
    same = ["def run():\n  turnLeft()", "def run():\n  turnRight()\n  turnRight()\n  turnRight()"]
    assert question(same, ROW, [0.5, 0.5]) is None
