"""Curves: figures equal the evaluator's and the solver's, files are resumed, page and picture show the same."""

from __future__ import annotations

import json
import sys
import threading
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from karelsynth import curves as module
from karelsynth.cli import reproduce as command
from karelsynth.curves import (
    FAMILIES,
    MEASURES,
    REFERENCE,
    Curves,
    CurvesError,
    CurveSettings,
    Key,
    Point,
    Share,
    check_settings,
    keys,
    measure,
    read_curves,
    save_curves,
)
from karelsynth.errors import KarelsynthError
from karelsynth.evaluate import evaluate
from karelsynth.karel.program import Program
from karelsynth.solve.solution import Answer, Solution
from karelsynth.solve.solver import Round, Solver
from karelsynth.tasks.named import named_tasks
from karelsynth.tasks.shifted import SHIFTS, shifted_tasks
from tests import command_line
from tests.drawn import chart_description
from tests.models import tiny_model

ROOT = Path(__file__).parent.parent
TASKS = 3
SMALL = ("--tasks", str(TASKS), "--beam", "2", "--device", "cpu")


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver(tiny_model(syntax="handwritten"), rounds=[Round(4, 12)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(path)
    return path


def invented(solve: float | None = 1.0, only: tuple[str, ...] = ()) -> Curves:
    """Curves that nobody measured, with a different share everywhere."""
    settings = CurveSettings("0123456789abcdef", 500, 64, solve, "2 cores")
    points: dict[Key, Point] = {}
    for number, key in enumerate(keys(only)):
        points[key] = Point(
            f"{number:016x}",
            {name: Share.of(10 * number + place, 500) for place, name in enumerate(settings.measures)},
            "abc",
        )
    return Curves(settings, {"model": "shipped", "decoding": "unfiltered"}, points)


def write(path: Path, curves: Curves) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(curves.to_json()))


def call(*arguments: str | Path) -> Any:
    app = typer.Typer()
    app.command()(command.curves)
    return command_line.call(*arguments, app=app)


def test_points() -> None:
    everything = keys()
    assert everything[0] == REFERENCE
    assert len(set(everything)) == len(everything) == sum(map(len, FAMILIES.values()))
    assert keys(["walls"]) == [REFERENCE, *(("walls", point) for point in SHIFTS["walls"].points)]
    assert len(keys(["examples"])) == 5
    with pytest.raises(KarelsynthError, match="no family called `wals`; did you mean `walls`"):
        keys(["wals"])


@pytest.mark.parametrize("key", [REFERENCE, ("examples", "2"), ("size", "3"), ("length", "66-72")])
def test_the_figures_are_the_evaluators(solver: Solver, key: Key) -> None:
    seen: list[int] = []
    point = measure(solver, key, CurveSettings.of(solver, tasks=9, beam=8, solve=None), progress=seen.append)
    tasks = named_tasks("test", 9) if key[0] == "examples" else shifted_tasks(*key, 9)
    report = evaluate(solver.model, tasks, beam=8, given=int(key[1]) if key[0] == "examples" else 5).to_json()
    assert sum(seen) == 9
    assert set(point.shares) == {"generalization", "filtered_generalization", "any_consistent"}
    assert point.shares["generalization"].percent == report["generalization"]["1"]
    assert list(point.shares["generalization"].confidence_95) == report["confidence_95"]["generalization"]["1"]
    for name in ("filtered_generalization", "any_consistent"):
        assert point.shares[name] == Share(report[name], tuple(report["confidence_95"][name]))


class Oracle(Solver):
    """Claims that given answers solve the tasks, and remembers how many examples it was shown."""

    def __init__(self, answers: list[Answer | None]) -> None:
        super().__init__(tiny_model())
        self.answers = answers
        self.asked: list[int] = []

    def solve_many(self, tasks: Any, *, on_solution: Any = None, **settings: Any) -> list[Solution]:
        self.asked = [len(task.examples) for task in tasks]
        solutions = []
        for number, answer in enumerate(self.answers):
            solution = Solution(() if answer is None else (answer,), answer is not None, None, 0.0, 1, 1)
            on_solution(number, solution)
            solutions.append(solution)
        return solutions


def test_an_answer_is_right_only_if_it_is_on_all_six() -> None:
    tasks = shifted_tasks("size", "5", 4)
    own = [Answer(Program.from_tokens(row.tolist()), (True,) * 5, 0.0) for row in tasks.tokens]
    oracle = Oracle([own[0], own[1], own[0], None])
    seen: list[int] = []
    point = measure(oracle, ("size", "5"), CurveSettings.of(oracle, tasks=4, beam=2, solve=0.5), progress=seen.append)
    assert oracle.asked == [5] * 4
    assert sum(seen) == 8
    assert point.shares["solved"] == Share.of(3, 4)
    assert point.shares["solved_generalization"] == Share.of(2, 4)


def test_solve_sees_the_given_examples_only() -> None:
    oracle = Oracle([None, None])
    measure(oracle, ("examples", "2"), CurveSettings.of(oracle, tasks=2, beam=2, solve=0.5))
    assert oracle.asked == [2, 2]


def test_solving_for_real(solver: Solver) -> None:
    point = measure(solver, ("controls", "0"), CurveSettings.of(solver, tasks=4, beam=2, solve=0.2))
    assert set(point.shares) == set(MEASURES)
    assert point.shares["solved_generalization"].percent <= point.shares["solved"].percent


def test_settings_name_the_model(solver: Solver) -> None:
    settings = CurveSettings.of(solver, tasks=1, beam=1, solve=None)
    assert settings == CurveSettings.of(Solver(tiny_model(syntax="handwritten")), tasks=1, beam=1, solve=None)
    for other in (tiny_model(seed=1, syntax="handwritten"), tiny_model(syntax="none")):
        assert settings.model != CurveSettings.of(Solver(other), tasks=1, beam=1, solve=None).model


def test_reading_gives_what_was_written(tmp_path: Path) -> None:
    for curves in (invented(), invented(None), invented(only=("size",))):
        write(tmp_path / "curves.json", curves)
        assert read_curves(tmp_path / "curves.json") == curves
    assert read_curves(tmp_path / "none.json") is None


def test_files_that_hold_something_else(tmp_path: Path) -> None:
    path = tmp_path / "curves.json"
    whole = invented().to_json()
    shares = whole["families"]["size"]["3"]["shares"]["solved"]
    for text in (
        "",
        "[]",
        "{}",
        "nonsense",
        json.dumps({**whole, "settings": {}}),
        json.dumps({**whole, "families": 3}),
    ):
        path.write_text(text)
        with pytest.raises(CurvesError, match=r"curves.json: not what `karelsynth curves --json` writes"):
            read_curves(path)
    for bad in (-1, 101, None, "x", float("nan")):
        shares["percent"] = bad
        path.write_text(json.dumps(whole))
        with pytest.raises(CurvesError, match="choose another file, or remove it"):
            read_curves(path)


def test_other_settings_are_an_error() -> None:
    settings = invented().settings
    check_settings("f", settings, settings)
    with pytest.raises(CurvesError, match=r"f: .* other settings: beam 64, not 32; solve 1.0, not None; choose"):
        check_settings("f", settings, replace(settings, beam=32, solve=None))


def test_points_on_tasks_that_are_no_longer_made_are_missing(solver: Solver) -> None:
    settings = CurveSettings.of(solver, tasks=2, beam=1, solve=None)
    point = measure(solver, ("size", "3"), settings)
    curves = Curves(settings, {}, {}).with_point(("size", "3"), point)
    assert curves.missing(keys(["size"])) == [key for key in keys(["size"]) if key != ("size", "3")]
    stale = curves.with_point(("size", "3"), replace(point, data="other"))
    assert ("size", "3") in stale.missing(keys(["size"]))


def test_the_command_resumes_from_its_file(folder: Path, tmp_path: Path) -> None:
    file, plot = tmp_path / "curves.json", tmp_path / "curves.svg"
    first = call(folder, *SMALL, "--only", "size", "--json", file, "--plot", plot)
    assert first.output.count(": top 1") == 7
    assert "size 16" in first.output
    record = json.loads(file.read_text())
    assert list(record["families"]["size"]) == list(SHIFTS["size"].points)
    assert list(record["families"]["examples"]) == ["5"]
    assert record["provenance"]["model"] == str(folder)
    assert {"torch", "python", "commit"} <= set(record["provenance"])
    ElementTree.fromstring(plot.read_text())
    again = call(folder, *SMALL, "--only", "size", "--json", file)
    assert ": top 1" not in again.output
    assert json.loads(file.read_text()) == record
    more = call(folder, *SMALL, "--only", "examples", "--json", file)
    assert more.output.count(": top 1") == 4
    assert len(json.loads(file.read_text())["families"]["size"]) == 6
    with pytest.raises(CurvesError, match=r"beam 2, not 3; choose another file, or remove it"):
        call(folder, "--tasks", str(TASKS), "--beam", "3", "--only", "size", "--json", file, "--device", "cpu")


def test_every_point_is_kept_as_soon_as_it_is_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "curves.json"

    def stopped(solver: Solver, key: Key, settings: CurveSettings, **more: Any) -> Point:
        if key == ("size", "5"):
            raise KeyboardInterrupt
        return measure(solver, key, settings, **more)

    with monkeypatch.context() as patched:
        patched.setattr("karelsynth.curves.measure", stopped)
        result = call(folder, *SMALL, "--only", "size", "--json", file)
    assert result.exit_code == 130
    assert "the same command resumes from" in result.output
    assert list(json.loads(file.read_text())["families"]["size"]) == ["3"]
    assert call(folder, *SMALL, "--only", "size", "--json", file).output.count(": top 1") == 5


def test_two_who_measure_into_one_file_lose_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins and ends while the first is at a point; what both have measured is the later one's."""
    file = tmp_path / "curves.json"
    others: list[str] = []

    def joined(solver: Solver, key: Key, settings: CurveSettings, **more: Any) -> Point:
        if key == ("size", "5") and not others:
            others.append("examples")
            assert call(folder, *SMALL, "--only", "examples", "--json", file).exit_code == 0
        return measure(solver, key, settings, **more)

    monkeypatch.setattr("karelsynth.curves.measure", joined)
    result = call(folder, *SMALL, "--only", "size", "--json", file)
    assert result.exit_code == 0
    record = json.loads(file.read_text())["families"]
    assert list(record["examples"]) == list(FAMILIES["examples"])
    assert list(record["size"]) == list(FAMILIES["size"])


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_points_that_are_saved_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    whole = invented()
    empty = replace(whole, points={})
    savers = [
        threading.Thread(target=save_curves, args=(tmp_path / "curves.json", empty.with_point(key, point), key))
        for key, point in whole.points.items()
    ]
    for saver in savers:
        saver.start()
    for saver in savers:
        saver.join()
    assert read_curves(tmp_path / "curves.json") == whole


def test_points_that_others_have_measured_again_are_kept(tmp_path: Path) -> None:
    """Unless it is what was just measured here."""
    path, (old, mine) = tmp_path / "curves.json", keys()[:2]
    whole = invented()
    newer = replace(whole.points[old], commit="def")
    write(path, whole.with_point(old, newer).with_point(mine, newer))
    kept = save_curves(path, whole, mine)
    assert (kept.points[old], kept.points[mine]) == (newer, whole.points[mine])
    assert read_curves(path) == kept
    with pytest.raises(CurvesError, match="other settings: beam 64, not 32"):
        save_curves(path, replace(whole, settings=replace(whole.settings, beam=32)))
    assert read_curves(path) == kept
    assert [found.name for found in tmp_path.iterdir()] == ["curves.json"]


def test_bad_arguments(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KarelsynthError, match=r"curves.png: the name must end in `.svg`"):
        call(folder, "--plot", "curves.png")
    with pytest.raises(KarelsynthError, match="no family called `sizes`"):
        call(folder, "--only", "sizes")
    with pytest.raises(KarelsynthError, match="there is no such folder"):
        call(tmp_path / "none", *SMALL)
    monkeypatch.setattr("karelsynth.curves.measure", None)  # bad paths are reported before anything is measured
    for option, name in (("--json", "curves.json"), ("--plot", "curves.svg")):
        with pytest.raises(KarelsynthError, match="there is no folder"):
            call(folder, *SMALL, "--only", "size", option, tmp_path / "none" / name)
    assert call(folder, "--tasks", "0").exit_code == 2
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KarelsynthError, match="not the repository's root"):
        call("--render")


