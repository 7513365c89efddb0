"""The idioms that people use, as a grammar of plans: data, from which `program_kernel` draws programs.

The grammar is the file `plans.txt`. A rule `name = a | 3: b` has alternatives with weights, 1 unless given; `-` is
nothing. A rule `name := …` draws its alternative once for each program, so that two uses of it agree. An indented line
continues the one before. Symbols are other rules and:

    move left right pick put            actions; the kernel mirrors left and right in some programs
    while C { … }   if C { … }   ifelse C { … } else { … }   repeat N { … }
    front blocked left-clear left-blocked right-clear right-blocked markers none      conditions C
    2 … 9, n, m, k                      counts N; the letters are drawn once for each program

A task begins at a plan, `plan name weight @ worlds = …`. Worlds are alternatives `kind place markers`, one of which is
drawn for a task; `world_kernel` says what they look like. Karel faces east there and left is up. The kernels rotate
and mirror whole tasks.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np

from karelsynth.karel.tokens import COUNTS, ID
from karelsynth.tasks.purposeful.program_kernel import REGISTERS, RULE, PlanTables
from karelsynth.tasks.purposeful.world_kernel import KINDS, MARKERS, PLACES

_CONDITIONS: Final = {
    "front": "frontIsClear", "left-clear": "leftIsClear", "right-clear": "rightIsClear",
    "blocked": "!frontIsClear", "left-blocked": "!leftIsClear", "right-blocked": "!rightIsClear",
    "markers": "markersPresent", "none": "noMarkersPresent",
}  # fmt: skip
_ACTIONS: Final = {
    "move": "move", "left": "turnLeft", "right": "turnRight", "pick": "pickMarker", "put": "putMarker",
}  # fmt: skip
_HEADS: Final = {"while": ("WHILE", "w(", "w)"), "if": ("IF", "i(", "i)"), "ifelse": ("IFELSE", "i(", "i)")}
_TOTAL: Final = 1 << 32
ADDED: Final = ("joint", "phase", "depart", "back", "inner", "guard")
"""The rules that the kernel adds to some programs: see `PlanTables`."""


def _logical_lines(text: str) -> list[str]:
    """Lines without comments, continued ones joined."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(" "):
            lines[-1] += line
        else:
            lines.append(line)
    return lines


def _thresholds(weights: list[float]) -> list[int]:
    cumulated = np.cumsum(weights) / np.sum(weights)
    return [min(_TOTAL, round(float(edge) * _TOTAL)) for edge in cumulated]


class _Builder:
    """Translates the texts."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, bool, str]] = []
        self.plans: list[tuple[str, float, list[list[str]]]] = []
        for line in _logical_lines((files(__package__) / "plans.txt").read_text(encoding="utf-8")):
            once = ":=" in line
            head, body = line.split(" := " if once else " = ", 1)
            if head.startswith("plan "):
                label, worlds = head.split("@")
                head, weight = label.rsplit(maxsplit=1)
                self.plans.append((head[5:], float(weight), [world.split() for world in worlds.split(",")]))
            self.lines.append((head, once, body))
        self.rules = {name: number for number, (name, _, _) in enumerate(self.lines)}

    def alternatives(self, body: str) -> list[tuple[float, list[int]]]:
        found = []
        for part in body.split("|"):
            words = part.split()
            weight = 1.0
            if words[0].endswith(":"):
                weight = float(words.pop(0)[:-1])
            symbols, rest = self.block(words)
            if rest:
                raise ValueError(f"`{part}`: `}}` without `{{`")
            found.append((weight, symbols))
        return found

    def block(self, words: list[str]) -> tuple[list[int], list[str]]:
        """The symbols up to the end or the next `}`, and the words from there on."""
        symbols: list[int] = []
        while words and words[0] != "}":
            word, words = words[0], words[1:]
            if word == "-":
                continue
            if word in _ACTIONS:
                symbols.append(ID[_ACTIONS[word]])
            elif word == "repeat":
                count, words = words[0], words[1:]
                number = ID[COUNTS[int(count)]] if count.isdigit() else REGISTERS + "nmk".index(count)
                inner, words = self.braces(words)
                symbols += [ID["REPEAT"], number, ID["r("], *inner, ID["r)"]]
            elif word in _HEADS:
                token, opener, closer = _HEADS[word]
                condition, words = words[0], words[1:]
                inner, words = self.braces(words)
                symbols += [ID[token], ID["c("], *self.condition(condition), ID["c)"], ID[opener], *inner, ID[closer]]
                if word == "ifelse":
                    if words[0] != "else":
                        raise ValueError("`ifelse` without `else`")
                    inner, words = self.braces(words[1:])
                    symbols += [ID["ELSE"], ID["e("], *inner, ID["e)"]]
            elif word in _CONDITIONS:
                symbols += self.condition(word)
            else:
                symbols.append(RULE + self.rules[word])
        return symbols, words

    def braces(self, words: list[str]) -> tuple[list[int], list[str]]:
        if words[0] != "{":
            raise ValueError(f"`{{` expected, not `{words[0]}`")
        symbols, rest = self.block(words[1:])
        if not rest:
            raise ValueError("`{` without `}`")
        return symbols, rest[1:]

    def condition(self, word: str) -> list[int]:
        if word not in _CONDITIONS:
            return [RULE + self.rules[word]]
        sensor = _CONDITIONS[word]
        if sensor.startswith("!"):
            return [ID["not"], ID["c("], ID[sensor[1:]], ID["c)"]]
        return [ID[sensor]]


@cache
def plan_tables() -> PlanTables:
    """The tables of the grammar in `plans.txt`."""
    builder = _Builder()
    first, once, threshold, begins, symbols = [0], [], [], [0], []
    for _, single, body in builder.lines:
        alternatives = builder.alternatives(body)
        once.append(single)
        threshold += _thresholds([weight for weight, _ in alternatives])
        for _, written in alternatives:
            symbols += written
            begins.append(len(symbols))
        first.append(len(threshold))
    worlds_first, worlds = [0], []
    for _, _, variants in builder.plans:
        worlds += [(KINDS.index(kind), PLACES.index(place), MARKERS.index(some)) for kind, place, some in variants]
        worlds_first.append(len(worlds))
    rules = len(builder.lines) - len(builder.plans)
    return PlanTables(
        np.array(first), np.array(once), np.array(threshold, np.uint64), np.array(begins), np.array(symbols),
        np.arange(rules, len(builder.lines)), np.array(_thresholds([w for _, w, _ in builder.plans]), np.uint64),
        np.array(worlds_first), np.array(worlds), *(builder.rules[name] for name in ADDED),
    )  # fmt: skip


def plan_names() -> tuple[str, ...]:
    """The names of the plans, in the order of their numbers."""
    return tuple(name for name, _, _ in _Builder().plans)
