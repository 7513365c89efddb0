"""Running the rows of the paper's tables: what there is to do, and that nothing is done twice, lost or mixed up."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.reproduce import page, tables
from karelsynth.reproduce.results import ResultError, defining_settings, read_results, with_staleness
from karelsynth.reproduce.rows import ROWS, SEEDS, TABLES, jobs_of
from karelsynth.reproduce.running import Paths, ProgressLines, Runner
from karelsynth.tasks.generate import generate
from karelsynth.tasks.named import NAMED_SETS
from karelsynth.tasks.sets import load_tasks, write_set
from karelsynth.train.loop import TrainingProgress, train
from karelsynth.train.recipe import RECIPES, load_recipe
from karelsynth.train.validation import Validation, Validator
from tests.reproduce.small import change, jobs, runner, write_recipes

# What there is to do


def test_every_row_has_a_recipe_of_the_paper() -> None:
    """Rows that are compared differ in what they are named for, and have equal budgets."""
    recipes = page.load_recipes(RECIPES)
    for name, row in ROWS.items():
        recipe = recipes[name]
        assert recipe.data.tasks == {"full": 1_116_854, "small": 10_000}[row.tasks]
        assert (recipe.objective.beam, recipe.objective.bag, recipe.objective.rollouts) == (64, 5, 100)
        assert (recipe.objective.name != "mle") == (row.start is not None) or name == "mle_continued"
        peers = [
            recipes[other.recipe]
            for other in ROWS.values()
            if (other.tasks, other.start is None) == (row.tasks, row.start is None)
        ]
        for peer in peers:
            assert (recipe.run.steps, recipe.run.batch_size) == (peer.run.steps, peer.run.batch_size)
            assert recipe.optimizer == peer.optimizer
            if not name.endswith("_authors") and not peer.name.endswith("_authors"):  # they choose models otherwise
                assert replace(recipe.run, seed=0) == replace(peer.run, seed=0)
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


def test_results_say_where_they_come_from(measured: Paths) -> None:
    results = read_results(measured.results)
    assert len(results) == 6
    record = results[jobs("small_rl_beam")[0]].record
    assert record["report"]["tasks"] == 8
    assert record["report"]["provenance"]["commit"] == "abc"
    assert record["training"]["tasks"] == 16
    assert measured.keep is not None
    assert record["recipe"]["start_from"] == str(measured.keep / "small_mle-seed0")  # though the run is there, too
    assert record["start"]["objective"]["name"] == "mle"
    log = (measured.runs / "small_rl_beam-seed0" / "metrics.jsonl").read_text().splitlines()
    assert record["training"]["seconds"] == round(json.loads(log[-1])["seconds"], 1)
    said = [entry for entry in map(json.loads, log) if "validation_exact" in entry]
    kept = [[entry["step"], entry["validation_generalization"], entry["validation_exact"]] for entry in said]
    assert record["training"]["validations"] == kept != []
    assert record["data"] == "eight"
    seeds = [results[job].record["recipe"]["run"]["seed"] for job in jobs("small_mle", seeds=(0, 1, 2))]
    assert seeds == [0, 1, 2]
    learned = results[jobs("mle_learned")[0]].record
    assert set(learned["validity"]) == {"joint", "without"}
    assert learned["masks"]["tasks"]["positions"] == generate(3, 0, 8, reserved=True).lengths.sum()
    assert all(path.stat().st_size < 100_000 for path in measured.results.iterdir())


def test_what_is_done_is_not_done_again(measured: Paths) -> None:
    said: list[str] = []
    outcome = runner(measured, said).run(jobs("small_mle", "rl_beam"))
    assert outcome == {}
    assert not said


def test_a_run_stops_in_time_and_resumes_to_the_same_result(paths: Paths, measured: Paths, tmp_path: Path) -> None:
    paths = replace(paths, keep=tmp_path / "kept")
    said: list[str] = []
    stopped = runner(paths, said).run(jobs("small_mle"), minutes=0.99)  # no row is begun in the last minute
    assert {job.name: how for job, how in stopped.items()} == {"small_mle-seed0": "left"}
    assert not said  # it did not even begin

    recipe = load_recipe(paths.recipes / "small_mle.toml", ["run.seed=0"])
    folder = paths.runs / "small_mle-seed0"
    final = train(recipe, folder, device=torch.device("cpu"), stop_after=1)
    assert not final.exists()
    assert [path.name for path in folder.glob("checkpoint-*")] == ["checkpoint-00000001"]
    assert set(runner(paths).run(jobs("small_mle")).values()) == {"done"}
    ours, theirs = (read_results(where.results)[jobs("small_mle")[0]].record for where in (paths, measured))
    for record in (ours, theirs):
        record["report"].pop("seconds_per_task")
        record["report"]["provenance"].pop("model")
    assert ours["report"] == theirs["report"]
    assert ours["aliasing"] == theirs["aliasing"]


def test_rows_start_from_a_kept_model_where_the_run_is_gone(measured: Paths, tmp_path: Path) -> None:
    assert measured.keep is not None
    assert sorted(path.name for path in measured.keep.iterdir()) == [
        "mle-seed0", "small_mle-seed0", "small_mle-seed1", "small_mle-seed2",
    ]  # fmt: skip
    elsewhere = replace(measured, runs=tmp_path / "runs", results=tmp_path / "results")
    said: list[str] = []
    assert set(runner(elsewhere, said).run(jobs("rl_beam")).values()) == {"done"}
    assert not (tmp_path / "runs" / "mle-seed0").exists()
    record = read_results(elsewhere.results)[jobs("rl_beam")[0]].record
    assert record["recipe"]["start_from"] == str(measured.keep / "mle-seed0")
    assert [line.split(":")[0] for line in said] == ["rl_beam-seed0", "rl_beam-seed0"]  # training it, and its score


# Which results still count


@pytest.mark.parametrize(
    ("section", "key", "other"),
    [
        ("model", "execution", True),
        ("data", "drop_examples", 0.5),
        ("data", "validation", "mine"),
        ("objective", "baseline", True),
        ("run", "validate_start", True),
    ],
)
def test_a_setting_that_a_recipe_says_nothing_of_was_at_its_default(section: str, key: str, other: object) -> None:
    recipe = load_recipe("small_mle").to_json()
    others = {name: value for name, value in recipe[section].items() if name != key}
    assert defining_settings({**recipe, section: others}, None) == defining_settings(recipe, None)
    assert defining_settings({**recipe, section: {**others, key: other}}, None) != defining_settings(recipe, None)


def test_of_a_run_only_seed_speed_logging_and_patience_may_differ() -> None:
    recipe = load_recipe("small_mle")
    record = defining_settings(recipe.to_json(), None)
    run = recipe.run
    others = replace(run, seed=run.seed + 1, compile=not run.compile, log_every=1, checkpoint_every=1, patience=3)
    assert defining_settings(replace(recipe, name="x", about="y", start_from="z", run=others).to_json(), None) == record
    for name in ("steps", "batch_size", "validate_every", "validation_tasks", "validation_beam"):
        changed = load_recipe("small_mle", [f"run.{name}=777"])
        assert defining_settings(changed.to_json(), None) != record, name


def test_a_result_counts_no_longer_if_the_recipe_of_its_start_has_changed(measured: Paths, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    shutil.copytree(measured.recipes.parent, folder)
    paths = Paths(folder / "recipes", folder / "runs", folder / "results", data=measured.data)
    change(paths, jobs("small_mle")[0], learning_rate=1e-3)
    results, recipes = read_results(paths.results), page.load_recipes(paths.recipes)
    (rl, other) = jobs("small_rl_beam", "rl_beam")
    assert not results[rl].is_current(recipes)
    assert results[other].is_current(recipes)
    said: list[str] = []
    of_another_start = (
        r"small_rl_beam-seed0: holds a model trained by another .* \(different: start_from\); move it away"
    )
    with pytest.raises(KarelsynthError, match=of_another_start):
        runner(paths, said).run([rl])
    assert said == [f"{rl.name}: its recipe, or its starting model's, has changed since it was measured"]
    shutil.rmtree(paths.runs / rl.name / "final")  # as if stopped before its end: it must not go on, either
    with pytest.raises(
        KarelsynthError, match=r"small_mle-seed0: holds a model trained by another version of small_mle"
    ):
        runner(paths).run([rl])
    shutil.rmtree(paths.runs / "small_mle-seed0")
    with pytest.raises(KarelsynthError, match=of_another_start):
        runner(paths).run([rl])
    shutil.rmtree(paths.runs / rl.name)
    assert set(runner(paths).run([rl]).values()) == {"done"}
    assert read_results(paths.results)[rl].is_current(recipes)


def test_a_result_of_a_version_with_other_settings_is_stale_not_broken(measured: Paths, tmp_path: Path) -> None:
    path = tmp_path / "small_mle-seed0.json"
    path.write_text((measured.results / path.name).read_text().replace('"warmup"', '"warm_up"'))
    (result,) = read_results(tmp_path).values()
    assert not result.is_current(page.load_recipes(measured.recipes))


def test_a_changed_recipe_is_measured_again_but_never_on_an_old_model(measured: Paths, tmp_path: Path) -> None:
    changed = replace(measured, recipes=write_recipes(tmp_path / "recipes", learning_rate="1e-3"), keep=None)
    said: list[str] = []
    with pytest.raises(
        KarelsynthError, match=r"holds a model trained by another version of small_mle .*: optimizer\.learning_rate\)"
    ):
        runner(changed, said).run(jobs("small_mle"))
    assert said == ["small_mle-seed0: its recipe, or its starting model's, has changed since it was measured"]
    known = page.load_recipes(changed.recipes)
    assert tables.STALE in tables.objectives(with_staleness(read_results(changed.results), known))
    assert tables.STALE not in tables.objectives(
        with_staleness(read_results(measured.results), page.load_recipes(measured.recipes))
    )


def test_progress_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said = [100.0], list[str]()
    monkeypatch.setattr("karelsynth.reproduce.running.time", SimpleNamespace(monotonic=lambda: now[0]))
    show = ProgressLines("mle-seed0:", said.append)

    def at(seconds: float, step: int, **metrics: float) -> list[str]:
        now[0] = 100 + seconds
        show(TrainingProgress(step, 1000, 1234.5, metrics))
        lines, said[:] = list(said), []
        return lines

    assert at(0, 1, loss=1.0) == ["mle-seed0: step 1 of 1,000, 1,234 tasks/s, loss 1.0000"]
    assert at(19, 10, loss=1.0) == []
    line = "mle-seed0: step 11 of 1,000, 1,234 tasks/s, 0:33:47 left, loss 0.5000, reward 0.250"
    assert at(20.5, 11, loss=0.5, reward=0.25) == [line]  # 989 steps of 2.05 seconds
    assert at(50, 1, loss=2.0) == ["mle-seed0: step 1 of 1,000, 1,234 tasks/s, loss 2.0000"]  # another run


def test_a_row_that_diverges_does_not_stop_the_others(paths: Paths) -> None:
    change(paths, jobs("small_mle")[0], learning_rate=1e30)
    said: list[str] = []
    outcome = runner(paths, said).run(jobs("small_mle", "small_mle_learned"))
    ended = {job.name: how for job, how in outcome.items()}
    assert ended == {"small_mle-seed0": "diverged", "small_mle_learned-seed0": "done"}
    assert any("diverged" in line for line in said)


@pytest.mark.parametrize("wanted", [True, False])
def test_what_starts_from_a_diverged_row_is_not_tried(wanted: bool, paths: Paths) -> None:
    start, *rest = jobs("small_mle", "small_rl_beam", "small_rl_beam_div")
    change(paths, start, learning_rate=1e30)
    said: list[str] = []
    outcome = runner(paths, said).run([start, *rest] if wanted else rest)
    assert outcome == dict.fromkeys([start, *rest] if wanted else rest, "diverged")
    assert said[0] == "small_mle-seed0: training"  # once
    assert said[1].startswith("small_mle-seed0: the loss is nan")
    assert said[2:] == [f"{job.name}: cannot begin without the model of small_mle-seed0" for job in rest]


def test_a_row_that_finds_no_memory_does_not_stop_the_others(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    score = Validator.score

    def full(self: Validator, model: Synthesizer) -> Validation:
        if model.syntax is None:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 TiB")
        return score(self, model)

    monkeypatch.setattr(Validator, "score", full)
    start, other, rl = jobs("small_mle", "small_mle_learned", "small_rl_beam")
    said: list[str] = []
    assert runner(paths, said).run([start, other, rl]) == {start: "failed", other: "done", rl: "failed"}
    assert said[1] == "small_mle-seed0: there is not enough memory for it on cpu"
    assert said[-1] == "small_rl_beam-seed0: cannot begin without the model of small_mle-seed0"


def test_models_and_results_on_other_training_tasks_are_other_ones(paths: Paths, tasks: Path, tmp_path: Path) -> None:
    assert set(runner(paths).run(jobs("small_mle")).values()) == {"done"}
    write_recipes(paths.recipes, tasks="8")
    on_file = replace(paths, train_data=tasks, runs=tmp_path / "runs2")
    said: list[str] = []
    assert set(runner(on_file, said).run(jobs("small_mle")).values()) == {"done"}
    assert said[0] == "small_mle-seed0: its recipe, or its starting model's, has changed since it was measured"
    record = read_results(paths.results)[jobs("small_mle")[0]]
    assert record.record["recipe"]["data"]["source"] == str(tasks.resolve())
    assert record.is_current(page.load_recipes(paths.recipes, tasks))
    assert not record.is_current(page.load_recipes(paths.recipes))
    with pytest.raises(KarelsynthError, match=r"runs2.small_mle-seed0: holds .* \(different: data\.source\)"):
        runner(replace(on_file, train_data=None)).run(jobs("small_mle"))


def test_models_chosen_on_other_tasks_are_other_ones(paths: Paths, others: Path, tmp_path: Path) -> None:
    """Those that RL starts from, too."""
    assert set(runner(paths).run(jobs("small_rl_beam")).values()) == {"done"}
    on_file = replace(paths, val_data=others, runs=tmp_path / "runs2")
    said: list[str] = []
    assert set(runner(on_file, said).run(jobs("small_rl_beam")).values()) == {"done"}
    assert said[0] == "small_rl_beam-seed0: its recipe, or its starting model's, has changed since it was measured"
    record = read_results(paths.results)[jobs("small_rl_beam")[0]]
    for recipe in (record.record["recipe"], record.record["start"]):
        assert recipe["data"]["validation"] == str(others.resolve())
        assert recipe["data"]["source"] == "stream"
    assert record.is_current(page.load_recipes(paths.recipes, val_data=others))
    assert not record.is_current(page.load_recipes(paths.recipes))
    with pytest.raises(KarelsynthError, match=r"runs2.small_mle-seed0: holds .* \(different: data\.validation\)"):
        runner(replace(on_file, val_data=None)).run(jobs("small_mle"))


def test_tasks_are_the_same_however_their_path_is_written(
    paths: Paths, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tasks.parent)
    ways = (tasks, Path("eight"), Path("../") / tasks.parent.name / "eight")
    recipes = {runner(replace(paths, train_data=way, val_data=way)).recipe(jobs("small_mle")[0]) for way in ways}
    assert [(recipe.data.source, recipe.data.validation) for recipe in recipes] == [(str(tasks.resolve()),) * 2]


def test_the_device_is_the_one_that_trained(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def on(machine: str) -> None:
        monkeypatch.setattr("karelsynth.reproduce.running.environment", lambda device: {"device": machine})

    def trained_on() -> str:
        assert set(runner(paths).run(jobs("small_mle")).values()) == {"done"}
        path = paths.results / "small_mle-seed0.json"
        record = json.loads(path.read_text())
        path.unlink()
        return str(record["training"]["device"])

    on("one")
    assert trained_on() == "one"
    on("two")  # only measures it
    assert trained_on() == "one"
    shutil.rmtree(paths.runs / "small_mle-seed0" / "final")  # as if stopped before its end
    assert trained_on() == "one, then two"
    (paths.runs / "small_mle-seed0" / "history.json").unlink()
    assert trained_on() == "not recorded"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "runs/mle-seed0/final/recipe.json",
            "{",
            r"recipe\.json: not valid JSON .* remove .*mle-seed0 to train it again",
        ),
        ("runs/mle-seed0/final/recipe.json", "[]", r"recipe\.json: not a JSON object"),
        ("runs/mle-seed0/final/recipe.json", '{"model": {}}', r'recipe\.json: has no "objective"'),
        ("runs/mle-seed0/metrics.jsonl", '{"step": 1}\n{"st', r"metrics\.jsonl: not the log of a training run"),
        ("runs/mle-seed0/metrics.jsonl", "", r"not the log of a training run"),
        ("runs/mle-seed0/metrics.jsonl", '{"seconds": NaN, "step": 4}', r"not the log of a training run"),
        (
            "runs/mle-seed0/metrics.jsonl",
            '{"seconds": 1, "step": 4, "validation_generalization": 1}',
            r"not the log of a training run",
        ),
        ("runs/mle-seed0/metrics.jsonl", '{"step": 4}', r"not the log of a training run"),
        ("runs/mle-seed0/history.json", '{"machines": 1}', r"history\.json: not the history of a run; remove"),
        ("runs/mle-seed0/history.json", "{", r"history\.json: not the history of a run; remove"),
        ("kept/mle-seed0/trained.json", "{}", r'trained\.json: has no "recipe"'),
        ("kept/mle-seed0/trained.json", '{"recipe": 3}', r'trained\.json: has no "recipe\.model"'),
    ],
)
def test_altered_files_of_a_run_get_one_clear_message(
    name: str, text: str, message: str, measured: Paths, tmp_path: Path
) -> None:
    folder = tmp_path / "all"
    shutil.copytree(measured.recipes.parent, folder)
    (folder / name).write_text(text)
    keep = folder / "kept" if name.startswith("kept") else None
    paths = Paths(folder / "recipes", folder / "runs", folder / "new", keep, measured.data)
    with pytest.raises(KarelsynthError, match=message):
        runner(paths).run(jobs("mle"))


def test_without_a_file_the_test_set_is_ours(tmp_path: Path) -> None:
    paths = Paths(recipes=RECIPES, runs=tmp_path, results=tmp_path)
    tasks = Runner(paths, device=torch.device("cpu")).test_tasks
    named = NAMED_SETS["test"]
    assert len(tasks) == named.count
    assert np.array_equal(tasks.tokens[:3], generate(named.seed, 0, 3, reserved=True).tokens)


def test_results_on_other_test_tasks_are_refused(measured: Paths) -> None:
    with pytest.raises(KarelsynthError, match="has results on eight, not on our own test set; choose another folder"):
        runner(replace(measured, data=None)).run(jobs("mle"))


def test_tasks_are_distinguished_even_if_their_files_share_a_name(paths: Paths, others: Path, tmp_path: Path) -> None:
    assert set(runner(paths).run(jobs("small_mle")).values()) == {"done"}
    result = read_results(paths.results)[jobs("small_mle")[0]]
    assert result.digest == load_tasks(paths.data or others).digest
    namesake = tmp_path / "elsewhere" / "eight"
    shutil.copytree(others, namesake)
    for wanted in (jobs("small_mle"), jobs("mle")):  # measured or not
        with pytest.raises(KarelsynthError, match="results on other tasks than these, though both are called eight"):
            runner(replace(paths, data=namesake)).run(wanted)
    assert set(runner(replace(paths, data=namesake, results=tmp_path / "b")).run(jobs("mle")).values()) == {"done"}
    shutil.copy(tmp_path / "b" / "mle-seed0.json", paths.results)
    with pytest.raises(ResultError, match=r"different test tasks \(mle-seed0\.json on eight with digest \w{16}, small"):
        read_results(paths.results)
    path = paths.results / "mle-seed0.json"  # as older ones are: it goes by the name
    path.write_text(re.sub(r'"digest": "\w+",', "", path.read_text()))
    assert len(read_results(paths.results)) == 2
    assert runner(paths).run(jobs("small_mle", "mle")) == {}


def test_models_are_not_chosen_on_the_test_tasks(paths: Paths, tasks: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(tasks, copied)
    for val in (tasks, copied):
        with pytest.raises(KarelsynthError, match=r"chosen on .* and then scored on the same tasks .*--val"):
            runner(replace(paths, val_data=val)).run(jobs("small_mle"))
    validation = tmp_path / "validation"
    write_set(validation, seed=NAMED_SETS["val"].seed, count=8, reserved=True)
    with pytest.raises(KarelsynthError, match="chosen on val and then scored on the same tasks"):
        runner(replace(paths, data=validation)).run(jobs("small_mle"))
    write_recipes(paths.recipes, tasks='16\nvalidation = "test"')
    with pytest.raises(KarelsynthError, match="chosen on test and then scored on the same tasks"):
        runner(replace(paths, data=None)).run(jobs("small_mle"))
    assert not paths.runs.exists()


def test_test_tasks_that_are_not_there_are_noticed_before_training(paths: Paths, tmp_path: Path) -> None:
    lost = replace(paths, data=tmp_path / "nothing", runs=tmp_path / "runs", results=tmp_path / "results")
    with pytest.raises(KarelsynthError, match="nothing: there is no such file"):
        runner(lost).run(jobs("mle"))
    assert not (tmp_path / "runs").exists()


def test_validation_tasks_are_looked_at_before_training_but_only_for_it(paths: Paths, tmp_path: Path) -> None:
    few, later = tmp_path / "few", tmp_path / "later"
    write_set(few, seed=3, count=8, examples=5)
    for path, message in ((later, "later: there is no such file"), (few, "few: its tasks have 5 examples each")):
        with pytest.raises(KarelsynthError, match=f"^validation tasks: .*{message}"):
            runner(replace(paths, val_data=path)).run(jobs("small_mle_learned", "small_rl_beam"))
        assert not paths.runs.exists()
    with pytest.raises(KarelsynthError, match="few: its tasks have 5 examples each"):
        runner(replace(paths, data=few)).run(jobs("small_mle"))
    assert not paths.runs.exists()
    write_set(later, seed=7, count=8)
    on_file = replace(paths, val_data=later)
    assert set(runner(on_file).run(jobs("small_mle")).values()) == {"done"}
    shutil.rmtree(later)  # what is trained can be measured without
    assert set(runner(replace(on_file, results=tmp_path / "again")).run(jobs("small_mle")).values()) == {"done"}


def test_results_say_which_tasks_were_solved_and_written(measured: Paths) -> None:
    for result in read_results(measured.results).values():
        for measure in ("generalization", "exact"):
            for rank in (1, 5):
                bits = result.solved(rank, measure)
                assert bits is not None
                assert 100 * bits.mean() == pytest.approx(result.top(measure, rank), abs=0.01)
