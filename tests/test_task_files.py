"""Task files: the text format, JSON, the original data's lines, folders, and what is said about bad ones."""

from __future__ import annotations

import gzip
import io
import json
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError, TaskFileError
from karelsynth.karel.world import World
from karelsynth.tasks import task_files
from karelsynth.tasks.generate import generate
from karelsynth.tasks.msr_tasks import write_tasks
from karelsynth.tasks.task import MOST_EXAMPLES, Example, Task
from karelsynth.tasks.task_files import parse_task, read_pair, read_tasks, render_task, task_from_json
from tests.strategies import worlds

BEFORE, AFTER = World.parse(". . .\n> 1 ."), World.parse(". . .\n. . >")
TALL_BEFORE, TALL_AFTER = World.parse("# .\n. .\n^ 2"), World.parse("# .\n^ .\n. 2")
TWO = Task(((BEFORE, AFTER), (TALL_BEFORE, TALL_AFTER)), "Clean", "Takes it. Really.")  # type: ignore[arg-type]
TEXT = """\
name: Clean
about: Takes it. Really.

input:
. . .
> 1 .

output:
. . .
. . >

input:
# .
. .
^ 2

output:
# .
^ .
. 2
"""


def tasks() -> st.SearchStrategy[Task]:
    """Any task with a tidy name and words, though these may hold headings, cells and long words."""
    pieces = st.one_of(
        st.text(min_size=1, max_size=12), st.sampled_from(["input:", "output", "3", "v", "# .", "->", "w" * 130])
    )
    words = st.lists(pieces, max_size=40).map(lambda found: " ".join(" ".join(found).split()))
    pairs = st.tuples(worlds(), worlds()).map(lambda pair: Example(pair[0], with_walls_of(*pair)))
    return st.builds(
        Task, st.lists(pairs, min_size=1, max_size=3, unique_by=lambda pair: pair.input).map(tuple), words, words
    )


def with_walls_of(before: World, after: World) -> World:
    """Markers and hero of `after` in the room of `before`, as far as there is room for them."""
    markers = {cell: count for cell, count in after.markers.items() if before.is_clear(cell)}
    hero = after.hero if before.is_clear(after.hero[:2]) else before.hero
    return World(before.rows, before.cols, hero, before.walls, markers)


@given(tasks())
def test_text_round_trip(task: Task) -> None:
    text = render_task(task)
    assert parse_task(text) == task
    assert parse_task(text.replace("\n", "\r\n")) == task


@given(tasks())
def test_json_round_trip(task: Task) -> None:
    assert task_from_json(json.loads(json.dumps(task.to_json()))) == task


def test_rendered_text_is_this() -> None:
    assert render_task(TWO) == TEXT
    assert parse_task(TEXT) == TWO


def test_long_words_are_wrapped_and_white_space_is_tidied() -> None:
    task = Task(TWO.examples, "A\tname\n ", "word " * 60)
    text = render_task(task)
    assert max(map(len, text.splitlines())) <= 100
    assert parse_task(text) == Task(TWO.examples, "A name", " ".join(["word"] * 60))


def test_a_task_may_have_no_words() -> None:
    assert render_task(Task(TWO.examples)).startswith("input:\n")
    assert parse_task(render_task(Task(TWO.examples))) == Task(TWO.examples)


def test_forgiving() -> None:
    """Upper case, numbers, indentation, blank lines, a drawing that begins in the heading's line."""
    text = """

      NAME : Clean
      About: Takes it.
        Really.


      Input 1:
          .  .  .
          >  1  .
      output1 :

          . . .
          . . >
      input #2: # .
      . .
      ^ 2
      OUTPUT 02:
      # .
      ^ .
      . 2

    """
    assert parse_task(text.replace("input #2: # .", "input #2:\n # .")) == TWO
    assert parse_task(text) == TWO


def test_side_by_side() -> None:
    text = """
    name: Clean
    about: Takes it. Really.
    example 1:
      . . .    . . .
      > 1 . -> . . >
    example:
    # . => # .
    . .    ^ .
    ^ 2 →  . 2
    """
    assert parse_task(text) == TWO