@pytest.mark.parametrize("solve", [None, 1.0])
def test_the_picture_shows_every_point(solve: float | None) -> None:
    curves = invented(solve)
    drawn = 3 if solve is None else 4
    axes = module.figure(curves).axes
    assert len(axes) == len(FAMILIES)
    for panel, (family, names) in zip(axes, FAMILIES.items(), strict=True):
        assert [label.get_text() for label in panel.get_xticklabels()] == list(names)
        lines = [one for one in panel.get_lines() if one.get_marker() == "o"]
        shown = [list(map(float, np.asarray(one.get_ydata()))) for one in lines]
        measures = [name for name in curves.settings.measures if name != "solved"]
        assert sorted(shown) == sorted(
            [curves.points[family, name].shares[measure].percent for name in names] for measure in measures
        )
        across = [one for one in panel.get_lines() if one.get_linestyle() == ":" and len(np.asarray(one.get_ydata()))]
        assert len(across) == drawn  # for each measure the data's own distribution
        assert len(panel.collections) == drawn  # intervals
    svg = module.picture(curves)
    ElementTree.fromstring(svg)
    for point in curves.points.values():
        assert f"{point.shares['filtered_generalization'].percent:.1f}" in chart_description(svg)


def test_the_picture_has_no_empty_panels() -> None:
    panels = [panel.get_title() for panel in module.figure(invented(only=("walls",))).axes]
    assert panels == ["Fewer examples", "Worlds full of walls"]


