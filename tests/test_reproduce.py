"""The paper's tables: from nothing to rendered pages in small, and that the pages in the repository are up to date."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from karelsynth.cli import reproduce as command
from karelsynth.errors import KarelsynthError
from karelsynth.evaluate import Judged
from karelsynth.karel.draw.scene import Text
from karelsynth.karel.syntax import syntax_machine
from karelsynth.karel.tokens import ID, TOKENS
from karelsynth.model.storage import load_model, save_model
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.reproduce import page, tables
from karelsynth.reproduce.aliasing import ELSEWHERE, PROGRAM_A, PROGRAM_B, aliasing_examples, both_right, opinions
from karelsynth.reproduce.masks import MaskTable, masks_along, masks_over
from karelsynth.reproduce.pictures import aliasing_scene, masks_scene
from karelsynth.reproduce.results import ResultError, essence, read_results
from karelsynth.reproduce.rows import ROWS, SEEDS, TABLES, Job, jobs_of
from karelsynth.reproduce.running import Outcome, Places, Runner
from karelsynth.reproduce.validity import shares, without_syntax
from karelsynth.search import Candidates
from karelsynth.tasks.generator import generate
from karelsynth.tasks.sets import NAMED_SETS
from karelsynth.tasks.shards import write_set
from karelsynth.train.loop import train
from karelsynth.train.recipe import load_recipe
from tests.models import tiny_model

ROOT = Path(__file__).parent.parent
TINY = """
[model]
syntax = "{syntax}"
channels = 2
blocks = 1
code_size = 12
embedding_size = 8
hidden_size = {hidden}
syntax_size = 8
[data]
tasks = 16
[objective]
name = "{objective}"
beam = 4
rollouts = 4
bag = 2
[optimizer]
learning_rate = 3e-3
[run]
steps = 4
batch_size = 4
log_every = 1
validate_every = 4
validation_tasks = 4
checkpoint_every = 4
"""


def write_recipes(folder: Path, **changes: str) -> Path:
    """A recipe for every row that a CPU follows in a blink."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, row in ROWS.items():
        told = {
            "syntax": next((way for way in ("learned", "handwritten") if name.endswith(way)), "none"),
            "hidden": "16" if name.endswith("large") else "12",
            "objective": row.label.lower().removesuffix("_opt") if row.start else "mle",
        }
        text = TINY.format(**told)
        for old, new in changes.items():
            text = re.sub(rf"^{old} = .*$", f"{old} = {new}", text, flags=re.MULTILINE)
        (folder / f"{name}.toml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks") / "eight"
    write_set(folder, seed=3, count=8, reserved=True)
    return folder


@pytest.fixture
def places(tmp_path: Path, tasks: Path) -> Places:
    return Places(write_recipes(tmp_path / "recipes"), tmp_path / "runs", tmp_path / "results", data=tasks)


def runner(places: Places, said: list[str] | None = None) -> Runner:
    return Runner(places, device=torch.device("cpu"), commit="abc", say=(said if said is not None else []).append)


def jobs(*names: str, seeds: tuple[int, ...] = (0,)) -> list[Job]:
    return [Job(ROWS[name], seed) for name in names for seed in seeds]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, tasks: Path) -> Places:
    """Some rows of every table, measured once; tests only read them."""
    folder = tmp_path_factory.mktemp("measured")
    places = Places(write_recipes(folder / "recipes"), folder / "runs", folder / "results", folder / "kept", tasks)
    wanted = [*jobs("small_mle", seeds=(0, 1, 2)), *jobs("small_rl_beam"), *jobs("mle_learned", "rl_beam")]
    outcome = runner(places).run(wanted)
    assert outcome.done == tuple(wanted)
    assert not outcome.left
    return places


# What there is to do


