"""Hypothesis strategies and quick random makers of programs and worlds, shared by the tests."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from karelsynth.karel.dialects import SPELLINGS
from karelsynth.karel.dialects.indented import source_lines
from karelsynth.karel.dialects.source import CALL, SourceBlock, SourceStatement, source_block
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
from karelsynth.karel.world import HEADINGS, LARGEST_SIDE, MOST_MARKERS, SMALLEST_SIDE, Hero, World


def random_condition(rng: random.Random) -> Condition:
    condition: Condition = rng.choice(list(Sensor))
    while rng.random() < 0.25:
        condition = Not(condition)
    return condition


def random_block(rng: random.Random, depth: int) -> Block:
    return tuple(random_statement(rng, depth) for _ in range(rng.choice((1, 1, 2, 3, 4))))


def random_statement(rng: random.Random, depth: int) -> Statement:
    kind = rng.random()
    if depth == 0 or kind < 0.55:
        return rng.choice(list(Action))
    if kind < 0.67:
        return Repeat(rng.randint(0, 19), random_block(rng, depth - 1))
    if kind < 0.78:
        return While(random_condition(rng), random_block(rng, depth - 1))
    if kind < 0.89:
        return If(random_condition(rng), random_block(rng, depth - 1))
    return IfElse(random_condition(rng), random_block(rng, depth - 1), random_block(rng, depth - 1))


def random_program(rng: random.Random, depth: int = 3) -> Program:
    """Any program of the language, not only the data's normal form."""
    return Program(random_block(rng, depth))


def with_helpers(program: Program, rng: random.Random) -> tuple[str, list[str]]:
    """A text in the paper's dialect with parts of the program in helpers and comments everywhere."""
    helpers: dict[str, SourceBlock] = {}

    def moved(block: SourceBlock) -> SourceBlock:
        block = tuple(
            SourceStatement(each.keyword, each.detail, tuple(moved(inner) for inner in each.blocks)) for each in block
        )
        if rng.random() < 0.3:
            first = rng.randrange(len(block))
            last = rng.randint(first + 1, len(block))
            name = f"part{len(helpers)}"
            helpers[name] = block[first:last]
            return (*block[:first], SourceStatement(CALL, name), *block[last:])
        return block

    body = moved(source_block(program.body))
    lines = ["def run():", *source_lines(body, SPELLINGS["paper"])]
    for name, part in helpers.items():
        lines += [f"def {name}():", *source_lines(part, SPELLINGS["paper"])]
    comments, text = [], []
    for number, line in enumerate(lines):
        margin = " " * (len(line) - len(line.lstrip()))
        if rng.random() < 0.3:
            comments.append(f"# above {number}")
            text.append(f"{margin}# above {number}")
        if rng.random() < 0.3:
            comments.append(f"# beside {number}")
            line += f"  # beside {number}"
        text.append(line)
    return "\n".join(text), comments


def random_world(rng: random.Random, walls: float | None = None, markers: float | None = None) -> World:
    """Any world within the limits; extreme sizes and marker counts are common."""
    rows, cols = (rng.choice((SMALLEST_SIDE, LARGEST_SIDE, rng.randint(SMALLEST_SIDE, LARGEST_SIDE))) for _ in "rc")
    walls = rng.choice((0.0, 0.1, 0.4)) if walls is None else walls
    markers = rng.choice((0.0, 0.15, 0.7)) if markers is None else markers
    hero = Hero(rng.randrange(rows), rng.randrange(cols), rng.choice(HEADINGS))
    blocked, counts = set(), {}
    for row in range(rows):
        for col in range(cols):
            if (row, col) != hero[:2] and rng.random() < walls:
                blocked.add((row, col))
            elif rng.random() < markers:
                counts[row, col] = rng.choice((1, 1, 2, MOST_MARKERS - 1, MOST_MARKERS, rng.randint(1, MOST_MARKERS)))
    return World(rows, cols, hero, frozenset(blocked), counts)


def programs(depth: int = 3) -> st.SearchStrategy[Program]:
    """Programs, as hypothesis draws and shrinks them."""
    conditions: st.SearchStrategy[Condition] = st.recursive(
        st.sampled_from(Sensor), lambda inner: st.builds(Not, inner), max_leaves=3
    )

    def blocks(level: int) -> st.SearchStrategy[Block]:
        statement: st.SearchStrategy[Statement] = st.sampled_from(Action)
        if level:
            inner = st.deferred(lambda: blocks(level - 1))
            statement = st.one_of(
                statement,
                st.builds(Repeat, st.integers(0, 19), inner),
                st.builds(While, conditions, inner),
                st.builds(If, conditions, inner),
                st.builds(IfElse, conditions, inner, inner),
            )
        return st.lists(statement, min_size=1, max_size=4).map(tuple)

    return st.builds(Program, blocks(depth))


def worlds() -> st.SearchStrategy[World]:
    """Worlds, by seed: they need no shrinking to be read."""
    return st.integers(0, 2**32 - 1).map(lambda seed: random_world(random.Random(seed)))


ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
LIKELY_JSON = ANY_JSON | st.sampled_from(["0:0:east", "1:1", "1:1:3", "", 2, 3, [{"type": "move"}], {"type": "not"}])
"""With parts of worlds and programs among it."""
