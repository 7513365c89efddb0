"""The commands run, check, convert, draw and verify, as a person calls them."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from karelsynth import Program, World
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.task_files import render_task
from tests.strategies import random_program, random_world

SWEEP = "def run():\n  while(frontIsClear):\n    move()\n  pickMarker()\n"
ROOM = ". . .\n> . 1\n"


def call(*arguments: str | Path, cwd: Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in its own process, as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "karelsynth", *map(str, arguments)],
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sweep.txt").write_text(SWEEP)
    (tmp_path / "room.txt").write_text(ROOM)
    task = Task((Example(World.parse("> .\n. ."), World.parse(". >\n. .")),), name="A step")
    (tmp_path / "step.task").write_text(render_task(task))
    (tmp_path / "step.json").write_text(json.dumps(task.to_json()))
    (tmp_path / "two.json").write_text(json.dumps([task.to_json(), task.to_json()]))
    (tmp_path / "broken.task").write_text("name: Broken\ninput:\n> ?\noutput:\n. >\n")
    return tmp_path


def assert_clear_error(result: subprocess.CompletedProcess[str], *parts: str, status: int = 1) -> None:
    assert result.returncode == status, result
    assert "Traceback" not in result.stderr + result.stdout
    for part in parts:
        assert part in result.stderr


def test_run_shows_the_outcome(folder: Path) -> None:
    result = call("run", "sweep.txt", "room.txt", cwd=folder)
    assert result.returncode == 0, result
    assert "before" in result.stdout
    assert "after" in result.stdout
    assert "finished after 6 ticks" in result.stdout


def test_run_says_where_it_crashed(folder: Path) -> None:
    (folder / "crash.txt").write_text("def run():\n  move()\n  pickMarker()\n")
    result = call("run", "crash.txt", "room.txt", cwd=folder)
    assert result.returncode == 1
    assert "crashed: picked where there is no marker at row 1, column 2, facing east" in result.stdout
    assert "in line 3:  pickMarker()" in result.stdout


def test_run_names_an_endless_loop_and_its_line(folder: Path) -> None:
    (folder / "spin.txt").write_text("def run():\n  move()\n  while(frontIsClear):\n    turnLeft()\n    turnRight()\n")
    result = call("run", "spin.txt", "room.txt", cwd=folder)
    assert result.returncode == 1
    assert "runs forever: the state repeats" in result.stdout
    assert "in line 3:  while(frontIsClear):" in result.stdout


def test_run_as_json_from_standard_input(folder: Path) -> None:
    result = call("run", "-", "room.txt", "--json", cwd=folder, text=SWEEP)
    outcome = json.loads(result.stdout)
    assert outcome["status"] == "ok"
    assert outcome["actions"] == ["move", "move", "pickMarker"]
    assert outcome["drawing"] == [". . .", ". . >"]
    assert World.from_json(outcome["world"]) == World.parse(". . .\n. . >")


@pytest.mark.parametrize("name", ["run.gif", "run.svg", "run.png"])
def test_run_saves_pictures(name: str, folder: Path) -> None:
    result = call("run", "sweep.txt", "room.txt", "-o", name, cwd=folder)
    assert result.returncode == 0, result
    assert (folder / name).stat().st_size > 500


def test_animation_without_a_terminal_prints_start_and_end(folder: Path) -> None:
    result = call("run", "sweep.txt", "room.txt", "--animate", cwd=folder)
    assert result.returncode == 0
    assert "start" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("run", "missing.txt", "room.txt"), ["missing.txt: there is no such file"]),
        (("run", "sweep.txt", "sweep.txt"), ["sweep.txt: line 1", "is not a cell"]),
        (("run", "sweep.txt", "."), ["this is a directory"]),
        (("run", "-", "-"), ["only one of PROGRAM and WORLD"]),
        (("run", "sweep.txt", "room.txt", "-o", "run.doc"), ["must end in"]),
        (("run", "sweep.txt", "room.txt", "-o", "nowhere/run.gif"), ["there is no folder"]),
        (("run", "sweep.txt", "room.txt", "--speed", "3"), ["--speed", "--animate", ".gif"]),
        (("run", "sweep.txt", "room.txt", "--speed", "3", "-o", "run.png"), ["--speed", "--animate", ".gif"]),
        (("run", "sweep.txt", "room.txt", "--animate", "--json"), ["--animate", "--json"]),
        (("run", "sweep.txt", "step.task"), ["step.task: this is a task", "`karelsynth solve step.task`"]),
        (("run", "step.task", "room.txt"), ["step.task: this is a task", "`karelsynth solve step.task`"]),
        (("run", "sweep.txt", "step.json"), ["step.json: this is a task", "`karelsynth draw step.json`"]),
        (("draw", "step.task", "-o", "step.w"), ["must end in"]),
        (("draw", "two.json"), ["two.json: holds 2 tasks"]),
        (("draw", "broken.task"), ["broken.task: the input at line 2: line 3, cell 2"]),
        (("draw", "room.txt", "-o", "room.jpg"), ["must end in"]),
        (("draw", "room.txt", "-o", "room.png", "--cell", "9999999"), ["cell"]),
        (("convert", "room.txt", "--to", "paper"), ["room.txt, line 1"]),
        (("verify", "missing.jsonl"), ["missing.jsonl"]),
    ],
)
def test_bad_input_gets_one_clear_message(arguments: tuple[str, ...], parts: list[str], folder: Path) -> None:
    assert_clear_error(call(*arguments, cwd=folder), *parts)


def test_unknown_words_on_the_command_line(folder: Path) -> None:
    for arguments in (
        ("rnu",),
        ("convert", "sweep.txt", "--to", "french"),
        ("run", "sweep.txt", "room.txt", "--fast"),
        ("run", "sweep.txt", "room.txt", "--speed", "-3"),
    ):
        assert_clear_error(call(*arguments, cwd=folder), status=2)


def test_check_points_at_the_place(folder: Path) -> None:
    (folder / "slip.txt").write_text("def run():\n  turnLfet()\n")
    result = call("check", "sweep.txt", "slip.txt", cwd=folder)
    assert_clear_error(result, "slip.txt, line 2, column 3", "  turnLfet()", "^^^^^^^^", "Did you mean `turnLeft`?")
    assert "sweep.txt: ok (paper, 12 tokens, written as in the paper's data)" in result.stdout
    assert call("check", "-", cwd=folder, text="DEF run m( turnLeft m)").stdout == (
        "-: ok (tokens, 5 tokens, not written as in the paper's data)\n"
    )


def test_convert_goes_around_without_loss(folder: Path) -> None:
    program = random_program(random.Random(3))
    (folder / "a").write_text(program.to("paper"))
    for before, after, dialect, option in (
        ("a", "b", "stanford", "-o"),
        ("b", "c", "tokens", "--out"),
        ("c", "d", "paper", "--output"),
    ):
        result = call("convert", before, "--to", dialect, option, after, cwd=folder)
        assert result.returncode == 0, result
    assert (folder / "d").read_text() == program.to("paper") + "\n"
    assert call("convert", "a", "--to", "tokens", cwd=folder).stdout == " ".join(program.tokens) + "\n"


@pytest.mark.parametrize("name", ["room.svg", "room.png", "room.w", "room.json", "again.txt"])
def test_draw_writes_pictures_and_formats(name: str, folder: Path) -> None:
    assert call("draw", "room.txt", "-o", name, cwd=folder).returncode == 0
    if not name.endswith((".svg", ".png")):
        assert World.load(folder / name) == World.parse(ROOM)


def test_draw_in_the_terminal(folder: Path) -> None:
    result = call("draw", "-", cwd=folder, text="# 3\n^ .")
    assert result.returncode == 0
    assert "3" in result.stdout
    assert "▲" in result.stdout or "^" in result.stdout


@pytest.mark.parametrize("task", ["step.task", "step.json", "newspaper", "Fetch the newspaper"])
def test_draw_shows_all_examples_of_a_task(task: str, folder: Path) -> None:
    count = 4 if "newspaper" in task else 1
    result = call("draw", task, cwd=folder)
    assert result.returncode == 0
    assert result.stdout.count("before") == result.stdout.count("after") == count
    assert call("draw", task, "-o", "sheet.png", cwd=folder).returncode == 0
    for options, title in (
        ((), "A step" if count == 1 else "Fetch the newspaper"),
        (("--title", "Two & two"), "Two &amp; two"),
    ):
        assert call("draw", task, "-o", "sheet.svg", *options, cwd=folder).returncode == 0
        svg = (folder / "sheet.svg").read_text(encoding="utf-8")
        assert f">{title}</text>" in svg
        assert svg.count('class="arrow"') == 1
        assert len(re.findall('<use href="#(g[0-9]+)"', svg)) >= 4 * count


def test_draw_reads_a_task_from_standard_input(folder: Path) -> None:
    text = (folder / "step.task").read_text()
    assert call("draw", "-", cwd=folder, text=text).stdout == call("draw", "step.task", cwd=folder).stdout != ""


def record(program: Program, worlds: list[World]) -> dict[str, Any]:
    """A task in the original data's format."""
    runs = [program.run(world) for world in worlds]
    return {
        "program_tokens": list(program.tokens),
        "examples": [
            {
                "example_index": number,
                "inpgrid_json": world.to_json(),
                "outgrid_json": run.world.to_json(),
                "actions": [action.value for action in run.trace],
            }
            for number, (world, run) in enumerate(zip(worlds, runs, strict=True))
        ],
    }