PAIR = "input:\n. .\n> .\noutput:\n. .\n. >\n"
BAD_TEXTS = [
    ("", "x: there is no example in it: a task is `input:` and a drawing"),
    ("name: A\n\nabout: B\n", "x: there is no example in it"),
    ("hello\n" + PAIR, "x: line 1: `hello` is not under any heading"),
    (". .\n> .\n", "x: line 1: `. .` is not under any heading"),
    ("name: A\n. .\n> .\n", "x: line 2: `. .` is not under any heading"),
    ("about: B\n\nmore\n" + PAIR, "x: line 3: `more` is not under any heading"),
    ("\ninptu:\n. .\n> .\n", "x: line 2: unknown heading `inptu:`; did you mean `input:`?"),
    (PAIR + "outptu 2:\n. .", "x: line 7: unknown heading `outptu:`; did you mean `output:`?"),
    ("before:\n. .\n> .\n", "x: line 1: unknown heading `before:`; did you mean `input:`?"),
    ("xyzzy: 1\n", "x: line 1: unknown heading `xyzzy:`; the headings are `name`, `about`, `input`"),
    ("input:\n. .\n> .\n", "x: the input at line 1 has no output: below it, write `output:`"),
    ("name: A\ninput:\n. .\n> .\n\ninput 2:\n. .\n> .\n", "x: line 6: another `input:`, but the input at line 2"),
    ("input:\n. .\n> .\nexample:\n> -> .\n", "x: line 4: another `example:`, but the input at line 1 has no output"),
    ("output:\n. .\n> .\n", "x: line 1: `output:` without an `input:` of its own before it"),
    (PAIR + "output:\n. .\n. >\n", "x: line 7: `output:` without an `input:`"),
    ("input 1:\n. .\n> .\noutput 2:\n. .\n. >\n", "x: line 4: this is output 2, but the input before it"),
    ("name: A\nname: B\n" + PAIR, "x: line 2: a second `name:`, after the one in line 1"),
    ("input:\n. .\n> .\n\noutput:\n. .\n. x\n", "x: the output at line 5: line 7, cell 2: `x` is not a cell"),
    ("input:\n. .\n. .\noutput:\n. .\n. >\n", "x: the input at line 1: Karel is missing in the drawing"),
    ("input:\n. .\n\n> .\noutput:\n. .\n. >\n", "x: the input at line 1: line 3 is empty in the middle"),
    ("input:\noutput:\n. .\n. >\n", "x: the input at line 1: the drawing is empty"),
    ("input:\n. .\n> .\noutput:\n. . .\n. . >\n", "x: example 1: the input has 2 rows and 2 columns"),
    (PAIR + "input:\n. #\n> .\noutput:\n. .\n. >\n", "x: example 2: there is a wall at row 2, column 2 in"),
    ("example:\n. . . .\n> . . >\n", "x: line 1: no `->` in this example"),
    ("example:\n. . .\n> . -> . >\n", "x: line 2 has 3 cells, which do not make two worlds side by side"),
    ("example:\n. . . .\n> . -> . y\n", "x: the output at line 1: line 3, cell 2: `y` is not a cell"),
    (PAIR * (MOST_EXAMPLES + 1), f"x: a task has at most {MOST_EXAMPLES} examples, not {MOST_EXAMPLES + 1}"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD_TEXTS)
def test_what_is_wrong_with_a_text(text: str, message: str) -> None:
    with pytest.raises(TaskFileError) as caught:
        parse_task(text, "x")
    assert str(caught.value).startswith(message)
    with pytest.raises(TaskFileError) as caught:
        parse_task(text)
    assert str(caught.value).startswith(message.removeprefix("x: "))


@given(
    st.one_of(
        st.text(), st.lists(st.sampled_from([*TEXT.splitlines(), "example:", "> . -> . >", "x:", "#"])).map("\n".join)
    )
)
def test_any_text_is_a_task_or_refused(text: str) -> None:
    try:
        task = parse_task(text)
    except TaskFileError:
        return
    assert parse_task(render_task(task)) == task


@pytest.mark.parametrize(
    "hostile", ["input" + " " * 900_000, PAIR * 30_000, "input:\n" * 140_000, "about: x\n" + "a: b\n" * 190_000]
)
def test_hostile_texts_are_refused_at_once(hostile: str) -> None:
    start = time.process_time()
    with pytest.raises(TaskFileError):
        parse_task(hostile)
    assert time.process_time() - start < 20


# Files


def test_read_text_and_json(tmp_path: Path) -> None:
    text, one, many = tmp_path / "a.task", tmp_path / "one.json", tmp_path / "many"
    text.write_text(TEXT)
    one.write_text(json.dumps(TWO.to_json()))
    many.write_text(json.dumps([TWO.to_json(), {"examples": TWO.to_json()["examples"]}]))
    assert read_tasks(text) == read_tasks(str(one)) == [TWO]
    assert read_tasks(many) == [TWO, Task(TWO.examples, "many 2")]


def test_json_with_drawings() -> None:
    pairs = [{"input": example.input.to_text(), "output": example.output.to_text()} for example in TWO.examples]
    assert task_from_json({"examples": pairs, "name": "Clean", "about": TWO.about, "slug": "x"}) == TWO


def test_a_task_without_a_name_gets_its_files(tmp_path: Path) -> None:
    (tmp_path / "my-task.v2.task").write_text(PAIR)
    assert [task.name for task in read_tasks(tmp_path / "my-task.v2.task")] == ["my-task"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    give(PAIR)
    assert [task.name for task in read_tasks("-")] == [""]
    give("inptu:\n")
    with pytest.raises(TaskFileError, match=r"^standard input: line 1: unknown heading"):
        read_tasks("-")


@pytest.mark.parametrize("name", ["set.jsonl", "set.jsonl.gz", "set.json"])
def test_read_the_original_format(tmp_path: Path, name: str) -> None:
    batch = generate(seed=3, start=0, count=3)
    write_tasks([batch], tmp_path / name)
    found = read_tasks(tmp_path / name)
    assert [task.name for task in found] == ["line 1", "line 2", "line 3"]
    for row, task in enumerate(found):
        inputs, outputs = task.codes()
        assert (inputs == batch.inputs[row, :5]).all(), "the five that are given"
        assert (outputs == batch.outputs[row, :5]).all()


def test_large_files_whatever_they_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a megabyte of the original's lines, of ours, and of a list."""
    write_tasks([generate(seed=3, start=0, count=150)], tmp_path / "set.json")
    ours = [json.dumps(TWO.to_json() | {"about": "x" * 5_000})] * 300
    (tmp_path / "ours.jsonl").write_text("\n".join(ours))
    (tmp_path / "list.json").write_text(f"[{','.join(ours)}]")
    for name, count in (("set.json", 150), ("ours.jsonl", 300), ("list.json", 300)):
        assert (tmp_path / name).stat().st_size > 2**20
        assert len(read_tasks(tmp_path / name)) == count
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((tmp_path / name).read_bytes())))
        assert len(read_tasks("-")) == count


