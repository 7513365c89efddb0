"""World formats: what they read and write, and how they refuse what cannot be."""

from __future__ import annotations

import contextlib
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError, WorldError
from karelsynth.karel.formats import drawing, load_world, msr, save_world, stanford, world_from_text
from karelsynth.karel.world import HEADINGS, STEP, Cell, Hero, World
from tests.strategies import LIKELY_JSON, random_world, worlds

if TYPE_CHECKING:
    from pathlib import Path

SMALL = World(2, 3, Hero(0, 0, "east"), frozenset({(1, 2)}), {(0, 1): 2})
ON_MARKERS = World(3, 3, Hero(1, 1, "south"), frozenset({(0, 0), (2, 2)}), {(1, 1): 10, (0, 2): 3})

JSON = {"blocked": "1:2", "cols": 3, "crashed": False, "hero": "0:0:east", "markers": "0:1:2", "rows": 2}

FRAME = "1620 1621 1622 1623 1624 1674 1675 1676 1677 1678 1638 1656 1642 1660"
TENSOR = " ".join(f"{index}:1.0" for index in f"343 2288 1335 {FRAME}".split())

STANFORD = """\
Dimension: (3, 2)
Wall: (3, 2); north
Wall: (3, 2); east
Wall: (3, 2); south
Wall: (3, 2); west
Beeper: (2, 1); 2
Karel: (1, 1); east
BeeperBag: INFINITY
"""


def dense_worlds() -> st.SearchStrategy[World]:
    """Worlds of 40 to 80 % walls, where floor cells are often enclosed."""
    return st.builds(
        lambda seed, walls: random_world(random.Random(seed), walls, 0.3),
        st.integers(0, 2**32 - 1),
        st.floats(0.4, 0.8),
    )


# What is written, and that it is read back.


def test_the_formats_by_hand() -> None:
    assert SMALL.to_text() == ". . #\n> 2 ."
    assert ON_MARKERS.to_text() == ". .   #\n. v10 .\n# .   3"
    assert SMALL.to_json() == JSON
    assert list(SMALL.to_json()) == list(JSON)
    assert msr.tensor_to_string(SMALL) == TENSOR
    assert SMALL.to_stanford() == STANFORD


def test_json_lists_cells_from_the_top_row_and_the_left() -> None:
    world = World.parse("1 . #\n# > .\n. 2 3")
    assert world.to_json()["blocked"] == "2:2 1:0"
    assert world.to_json()["markers"] == "2:0:1 0:1:2 0:2:3"


@given(worlds() | dense_worlds())
def test_every_format_reads_what_it_writes(world: World) -> None:
    assert World.parse(world.to_text()) == world
    assert World.from_json(world.to_json()) == world
    assert msr.world_from_tensor_string(msr.tensor_to_string(world)) == world
    assert World.from_stanford(world.to_stanford()) == world


@given(worlds() | dense_worlds())
def test_text_is_recognised(world: World) -> None:
    for text in (world.to_text(), json.dumps(world.to_json()), world.to_stanford()):
        assert world_from_text(text) == world
        assert world_from_text(f"\n  \n{text}\n\n") == world


@given(worlds())
def test_drawings_are_tidy(world: World) -> None:
    lines = world.to_text().split("\n")
    assert lines == [line.rstrip() for line in lines]
    assert len(lines) == world.rows
    starts = [{at for at in range(len(line)) if line[at] != " " and (at == 0 or line[at - 1] == " ")} for line in lines]
    assert all(columns == starts[0] for columns in starts)


@pytest.mark.parametrize(
    "text", [". . #\n> 2 .", "\n\n  . . #  \r\n\t> 2 .\r\n\r\n", "0 00 #\r>0 02 0", ".   .  #\n>\t2\t."]
)
def test_drawings_may_be_typed_loosely(text: str) -> None:
    assert World.parse(text) == SMALL


@given(worlds(), st.randoms())
def test_order_does_not_matter_when_reading(world: World, rng: random.Random) -> None:
    def shuffled(text: str, separator: str) -> str:
        words = [word for word in text.split(separator) if word]
        rng.shuffle(words)
        return separator.join(words)

    record = world.to_json()
    record.update({key: shuffled(record[key], " ") for key in ("blocked", "markers")})
    assert World.from_json(record) == world
    assert msr.world_from_tensor_string(shuffled(msr.tensor_to_string(world), " ")) == world
    assert World.from_stanford(shuffled(world.to_stanford(), "\n")) == world


# Stanford's files from elsewhere.