def some_records(count: int) -> list[dict[str, Any]]:
    rng = random.Random(8)
    records: list[dict[str, Any]] = []
    while len(records) < count:
        program = random_program(rng, depth=1)
        worlds = [world for world in (random_world(rng) for _ in range(40)) if program.run(world).ok][:6]
        if len(worlds) == 6:
            records.append(record(program, worlds))
    return records


def test_verify_replays_every_example(folder: Path) -> None:
    records = some_records(5)
    text = "".join(json.dumps(task) + "\n" for task in records)
    (folder / "tasks.jsonl").write_text(text)
    with gzip.open(folder / "tasks.jsonl.gz", "wt") as file:
        file.write(text)
    for name in ("tasks.jsonl", "tasks.jsonl.gz"):
        result = call("verify", name, cwd=folder)
        assert result.returncode == 0, result
        assert "5 tasks, 30 examples: 30 of 30 outputs equal, 30 of 30 traces equal" in result.stdout


def test_verify_refuses_a_file_without_tasks(folder: Path) -> None:
    (folder / "none.jsonl").write_text("\n")
    for name, said in (("none.jsonl", "none.jsonl"), ("-", "standard input")):
        result = call("verify", name, cwd=folder, text="")
        assert (result.returncode, result.stdout) == (1, "")
        assert f"error: {said}: there is no task in it" in result.stderr


