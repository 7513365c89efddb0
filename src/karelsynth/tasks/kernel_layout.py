"""How the sampler's table is laid out: which row and column holds what.

The kernels' constants, in a file of their own because compiled functions are made anew when it changes (see
`karel.compiled`). `sampler` says what the rows mean and fills them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.tokens import ACTIONS

STATEMENTS: Final = (*ACTIONS, "REPEAT", "WHILE", "IF", "IFELSE")
PARENTS: Final = ("run", "REPEAT", "WHILE", "IF", "IFELSE")
BODIES: Final = ("run", "REPEAT", "WHILE", "IF", "then", "else")
CONDITIONS: Final = (
    "markersPresent", "noMarkersPresent", "leftIsClear", "rightIsClear", "frontIsClear",
    "not leftIsClear", "not rightIsClear", "not frontIsClear",
)  # fmt: skip
SLOTS: Final = 16
LONGEST: Final = 65
"""Tokens of the longest program of the fitted table, as in the original. Other tables may have longer ones."""
LEVELS: Final = 6
"""Blocks of control statements may be nested this deep, less one."""

# Rows of the alias tables. A statement's row depends on its parent, the depth and what stands before it.
STATEMENT_ROW: Final = 0
BEFORE: Final = 2 + len(STATEMENTS)
"""What may stand before: nothing, a kind of statement, or (ALONE) nothing and nothing is to follow either."""
ALONE: Final = 1 + len(STATEMENTS)
BODY_ROW: Final = STATEMENT_ROW + len(PARENTS) * LEVELS * BEFORE
CONDITION_ROW: Final = BODY_ROW + len(BODIES)
COUNT_ROW: Final = CONDITION_ROW + 1
ROWS_ROW: Final = COUNT_ROW + 1
COLS_ROW: Final = ROWS_ROW + 1
HEADING_ROW: Final = COLS_ROW + 1
WALL_ROW: Final = HEADING_ROW + 1
MARKER_ROW: Final = WALL_ROW + 1
"""Two rows: without walls, with walls."""
PILE_ROW: Final = MARKER_ROW + 2

# Rows of plain numbers, out of 65,536.
WALL_LEVELS_ROW: Final = PILE_ROW + 1
MARKER_LEVELS_ROW: Final = WALL_LEVELS_ROW + 1
"""The densities that WALL_ROW and MARKER_ROW choose from."""
SETTINGS_ROW: Final = MARKER_LEVELS_ROW + 1
KEEP_CONTROLS_ROW: Final = SETTINGS_ROW + 1
"""The chance that a program is kept, by number of control statements, …"""
KEEP_HOLDING_ROW: Final = KEEP_CONTROLS_ROW + 1
"""… by whether it holds none (first row) or at least one (second) of each kind of statement, …"""
KEEP_LENGTH_ROW: Final = KEEP_HOLDING_ROW + 2
"""… by length (five rows, read as one) …"""
KEEP_TRACES_ROW: Final = KEEP_LENGTH_ROW + 5
"""… and, if it has control statements, by class of the trace length that may be expected."""
KEEP_DISTINCT_ROW: Final = KEEP_TRACES_ROW + 1
"""The chance that a task with conditions is kept, by number of distinct traces (six and more are one class)."""
TABLE_ROWS: Final = KEEP_DISTINCT_ROW + 1

# Columns of SETTINGS_ROW.
BARE: Final = 0
"""That a task's worlds have no walls."""
CORNER: Final = 1
"""That the hero is put at the bottom left without further ado."""
ON_EDGE: Final = 2
ELSEWHERE: Final = 3
"""That a place drawn evenly is kept: on an edge but no corner; anywhere else."""
UNDER_HERO: Final = 4
"""That there are markers under the hero, in a world with markers."""
PICK: Final = 5
"""That there are markers on a cell that the program picks from before having looked."""
ALIKE: Final = 6
"""That a world is passed over if its trace has been seen and it shows no new branch outcome, …"""
SHORT: Final = 7
"""… or if its trace is shorter than that of the last example or of a good world passed over since."""
SEEK: Final = 8
"""That a cell, looked at for the first time by a condition with one outcome unseen, is made to give that outcome."""
UNSEEN: Final = 9
"""That a branch outcome may stay unseen in all examples."""
MOST_TOKENS: Final = 10
"""No chance: how many tokens a program has at most."""
SETTINGS: Final = ("bare", "corner", "on_edge", "elsewhere", "under_hero", "pick", "alike", "short", "seek", "unseen")
ONE: Final = 1 << 16

TRACE_EDGES: Final = (3, 4, 5, 6, 7, 9, 11, 14, 18, 23, 30, 40)
"""Where the classes of trace length begin, but the first."""

Sampler = NDArray[np.uint64]
"""[rows, 16]; an entry of an alias row is the chance of the slot's own number, out of 2³², times 16, plus the alias.
The kernels are given it flat, [rows · 16]."""