def test_every_row_has_a_recipe_of_the_paper() -> None:
    """Rows that are compared differ in what they are named for, and have equal budgets."""
    recipes = page.load_recipes(ROOT / "recipes")
    for name, row in ROWS.items():
        recipe = recipes[name]
        assert recipe.data.tasks == {"full": 1_116_854, "small": 10_000}[row.tasks]
        assert (recipe.objective.beam, recipe.objective.bag, recipe.objective.rollouts) == (64, 5, 100)
        assert (recipe.objective.name != "mle") == (row.start is not None)
        peers = [
            recipes[other.recipe] for other in ROWS.values() if (other.tasks, other.start) == (row.tasks, row.start)
        ]
        for peer in peers:
            assert replace(recipe.run, seed=0) == replace(peer.run, seed=0)
            assert recipe.optimizer == peer.optimizer
        if row.start is not None:
            assert recipe.start_from == f"runs/{row.start}/best"
            assert recipe.model == recipes[row.start].model


def test_tables_list_rows_in_an_order_that_can_be_done() -> None:
    assert {name for rows in TABLES.values() for name in rows} == set(ROWS)
    for table in TABLES:
        found = jobs_of(table)
        assert len(set(found)) == len(found)
        for place, job in enumerate(found):
            assert job.seed in SEEDS[job.row.tasks]
            assert job.start is None or job.start not in found[place:]
    assert [job.name for job in jobs_of("ranks", only=["rl_beam"], seeds=[4, 7])] == ["rl_beam-seed4", "rl_beam-seed7"]
    with pytest.raises(KarelsynthError, match=r"no table called `objectivs`; did you mean `objectives`"):
        jobs_of("objectivs")
    with pytest.raises(KarelsynthError, match=r"no row of `ranks` called `mle_learned`"):
        jobs_of("ranks", only=["mle_learned"])


# Running


def test_results_say_where_they_come_from(measured: Places) -> None:
    results = read_results(measured.results)
    assert len(results) == 6
    told = results[jobs("small_rl_beam")[0]].told
    assert told["report"]["tasks"] == 8
    assert told["report"]["provenance"]["commit"] == "abc"
    assert told["training"]["tasks"] == 16
    assert told["training"]["seconds"] > 0
    assert told["recipe"]["start_from"] == str(measured.runs / "small_mle-seed0" / "best")
    assert told["data"] == "eight"
    seeds = [results[job].told["recipe"]["run"]["seed"] for job in jobs("small_mle", seeds=(0, 1, 2))]
    assert seeds == [0, 1, 2]
    learned = results[jobs("mle_learned")[0]].told
    assert set(learned["validity"]) == {"joint", "without"}
    assert learned["masks"]["tasks"]["positions"] == generate(3, 0, 8, reserved=True).lengths.sum()
    assert all(path.stat().st_size < 100_000 for path in measured.results.iterdir())


def test_what_is_done_is_not_done_again(measured: Places) -> None:
    said: list[str] = []
    outcome = runner(measured, said).run(jobs("small_mle", "rl_beam"))
    assert outcome == Outcome((), (), ())
    assert not said


def test_a_run_stops_in_time_and_goes_on_to_the_same_result(places: Places, measured: Places) -> None:
    said: list[str] = []
    stopped = runner(places, said).run(jobs("small_mle"), minutes=1e-9)
    assert (stopped.done, [job.name for job in stopped.left]) == ((), ["small_mle-seed0"])
    assert not said  # it did not even begin

    recipe = load_recipe(places.recipes / "small_mle.toml", ["run.seed=0"])
    folder = places.runs / "small_mle-seed0"
    final = train(recipe, folder, device=torch.device("cpu"), deadline=0.0)
    assert not final.exists()
    assert [path.name for path in folder.glob("checkpoint-*")] == ["checkpoint-00000001"]
    assert runner(places).run(jobs("small_mle")).done
    ours, theirs = (read_results(where.results)[jobs("small_mle")[0]].told for where in (places, measured))
    for told in (ours, theirs):
        told["report"].pop("seconds_per_task")
        told["report"]["provenance"].pop("model")
    assert ours["report"] == theirs["report"]
    assert ours["aliasing"] == theirs["aliasing"]


def test_rows_start_from_a_kept_model_where_the_run_is_gone(measured: Places, tmp_path: Path) -> None:
    assert measured.keep is not None
    assert sorted(path.name for path in measured.keep.iterdir()) == [
        "mle-seed0", "small_mle-seed0", "small_mle-seed1", "small_mle-seed2",
    ]  # fmt: skip
    elsewhere = replace(measured, runs=tmp_path / "runs", results=tmp_path / "results")
    said: list[str] = []
    assert runner(elsewhere, said).run(jobs("rl_beam")).done
    assert not (tmp_path / "runs" / "mle-seed0").exists()
    told = read_results(elsewhere.results)[jobs("rl_beam")[0]].told
    assert told["recipe"]["start_from"] == str(measured.keep / "mle-seed0")
    assert [line.split(":")[0] for line in said] == ["rl_beam-seed0", "rl_beam-seed0"]  # training it, and its score