@pytest.mark.parametrize(
    "lines",
    [
        "dimension:(3,2)\nWALL : ( 3 , 2 );WEST\nwall: south; (3, 2)\nBeeper: 2; (2,1)\nKarel: (1, 1) ; East",
        "Dimension: (3, 2)\nWall: (2, 2); east\nWall: (3, 1); north\nBeeper: (2, 1); 1\nBeeper: (2, 1); 1",
        "a comment\nSpeed: 0.75\nColor: (1, 1); red\nBeeperBag: INFINITE\n"
        + STANFORD.replace("BeeperBag: INFINITY", "Beeper: (3, 2); 0"),
        STANFORD.replace("Karel: (1, 1); east\n", "Wall: (3, 3); south\nWall: (1, 1); south\n"),
    ],
)
def test_files_from_elsewhere(lines: str) -> None:
    assert World.from_stanford(lines) == SMALL


def test_an_enclosed_cell_is_a_floor_or_a_wall_as_the_file_has_it() -> None:
    enclosed = World.parse(". # .\n# . #\n. # >")
    assert World.from_stanford(enclosed.to_stanford()) == enclosed
    box = "Dimension: (3, 3)\nWall: (2, 2); west\nWall: (3, 2); west\nWall: (2, 2); south\nWall: (2, 3); south\n"
    assert World.from_stanford(box) == World.parse(". . .\n. # .\n> . .")


def test_two_closed_cells_with_an_edge_between_them_are_both_walls() -> None:
    lines = ["Dimension: (2, 3)", "Karel: (1, 1); north", "Wall: (1, 2); south", "Wall: (2, 2); south"]
    lines += [f"Wall: ({avenue}, 2); north" for avenue in (1, 2)] + ["Wall: (2, 2); west"]
    assert World.from_stanford("\n".join(lines)) == World.parse(". .\n# #\n^ .")


def _as_an_editor_writes(world: World) -> str:
    """Each edge once, as west or south, and none on the border."""
    edges = set()
    for row, col in world.walls:
        edges |= {(row, col, "west"), (row, col, "south"), (row, col + 1, "west"), (row + 1, col, "south")}
    inner = sorted(
        (row, col, side)
        for row, col, side in edges
        if row < world.rows and col < world.cols and (col if side == "west" else row) > 0
    )
    others = [line for line in world.to_stanford().splitlines() if not line.startswith("Wall")]
    return "\n".join(others + [f"Wall: ({col + 1}, {row + 1}); {side}" for row, col, side in inner])


def _reachable(world: World) -> set[Cell]:
    seen: set[Cell] = set()
    todo: list[Cell] = [world.hero[:2]]
    while todo:
        row, col = cell = todo.pop()
        if world.is_clear(cell) and cell not in seen:
            seen.add(cell)
            todo += [(row + by_row, col + by_col) for by_row, by_col in STEP.values()]
    return seen


@given(worlds() | dense_worlds())
def test_edges_from_an_editor_make_the_same_world_for_karel(world: World) -> None:
    read = World.from_stanford(_as_an_editor_writes(world))
    assert (read.rows, read.cols, read.hero, read.markers) == (world.rows, world.cols, world.hero, world.markers)
    assert _reachable(read) == _reachable(world)


