"""The original data's JSON: worlds, their tensors as strings, and programs.

A world is `{"blocked": "1:2", "cols": 3, "crashed": false, "hero": "0:0:east", "markers": "0:1:2", "rows": 2}`;
places are row:column, the bottom row is 0. Its tensor lists the flat indices that are 1, "index:1.0 …". A
program is a tree, `{"run": [{"type": "move"}, {"body": […], "times": 3, "type": "repeat"}]}`.

The writer reproduces the published files exactly, with the same order: cells from the top row down, each row from the
left, and keys sorted. The reader accepts any order but no duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn

from karelsynth.errors import TaskFileError, WorldError, did_you_mean, listed, quoted
from karelsynth.karel.program import (
    DEEPEST,
    TOO_DEEP,
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
from karelsynth.karel.tokens import LARGEST_COUNT
from karelsynth.karel.world import HEADINGS, Cell, Hero, World

_NEEDED: Final = ("rows", "cols", "hero", "blocked", "markers")
_FIELDS: Final = (*_NEEDED, "crashed")


def world_from_json(record: Mapping[str, Any]) -> World:
    """Read a world's JSON object."""
    if not isinstance(record, Mapping):
        raise WorldError(f"the JSON of a world is an object with {listed(_NEEDED, 'and')}, not {_kind(record)}")
    for key in record:
        if key not in _FIELDS:
            field = f"{quoted(str(key))}{did_you_mean(str(key), _FIELDS, aside=True)}"
            raise WorldError(f"the JSON of a world has no field {field}; its fields are {listed(_FIELDS, 'and')}")
    for key in _NEEDED:
        if key not in record:
            raise WorldError(f"the JSON of a world needs the field `{key}`")
    crashed = record.get("crashed", False)
    if crashed is not False:
        reason = "the run crashed, so there is no such world" if crashed is True else "it must be false"
        raise WorldError(f"`crashed` is {_shown(crashed)}: {reason}")

    rows, cols = (_whole(record, key) for key in ("rows", "cols"))
    walls, markers = _cells(record, "blocked", "row:col"), _cells(record, "markers", "row:col:count")
    return World(rows, cols, _hero(record), frozenset(walls), markers)


def world_to_json(world: World) -> dict[str, Any]:
    """The world's JSON object."""
    row, col, heading = world.hero
    return {
        "blocked": " ".join(f"{row}:{col}" for row, col in _in_order(world.walls)),
        "cols": world.cols,
        "crashed": False,
        "hero": f"{row}:{col}:{heading}",
        "markers": " ".join(f"{row}:{col}:{world.markers[row, col]}" for row, col in _in_order(world.markers)),
        "rows": world.rows,
    }


def tensor_to_string(world: World) -> str:
    """The world's tensor, as "index:1.0 …" with index = plane · 324 + (row + 1) · 18 + (column + 1).

    Hero, markers, walls; then the frame: bottom row, top row, left and right column.
    """
    from karelsynth.karel.formats.codes import FRAME_PLANE, WALL_PLANE

    frame_rows = [(row, col) for row in (-1, world.rows) for col in range(-1, world.cols + 1)]
    frame_cols = [(row, col) for col in (-1, world.cols) for row in range(world.rows)]
    planes = [
        (HEADINGS.index(world.hero.heading), world.hero[:2]),
        *((FRAME_PLANE + world.markers[cell], cell) for cell in _in_order(world.markers)),
        *((WALL_PLANE, cell) for cell in _in_order(world.walls)),
        *((FRAME_PLANE, cell) for cell in frame_rows + frame_cols),
    ]
    return " ".join(f"{_flat(plane, cell)}:1.0" for plane, cell in planes)


def world_from_tensor_string(text: str) -> World:
    """Read a world's tensor string; the indices may come in any order."""
    import numpy as np

    from karelsynth.karel.formats.codes import PLANES, SIDE

    if not isinstance(text, str):
        raise WorldError(f'the tensor of a world is a string "index:1.0 …", not {_kind(text)}')
    flat = np.zeros(PLANES * SIDE * SIDE, np.float32)
    for number, word in enumerate(text.split(), 1):
        match = re.fullmatch(r"([0-9]{1,9}):1(?:\.0*)?", word)
        if match is None:
            raise WorldError(f'tensor, item {number}: {quoted(word)} is not "index:1.0"')
        at = int(match[1])
        if at >= len(flat):
            raise WorldError(f"tensor, item {number}: index {at} is too large; they go from 0 to {len(flat) - 1}")
        if flat[at]:
            raise WorldError(f"tensor, item {number}: index {at} is given twice")
        flat[at] = 1
    return World.from_tensor(flat.reshape(PLANES, SIDE, SIDE))


def _flat(plane: int, cell: Cell) -> int:
    from karelsynth.karel.formats.codes import SIDE

    return (plane * SIDE + cell[0] + 1) * SIDE + cell[1] + 1