def test_results_from_before_a_model_setting_was_there_still_count() -> None:
    recipe = load_recipe(ROOT / "recipes" / "small_mle.toml").to_json()
    older = {**recipe, "model": {name: value for name, value in recipe["model"].items() if name != "execution"}}
    assert essence(older) == essence(recipe)
    assert essence({**recipe, "model": {**recipe["model"], "execution": True}}) != essence(recipe)


def test_a_changed_recipe_is_measured_anew_but_never_on_an_old_model(measured: Places, tmp_path: Path) -> None:
    changed = replace(measured, recipes=write_recipes(tmp_path / "recipes", learning_rate="1e-3"), keep=None)
    said: list[str] = []
    with pytest.raises(
        KarelsynthError, match=r"holds a model of another recipe than small_mle .*: optimizer\.learning_rate\)"
    ):
        runner(changed, said).run(jobs("small_mle"))
    assert said == ["small_mle-seed0: its recipe has changed since it was measured"]
    known = page.load_recipes(changed.recipes)
    assert tables.STALE in tables.objectives(read_results(changed.results), known)
    assert tables.STALE not in tables.objectives(read_results(measured.results), page.load_recipes(measured.recipes))


def test_a_row_that_diverges_does_not_stop_the_others(places: Places) -> None:
    text = (places.recipes / "small_mle.toml").read_text().replace("learning_rate = 3e-3", "learning_rate = 1e30")
    (places.recipes / "small_mle.toml").write_text(text)
    said: list[str] = []
    outcome = runner(places, said).run(jobs("small_mle", "small_mle_learned"))
    assert [job.name for job in outcome.done] == ["small_mle_learned-seed0"]
    assert [job.name for job in outcome.diverged] == ["small_mle-seed0"]
    assert not outcome.left
    assert any("diverged" in line for line in said)


def test_models_and_results_on_other_training_tasks_are_other_ones(places: Places, tasks: Path, tmp_path: Path) -> None:
    assert runner(places).run(jobs("small_mle")).done
    write_recipes(places.recipes, tasks="8")
    on_file = replace(places, train_data=tasks, runs=tmp_path / "runs2")
    said: list[str] = []
    assert runner(on_file, said).run(jobs("small_mle")).done
    assert said[0] == "small_mle-seed0: its recipe has changed since it was measured"
    told = read_results(places.results)[jobs("small_mle")[0]]
    assert told.told["recipe"]["data"]["source"] == str(tasks.resolve())
    assert told.follows(page.load_recipes(places.recipes, tasks)["small_mle"])
    assert not told.follows(page.load_recipes(places.recipes)["small_mle"])
    with pytest.raises(KarelsynthError, match=r"runs2.small_mle-seed0: holds .* \(different: data\.source\)"):
        runner(replace(on_file, train_data=None)).run(jobs("small_mle"))


def test_training_tasks_are_the_same_however_their_path_is_written(
    places: Places, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tasks.parent)
    ways = (tasks, Path("eight"), Path("../") / tasks.parent.name / "eight")
    recipes = {runner(replace(places, train_data=way)).recipe(jobs("small_mle")[0]) for way in ways}
    assert [recipe.data.source for recipe in recipes] == [str(tasks.resolve())]


