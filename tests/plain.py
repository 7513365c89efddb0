"""Plain definitions that fast code is tested against, shared by the tests: all programs of a grammar, open blocks,
programs with a part less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from karelsynth.karel.grammar import BLOCK, Grammar
from karelsynth.karel.program import If, IfElse, Program, Repeat, Statement, While
from karelsynth.karel.tokens import ACTIONS

OPENERS = {"w(": "w)", "r(": "r)", "i(": "i)", "e(": "e)"}
BOUNDARY = (*ACTIONS, *OPENERS, *OPENERS.values(), "m(")


def narrowed(grammar: Grammar, actions: str, sensors: str, counts: str) -> Grammar:
    """The grammar with fewer words, so that all its programs of some length can be listed."""
    kept = set(f"{actions} {sensors} {counts}".split())
    rules = {
        name: tuple(alternative for alternative in alternatives if len(alternative) > 1 or alternative[0] in kept)
        for name, alternatives in grammar.rules.items()
    }
    empty = {name for name, alternatives in rules.items() if not alternatives}
    return replace(
        grammar,
        rules={
            name: tuple(alternative for alternative in alternatives if not empty & set(alternative))
            for name, alternatives in rules.items()
            if name not in empty
        },
    )


def expansions(grammar: Grammar, symbols: tuple[str, ...], budget: int) -> Iterator[tuple[str, ...]]:
    """All token sequences of at most `budget` tokens that the rules derive from some symbols."""

    @cache
    def expand(symbols: tuple[str, ...], budget: int) -> tuple[tuple[str, ...], ...]:
        if not symbols:
            return ((),)
        if budget < len(symbols):
            return ()
        first, rest = symbols[0], symbols[1:]
        if first == BLOCK:
            return expand(("statement", *rest), budget) + expand(("statement", BLOCK, *rest), budget)
        if first in grammar.rules:
            return tuple(
                words for alternative in grammar.rules[first] for words in expand((*alternative, *rest), budget)
            )
        return tuple((first, *words) for words in expand(rest, budget - 1))

    return iter(expand(symbols, budget))


def open_blocks(prefix: tuple[str, ...]) -> list[str]:
    """The blocks that are open at the end, outermost first: `i(`, `e(`, …; `I(` is that of an IFELSE."""
    blocks: list[str] = []
    heads: list[str] = []
    for token in prefix:
        if token in ("IF", "IFELSE", "WHILE", "REPEAT"):
            heads.append(token)
        elif token in ("w(", "r(", "i("):
            blocks.append("I(" if heads.pop() == "IFELSE" else token)
        elif token == "i)" and blocks[-1] == "I(":
            blocks[-1] = "ELSE"
        elif token == "e(":
            blocks[-1] = "e("
        elif token in OPENERS.values():
            blocks.pop()
    return blocks


def finished(prefix: tuple[str, ...]) -> tuple[Program, dict[int, int]]:
    """A program that begins with a prefix, and for tokens behind it where a run can go on, what it waited for."""
    tokens, goes_on = list(prefix), {}
    blocks = open_blocks(prefix)

    def act(waited: int) -> None:
        goes_on[len(tokens)] = waited
        tokens.append("turnRight")

    if not blocks or blocks[-1] != "ELSE":
        act(-1)
    for depth in reversed(range(len(blocks))):
        match blocks[depth]:
            case "ELSE":  # the last token was the `i)` of an IFELSE
                tokens += ["ELSE", "e("]
                act(-1)
                tokens.append("e)")
            case "I(":
                tokens += ["i)", "ELSE", "e("]
                act(depth)
                tokens.append("e)")
            case opener:
                tokens.append(OPENERS[opener])
        act(depth)
    return Program.parse(" ".join([*tokens, "m)"])), goes_on


def without(statements: tuple[Statement, ...]) -> list[tuple[Statement, ...]]:
    """All that is left of a block when one statement goes, at any depth, or when its own block stands for it."""
    found = []
    for at, one in enumerate(statements):
        before, after = statements[:at], statements[at + 1 :]
        if before or after:
            found.append(before + after)
        if isinstance(one, IfElse):
            found += [before + one.then + after, before + one.otherwise + after]
            found += [(*before, IfElse(one.condition, less, one.otherwise), *after) for less in without(one.then)]
            found += [(*before, IfElse(one.condition, one.then, less), *after) for less in without(one.otherwise)]
        elif isinstance(one, While | If | Repeat):
            found.append(before + one.body + after)
            head = one.times if isinstance(one, Repeat) else one.condition
            found += [(*before, type(one)(head, less), *after) for less in without(one.body)]  # type: ignore[arg-type]
    return found