@settings(max_examples=25)
@given(world=worlds() | dense_worlds())
def test_the_stanford_package_reads_our_files_alike(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    package = pytest.importorskip("stanfordkarel.karel_program", exc_type=ImportError)  # it needs tkinter
    path = tmp_path_factory.mktemp("worlds") / "world.w"
    save_world(world, path)
    karel = package.KarelProgram(str(path))
    assert (karel.street - 1, karel.avenue - 1, karel.direction.value) == world.hero
    assert (karel.world.num_streets, karel.world.num_avenues) == (world.rows, world.cols)
    assert {(row - 1, col - 1): n for (col, row), n in karel.world.beepers.items()} == world.markers
    assert karel.num_beepers < 0  # their infinity
    directions = {direction.value: direction for direction in type(karel.direction)}
    for row, col in ((row, col) for row in range(world.rows) for col in range(world.cols)):
        if not world.is_clear((row, col)):
            continue
        karel.street, karel.avenue = row + 1, col + 1
        for heading in HEADINGS:
            by_row, by_col = STEP[heading]
            assert karel.direction_is_clear(directions[heading]) == world.is_clear((row + by_row, col + by_col))


# What cannot be.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the drawing is empty"),
        (" \n\n", "the drawing is empty"),
        ("> .\n. <", "one Karel, but the drawing has 2: line 1, cell 1 and line 2, cell 2"),
        ("\n> < ^\n. . .", "has 3: line 2, cell 1 and line 2, cell 2, and more"),
        (". .\n. 3", "Karel is missing in the drawing: put `^`, `>`, `v` or `<`"),
        ("> .\n. #>", "line 2, cell 2: Karel stands in a wall, `#>`"),
        (">#  .\n.  .", "line 1, cell 1: Karel stands in a wall, `>#`"),
        ("> .\n. #3", "line 2, cell 2: there are markers in a wall"),
        ("> .\n. 11", "line 2, cell 2: a cell holds 0 to 10 markers, not `11`"),
        (">11 .\n. .", "line 1, cell 1: a cell holds 0 to 10 markers"),
        (f"> .\n. {'9' * 5000}", "line 2, cell 2: a cell holds 0 to 10 markers"),
        ("> . .\n. .\n. . .", "line 2 has 2 cells where 3 are expected, as on line 1"),
        (">\n. .\n. .", "line 1 has 1 cell where 2 are expected, as on line 2"),
        ("> .\n\n. .", "line 2 is empty in the middle of the drawing"),
        ("> .", "the drawing has 1 line; a world has 2 to 16 rows"),
        ("\n".join(["> ."] + [". ."] * 16), "the drawing has 17 lines; a world has 2 to 16 rows"),
        (">\n.", "1 cell on every line; a world has 2 to 16 columns"),
        ("\n".join([">" + " ." * 16, "." + " ." * 16]), "17 cells on every line; a world has 2 to 16 columns"),
        ("..#\n>..", "line 1, cell 1: `..#` is not a cell (did you mean `. . #`?)"),
        ("> .\n. V", "line 2, cell 2: `V` is not a cell (did you mean `v`?)"),
        ("> .\n. 3>", "(did you mean `>3`?)"),
        ("> .\n. >.", "(did you mean `>`?)"),
        ("> .\n. →", "(did you mean `>`?)"),
        ("> .\n. -1", "`-1` is not a cell; cells have spaces between them and are `.` (empty), `#` (wall)"),
        ("> .\n. ٣", "`٣` is not a cell"),
        ("> .\n. \x00\x1b[31m", "`��[31m` is not a cell"),
        ("hello world", "line 1, cell 1: `hello` is not a cell"),
    ],
)
def test_impossible_drawings_are_refused(text: str, message: str) -> None:
    with pytest.raises(WorldError) as caught:
        World.parse(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": None}, "`rows` is a whole number, not `null`"),
        ({"rows": True}, "`rows` is a whole number"),
        ({"cols": [[3]]}, "`cols` is a whole number, not a list"),
        ({"cols": 3.0}, "`cols` is a whole number, not `3.0`"),
        ({"rows": 17}, "2 to 16 rows, not 17"),
        ({"cols": 1}, "2 to 16 columns, not 1"),
        ({"hero": ["0:0:east"]}, "`hero` is a string, not a list"),
        ({"hero": ""}, '`hero` is "row:col:heading", such as "0:3:east", not ``'),
        ({"hero": "0:0"}, '`hero` is "row:col:heading"'),
        ({"hero": "0:0:East"}, "not `East`; did you mean `east`?"),
        ({"hero": "0:3:east"}, "the hero is outside the grid at row 0, column 3"),
        ({"hero": "1:2:east"}, "the hero stands in a wall at row 1, column 2"),
        ({"hero": "0:0:east 0:1:west"}, '`hero` is "row:col:heading"'),
        ({"blocked": None}, "`blocked` is a string, not `null`"),
        ({"blocked": "1:2 x"}, '`blocked`, item 2: `x` is not "row:col"'),
        ({"blocked": "1:2 -1:0"}, "`blocked`, item 2: `-1:0`"),
        ({"blocked": "1:2 1:2"}, "`blocked`, item 2: the cell 1:2 is given twice"),
        ({"blocked": "2:0"}, "a wall is outside the grid at row 2, column 0"),
        ({"markers": {}}, "`markers` is a string, not an object"),
        ({"markers": "0:1"}, '`markers`, item 1: `0:1` is not "row:col:count"'),
        ({"markers": "0:1:11"}, "0 to 10 markers, not 11 (at row 0, column 1)"),
        ({"markers": "0:1:1 0:1:2"}, "`markers`, item 2: the cell 0:1 is given twice"),
        ({"markers": "1:2:1"}, "markers in a wall at row 1, column 2"),
        ({"crashed": True}, "`crashed` is `true`: the run crashed"),
        ({"crashed": "no"}, "`crashed` is `'no'`: it must be false"),
        ({"wall": "1:2"}, "no field `wall`"),
        ({"row": 2}, "no field `row` (did you mean `rows`?)"),
    ],
)
def test_impossible_json_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WorldError) as caught:
        World.from_json({**JSON, **change})
    assert message in str(caught.value)