def _in_order(cells: Iterable[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: (-cell[0], cell[1]))


def _whole(record: Mapping[str, Any], key: str) -> int:
    value = record[key]
    if isinstance(value, bool) or not isinstance(value, int):
        raise WorldError(f"`{key}` is a whole number, not {_shown(value)}")
    return value


def _string(record: Mapping[str, Any], key: str) -> str:
    value = record[key]
    if not isinstance(value, str):
        raise WorldError(f"`{key}` is a string, not {_kind(value)}")
    return value


def _hero(record: Mapping[str, Any]) -> Hero:
    text = _string(record, "hero")
    match = re.fullmatch(r"\s*([0-9]{1,9}):([0-9]{1,9}):(\S*)\s*", text)
    if match is None:
        raise WorldError(f'`hero` is "row:col:heading", such as "0:3:east", not {quoted(text)}')
    return Hero(int(match[1]), int(match[2]), match[3])


def _cells(record: Mapping[str, Any], key: str, form: str) -> dict[Cell, int]:
    """The items of a string by cell, each with its last number. Every item has the form."""
    found: dict[Cell, int] = {}
    pattern = re.compile(re.sub("[a-z]+", "([0-9]{1,9})", form))
    for number, word in enumerate(_string(record, key).split(), 1):
        match = pattern.fullmatch(word)
        if match is None:
            raise WorldError(f'`{key}`, item {number}: {quoted(word)} is not "{form}" with whole numbers from 0')
        cell = int(match[1]), int(match[2])
        if cell in found:
            raise WorldError(f"`{key}`, item {number}: the cell {match[1]}:{match[2]} is given twice")
        found[cell] = int(match[match.lastindex or 0])
    return found


# Programs.

_NODES: Final[dict[str, tuple[Callable[..., Statement | Not], tuple[str, ...]]]] = {
    "repeat": (Repeat, ("times", "body")),
    "while": (While, ("condition", "body")),
    "if": (If, ("condition", "body")),
    "ifElse": (IfElse, ("condition", "ifBody", "elseBody")),
    "not": (Not, ("condition",)),
}
"""The names of the nodes and of their fields, in the order of the syntax tree's."""
_NAMES: Final = {node: (name, keys) for name, (node, keys) in _NODES.items()}
_STATEMENTS: Final = (*(action.value for action in Action), *(name for name in _NODES if name != "not"))
_CONDITIONS: Final = (*(sensor.value for sensor in Sensor), "not")


def program_from_json(record: Mapping[str, Any]) -> Program:
    """Read a program's tree; a TaskFileError says at which node, as in `run[0].body[2]`, something is wrong."""
    fields = _object(record, "the program", ("run",))
    return Program(_block(fields["run"], "run", 0))


def program_to_json(program: Program) -> dict[str, Any]:
    """The program's tree."""
    return {"run": _part_to_json(program.body)}


def _part_to_json(part: int | Condition | Statement | Block) -> Any:
    if isinstance(part, tuple):
        return [_part_to_json(statement) for statement in part]
    if isinstance(part, int):
        return part
    if isinstance(part, Action | Sensor):
        return {"type": part.value}
    name, keys = _NAMES[type(part)]
    values = [value for _, value in part.layout if not isinstance(value, str)]
    fields = {key: _part_to_json(value) for key, value in zip(keys, values, strict=True)}
    return dict(sorted({**fields, "type": name}.items()))


def _block(value: Any, where: str, depth: int) -> Block:
    if not isinstance(value, list | tuple):
        _fail(where, f"a list of statements is expected, not {_kind(value)}")
    if not value:
        _fail(where, "a block holds at least one statement, and this is empty")
    statements = []  # a loop, because comprehensions would use up Python's stack in deep programs
    for at, item in enumerate(value):
        statements.append(_node(item, f"{where}[{at}]", depth, _STATEMENTS))
    return tuple(statements)


def _node(value: Any, where: str, depth: int, types: tuple[str, ...]) -> Any:
    """A statement or a condition: a node whose type is one of `types`."""
    if depth > DEEPEST:
        _fail(where[:40] + "…", TOO_DEEP)
    kind = value.get("type") if isinstance(value, Mapping) else None
    if isinstance(kind, str) and kind not in types:
        _fail(where, f"no type {quoted(kind)}{did_you_mean(kind, types, aside=True)}; expected {listed(types)}")
    node, keys = _NODES.get(kind, (None, ())) if isinstance(kind, str) else (None, ())
    fields = _object(value, where, ("type", *keys))
    if not isinstance(kind, str):
        _fail(where, f"`type` is a string, not {_kind(kind)}")
    if node is None:
        return Action(kind) if types is _STATEMENTS else Sensor(kind)
    parts = []
    for key in keys:
        parts.append(_field(fields[key], f"{where}.{key}", depth + 1))
    return node(*parts)


def _field(value: Any, where: str, depth: int) -> int | Condition | Block:
    if where.endswith(".times"):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_COUNT:
            _fail(where, f"repeat counts are whole numbers from 0 to {LARGEST_COUNT}, not {_shown(value)}")
        return value
    if where.endswith(".condition"):
        condition: Condition = _node(value, where, depth, _CONDITIONS)
        return condition
    return _block(value, where, depth)


def _object(value: Any, where: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """The value, an object with exactly these keys."""
    if not isinstance(value, Mapping):
        _fail(where, f"an object with {listed(keys, 'and')} is expected, not {_kind(value)}")
    for key in keys:
        if key not in value:
            _fail(where, f"the field `{key}` is missing")
    for key in value:
        if key not in keys:
            _fail(where, f"unexpected field {quoted(str(key))}; expected {listed(keys, 'and')}")
    return value


def _fail(where: str, reason: str) -> NoReturn:
    raise TaskFileError(f"{where}: {reason}")


def _shown(value: Any) -> str:
    """A number or a string as it is, and only the kind of anything else, which may be large."""
    plain = isinstance(value, int | float | str) and not isinstance(value, bool)
    return quoted(repr(value)) if plain else _kind(value)


def _kind(value: Any) -> str:
    """The kind of a value, named as in JSON."""
    if value is None or isinstance(value, bool):
        return quoted({None: "null", True: "true", False: "false"}[value])
    kinds = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds.get(type(value), f"a {type(value).__name__}")
