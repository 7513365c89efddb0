"""Closing what a search has left open."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karelsynth.karel.program import Program
from karelsynth.karel.tokens import ACTIONS, ID, PAD, TOKENS
from karelsynth.search.candidates import close_programs
from tests.strategies import random_program

CLOSERS = {"m)", "w)", "i)", "r)", "e)"}


def closed(text: str) -> str | None:
    tokens, lengths = close_programs(np.array([[ID[token] for token in text.split()]], np.uint8))
    assert (tokens[0, lengths[0] :] == PAD).all()
    return " ".join(TOKENS[token] for token in tokens[0, : lengths[0]]) or None


@pytest.mark.parametrize(
    ("prefix", "program"),
    [
        ("DEF run m( move", "DEF run m( move m)"),
        ("DEF run m( REPEAT R=3 r( WHILE c( leftIsClear c) w( move w)",
         "DEF run m( REPEAT R=3 r( WHILE c( leftIsClear c) w( move w) r) m)"),
        ("DEF run m( IFELSE c( leftIsClear c) i( move", "DEF run m( IF c( leftIsClear c) i( move i) m)"),
        ("DEF run m( IFELSE c( leftIsClear c) i( move i)", "DEF run m( IF c( leftIsClear c) i( move i) m)"),
        ("DEF run m( IFELSE c( leftIsClear c) i( move i) ELSE e( turnLeft",
         "DEF run m( IFELSE c( leftIsClear c) i( move i) ELSE e( turnLeft e) m)"),
        ("DEF run m( IFELSE c( leftIsClear c) i( move i) ELSE e( IF c( frontIsClear c) i( move i)",
         "DEF run m( IFELSE c( leftIsClear c) i( move i) ELSE e( IF c( frontIsClear c) i( move i) e) m)"),
        ("DEF run m( move IFELSE c( leftIsClear c) i( move i) ELSE e(",
         "DEF run m( move IF c( leftIsClear c) i( move i) m)"),
        ("DEF run m( move <pad> <pad>", "DEF run m( move m)"),
        ("<pad> <pad>", None),
        ("DEF", None),
        ("DEF run m(", None),
        ("DEF run m( move IF c( not c( leftIsClear c)", None),
        ("DEF run m( move REPEAT R=2 r(", None),
        ("DEF run m( IFELSE c( leftIsClear c) i( move i) ELSE", None),
    ],
)  # fmt: skip
def test_examples(prefix: str, program: str | None) -> None:
    assert closed(prefix) == program


@given(st.integers(0, 10_000), st.data())
def test_what_is_closed_is_a_program_that_begins_so(seed: int, data: st.DataObject) -> None:
    """Any beginning that ends with a statement: all of it stays but IFELSEs that wait for their ELSE."""
    whole = random_program(random.Random(seed)).tokens
    prefix = whole[: data.draw(st.integers(1, len(whole) - 1))]
    found = closed(" ".join(prefix))
    assert (found is not None) == (prefix[-1] in CLOSERS or prefix[-1] in ACTIONS or prefix[-1] == "e(")
    if found is None:
        return
    prefix = prefix[:-2] if prefix[-1] == "e(" else prefix  # an ELSE with nothing in it goes
    tokens = found.split()
    assert Program.parse(found).tokens == tuple(tokens)
    assert set(tokens[len(prefix) :]) <= CLOSERS
    changed = [at for at, (one, other) in enumerate(zip(prefix, tokens, strict=False)) if one != other]
    assert all(prefix[at] == "IFELSE" and tokens[at] == "IF" for at in changed)
    assert tokens.count("IFELSE") == prefix.count("ELSE")


@given(st.lists(st.sampled_from(sorted(ID.values())), min_size=1, max_size=40))
def test_what_is_no_prefix_does_no_harm(numbers: list[int]) -> None:
    """A model without syntax writes anything; what comes of it must stay within the arrays."""
    tokens, lengths = close_programs(np.array([numbers], np.uint8))
    assert 0 <= lengths[0] <= tokens.shape[1]


@pytest.mark.parametrize("text", ["i) move", "DEF run m( move i) i) i) move", "m( move m) m)"])
def test_what_closes_more_than_it_opens_cannot_be_closed(text: str) -> None:
    assert closed(text) is None
