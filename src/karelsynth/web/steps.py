"""A run, step by step, with each step's place in the program's text."""

from __future__ import annotations

from karelsynth.karel.dialects import parse_with_spans
from karelsynth.karel.interpreter import Tick, run
from karelsynth.karel.program import Action
from karelsynth.karel.world import World
from karelsynth.web.messages import Ran, Step

_CHANGES_MARKERS = (Action.PICK_MARKER, Action.PUT_MARKER)


def run_in_steps(text: str, world: World) -> Ran:
    """Run a program and note everything that takes a tick. Raises ProgramSyntaxError."""
    program, places = parse_with_spans(text)
    steps: list[Step] = []

    def observe(tick: Tick) -> None:
        row, col, heading = tick.world.hero
        count = tick.world.markers.get((row, col), 0)
        place = places[tick.where]
        steps.append(
            Step(
                line=place.line,
                column=place.column,
                width=place.width,
                token=program.tokens[tick.where],
                hero=(row, col, heading),
                markers=(row, col, count) if tick.action in _CHANGES_MARKERS else None,
            )
        )

    outcome = run(program, world, observe=observe)
    stopped = None if outcome.where is None else places[outcome.where]
    return Ran(
        status=outcome.status.name.lower(),
        explanation=outcome.explain(),
        world=outcome.world.to_text(),
        line=stopped and stopped.line,
        column=stopped and stopped.column,
        steps=steps,
    )