def test_the_device_is_the_one_that_trained(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def on(machine: str) -> None:
        monkeypatch.setattr("karelsynth.reproduce.running.origin", lambda device: {"device": machine})

    def trained_on() -> str:
        assert runner(places).run(jobs("small_mle")).done
        path = places.results / "small_mle-seed0.json"
        told = json.loads(path.read_text())
        path.unlink()
        return str(told["training"]["device"])

    on("one")
    assert trained_on() == "one"
    on("two")  # only measures it
    assert trained_on() == "one"
    shutil.rmtree(places.runs / "small_mle-seed0" / "final")  # as if stopped before its end
    assert trained_on() == "one, then two"
    (places.runs / "small_mle-seed0" / "machines.json").unlink()
    assert trained_on() == "not recorded"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "runs/mle-seed0/final/recipe.json",
            "{",
            r"recipe\.json: not valid JSON .* remove .*mle-seed0, and",
        ),
        ("runs/mle-seed0/final/recipe.json", "[]", r"recipe\.json: is no JSON object"),
        ("runs/mle-seed0/final/recipe.json", '{"model": {}}', r'recipe\.json: has no "objective"'),
        ("runs/mle-seed0/metrics.jsonl", '{"step": 1}\n{"st', r"metrics\.jsonl: not the log of a training run"),
        ("runs/mle-seed0/metrics.jsonl", '{"tasks_per_second": 0, "step": 4}', r"not the log of a training run"),
        ("runs/mle-seed0/metrics.jsonl", '{"tasks_per_second": 3}', r"not the log of a training run"),
        ("runs/mle-seed0/machines.json", '{"a": 1}', r"machines\.json: not a JSON list of names"),
        ("kept/mle-seed0/trained.json", "{}", r'trained\.json: has no "recipe"'),
        ("kept/mle-seed0/trained.json", '{"recipe": 3}', r'trained\.json: has no "recipe\.model"'),
    ],
)
def test_altered_files_of_a_run_get_one_clear_message(
    name: str, text: str, message: str, measured: Places, tmp_path: Path
) -> None:
    folder = tmp_path / "all"
    shutil.copytree(measured.recipes.parent, folder)
    (folder / name).write_text(text)
    if name.startswith("kept"):
        shutil.rmtree(folder / "runs" / "mle-seed0")
    places = Places(folder / "recipes", folder / "runs", folder / "new", folder / "kept", measured.data)
    with pytest.raises(KarelsynthError, match=message):
        runner(places).run(jobs("mle"))


# Results that are broken


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:500], r"small_mle-seed0\.json: not valid JSON .*remove the file"),
        (lambda text: "[]", r"is no JSON object; remove the file"),
        (lambda text: "[" * 100_000, r"not valid JSON .*remove the file"),
        (lambda text: text.replace('"row": "small_mle"', '"row": "smal"'), r"is no result: its \"row\""),
        (lambda text: text.replace('"seed": 0', '"seed": 1', 1), r"call it small_mle-seed1\.json"),
        (lambda text: text.replace('"confidence_95"', '"x"'), r'has no "report\.confidence_95"'),
        (lambda text: text.replace('"aliasing"', '"x"'), r'has no "aliasing"'),
        (lambda text: text.replace('"logprob"', '"x"', 1), r'has no "logprob"'),
        (lambda text: re.sub(r'"exact": \{', '"exact": {"x": 1}, "y": {', text), r'has no "report\.exact\.1"'),
        (lambda text: re.sub(r'"run": \{[^}]*\}', '"run": 3', text), r'"recipe\.run" is no object'),
        (lambda text: re.sub(r'"seconds": [\d.]+', '"seconds": "x"', text), r'"training\.seconds" is no number'),
    ],
)
def test_a_broken_result_gets_one_clear_message(change: Any, message: str, measured: Places, tmp_path: Path) -> None:
    text = (measured.results / "small_mle-seed0.json").read_text()
    (tmp_path / "small_mle-seed0.json").write_text(change(text))
    with pytest.raises(ResultError, match=message):
        read_results(tmp_path)


def test_results_on_different_tasks_do_not_mix(measured: Places, tmp_path: Path) -> None:
    shutil.copytree(measured.results, tmp_path / "results")
    path = tmp_path / "results" / "small_mle-seed1.json"
    path.write_text(path.read_text().replace('"data": "eight"', '"data": "test.json"'))
    with pytest.raises(ResultError, match=r"results on different test tasks"):
        read_results(tmp_path / "results")


# Rendering


