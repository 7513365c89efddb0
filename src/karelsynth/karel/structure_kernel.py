"""The structure of token rows, for compiled code: statements of programs, open blocks of prefixes, edits.

- `find_statements` finds the statements of a program.
- `open_blocks` finds the blocks that a prefix has left open, `open_branches` packs them into one number, and
  `close_prefixes` closes them.
- An edit cuts a program at statement boundaries and joins the parts with short runs of new tokens, called pieces:

      tokens[: at] + piece + tokens[p : q] + piece + tokens[r : s] + piece + tokens[rest :]

  All pieces are in a numbered table: piece 0 is empty, others are an action or the head of a loop, for example.
  `tasks.simplify` enumerates the edits that shorten a program, `search.repair` all edits of a program.

None of these functions checks the syntax; `machine_kernel.compile_program` does.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from karelsynth.karel.compiled import I64Array, U8Array, compiled, copy_row
from karelsynth.karel.grammar import CONDITIONS
from karelsynth.karel.tokens import ACTIONS, CLOSERS, COUNTS, ID, OPENERS, PAD

FIRST_ACTION, LAST_ACTION = ID["move"], ID["putMarker"]
"""The ids between them are actions, too."""
BEGINS: Final = np.isin(np.arange(256), [ID[name] for name in (*ACTIONS, "WHILE", "IF", "IFELSE", "REPEAT")])
"""bool [256], by token id: the token begins a statement."""
OPENS: Final = np.isin(np.arange(256), [ID[name] for name in OPENERS])
"""bool [256]: the token begins a block."""
CLOSES: Final = np.isin(np.arange(256), [ID[name] for name in CLOSERS])
"""bool [256]: the token ends a block."""
_IF, _IFELSE, _ELSE = ID["IF"], ID["IFELSE"], ID["ELSE"]
_OPEN_W, _OPEN_R, _OPEN_I, _OPEN_E = ID["w("], ID["r("], ID["i("], ID["e("]
_CLOSE_W, _CLOSE_R, _CLOSE_I, _CLOSE_E, _CLOSE_M = ID["w)"], ID["r)"], ID["i)"], ID["e)"], ID["m)"]
_CLOSER: Final = np.zeros(256, np.uint8)
"""[256]: for each token that begins a block, the token that ends it."""
_CLOSER[[ID[name] for name in OPENERS]] = [ID[name] for name in CLOSERS]
_DEEPEST: Final = 30
"""Blocks that `open_branches` packs into one number."""


class Statements(NamedTuple):
    """The statements of a program. Arrays are indexed by a statement's first token; all other entries are 0."""

    ends: I64Array
    """The index after the statement."""
    opens: I64Array
    """The index of its `w(`, `r(` or `i(`; 0 for an action."""
    elses: I64Array
    """The index of its ELSE; 0 without one."""


@compiled()
def new_statements(length: int) -> Statements:
    """Room for the statements of programs of up to `length` tokens."""
    return Statements(np.zeros(length, np.int64), np.zeros(length, np.int64), np.zeros(length, np.int64))


@compiled()
def copy_statements(source: Statements, target: Statements) -> None:
    """Copy all entries to another structure of the same size."""
    copy_row(source.ends, target.ends)
    copy_row(source.opens, target.opens)
    copy_row(source.elses, target.elses)


@compiled()
def find_statements(tokens: U8Array, length: int, found: Statements) -> None:
    """Find the statements of the program tokens[:length] in one pass."""
    ends, opens, elses = found
    stack = np.empty(length + 1, np.int64)
    depth = 0
    for at in range(length):
        ends[at], opens[at], elses[at] = 0, 0, 0
    for at in range(3, length - 1):
        token = tokens[at]
        if FIRST_ACTION <= token <= LAST_ACTION:
            ends[at] = at + 1
        elif BEGINS[token]:
            stack[depth] = at
            depth += 1
        elif token == _ELSE:
            elses[stack[depth - 1]] = at
        elif OPENS[token]:
            if elses[stack[depth - 1]] == 0:
                opens[stack[depth - 1]] = at
        elif CLOSES[token]:
            begin = stack[depth - 1]
            if tokens[begin] != _IFELSE or elses[begin] > 0:
                ends[begin] = at + 1
                depth -= 1


