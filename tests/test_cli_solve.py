"""`karelsynth solve`, with the shipped weights and, where only what is around the solver matters, with a fake one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from karelsynth.cli import app
from karelsynth.cli.solve import program_on_one_line
from karelsynth.errors import KarelsynthError
from karelsynth.files import FileError
from karelsynth.karel.dialects import DIALECTS
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.solve import Solution, Solver
from karelsynth.tasks.generate import generate
from karelsynth.tasks.msr_tasks import write_tasks
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.task_files import gallery, gallery_task, render_task, task_from_json
from karelsynth.web.solving import SolutionResponse
from tests.fake_solver import FakeSolver
from tests.posed import MOVED, PATIENT, ROW, by, impossible


def invoke(*arguments: str, given: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["solve", *arguments], input=given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_solve_a_task_file(tmp_path: Path) -> None:
    path = tmp_path / "step.task"
    path.write_text(render_task(gallery_task("clean-the-row")), encoding="utf-8")
    status, out = invoke(str(path), "--budget", str(PATIENT))
    assert status == 0
    assert "def run():" in out
    assert out.count("✓") == len(gallery_task("clean-the-row").examples)
    assert "right on every example" in out


def test_solve_in_a_dialect_as_json_from_standard_input() -> None:
    text = render_task(gallery_task("walk-to-the-wall"))
    status, out = invoke("-", "--budget", str(PATIENT), "--json", given=text)
    assert status == 0
    report = json.loads(out)
    assert report["solved"] is True
    programs = report["answers"][0]["programs"]
    assert set(programs) == set(DIALECTS)
    assert len({Program.parse(text, dialect) for dialect, text in programs.items()}) == 1
    status, out = invoke("walk-to-the-wall", "--budget", str(PATIENT), "--to", "stanford", "--model", "shipped")
    assert status == 0
    assert "def main():" in out


def test_a_pair_of_stanford_worlds(tmp_path: Path) -> None:
    before, after = tmp_path / "before.w", tmp_path / "after.w"
    before.write_text(ROW.to_stanford())
    after.write_text(MOVED.to_stanford())
    status, out = invoke(str(before), str(after), "--budget", str(PATIENT), "--to", "tokens")
    assert status == 0
    assert "DEF run m(" in out


SCATTERED = Task((Example(ROW, World.parse(". 9 2 7\n5 8 < 3")),), name="Scattered")
"""No short program does it."""


def test_an_unsolved_task_is_marked_and_fails(tmp_path: Path) -> None:
    path = tmp_path / "scattered.task"
    path.write_text(render_task(SCATTERED), encoding="utf-8")
    status, out = invoke(str(path), "--budget", "0.5")
    assert status == 1
    text = " ".join(out.split())
    assert "NOT right on every example" in text or "nothing found" in text


def test_many_tasks(tmp_path: Path) -> None:
    batch = generate(7, 0, 6)
    write_tasks([batch], tmp_path / "tasks.jsonl")
    status, out = invoke(str(tmp_path / "tasks.jsonl"), "--budget", str(PATIENT), "--json")
    reports = [json.loads(line) for line in out.splitlines()]
    assert len(reports) == 6
    assert status == (0 if all(report["solved"] for report in reports) else 1)
    for report, inputs, outputs in zip(reports, batch.inputs, batch.outputs, strict=True):
        if report["solved"]:
            program = Program.parse(report["answers"][0]["programs"]["tokens"])
            runs = run_batch(encode_programs([program]), inputs[:5], expected=outputs[:5])
            assert runs.correct is not None
            assert runs.correct.all()


def test_lines_of_tasks_without_programs(tmp_path: Path) -> None:
    """Whoever wants a program has none yet."""
    write_tasks([generate(7, 0, 2)], tmp_path / "tasks.jsonl")
    records = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    bare = [{"examples": record["examples"]} for record in records]
    ours = [by("def run(): move()", ROW).to_json(), by("def run(): turnLeft()", ROW).to_json()]
    for name, objects in (("bare.jsonl", bare), ("ours.jsonl", ours), ("one.json", bare[:1])):
        (tmp_path / name).write_text("\n".join(map(json.dumps, objects)))
        status, out = invoke(str(tmp_path / name), "--budget", str(PATIENT), "--json")
        assert status == 0
        assert len(out.splitlines()) == len(objects)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["clean-the-rwo"], "did you mean `clean-the-row`"),
        (["first-marker", "--device", "warp"], "there is no device `warp` here"),
        (["first-marker", "--animate", "--json"], "--animate works with a single task"),
        (["first-marker", "--speed", "5"], "add --animate"),
        (["first-marker", "--others", "2", "--json"], "--others works with a single task and without --json"),
        (["first-marker", "--to", "paper", "--json"], "--json has every dialect: drop --to"),
        (["x" * 300 + ".task"], "cannot be read|no such file"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], message: str) -> None:
    with pytest.raises(KarelsynthError, match=message):
        invoke(*arguments)


def test_a_terminal_without_unicode() -> None:
    """Marks that it can show, and no control characters of a task's name."""
    text = "name: \x1b]0;gotcha\x07 step\n" + render_task(by("def run(): move()", ROW))
    out = subprocess.run(
        [sys.executable, "-m", "karelsynth", "solve", "-", "--budget", str(PATIENT)],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert out.returncode == 0, out.stderr
    assert "example 1 yes" in out.stdout
    assert "\x1b]" not in out.stdout


def test_animation_plays(tmp_path: Path) -> None:
    path = tmp_path / "step.task"
    path.write_text(render_task(by("def run(): move()", ROW)), encoding="utf-8")
    status, out = invoke(str(path), "--animate", "--speed", "50", "--budget", str(PATIENT))
    assert status == 0
    assert "example 1" in out


# What is made of solutions: a solver that knows three programs is enough.

STEP, WALK, TURN = "def run(): move()", "def run():\n  while(frontIsClear): move()", "def run(): turnLeft()"


class FakeSolverOfMany(FakeSolver):
    """Reports the last task first, as a real one may."""

    def solve_many(
        self, tasks: Sequence[Task], *, budget: float, on_solution: Callable[[int, Solution], None]
    ) -> list[Solution]:
        solutions = [self.solve(task, budget) for task in tasks]
        for number in reversed(range(len(tasks))):
            on_solution(number, solutions[number])
        return solutions


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Solver, "load", lambda folder, device: FakeSolverOfMany())