def test_tables_show_what_was_measured_beside_the_paper(measured: Places) -> None:
    results, recipes = read_results(measured.results), page.load_recipes(measured.recipes)
    text = tables.objectives(results, recipes)
    lines = {line.split("**")[1]: [part.strip() for part in line.split("|")[2:-1]] for line in text.split("\n")[2:]}
    mine = [results[job].top("exact") for job in jobs("small_mle", seeds=(0, 1, 2))]
    assert lines["MLE"][1] == "71.91"
    assert lines["MLE"][0] == tables.NOT_YET
    assert lines["MLE"][6] == f"{np.mean(mine):.2f} [{min(mine):.2f}–{max(mine):.2f}]"
    assert lines["RL_beam"][4].endswith("1 of 3 seeds")
    assert lines["RL_beam"][5] == "25.28"
    result = results[jobs("rl_beam")[0]]
    low, high = result.interval("generalization", 5)
    assert f"| {result.top('generalization', 5):.2f} ({low:.2f}–{high:.2f}) | 79.29 |" in tables.ranks(results, recipes)
    assert tables.NOT_YET not in tables.validity(results, recipes)
    runs = tables.every_run(results)
    assert len(runs.split("\n")) == 2 + len(results)
    assert f"| rl_beam-seed0 | {result.top('generalization'):.2f} (" in runs


def test_pages_and_pictures_are_rendered_from_results_alone(measured: Places, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Above\n{page.BEGIN}\nold\n{page.END}\nbelow\n")
    written = page.render(measured.results, page.load_recipes(measured.recipes), tmp_path)
    assert sorted(path.name for path in written) == [
        "README.md", "aliasing.svg", "masks.svg", "masks_test.svg", "results.md",
    ]  # fmt: skip
    assert readme.read_text().startswith(f"# Above\n{page.BEGIN}\n\n| top 1, % |")
    assert readme.read_text().endswith(f"{page.END}\nbelow\n")
    assert "old" not in readme.read_text()
    text = (tmp_path / page.PAGE).read_text()
    assert "both are right" in text
    assert "masks_test.svg" in text
    before = {path: path.read_bytes() for path in written}
    page.render(measured.results, page.load_recipes(measured.recipes), tmp_path)
    assert before == {path: path.read_bytes() for path in written}


def test_rendering_without_results_says_not_yet(tmp_path: Path) -> None:
    files = page.rendered(tmp_path / "none", page.load_recipes(ROOT / "recipes"), tmp_path)
    assert set(files) == {page.PAGE, "docs/pictures/aliasing.svg"}
    assert files[page.PAGE].count(tables.NOT_YET) == 4 * 5 + 3 * 4 + 2 * 4 + 2 * 4 + 1 + 4 * 4
    assert "Nothing is measured yet" in files[page.PAGE]


def test_the_pages_of_the_repository_agree_with_its_results() -> None:
    """If this fails: `karelsynth reproduce --render`."""
    recipes = page.load_recipes(ROOT / "recipes")
    for name, text in page.rendered(ROOT / "results" / "reproduce", recipes, ROOT).items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, name


# Masks, validity, aliasing


def test_masks_along_a_program() -> None:
    model = tiny_model(syntax="learned")
    table = masks_along(model, PROGRAM_A)
    assert table.places == ("<s>", *PROGRAM_A.tokens[:-1])
    machine = syntax_machine()
    for at in range(PROGRAM_A.size):
        mask = machine.mask(machine.read(PROGRAM_A.token_ids[:at]))
        np.testing.assert_array_equal(table.handwritten[at], mask)
    bare, ids = without_syntax(model), np.array([PROGRAM_A.token_ids])
    codes = torch.from_numpy(np.stack([pair.input.to_codes() for pair in aliasing_examples()]))[None]
    with torch.no_grad():
        encoded = model.encode(codes, codes)
        packed = model.pack(ids, np.array([PROGRAM_A.size]))
        penalties = bare.score(encoded, packed).logits - model.score(encoded, packed).logits
    np.testing.assert_allclose(table.learned, np.exp(-penalties.numpy()), atol=1e-4)
    np.testing.assert_allclose(table.refused - table.passed, table.handwritten - table.learned, atol=1e-12)
    again = MaskTable.from_json(json.loads(json.dumps(table.to_json())))
    assert again.places == table.places
    np.testing.assert_allclose(again.learned, table.learned, atol=0.5 / 255)


def test_masks_over_programs_are_the_means_of_masks_along_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karelsynth.reproduce.masks._CHUNK", 1)
    model = tiny_model(syntax="learned")
    programs = [PROGRAM_A, PROGRAM_B]
    tokens = np.zeros((2, 40), np.uint8)
    for row, program in enumerate(programs):
        tokens[row, : program.size] = program.token_ids
    told = masks_over(model, tokens, np.array([program.size for program in programs]))
    apart = [masks_along(model, program) for program in programs]
    table = MaskTable.from_json(told["table"])
    assert told["positions"] == sum(program.size for program in programs)
    move = table.places.index("move")
    mean = np.mean([each.learned[each.places.index("move")] for each in apart], axis=0)
    np.testing.assert_allclose(table.learned[move], mean, atol=0.51 / 255)
    valid = sum(each.handwritten.sum() for each in apart)
    assert told["valid_refused"] == pytest.approx(100 * sum(each.refused.sum() for each in apart) / valid, abs=1e-3)
    kept = [
        each.learned[at, token] for each, p in zip(apart, programs, strict=True) for at, token in enumerate(p.token_ids)
    ]
    assert told["reference_refused"] == pytest.approx(100 * (1 - np.mean(kept)), abs=1e-3)


def test_models_without_learned_syntax_have_no_masks() -> None:
    with pytest.raises(KarelsynthError, match="no learned syntax"):
        masks_along(tiny_model(), PROGRAM_A)
    with pytest.raises(KarelsynthError, match="no learned syntax"):
        without_syntax(tiny_model())


def test_the_picture_of_masks_paints_what_differs() -> None:
    valid = np.zeros((2, 52))
    valid[0, ID["DEF"]] = valid[1, ID["run"]] = 1
    learned = valid.copy()
    learned[1, ID["run"]], learned[1, ID["move"]] = 0, 1
    table = MaskTable(("<s>", "DEF"), valid, learned, valid * (1 - learned), (1 - valid) * learned)
    panels = {group.name: group for group in masks_scene(table, "title").groups}
    cells = [shape for shape in panels["difference"].shapes if getattr(shape, "height", 0) == 11]
    assert [(cell.x // 11, TOKENS[int(cell.y // 11)]) for cell in cells] == [(1, "run"), (1, "move")]  # type: ignore[union-attr]
    red, blue = (cell.fill for cell in cells)
    assert int(red[1:3], 16) > 180 > int(red[5:7], 16)
    assert int(blue[5:7], 16) > 180 > int(blue[1:3], 16)


def test_validity_counts_programs() -> None:
    filled = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 0]], bool)
    syntax = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0]], bool)
    found = shares(Judged(syntax, syntax, syntax, syntax, filled))
    assert found["1"]["share"] == 66.67
    assert found["5"] == {"share": 50.0, "confidence_95": found["5"]["confidence_95"], "programs": 6}
    low, high = found["5"]["confidence_95"]
    assert low < 50 < high


