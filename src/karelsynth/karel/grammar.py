"""The grammar as data. Parser, syntax machine, batch machine and samplers read it.

A rule maps a name to its alternatives. An alternative is a sequence of symbols. A symbol is the name of a rule, `block`
for one or more statements, or a token. No two alternatives of a rule begin with the same token, so one token of
look-ahead decides.

There are two languages: `KAREL`, everything that parses, and `NORMAL_FORM`, the programs of the original data's form.
The normal form has narrower rules and three cheap constraints that are not context-free: forbidden neighbours inside a
block, a longest run of equal actions, and actions that must occur somewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from typing import Final

from karelsynth.karel.tokens import ACTIONS, COUNTS, SENSORS

Alternative = tuple[str, ...]
BLOCK: Final = "block"
"""The symbol for one or more statements."""
_REST: Final = "rest of a block"
"""The symbol for any number of statements; only `Grammar.admits` has it."""


@dataclass(frozen=True, eq=False)  # compared by identity, so that a grammar can be a key
class Grammar:
    """A language over the tokens; see the module's docstring."""

    name: str
    rules: Mapping[str, tuple[Alternative, ...]]
    never_adjacent: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    """Pairs of actions that may not follow each other inside a block."""
    longest_run: int | None = None
    """The most equal actions in a row inside a block; None for any number."""
    required: tuple[frozenset[str], ...] = ()
    """Sets of actions. At least one action of each set must occur in the program."""

    @cached_property
    def alternatives(self) -> Mapping[str, Mapping[str, Alternative]]:
        """The alternatives of each rule by their first symbol."""
        return {rule: {alternative[0]: alternative for alternative in some} for rule, some in self.rules.items()}

    def admits(self, tokens: Sequence[str]) -> bool:
        """Whether the tokens are a program of the grammar, of any length."""
        first = self.alternatives
        expected = ["program"]  # symbols, the next one last
        runs = [("", 0)]  # of each open block: the last action, and how often it came in a row
        at = 0
        while expected:
            symbol, token = expected.pop(), tokens[at] if at < len(tokens) else ""
            if symbol == BLOCK:
                runs.append(("", 0))
                expected += (_REST, "statement")
            elif symbol == _REST:
                if token in first["statement"]:
                    expected += (_REST, "statement")
                else:
                    runs.pop()
            elif symbol in first:
                if token not in first[symbol]:
                    return False
                expected += reversed(first[symbol][token])
                if symbol == "statement":
                    last, run = runs[-1]
                    runs[-1] = (token, run + 1 if token == last else 1) if token in ACTIONS else ("", 0)
                    if (last, token) in self.never_adjacent or runs[-1][1] > (self.longest_run or len(tokens)):
                        return False
            elif symbol != token:
                return False
            else:
                at += 1
        return at == len(tokens) and all(not actions.isdisjoint(tokens) for actions in self.required)

    def forced_tokens(self) -> frozenset[str]:
        """The tokens that are never a choice, such as `c(` and `ELSE`: where one is allowed, it is the only one.

        The choices are the first token of each alternative and the token that ends a block.
        """
        tokens, choices = set(), set()
        for rule, alternatives in self.rules.items():
            for alternative in alternatives:
                own = [symbol for symbol in alternative if symbol not in self.rules and symbol != BLOCK]
                tokens.update(own)
                choices.update(own[:1] if rule != "program" else [])
                choices.update(last for first, last in pairwise(alternative) if first == BLOCK)
        return frozenset(tokens - choices)


_STATEMENTS: Final[tuple[Alternative, ...]] = (
    *((action,) for action in ACTIONS),
    ("WHILE", "c(", "condition", "c)", "w(", BLOCK, "w)"),
    ("IF", "c(", "condition", "c)", "i(", BLOCK, "i)"),
    ("IFELSE", "c(", "condition", "c)", "i(", BLOCK, "i)", "ELSE", "e(", BLOCK, "e)"),
    ("REPEAT", "count", "r(", BLOCK, "r)"),
)

KAREL: Final = Grammar(
    name="karel",
    rules={
        "program": (("DEF", "run", "m(", BLOCK, "m)"),),
        "statement": _STATEMENTS,
        "condition": (*((sensor,) for sensor in SENSORS), ("not", "c(", "condition", "c)")),
        "count": tuple((count,) for count in COUNTS),
    },
)

_CLEAR: Final = ("leftIsClear", "rightIsClear", "frontIsClear")
_TURNS: Final = ("turnLeft", "turnRight")
_MARKERS: Final = ("pickMarker", "putMarker")
CONDITIONS: Final = (*SENSORS, *(f"not {sensor}" for sensor in _CLEAR))
"""The eight conditions of the normal form. Kernels number them in this order."""

NORMAL_FORM: Final = Grammar(
    name="normal form",
    rules={
        **KAREL.rules,
        "condition": (*((sensor,) for sensor in SENSORS), ("not", "c(", "clear", "c)")),
        "clear": tuple((sensor,) for sensor in _CLEAR),
        "count": tuple((count,) for count in COUNTS[2:11]),
    },
    never_adjacent=frozenset(
        {("turnLeft", "turnRight"), ("turnRight", "turnLeft"), ("turnRight", "turnRight")}
        | {("pickMarker", "putMarker"), ("putMarker", "pickMarker")}
        | set(product(_TURNS, _MARKERS))
    ),
    longest_run=2,
    required=(frozenset({"move"}), frozenset(_MARKERS)),
)