def test_what_is_saved_is_named_on_one_line(folder: Path) -> None:
    name = "x" * 100 + ".svg"
    result = call("run", "sweep.txt", "room.txt", "-o", name, cwd=folder)
    assert result.returncode == 0
    assert f"saved {name}\n" in result.stderr


def test_verify_finds_what_is_wrong(folder: Path) -> None:
    records = some_records(4)
    records[1]["examples"][2]["actions"].append("move")
    wrong = records[2]["examples"][0]["outgrid_json"]
    wrong["hero"] = wrong["hero"].replace("north", "x").replace("south", "north").replace("x", "south")
    wrong["hero"] = wrong["hero"].replace("east", "y").replace("west", "east").replace("y", "west")
    lines = [json.dumps(task) for task in records] + ["{broken"]
    (folder / "tasks.jsonl").write_text("\n".join(lines))
    result = call("verify", "tasks.jsonl", cwd=folder)
    assert_clear_error(result, "line 2", "line 3", "line 5")
    assert "23 of 24 outputs equal, 23 of 24 traces equal" in result.stdout


def test_help_and_version(folder: Path) -> None:
    for arguments in (("--help",), ("run", "--help"), ("-h",)):
        result = call(*arguments, cwd=folder)
        assert result.returncode == 0
        assert "Usage" in result.stdout
    assert re.findall(r"^│ (\w[\w-]*) ", call("--help", cwd=folder).stdout, re.MULTILINE)[:3] == [
        "solve",
        "serve",
        "run",
    ]
    assert call("--version", cwd=folder).stdout.startswith("karelsynth 0.")