def test_both_aliased_programs_are_right_and_differ_elsewhere() -> None:
    assert both_right()
    assert PROGRAM_A.run(ELSEWHERE).world != PROGRAM_B.run(ELSEWHERE).world
    captions = [shape.text for group in aliasing_scene().groups for shape in group.shapes if isinstance(shape, Text)]
    assert {"before", "after A, and after B", "after A", "after B"} < set(captions)


def test_opinions_are_probabilities_and_places_in_the_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(seed=3, syntax="handwritten")
    lengths = torch.tensor([[5, PROGRAM_B.size, 0]])
    found = Candidates(torch.zeros(1, 3, 40, dtype=torch.uint8), lengths, torch.zeros(1, 3))
    found.tokens[0, 1, : PROGRAM_B.size] = torch.tensor(PROGRAM_B.token_ids)
    monkeypatch.setattr("karelsynth.search.beam_search", lambda *arguments, **options: found)
    first, second = opinions(model, beam=3)
    assert (first["rank"], second["rank"]) == (None, 2)
    given = aliasing_examples()[:5]
    inputs, outputs = (torch.from_numpy(np.stack([pair[side].to_codes() for pair in given]))[None] for side in (0, 1))
    tokens = np.array([PROGRAM_B.token_ids])
    with torch.no_grad():
        packed = model.pack(tokens, np.array([PROGRAM_B.size]))
        logprob = float(model.program_logprobs(model.encode(inputs, outputs), packed))
    assert second["logprob"] == pytest.approx(logprob, abs=1e-3)
    assert first["logprob"] != second["logprob"]