def write_folder(folder: Path, **named: Task) -> str:
    folder.mkdir()
    for file, task in named.items():
        (folder / f"{file}.task").write_text(render_task(task), encoding="utf-8")
    return str(folder)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A task of each of two programs, and one that is half scattered."""
    step, turn = replace(by(STEP, ROW), name="One step"), replace(by(TURN, ROW), name="One turn")
    higher = World.parse("> . . .\n. . . .\n. . . .")
    half = Task((*step.examples, Example(higher, World.parse(". 9 2 7\n5 8 < 3\n4 . . 6"))), name="Half scattered")
    return write_folder(tmp_path / "tasks", a=step, b=turn, c=half)


def test_what_cannot_be_done_is_said_before_the_solver_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("karelsynth.cli.solve.load_solver", None)
    (tmp_path / "wall.task").write_text(render_task(impossible()), encoding="utf-8")
    with pytest.raises(KarelsynthError, match="example 2 cannot be done by any program: no way leads Karel from row 2"):
        invoke(str(tmp_path / "wall.task"))


@pytest.mark.usefixtures("fake")
def test_options_for_one_task_are_refused_for_many(folder: str) -> None:
    with pytest.raises(KarelsynthError, match="--others works with a single task"):
        invoke(folder, "--others", "1")
    assert invoke("first-marker", "--speed", "-3", "--animate")[0] == 2


@pytest.mark.usefixtures("fake")
def test_what_is_right_nowhere_is_not_shown(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tasks", a=SCATTERED, b=by(TURN, ROW))
    status, out = invoke(f"{folder}/a.task", "--budget", "0.4", "--animate")
    assert status == 1
    assert re.fullmatch(r"Scattered\nnothing found in 0\.\d\d s; try to search longer: --budget 2\n", out)
    assert "✗ 1. Scattered: nothing found in time\n" in invoke(folder)[1]
    assert json.loads(invoke(f"{folder}/a.task", "--json")[1])["answers"][0]["right"] == [False]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("worlds", "hint"), [(1, "one example fits many"), (2, "two examples fit many"), (3, None)], ids=str
)
def test_few_examples_get_advice(tmp_path: Path, worlds: int, hint: str | None) -> None:
    path = tmp_path / "turn.task"
    path.write_text(render_task(by(TURN, *(ROW.with_hero(0, at, "east") for at in range(worlds)))), encoding="utf-8")
    status, out = invoke(str(path))
    assert status == 0
    assert ("many programs; add examples" in out) == (hint is not None)
    assert (hint or "") in out
    assert "many programs" not in invoke(str(path), "--json")[1]


@pytest.mark.usefixtures("fake")
def test_programs_that_a_question_names_can_be_seen(tmp_path: Path) -> None:
    near = Task((Example(World.parse("> .\n. ."), World.parse(". >\n. .")),))
    (tmp_path / "near.task").write_text(render_task(near), encoding="utf-8")
    _, out = invoke(str(tmp_path / "near.task"))
    assert "number 2:" not in out
    assert "`--others 1` shows a program for each of these outcomes" in out
    _, out = invoke(str(tmp_path / "near.task"), "--others", "1")
    assert "number 2:" in out
    assert "shows a program" not in out


def test_the_gallery_is_listed() -> None:
    status, out = invoke("--list")
    assert status == 0
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert lines == [[entry.slug, entry.task.name] for entry in gallery()]


@pytest.mark.usefixtures("fake")
def test_a_pair_of_worlds_is_called_by_the_first(tmp_path: Path) -> None:
    (tmp_path / "row.txt").write_text(ROW.to_text())
    (tmp_path / "moved.txt").write_text(MOVED.to_text())
    _, out = invoke(str(tmp_path / "row.txt"), str(tmp_path / "moved.txt"), "--json")
    assert json.loads(out)["name"] == "row"


@pytest.mark.usefixtures("fake")
def test_many_tasks_are_a_line_each(folder: str) -> None:
    status, out = invoke(folder)
    assert status == 1
    assert out.splitlines() == [
        "✗ 3. Half scattered: only a partial answer, right on 1 of 2: move()",
        "✓ 2. One turn: turnLeft()",
        "✓ 1. One step: move()",
        "2 of 3 tasks solved",
    ]
    _, out = invoke(folder, "--to", "tokens")
    assert "✓ 1. One step: DEF run m( move m)\n" in out


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("dialect", ["paper", "stanford"])
def test_programs_of_many_tasks_are_below_their_names(folder: str, dialect: str) -> None:
    status, out = invoke(folder, "--to", dialect)
    assert status == 1
    *blocks, last = re.split(r"^(?:✓|✗) ", out, flags=re.MULTILINE)[1:]
    last, total = last.rstrip().rsplit("\n", 1)
    assert total == "2 of 3 tasks solved"
    found = [block.split("\n", 1) for block in [*blocks, last]]
    assert [head for head, _ in found] == [
        "3. Half scattered: only a partial answer, right on 1 of 2:",
        "2. One turn:",
        "1. One step:",
    ]
    assert [Program.parse(text, dialect) for _, text in found] == [Program.parse(text) for text in (STEP, TURN, STEP)]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(("dialect", "ending"), [("paper", "karel"), ("stanford", "py"), ("tokens", "tokens")])
def test_right_programs_are_saved_in_a_folder(folder: str, tmp_path: Path, dialect: str, ending: str) -> None:
    saved = tmp_path / "new" / "answers"
    status, out = invoke(folder, "--to", dialect, "--out", str(saved))
    assert status == 1
    assert f"✓ 1. One step: {saved / 'one_step'}.{ending}\n" in out
    assert "✗ 3. Half scattered: only a partial answer, right on 1 of 2: move()\n" in out
    written = {path.name: Program.parse(path.read_text(encoding="utf-8"), dialect) for path in saved.iterdir()}
    assert written == {f"one_step.{ending}": Program.parse(STEP), f"one_turn.{ending}": Program.parse(TURN)}


@pytest.mark.usefixtures("fake")
def test_one_task_is_saved_too_and_so_beside_json(tmp_path: Path) -> None:
    path = tmp_path / "mine.task"
    path.write_text(render_task(by(TURN, ROW)), encoding="utf-8")
    for more in ([], ["--json"], ["--json", "--to", "paper"]):
        status, out = invoke(str(path), "-o", str(tmp_path / "answers"), *more)
        assert status == 0
        assert "turnLeft()" in out
        (saved,) = (tmp_path / "answers").iterdir()
        assert (saved.name, saved.read_text()) == ("mine.karel", "def run():\n  turnLeft()\n")
        saved.unlink()


@pytest.mark.usefixtures("fake")
def test_files_of_tasks_have_names_of_their_own(tmp_path: Path) -> None:
    names = ["Go!", "go", "../../go", "go_3", "Über den Fluß", "…", "x" * 300]
    tasks = [replace(by(STEP, ROW), name=name).to_json() for name in names]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    status, _ = invoke(str(tmp_path / "tasks.json"), "-o", str(tmp_path / "answers"))
    assert status == 0
    assert sorted(path.name.removesuffix(".karel") for path in (tmp_path / "answers").iterdir()) == sorted(
        ["go", "go_2", "go_3", "go_3_4", "über_den_fluß", "task", "x" * 40]
    )


@pytest.mark.usefixtures("fake")
def test_an_older_file_beside_the_answers_gets_a_warning(folder: str, tmp_path: Path) -> None:
    older = tmp_path / "answers" / "half_scattered.karel"
    older.parent.mkdir()
    older.write_text(STEP)
    for task in (folder, f"{folder}/c.task"):
        for more in ([], ["--json"]):
            result = CliRunner().invoke(app, ["solve", task, "-o", str(older.parent), *more])
            assert result.exit_code == 1
            assert f"{older}: not changed: it is from before" in result.stderr
            assert older.read_text() == STEP
    assert "one_step" not in result.stderr


@pytest.mark.usefixtures("fake")
def test_tasks_of_the_gallery_by_name_and_title() -> None:
    for name in ("newspaper", "Newspaper", "Fetch the newspaper", "fetch the NEWSPAPER"):
        assert json.loads(invoke(name, "--json")[1])["name"] == "Fetch the newspaper"
    with pytest.raises(KarelsynthError, match="did you mean `newspaper`"):
        invoke("Fetch the newspapre")
    with pytest.raises(FileError, match="there is no such file"):
        invoke("newspaper.task")


@pytest.mark.usefixtures("fake")
def test_what_goes_through_a_pipe_is_not_wrapped(tmp_path: Path) -> None:
    task = replace(by(STEP, ROW), name="A long name " * 10)
    (tmp_path / "a.task").write_text(render_task(task), encoding="utf-8")
    assert invoke(str(tmp_path / "a.task"))[1].splitlines()[:3] == [task.name.strip(), "def run():", "  move()"]


@pytest.mark.usefixtures("fake")
def test_ctrl_c_ends_an_animation_and_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the example that is shown."""

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "turn.task"
    path.write_text(render_task(by(TURN, *(ROW.with_hero(0, at, "east") for at in range(3)))), encoding="utf-8")
    (tmp_path / "turn").write_text(TURN)
    (tmp_path / "row").write_text(ROW.to_text())
    monkeypatch.setattr("karelsynth.karel.draw.terminal.time.sleep", interrupted)
    monkeypatch.setattr(Console, "is_terminal", True)
    for command in (["solve", str(path)], ["run", str(tmp_path / "turn"), str(tmp_path / "row")]):
        result = CliRunner().invoke(app, [*command, "--animate"])
        assert result.exit_code == 130
        assert result.stderr.strip().endswith("stopped")
        assert result.stdout.count("tick   0") >= 1
        assert "example 2" not in result.stdout.split("tick", 1)[1]