def test_the_page_has_every_figure(tmp_path: Path) -> None:
    curves = invented()
    write(tmp_path / module.RESULTS, curves)
    (tmp_path / "docs").mkdir()
    written = module.render(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in written] == [module.PAGE, module.PICTURE]
    text = (tmp_path / module.PAGE).read_text()
    for (family, name), point in curves.points.items():
        line = next(line for line in module.table(curves, family).splitlines() if line.startswith(f"| {name} |"))
        assert line in text
        for share in point.shares.values():
            assert f"{share.percent:.2f} ({share.confidence_95[0]:.2f}–{share.confidence_95[1]:.2f})" in line
    assert "karelsynth curves --tasks 500 --beam 64 --solve 1 --json results/curves.json" in text
    assert module.NOT_YET not in text


def test_the_page_without_figures_says_so(tmp_path: Path) -> None:
    files = module.rendered(tmp_path)
    assert set(files) == {module.PAGE}
    assert files[module.PAGE].count(module.NOT_YET) == 1 + len(FAMILIES)
    some = module.page(invented(only=("walls",)))
    assert some.count(f"\n\n{module.NOT_YET}\n") == 4
    assert "| 1 | not yet |" in some


def test_the_pages_in_the_repository_are_up_to_date() -> None:
    """If this fails: `karelsynth curves --render`."""
    for name, text in module.rendered(ROOT).items():
        found = (ROOT / name).read_text(encoding="utf-8")
        if name == module.PICTURE:  # other versions of matplotlib draw otherwise
            found, text = chart_description(found), chart_description(text)
        assert found == text, name