# Weights in parts


def test_weights_in_parts_are_read_as_one(tmp_path: Path) -> None:
    model = tiny_model(syntax="learned")
    save_model(tmp_path, model.settings, model.state_dict(), torch.bfloat16, part_bytes=1000)
    parts = sorted(path.name for path in tmp_path.glob("model.safetensors*"))
    assert len(parts) > 2
    assert all(path.stat().st_size <= 1000 for path in tmp_path.glob("model.safetensors*"))
    loaded = Synthesizer.from_pretrained(tmp_path)
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value.bfloat16().float()), name
    (tmp_path / parts[0]).unlink()
    with pytest.raises(KarelsynthError, match=re.escape(f"{parts[0]}: there is no such file")):
        load_model(tmp_path)
    save_model(tmp_path, model.settings, model.state_dict(), None)
    assert [path.name for path in tmp_path.glob("model.safetensors*")] == ["model.safetensors"]
    (tmp_path / "model.safetensors").rename(tmp_path / "model.safetensors.x-of-y")
    with pytest.raises(KarelsynthError, match="rename or remove it"):
        load_model(tmp_path)


# The command

app = typer.Typer()
command.register(app)


def call(*arguments: object) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, KarelsynthError):
        raise result.exception
    return result


def test_the_command_measures_and_shows_a_table(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    where = ("--data", places.data, "--results", "mine", "--device", "cpu")
    result = call("objectives", "--only", "small_rl_beam", "--seeds", "5", *where)
    assert result.exit_code == 0, result.output
    assert "1 measured now, 0 before; left: nothing" in result.output
    assert "| **RL_beam** | not yet | 75.72 |" in result.output
    assert "step 1 of 4" in result.output
    assert (tmp_path / "runs" / "reproduce" / "small_mle-seed5" / "final").is_dir()  # trained, for it was missing
    again = call("objectives", "--only", "small_rl_beam", "--seeds", "5", "--minutes", "0", *where)
    assert "0 measured now, 1 before; left: nothing" in again.output
    with pytest.raises(KarelsynthError, match=r"not the repository's folder .*; call this there"):
        call("--render", "--results", "mine")
    assert not (tmp_path / "docs").exists()
    (tmp_path / "README.md").write_text(f"{page.BEGIN}\n{page.END}\n")
    rendered = call("--render", "--results", "mine")
    assert "docs/results.md" in rendered.output
    assert "RL_beam" in (tmp_path / "README.md").read_text()


def test_the_command_fails_where_a_row_diverged_but_not_where_time_was_up(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_recipes(places.recipes, learning_rate="1e30")
    where = ("objectives", "--only", "small_mle", "--seeds", "0", "--data", places.data, "--results", "mine")
    late = call(*where, "--minutes", "0", "--device", "cpu")
    assert late.exit_code == 0
    assert "left, as time was up: small_mle-seed0" in late.output
    diverged = call(*where, "--device", "cpu")
    assert diverged.exit_code == 1
    assert "0 measured now, 0 before; diverged: small_mle-seed0; left: nothing" in diverged.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), r"say which table: `objectives`, .* or `all`; or --render"),
        (("objectives", "--data", "x"), r"give another folder with --results"),
        (("objectives", "--seeds", "0,x"), r"--seeds 0,x: write whole numbers"),
        (("objectives", "--seeds", "1,1"), r"--seeds 1,1: write whole numbers"),
        (("objectives",), r"recipes: there is no such folder of recipes"),
        (("tabel",), r"there is no table called `tabel`"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KarelsynthError, match=message):
        call(*arguments)


def test_without_a_file_the_test_set_is_ours(tmp_path: Path) -> None:
    places = Places(recipes=ROOT / "recipes", runs=tmp_path, results=tmp_path)
    tasks = Runner(places, device=torch.device("cpu"))._test_tasks()
    named = NAMED_SETS["test"]
    assert len(tasks) == named.count
    assert np.array_equal(tasks.tokens[:3], generate(named.seed, 0, 3, reserved=True).tokens)