def test_a_failure_is_placed_in_the_persons_own_text(tmp_path: Path) -> None:
    text = "from stanfordkarel import *\n\n\ndef twice():\n    move()\n    move()\n\n\ndef main():\n    twice()\n"
    (tmp_path / "walk.py").write_text(text)
    (tmp_path / "world.txt").write_text("> .\n. .\n")
    result = call("run", "walk.py", "world.txt", cwd=tmp_path)
    assert result.returncode == 1
    assert "in line 6:  move()" in result.stdout
    report = json.loads(call("run", "walk.py", "world.txt", "--json", cwd=tmp_path).stdout)
    assert (report["line"], report["column"]) == (6, 5)


def test_the_line_of_a_failure_is_counted_as_the_parser_counts(tmp_path: Path) -> None:
    (tmp_path / "walk.txt").write_text("def run():\n  turnLeft()\x0c\n  turnLeft()\n  move()\n")
    (tmp_path / "world.txt").write_text("> .\n. .\n")
    assert "in line 4:  move()" in call("run", "walk.txt", "world.txt", cwd=tmp_path).stdout


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x0c\n"])
def test_lines_of_tokens_are_counted_like_those_of_other_dialects(tmp_path: Path, end: str) -> None:
    (tmp_path / "walk.txt").write_bytes(end.join(["DEF run m(", "turnLeft", "turnLeft", "move", "m)"]).encode())
    (tmp_path / "world.txt").write_text("> .\n. .\n")
    assert "in line 4:  move" in call("run", "walk.txt", "world.txt", cwd=tmp_path).stdout


def test_nothing_in_a_file_or_its_name_acts_on_the_terminal(folder: Path) -> None:
    rude = "\x1b[2J\x1b]0;mine\x07\x9b2J"
    (folder / f"{rude}.txt").write_text(f"def run():\n  {rude}move()\n")
    (folder / "tokens.txt").write_text(f"DEF run m( {rude} m)\n")
    (folder / "fine.txt").write_text(f"def run():\n  move()  # {rude}\n")
    (folder / "wall.txt").write_text("> #\n. .\n")
    results = [
        call("check", f"{rude}.txt", "tokens.txt", f"no{rude}", "fine.txt", cwd=folder),
        call("check", f"no{rude}", cwd=folder),
        call("run", "sweep.txt", f"no{rude}", cwd=folder),
        call("run", "fine.txt", "wall.txt", cwd=folder),
    ]
    for result in results:
        assert result.returncode == 1
        assert all(letter.isprintable() or letter == "\n" for letter in result.stdout + result.stderr)
    assert "�[2J�]0;mine" in results[0].stderr
    assert "in line 2:  move()  # �[2J" in results[3].stdout


def test_verify_of_a_task_as_text_says_what_to_do(folder: Path) -> None:
    result = call("verify", "step.task", cwd=folder)
    assert_clear_error(result, "step.task: this is a task as text", "karelsynth grade step.task", "karelsynth solve")
    assert "JSON" not in result.stderr


def test_a_generated_set_is_refused_with_the_way_out(folder: Path) -> None:
    (folder / "set").mkdir()
    (folder / "set" / "manifest.json").write_text("{}")
    assert_clear_error(call("draw", "set", cwd=folder), "karelsynth export-msr set --out tasks.jsonl")
