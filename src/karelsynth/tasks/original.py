"""Statistics of the original data set: of its 2,500 test tasks unless stated otherwise.

`ORIGINAL` maps the name of a group to its figures, in the order in which they are shown. Generated tasks may differ by
`allowed`; None means that the figure is shown for information only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Figures:
    """A group of figures and their tolerance."""

    values: Mapping[str, float]
    allowed: float | None


_SHARE: Final = 0.02
STATEMENTS: Final = ("move", "turnLeft", "turnRight", "pickMarker", "putMarker", "REPEAT", "WHILE", "IF", "IFELSE")
CLASSES: Final = ("action", "REPEAT", "WHILE", "IF", "IFELSE")

PAIR_COUNTS: Final = (
    (368, 280, 240, 553, 759, 170, 147, 174, 193),
    (418, 149, 0, 0, 0, 101, 88, 61, 58),
    (407, 0, 0, 0, 0, 100, 88, 50, 61),
    (453, 178, 160, 103, 0, 78, 54, 66, 55),
    (662, 230, 208, 0, 244, 89, 95, 51, 72),
    (151, 87, 65, 105, 146, 29, 17, 15, 17),
    (117, 69, 64, 88, 144, 19, 15, 10, 4),
    (129, 51, 43, 53, 93, 14, 24, 17, 20),
    (116, 48, 55, 61, 108, 24, 15, 21, 21),
)
"""How often a statement (row) is followed by another (column) in the same block; order of STATEMENTS."""


def _shares(names: str, *values: float, allowed: float | None = _SHARE) -> Figures:
    return Figures(dict(zip(names.split(), values, strict=True)), allowed)


def _numbered(first: int, *values: float) -> Figures:
    return Figures({str(first + index): value for index, value in enumerate(values)}, _SHARE)


def _pairs() -> dict[str, Figures]:
    """Row-normalized: the distribution of the statement after each kind of statement."""
    return {
        f"after {first}": Figures(
            {second: count / sum(row) for second, count in zip(STATEMENTS, row, strict=True)}, _SHARE
        )
        for first, row in zip(STATEMENTS, PAIR_COUNTS, strict=True)
    }


def _children(*rows: tuple[float, ...]) -> dict[str, Figures]:
    parents = ("run", *CLASSES[1:])
    return {
        f"children of {parent}": Figures(dict(zip(CLASSES, row, strict=True)), _SHARE)
        for parent, row in zip(parents, rows, strict=True)
    }


def _bodies(**rows: tuple[float, ...]) -> dict[str, Figures]:
    return {f"body length of {body}": _numbered(1, *row) for body, row in rows.items()}


def _actions_in(**rows: tuple[float, ...]) -> dict[str, Figures]:
    return {
        f"actions in {parent}": Figures(dict(zip(STATEMENTS[:5], row, strict=True)), _SHARE)
        for parent, row in rows.items()
    }


ORIGINAL: Final[Mapping[str, Figures]] = {
    "program length": Figures({"10 %": 7, "25 %": 10, "50 %": 16, "75 %": 24, "90 %": 33, "95 %": 39}, 1),
    "program length beyond": _shares("mean sd 99% shortest longest", 18.4, 10.6, 52, 6, 65, allowed=None),
    "control depth": _numbered(0, 0.264, 0.391, 0.240, 0.086, 0.016, 0.003),
    "control statements": _numbered(0, 0.264, 0.321, 0.223, 0.116, 0.047, 0.022, 0.006, 0.001),
    "top-level statements": _numbered(1, 0.054, 0.193, 0.258, 0.220, 0.146, 0.076, 0.024, 0.015),
    "actions": _shares("move turnLeft turnRight pickMarker putMarker", 0.358, 0.147, 0.124, 0.147, 0.225),
    "control": _shares("REPEAT WHILE IF IFELSE", 0.304, 0.262, 0.202, 0.233),
    "a program": _shares("actions control", 5.1, 1.46, allowed=None),
    "programs that hold": _shares(
        "REPEAT WHILE IF IFELSE not turnLeft turnRight pickMarker putMarker",
        *(0.363, 0.332, 0.244, 0.280, 0.138, 0.484, 0.457, 0.546, 0.710),
    ),
    "conditions": Figures(
        {
            "markersPresent": 0.157,
            "noMarkersPresent": 0.148,
            "leftIsClear": 0.196,
            "rightIsClear": 0.195,
            "frontIsClear": 0.156,
            "not leftIsClear": 0.046,
            "not rightIsClear": 0.059,
            "not frontIsClear": 0.044,
        },
        _SHARE,
    ),
    "repeat count": _numbered(2, 0.181, 0.156, 0.175, 0.210, 0.085, 0.084, 0.049, 0.043, 0.018),
    **_bodies(
        REPEAT=(0.53, 0.27, 0.13),
        WHILE=(0.44, 0.34, 0.14),
        IF=(0.69, 0.17, 0.08),
        then=(0.77, 0.16, 0.05),
        **{"else": (0.80, 0.14, 0.05)},
    ),
    **_children(
        (0.753, 0.082, 0.073, 0.043, 0.049),
        (0.759, 0.031, 0.044, 0.070, 0.096),
        (0.814, 0.062, 0.037, 0.037, 0.050),
        (0.823, 0.060, 0.036, 0.038, 0.043),
        (0.839, 0.051, 0.037, 0.042, 0.031),
    ),
    # 1,745 distinct validation programs: the actions among the children of each control statement, and the statements
    # that are the whole body of one.
    **_actions_in(
        REPEAT=(0.382, 0.134, 0.110, 0.052, 0.322),
        WHILE=(0.407, 0.141, 0.124, 0.091, 0.238),
        IF=(0.307, 0.186, 0.140, 0.164, 0.203),
        IFELSE=(0.266, 0.180, 0.164, 0.146, 0.244),
    ),
    "alone in a body": _shares(" ".join(STATEMENTS), *(0.243, 0.151, 0.159, 0.120, 0.179, 0.033, 0.035, 0.029, 0.052)),
    **_pairs(),
    "IFELSE": Figures({"equal branches": 0.10}, _SHARE),
    "trace length": Figures({"50 %": 5, "90 %": 17, "99 %": 43}, 2),
    "trace length, mean": Figures({"mean": 7.9}, 0.3),
    "trace length, ends": _shares("shortest longest", 2, 73, allowed=None),
    "distinct traces": _numbered(1, 0.505, 0.219, 0.116, 0.081, 0.050, 0.030),
    "executed actions": _shares("move turnLeft turnRight pickMarker putMarker", 0.374, 0.137, 0.118, 0.093, 0.279),
    # Validation tasks: those whose five given examples leave some branch outcome unseen.
    "branches": Figures({"outcome unseen": 0.175}, _SHARE),
    # The following: 312 inputs.
    "grid size, mean": _shares("rows columns", 8.8, 8.7, allowed=0.3),
    "rows": _numbered(2, *([1 / 15] * 15)),
    "columns": _numbered(2, *([1 / 15] * 15)),
    "heading": _shares("north east south west", 0.28, 0.30, 0.20, 0.22),
    "hero": Figures({"bottom left": 0.18, "edge, no corner": 0.37, "on a marker": 0.32}, _SHARE),
    "worlds": Figures({"without walls": 0.34, "without markers": 0.106}, _SHARE),
    "share of walls": Figures({"10 %": 0.055, "25 %": 0.071, "50 %": 0.100, "75 %": 0.129, "90 %": 0.178}, _SHARE),
    "share of walls, ends": _shares("least most", 0.022, 0.542, allowed=None),
    "share of markers": Figures({"10 %": 0.057, "25 %": 0.083, "50 %": 0.106, "75 %": 0.153, "90 %": 0.272}, _SHARE),
    "share of markers, ends": _shares("least most", 0.019, 0.799, allowed=None),
    "markers on a cell": _numbered(1, 0.631, 0.062, 0.075, 0.056, 0.057, 0.027, 0.034, 0.030, 0.028),
}