@compiled()
def open_blocks(tokens: U8Array, closing: U8Array) -> int:
    """The number of open blocks at the end of tokens [L]; an IFELSE counts as one, open from `i(` to `e)`.

    `closing` [L + 1] gets the token that closes each of them, the outermost first. The body of `run` is not counted. An
    IFELSE that has no ELSE yet cannot be closed: it gets 0 in its first block, and ELSE after it.
    """
    depth, kind = 0, 0
    for token in tokens:
        if token == _IF or token == _IFELSE:
            kind = token
        elif token == _OPEN_W or token == _OPEN_R or token == _OPEN_I:
            if token == _OPEN_I:
                closing[depth] = 0 if kind == _IFELSE else _CLOSE_I
            else:
                closing[depth] = _CLOSE_W if token == _OPEN_W else _CLOSE_R
            depth += 1
        elif token == _OPEN_E and depth > 0:
            closing[depth - 1] = _CLOSE_E
        elif token == _CLOSE_I and depth > 0 and (closing[depth - 1] == 0 or closing[depth - 1] == _ELSE):
            closing[depth - 1] = _ELSE
        elif token == _CLOSE_W or token == _CLOSE_R or token == _CLOSE_I or token == _CLOSE_E:
            depth = max(0, depth - 1)
    return depth


@compiled()
def open_branches(tokens: U8Array, closing: U8Array) -> int:
    """The open IFs and IFELSEs at the end of a prefix [L] as one number; -1 if the prefix cannot be compared.

    Two bits distinguish an IF from the first and the second part of an IFELSE; one more says whether an ELSE must
    follow. A prefix cannot be compared if a loop is open, because its body will run again, or if it ends within a head.
    `closing` [L + 1] is scratch space.
    """
    if len(tokens) == 0:
        return -1
    last = tokens[-1]
    if not (FIRST_ACTION <= last <= LAST_ACTION or (CLOSES[last] and last != _CLOSE_M)):
        return -1
    depth = open_blocks(tokens, closing)
    if depth > _DEEPEST:
        return -1
    branches = 0
    for block in range(depth):
        closer = closing[block]
        if closer == _CLOSE_W or closer == _CLOSE_R:
            return -1
        branches = branches << 2 | (1 if closer == _CLOSE_I else 2 if closer == 0 else 3)
    return branches << 1 | (1 if depth > 0 and closing[depth - 1] == _ELSE else 0)


@compiled()
def close_prefixes(prefixes: U8Array, tokens: U8Array, lengths: I64Array) -> None:
    """Write prefixes [N, L] with all blocks closed to `tokens` [N, 2 L or more], and their lengths.

    An IFELSE without an ELSE, or with an empty one, becomes an IF. The length is 0 where a prefix cannot be closed: it
    ends within a head or in an empty block.
    """
    opened, heads = np.empty(prefixes.shape[1] + 1, np.int64), np.empty(prefixes.shape[1] + 1, np.int64)
    for row in range(len(prefixes)):
        lengths[row] = 0
        length = prefixes.shape[1]
        while length > 0 and prefixes[row, length - 1] == PAD:
            length -= 1
        if length > 1 and prefixes[row, length - 1] == _OPEN_E:
            length -= 2  # drop an empty ELSE
        if length == 0:
            continue
        last = prefixes[row, length - 1]
        if not (FIRST_ACTION <= last <= LAST_ACTION or CLOSES[last]):
            continue  # within a head, or in an empty block
        depth, head, ended = 0, 0, -1
        for at in range(length):
            token = prefixes[row, at]
            tokens[row, at] = token
            ended = -1
            if BEGINS[token] and not FIRST_ACTION <= token <= LAST_ACTION:
                head = at
            elif OPENS[token]:
                opened[depth], heads[depth] = token, head
                depth += 1
            elif CLOSES[token]:
                if depth == 0:  # more blocks closed than opened
                    length = 0
                    break
                depth -= 1
                if token == _CLOSE_I and tokens[row, heads[depth]] == _IFELSE:
                    ended = heads[depth]  # its ELSE is still to come
        if length == 0:
            continue
        if ended >= 0:
            tokens[row, ended] = _IF
        size = length
        while depth > 0:
            depth -= 1
            if opened[depth] == _OPEN_I and tokens[row, heads[depth]] == _IFELSE:
                tokens[row, heads[depth]] = _IF
            tokens[row, size] = _CLOSER[opened[depth]]
            size += 1
        lengths[row] = size


# Edits.

PARTS: Final = 9
"""The numbers of an edit: at, first piece, p, q, second piece, r, s, third piece, rest."""

