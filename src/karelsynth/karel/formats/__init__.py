"""World files. Reading recognises the format by content, writing chooses it by suffix.

A drawing (`.txt` and anything else), the original data's JSON (`.json`), or Stanford Karel's `.w`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karelsynth.errors import WorldError
from karelsynth.files import read_text, write_atomically
from karelsynth.karel.formats import drawing, msr, stanford
from karelsynth.parsing import ParseError, parse_json

if TYPE_CHECKING:
    from karelsynth.karel.world import World


def world_from_text(text: str) -> World:
    """Read a world in any of the text formats, recognised by its content."""
    if text.lstrip()[:1] in ("{", "[", '"'):  # none of them begins a cell of a drawing
        return msr.world_from_json(_json(text))
    if stanford.recognises(text):
        return stanford.parse(text)
    return drawing.parse(text)


def load_world(path: str | Path) -> World:
    """Read a world file in any of the text formats, recognised by its content; `-` is standard input.

    Raises KarelsynthError, with the path in front, if the file or the world is wrong.
    """
    text = read_text(path)
    try:
        return world_from_text(text)
    except WorldError as error:
        raise WorldError(f"{path}: {error}") from None


def save_world(world: World, path: str | Path) -> None:
    """Write a world file, in the format of the path's suffix: `.w`, `.json`, or a drawing for any other."""
    match Path(path).suffix.lower():
        case ".w":
            text = stanford.render(world)
        case ".json":
            text = json.dumps(msr.world_to_json(world), indent=2) + "\n"
        case _:
            text = drawing.render(world) + "\n"
    write_atomically(path, text.encode())


def _json(text: str) -> Any:
    try:
        return parse_json(text)
    except ParseError as error:
        raise WorldError(str(error)) from None