def test_a_folder_that_cannot_be_made_is_an_error_before_the_search(folder: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(FileError, match=r"taken: cannot be written: a file of that name is in the way"):
        invoke(folder, "-o", str(tmp_path / "taken"))


@pytest.mark.usefixtures("fake")
def test_json_is_what_the_service_answers_with(tmp_path: Path) -> None:
    """Every field and no other, in the service's own form; and an outcome can be added to the task as it is."""
    near = World.parse("> .\n. .")
    task = Task((Example(near, World.parse(". >\n. .")),), name="A step or a walk?")
    (tmp_path / "near.task").write_text(render_task(task), encoding="utf-8")
    status, out = invoke(str(tmp_path / "near.task"), "--json")
    assert status == 0
    report = json.loads(out)
    assert report.pop("name") == task.name
    assert report.pop("number") == 1
    assert SolutionResponse.model_validate(report, strict=True).model_dump(mode="json") == report
    assert [Program.parse(answer["programs"]["paper"]) for answer in report["answers"]] == [
        Program.parse(STEP),
        Program.parse(WALK),
    ]
    question = report["ambiguity"]
    pair = {"input": question["world"], "output": question["outcomes"][1]["world"]}
    assert task_from_json({"examples": [pair]}).examples[0].input == near


def test_a_program_on_one_line_keeps_its_blocks() -> None:
    texts = [
        "while(frontIsClear) { move(); pickMarker() }",
        "while(frontIsClear) { move() }; pickMarker()",
        "ifelse(frontIsClear) { repeat(2) { move() } } else { turnLeft() }; putMarker()",
    ]
    tokens = [
        "WHILE c( frontIsClear c) w( move pickMarker w)",
        "WHILE c( frontIsClear c) w( move w) pickMarker",
        "IFELSE c( frontIsClear c) i( REPEAT R=2 r( move r) i) ELSE e( turnLeft e) putMarker",
    ]
    assert [program_on_one_line(Program.parse(f"DEF run m( {body} m)")) for body in tokens] == texts