_COUNTS: Final = COUNTS[2:11]


def _condition(name: str) -> tuple[str, ...]:
    """The tokens of a condition, given by its name in CONDITIONS."""
    *negated, sensor = name.split()
    return ("not", "c(", sensor, "c)") if negated else (sensor,)


def _pieces() -> tuple[dict[str, int], U8Array, I64Array]:
    """Where each kind of piece begins in the table, the table [pieces, 9], and the pieces' lengths."""
    conditions = [_condition(name) for name in CONDITIONS]
    kinds: dict[str, list[tuple[str, ...]]] = {
        "nothing": [()],
        "action": [(action,) for action in ACTIONS],
        "condition": conditions,
        "count": [(count,) for count in _COUNTS],
        "while": [("WHILE", "c(", *condition, "c)", "w(") for condition in conditions],
        "if": [("IF", "c(", *condition, "c)", "i(") for condition in conditions],
        "if-else": [("IFELSE", "c(", *condition, "c)", "i(") for condition in conditions],
        "repeat": [("REPEAT", count, "r(") for count in _COUNTS],
        "else": [("i)", "ELSE", "e(", action, "e)") for action in ACTIONS],
        "token": [("WHILE",), ("IF",), ("IFELSE",), ("w(",), ("i(",), ("w)",), ("i)",), ("r)",), ("i)", "ELSE", "e(")],
    }
    first: dict[str, int] = {}
    table: list[tuple[str, ...]] = []
    for kind, pieces in kinds.items():
        first[kind] = len(table)
        table += pieces
    tokens = np.zeros((len(table), max(map(len, table))), np.uint8)
    for row, piece in enumerate(table):
        tokens[row, : len(piece)] = [ID[token] for token in piece]
    return first, tokens, np.array([len(piece) for piece in table])


_FIRST, _PIECES, _SIZES = _pieces()
ACTION, CONDITION, COUNT = (_FIRST[kind] for kind in ("action", "condition", "count"))
WHILE_HEAD, IF_HEAD, IFELSE_HEAD, REPEAT_HEAD = (_FIRST[kind] for kind in ("while", "if", "if-else", "repeat"))
ELSE_WITH = _FIRST["else"]
TO_WHILE, TO_IF, TO_IFELSE, OPEN_W, OPEN_I, CLOSE_W, CLOSE_I, CLOSE_R, ELSE = range(
    _FIRST["token"], _FIRST["token"] + 9
)
ACTION_KINDS, CONDITION_KINDS, COUNT_KINDS = len(ACTIONS), len(CONDITIONS), len(_COUNTS)


@compiled()
def note_edit(
    edits: I64Array, count: int, at: int, first: int, p: int, q: int, second: int, r: int, s: int, third: int, rest: int
) -> int:
    """Append an edit (see the module's docstring; piece 0 is nothing) to `edits`; returns the new count."""
    if count == edits.shape[0]:
        return count
    edits[count, 0], edits[count, 1], edits[count, 2], edits[count, 3] = at, first, p, q
    edits[count, 4], edits[count, 5], edits[count, 6], edits[count, 7] = second, r, s, third
    edits[count, 8] = rest
    return count + 1


@compiled()
def edited_length(edits: I64Array, number: int, length: int) -> int:
    """The number of tokens of a program of `length` tokens after an edit."""
    kept = edits[number, 0] + edits[number, 3] - edits[number, 2] + edits[number, 6] - edits[number, 5]
    pieces = _SIZES[edits[number, 1]] + _SIZES[edits[number, 4]] + _SIZES[edits[number, 7]]
    return int(kept + pieces + length - edits[number, 8])


@compiled()
def write_edited(tokens: U8Array, length: int, edits: I64Array, number: int, out: U8Array, row: int) -> None:
    """Write the edited program to out[row]."""
    size = 0
    for part in range(4):
        # tokens[begin : stop], then a piece; after the last part, none.
        begin = 0 if part == 0 else edits[number, 3 * part - 1] if part < 3 else edits[number, 8]
        stop = edits[number, 0] if part == 0 else edits[number, 3 * part] if part < 3 else length
        piece = edits[number, 3 * part + 1] if part < 3 else 0
        for place in range(begin, stop):
            out[row, size] = tokens[place]
            size += 1
        for place in range(_SIZES[piece]):
            out[row, size] = _PIECES[piece, place]
            size += 1