@pytest.mark.parametrize("key", ["rows", "cols", "hero", "blocked", "markers"])
def test_json_with_a_field_missing_is_refused(key: str) -> None:
    with pytest.raises(WorldError, match=f"needs the field `{key}`"):
        World.from_json({name: value for name, value in JSON.items() if name != key})
    assert World.from_json({name: value for name, value in JSON.items() if name != "crashed"}) == SMALL


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "these cell codes hold 0"),
        (5, "is a string"),
        (TENSOR + " x", 'item 18: `x` is not "index:1.0"'),
        (TENSOR + " 7:0.5", "item 18: `7:0.5`"),
        (TENSOR + " 343:1.0", "item 18: index 343 is given twice"),
        (TENSOR + " 5184:1.0", "item 18: index 5184 is too large; they go from 0 to 5183"),
        (TENSOR.replace("343:1.0 ", ""), "these cell codes hold 0"),
        (TENSOR + " 344:1.0", "these cell codes hold 2"),
        (TENSOR + " 1315:1.0", "the hero stands in a wall at row 0, column 0"),
        (TENSOR + " 1964:1.0", "two things on one cell, or something beyond the frame, first in plane 6"),
        (TENSOR.replace(" 1660:1.0", ""), "fits no 2 × 3 world"),
        (TENSOR + " 1700:1.0", "column 7 fits no 2 × 3 world"),
    ],
)
def test_impossible_tensor_strings_are_refused(text: Any, message: str) -> None:
    with pytest.raises(WorldError) as caught:
        msr.world_from_tensor_string(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("Karel: (1, 1); east", "needs a line `Dimension: (avenues, streets)`"),
        ("Dimension: (17, 3)", "line 1: a world has 2 to 16 avenues, not 17"),
        ("\nDimension: (3, 1)", "line 2: a world has 2 to 16 streets, not 1"),
        ("Dimension: 3, 3", "line 1: `3, 3` does not belong here; the line is `Dimension: (avenues, streets)`"),
        ("Dimension: (-3, 3)", "line 1: `(-3, 3)` does not belong here"),
        ("Dimension: (3, 3)\nDimension: (3, 3)", "line 2: a second `Dimension`; the first is on line 1"),
        (STANFORD + "Karel: (2, 2); west", "line 9: a second Karel; the first is on line 7"),
        (STANFORD + "Kerel: (2, 2); west", "line 9: unknown keyword `Kerel` (did you mean `Karel`?)"),
        (STANFORD + "House: (2, 2)", "line 9: unknown keyword `House`; a line is `Dimension`, `Wall`"),
        (STANFORD + "Beeper (2, 2); 1", "line 9: a colon is missing after `Beeper`"),
        (STANFORD + "Beeper: (2, 2)", "line 9: `count` is missing; the line is `Beeper: (avenue, street); count`"),
        (STANFORD + "Beeper: (4, 1); 1", "line 9: a beeper is outside the grid at (4, 1): avenues go from 1 to 3"),
        (STANFORD + "Beeper: (0, 1); 1", "line 9: a beeper is outside the grid at (0, 1)"),
        (STANFORD + "Beeper: (2, 1); 9", "line 9: a cell holds 0 to 10 beepers, not 11 at (2, 1)"),
        (STANFORD + "Beeper: (2, 1); INFINITY", "line 9: a cell holds 0 to 10 beepers, not infinitely many"),
        (STANFORD + "Beeper: (2, 1); 1; 1", "line 9: `1` does not belong here"),
        (STANFORD + "Beeper: (3, 2); 1", "line 4: the wall south of (3, 2) is an edge"),
        (STANFORD + "BeeperBag: 5", "line 9: Karel's bag never runs out here, so it cannot hold 5 beepers"),
        (STANFORD + "BeeperBag: lots", "line 9: `lots` does not belong here; the line is `BeeperBag: INFINITY`"),
        (STANFORD + "Wall: (1, 2); wets", "line 9: `wets` is no direction (did you mean `west`?); they are `north`"),
        (STANFORD + "Wall: west", "line 9: `(avenue, street)` is missing"),
        (STANFORD + "Wall: (7, 7); west", "line 9: a wall is outside the grid at (7, 7)"),
        (
            STANFORD + "Wall: (1, 2); east",
            "line 9: the wall east of (1, 2) is an edge between two cells that are no walls",
        ),
        (STANFORD.replace("Karel: (1, 1)", "Karel: (4, 1)"), "line 7: Karel is outside the grid at (4, 1)"),
        (STANFORD.replace("Karel: (1, 1)", "Karel: (3, 2)"), "in this Karel a wall fills a cell"),
        (STANFORD.replace("Wall: (3, 2); south\n", ""), "line 4: the wall west of (3, 2) is an edge"),
    ],
)
def test_impossible_stanford_files_are_refused(lines: str, message: str) -> None:
    with pytest.raises(WorldError) as caught:
        World.from_stanford(lines)
    assert message in str(caught.value)