def test_our_own_lines_are_read_compressed_too(tmp_path: Path) -> None:
    ours = TWO.to_json() | {"about": "of inpgrid_json"}  # which makes it none of the original's
    lines = "\n".join(json.dumps(ours) for _ in range(3))
    (tmp_path / "ours.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    assert [task.examples for task in read_tasks(tmp_path / "ours.jsonl.gz")] == [TWO.examples] * 3
    (tmp_path / "ours.jsonl.gz").write_bytes(gzip.compress(lines.encode() + b'\n{"examples": []}'))
    with pytest.raises(TaskFileError, match="line 4: a task needs at least one example"):
        read_tasks(tmp_path / "ours.jsonl.gz")


def test_one_record_of_the_original_format(tmp_path: Path) -> None:
    write_tasks([generate(seed=3, start=0, count=1)], tmp_path / "one.json")
    assert [len(task.examples) for task in read_tasks(tmp_path / "one.json")] == [5]


def test_one_task_of_many(tmp_path: Path) -> None:
    first, second = (Task((Example(BEFORE, AFTER),), name=name) for name in ("first", "second"))
    (tmp_path / "1.task").write_text(render_task(first))
    lines = tmp_path / "tasks.jsonl"
    lines.write_text("".join(json.dumps(task.to_json()) + "\n" for task in (first, second)))
    assert read_tasks(tmp_path) == [first, second], "the first, which two files hold, counts once"
    assert read_tasks(f"{tmp_path}#2") == read_tasks(f"{lines}#2") == [second]
    for number in (0, 3):
        with pytest.raises(TaskFileError, match=f"there is no task {number}; it holds 2"):
            read_tasks(f"{lines}#{number}")
    (tmp_path / "odd#1").write_text(render_task(second))
    assert read_tasks(tmp_path / "odd#1") == [second], "a file of that name comes first"


def test_read_a_folder(tmp_path: Path) -> None:
    for name, content in [
        ("b.task", PAIR),
        ("a.task", TEXT),
        ("README.txt", "hello"),
        ("c.JSON", json.dumps([TWO.to_json()])),
    ]:
        (tmp_path / name).write_text(content)
    (tmp_path / "d.task").mkdir()
    assert [task.name for task in read_tasks(tmp_path)] == ["Clean", "b"], "the same task twice counts once"
    (tmp_path / "aa.task").write_text("x")
    with pytest.raises(TaskFileError, match=r"aa\.task: line 1: `x` is not under any heading"):
        read_tasks(tmp_path)


BAD_FILES = [
    (b"", "there is no example in it"),
    (b" \n", "there is no example in it"),
    (b"\xff\xfe\x00", "not UTF-8 text"),
    (b"input:\n" + b"." * 2**20, "too large"),
    (b"[]", "there is no task in it"),
    (b"{}", "a task needs `examples`"),
    (b'{"exampels": []}', "a task needs `examples`, a list of .*; it has `exampels`"),
    (b"[3]", "task 1: a task is a JSON object"),
    (b'{"examples": []}', "a task needs at least one example"),
    (b'{"examples": [3]}', r"examples\[0\]: an object with `input` and `output` is expected"),
    (b'{"examples": [{"input": ". ."}]}', r"examples\[0\].input: the drawing has 1 line"),
    (b'{"examples": [{"input": ". .\\n> ."}]}', r"examples\[0\]: an object with `input` and `output` is expected"),
    (b'{"examples": [{"input": 3, "output": 4}]}', r"examples\[0\].input: the JSON of a world is an object"),
    (b'{"name": 3, "examples": []}', "`name` and `about` must be strings"),
    (b'{"name": "A",}', "line 1, column 1[34]: not valid JSON"),  # the comma, since Python 3.13
    (b"[" * 100_000, "nested too deep"),
    (b'{"name": "A"}\n{"examples"', "line 1: a task needs `examples`"),
    (b"\x1f\x8b broken", "the compressed file is cut off or damaged"),
    (gzip.compress(b'{"program_tokens": []}\n', mtime=0), "line 1: "),
]


@pytest.mark.parametrize(("content", "message"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_what_is_wrong_with_a_file(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.task"
    path.write_bytes(content)
    with pytest.raises(KarelsynthError, match=message) as caught:
        read_tasks(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_places_without_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KarelsynthError, match="there is no such file"):
        read_tasks(tmp_path / "none.task")
    with pytest.raises(KarelsynthError, match="there is no such file"):
        read_tasks(tmp_path / "none.jsonl")
    with pytest.raises(KarelsynthError, match="cannot be read"):
        read_tasks("a\0b")
    with pytest.raises(TaskFileError, match=r"no task files in it; their names end in `\.task`"):
        read_tasks(tmp_path)
    (tmp_path / "a.task").write_text(PAIR)
    (tmp_path / "b.task").write_text(PAIR)
    monkeypatch.setattr(task_files, "MOST_TASKS", 1)
    with pytest.raises(TaskFileError, match="more than 1 tasks"):
        read_tasks(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(TaskFileError, match="a set made by `karelsynth generate`"):
        read_tasks(tmp_path)


def test_read_pair(tmp_path: Path) -> None:
    before, after, other = tmp_path / "before.w", tmp_path / "after.txt", tmp_path / "other.txt"
    before.write_text("Dimension: (3, 2)\nKarel: (1, 1); east\nBeeper: (2, 1); 1\nBeeperBag: INFINITY\n")
    after.write_text(AFTER.to_text())
    other.write_text(TALL_AFTER.to_text())
    assert read_pair(before, after) == Task((Example(BEFORE, AFTER),))
    with pytest.raises(TaskFileError, match=r"before\.w and .*other\.txt: the input has 2 rows and 3 columns"):
        read_pair(before, other)
    with pytest.raises(KarelsynthError, match=r"none\.w: there is no such file"):
        read_pair(before, tmp_path / "none.w")
    with pytest.raises(TaskFileError, match="only one of the two worlds"):
        read_pair("-", "-")