# Garbage gives a world or a WorldError, nothing else.


_LIKELY = st.text("..  \n\n##>v<^0123910:;,(){}[]\"'xWallKerDimnsoBp-\x00é")


@settings(max_examples=300)
@given(st.text() | _LIKELY)
def test_any_text_is_a_world_or_refused(text: str) -> None:
    for read in (world_from_text, drawing.parse, stanford.parse, msr.world_from_tensor_string):
        with contextlib.suppress(WorldError):
            assert isinstance(read(text), World)


@settings(max_examples=300)
@given(worlds(), st.integers(0, 2), st.data())
def test_any_damaged_file_is_a_world_or_refused(world: World, which: int, data: st.DataObject) -> None:
    text = (world.to_text(), json.dumps(world.to_json()), world.to_stanford())[which]
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(_LIKELY) + text[at + data.draw(st.integers(0, 5)) :]
    with contextlib.suppress(WorldError):
        assert isinstance(world_from_text(text), World)


@given(LIKELY_JSON, st.dictionaries(st.sampled_from(sorted(JSON)), LIKELY_JSON))
def test_any_json_is_a_world_or_refused(value: Any, changes: dict[str, Any]) -> None:
    for record in (value, {**JSON, **changes}):
        with contextlib.suppress(WorldError):
            assert isinstance(msr.world_from_json(record), World)


# Files.


@pytest.mark.parametrize("name", ["world.txt", "world.w", "world.JSON", "world", "world.drawing"])
def test_files_round_trip(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    save_world(SMALL, path)
    save_world(ON_MARKERS, str(path))
    assert load_world(path) == load_world(str(path)) == World.load(path) == ON_MARKERS
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_the_suffix_chooses_the_format(tmp_path: Path) -> None:
    for name in ("a.txt", "a.w", "a.json"):
        save_world(SMALL, tmp_path / name)
    assert (tmp_path / "a.txt").read_text() == ". . #\n> 2 .\n"
    assert (tmp_path / "a.w").read_text() == STANFORD
    assert json.loads((tmp_path / "a.json").read_text()) == JSON


def test_content_decides_when_reading_not_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "world.w"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.to_text().encode())  # some editors begin files so
    assert load_world(path) == SMALL


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the drawing is empty"),
        (b"\xff\xfe>\x00", "not UTF-8 text (byte 0)"),
        (b"> .\n" * 300_000, "too large: more than 1,048,576 bytes"),
        (b"> .\n. ?", "line 2, cell 2: `?` is not a cell"),
        (b'{"rows": 2,', "line 1, column 12: not valid JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"rows": ' + b"1" * 5000 + b"}", "not valid JSON: a number in it is too long"),
        (b"[1, 2]", "is an object with `rows`, `cols`, `hero`, `blocked` and `markers`, not a list"),
        (b"Dimensoin: (3, 3)", "line 1: unknown keyword `Dimensoin` (did you mean `Dimension`?)"),
    ],
)
def test_files_that_are_no_worlds(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "world"
    path.write_bytes(content)
    with pytest.raises(KarelsynthError) as caught:
        load_world(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(KarelsynthError, match="missing: there is no such file"):
        load_world(tmp_path / "missing")
    with pytest.raises(KarelsynthError, match="this is a directory"):
        load_world(tmp_path)
    with pytest.raises(KarelsynthError, match=r"cannot be read: .*null"):
        load_world("a\0b")
    for nowhere in (tmp_path / "missing" / "world.txt", tmp_path, "", "a\0b"):
        with pytest.raises(KarelsynthError, match="cannot be written"):
            save_world(SMALL, nowhere)
    assert not list(tmp_path.iterdir())
