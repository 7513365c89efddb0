"""Training: exact resumption, several processes, divergence."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model.settings import ModelSettings
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.objectives import RL_OBJECTIVES
from karelsynth.search import beam_search, replay
from karelsynth.tasks.generate import generate
from karelsynth.tasks.simplify import simplify
from karelsynth.tasks.streams import ShuffledTasks, TaskStream
from karelsynth.train import loop, steps
from karelsynth.train.batches import BatchLoader, TrainingBatch, check_lengths, open_source
from karelsynth.train.checkpoint import CheckpointError
from karelsynth.train.distributed import ProcessGroup, backend
from karelsynth.train.loop import Diverged, TrainingProgress, train
from karelsynth.train.metrics import METRICS
from karelsynth.train.recipe import DataRecipe, Recipe, RecipeError
from karelsynth.train.steps import Loss
from tests.models import lstm_of, tiny_model
from tests.training import TINY, assert_same, tiny, weights

GRIDS = ("inputs", "outputs")
# Batches


@pytest.mark.parametrize("syntax", ["none", "handwritten"])
@pytest.mark.parametrize("tasks", [None, 40])
def test_programs_that_decoding_could_never_write_are_an_error_before_the_first_step(
    syntax: str, tasks: int | None, tmp_path: Path
) -> None:
    recipe = replace(tiny(syntax=syntax), data=DataRecipe(seed=5, tasks=tasks))
    longest = 65 if tasks is None else int(generate(5, 0, tasks).lengths.max())
    assert open_source(recipe.data).longest == longest >= generate(5, 0, 5000 if tasks is None else tasks).lengths.max()
    check_lengths(open_source(recipe.data), replace(recipe, model=replace(recipe.model, max_length=longest)))
    short = replace(recipe, model=replace(recipe.model, max_length=longest - 1))
    with pytest.raises(
        RecipeError, match=f"`model.max_length` is {longest - 1}, but programs of stream .* {longest} or"
    ):
        train(short, tmp_path, device=torch.device("cpu"))
    assert not (tmp_path / METRICS).exists()


def test_a_finite_set_has_a_new_order_in_each_epoch() -> None:
    tasks = generate(1, 0, 50)
    source = ShuffledTasks(tasks, seed=3)
    numbers = {row.tobytes(): number for number, row in enumerate(tasks.inputs.reshape(50, -1))}

    def order(start: int, count: int) -> list[int]:
        return [numbers[row.tobytes()] for row in source.tasks(start, count).inputs.reshape(count, -1)]

    first, second = order(0, 50), order(50, 50)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert order(45, 10) == first[45:] + second[:5]


def test_batches_depend_on_the_step_alone_and_parts_make_up_the_whole() -> None:
    model = Synthesizer(ModelSettings(**TINY))  # type: ignore[arg-type]

    def loader(rank: int = 0, ranks: int = 1) -> BatchLoader:
        return BatchLoader(TaskStream(9), model, batch_size=8, seed=1, pack=False, rank=rank, ranks=ranks)

    whole = list(loader().batches(0, 4))
    late = next(iter(loader().batches(2, 4)))
    assert torch.equal(whole[2].inputs, late.inputs)
    halves = [list(loader(rank, 2).batches(0, 4)) for rank in range(2)]
    for step in range(4):
        assert torch.equal(whole[step].outputs, torch.cat([half[step].outputs for half in halves]))
    # Any example may be the held-out one.
    plain = generate(9, 0, 8)
    assert len(set(whole[0].order[:, -1].tolist())) > 2
    inputs, outputs = whole[0].examples(np.arange(len(whole[0].tasks)))
    for row, order in enumerate(whole[0].order):
        assert np.array_equal(inputs[row], plain.inputs[row, order])
        assert np.array_equal(outputs[row], plain.outputs[row, order])
    assert torch.equal(whole[0].inputs, torch.from_numpy(inputs[:, :-1]))
    with pytest.raises(RecipeError, match="must be a multiple"):
        BatchLoader(TaskStream(9), model, batch_size=9, seed=1, pack=False, ranks=2)


def test_a_share_of_the_tasks_is_shown_with_fewer_examples() -> None:
    model = Synthesizer(ModelSettings(**TINY))  # type: ignore[arg-type]

    def batch(drop_examples: float) -> TrainingBatch:
        return next(
            iter(
                BatchLoader(
                    TaskStream(9), model, batch_size=400, seed=1, pack=False, drop_examples=drop_examples
                ).batches(0, 1)
            )
        )

    some, plain = batch(0.3), batch(0.0)
    assert plain.present is None
    assert np.array_equal(some.order, plain.order)  # the rest is as it would be
    assert some.present is not None
    numbers = some.present.sum(1)
    assert torch.equal(some.present, torch.arange(5) < numbers[:, None])
    assert 80 < int((numbers < 5).sum()) < 160
    assert set(numbers.tolist()) == {1, 2, 3, 4, 5}


def test_examples_keep_the_order_of_their_source_if_they_are_not_shuffled() -> None:
    """For purposeful tasks it is a teacher's: the first examples show the most."""
    model, stream = Synthesizer(ModelSettings(**TINY)), TaskStream(9, purposeful=0.5)  # type: ignore[arg-type]
    (batch,) = BatchLoader(
        stream, model, batch_size=12, seed=1, pack=False, drop_examples=0.5, shuffle_examples=False
    ).batches(2, 3)
    tasks = stream.tasks(24, 12)
    assert torch.equal(batch.inputs, torch.from_numpy(tasks.inputs[:, :5]))
    assert torch.equal(batch.outputs, torch.from_numpy(tasks.outputs[:, :5]))
    inputs, outputs = batch.examples(np.array([7, 3]))
    assert np.array_equal(inputs, tasks.inputs[[7, 3]])
    assert np.array_equal(outputs, tasks.outputs[[7, 3]])


@pytest.mark.parametrize("tasks", [None, 40])
def test_programs_are_simplified_on_demand(tasks: int | None) -> None:
    """Whichever part of the stream is asked for: what a task becomes depends on that task alone."""
    source = open_source(DataRecipe(seed=9, tasks=tasks, simplify=True))
    plain = open_source(DataRecipe(seed=9, tasks=tasks))
    some, same, drawn = source.tasks(0, 40), source.tasks(20, 20), plain.tasks(0, 40)
    assert np.array_equal(some.tokens[20:], same.tokens)
    assert np.array_equal(some.tokens, simplify(drawn).tokens)
    assert (some.lengths < drawn.lengths).any()
    assert np.array_equal(some.inputs, drawn.inputs)


# The loop


@pytest.mark.parametrize(
    ("name", "syntax"),
    [
        ("mle", "learned"),
        ("mle", "handwritten"),
        ("rl", "none"),
        ("rl_beam", "handwritten"),
        ("rl_beam_div", "learned"),
    ],
)
def test_a_stopped_run_ends_with_the_same_weights(name: str, syntax: str, tmp_path: Path) -> None:
    recipe = tiny(name, syntax, steps=6, validate_every=3, checkpoint_every=2)
    device = torch.device("cpu")
    train(recipe, tmp_path / "whole", device=device)
    for stop in (1, 2, 5):
        train(recipe, tmp_path / "stopped", device=device, stop_after=stop)
    train(recipe, tmp_path / "stopped", device=device)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))

    def steps(folder: str) -> list[int]:
        return [json.loads(line)["step"] for line in (tmp_path / folder / METRICS).read_text().splitlines()]

    assert steps("stopped")[-1] == steps("whole")[-1] == 6
    # Following a finished recipe again does nothing.
    train(recipe, tmp_path / "stopped", device=device)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))


def test_a_killed_process_resumes_exactly(tmp_path: Path) -> None:
    """SIGKILL at whatever moment, again and again."""
    recipe = tiny(steps=30, checkpoint_every=2, log_every=1, validate_every=100)
    code = (
        "import sys, json, torch; from pathlib import Path\n"
        "from karelsynth.train.loop import train; from karelsynth.train.recipe import recipe_from\n"
        "train(recipe_from(json.loads(sys.argv[1])), Path(sys.argv[2]), device=torch.device('cpu'))"
    )
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", code, json.dumps(recipe.to_json()), str(folder)]
    rng = np.random.default_rng(0)
    for _ in range(3):
        process = subprocess.Popen(command)
        known = (folder / METRICS).stat().st_size if (folder / METRICS).exists() else 0
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if (folder / METRICS).exists() and (folder / METRICS).stat().st_size > known:
                break
            time.sleep(0.02)
        time.sleep(float(rng.random()) * 0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True, timeout=120)
    train(recipe, tmp_path / "whole", device=torch.device("cpu"))
    assert_same(weights(tmp_path / "whole"), weights(folder))


def test_ctrl_c_saves_the_step_that_it_came_in(tmp_path: Path) -> None:
    recipe = tiny(steps=12, checkpoint_every=100, log_every=1, validate_every=100)
    before = signal.getsignal(signal.SIGINT)

    def press(progress: TrainingProgress) -> None:
        if progress.step == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "stopped", device=torch.device("cpu"), on_progress=press)
    assert signal.getsignal(signal.SIGINT) is before
    (saved,) = (tmp_path / "stopped").glob("checkpoint-*")
    assert int(saved.name.split("-")[1]) in (5, 6)  # after that step or the next one: not the hundredth
    assert not (tmp_path / "stopped" / "final").exists()
    for name in ("stopped", "whole"):
        train(recipe, tmp_path / name, device=torch.device("cpu"))
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))


def test_ctrl_c_in_the_last_step_raises(tmp_path: Path) -> None:
    """Nothing after this run is done, and its last state is saved."""
    recipe = tiny(steps=2, checkpoint_every=2, log_every=1, validate_every=2)

    def press(progress: TrainingProgress) -> None:
        if progress.step == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path, device=torch.device("cpu"), on_progress=press)
    assert (tmp_path / "final").is_dir()


def test_a_ctrl_c_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        recipe = tiny(steps=2, log_every=1, validate_every=2)
        train(recipe, tmp_path, device=torch.device("cpu"), on_progress=lambda _: signal.raise_signal(signal.SIGINT))
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_recipe_does_not_continue_a_run(tmp_path: Path) -> None:
    train(tiny(), tmp_path, device=torch.device("cpu"), stop_after=3)
    with pytest.raises(CheckpointError, match=r"another recipe \(different: run.batch_size\)"):
        train(tiny(batch_size=16), tmp_path, device=torch.device("cpu"))


def test_a_run_of_a_version_with_fewer_settings_resumes(tmp_path: Path) -> None:
    train(tiny(), tmp_path, device=torch.device("cpu"), stop_after=3)
    (newest,) = tmp_path.glob("checkpoint-*")
    notes = json.loads((newest / "notes.json").read_text())
    del notes["recipe"]["optimizer"]["name"]
    (newest / "notes.json").write_text(json.dumps(notes))
    (newest / "SHA256SUMS").unlink()  # such a version wrote none
    train(tiny(), tmp_path, device=torch.device("cpu"))
    assert (tmp_path / "final").is_dir()


def test_a_checkpoint_without_its_notes_is_named(tmp_path: Path) -> None:
    train(tiny(), tmp_path, device=torch.device("cpu"), stop_after=3)
    (newest,) = tmp_path.glob("checkpoint-*")
    (newest / "SHA256SUMS").unlink()
    for record, missing in (({}, "best"), ({"step": 3, "best": None}, "recipe")):
        (newest / "notes.json").write_text(json.dumps(record))
        with pytest.raises(CheckpointError, match=f"cannot be read .notes.json lacks `{missing}`"):
            train(tiny(), tmp_path, device=torch.device("cpu"))


def test_a_flipped_bit_in_a_checkpoint_is_found(tmp_path: Path) -> None:
    train(tiny(), tmp_path, device=torch.device("cpu"), stop_after=3)
    (newest,) = tmp_path.glob("checkpoint-*")
    for name in ("model.safetensors", "optimizer.safetensors", "notes.json"):
        whole = (newest / name).read_bytes()
        (newest / name).write_bytes(whole[:-9] + bytes([whole[-9] ^ 4]) + whole[-8:])
        with pytest.raises(CheckpointError, match=f"cannot be read .*{name}: does not match its checksum"):
            train(tiny(), tmp_path, device=torch.device("cpu"))
        (newest / name).write_bytes(whole)
    train(tiny(), tmp_path, device=torch.device("cpu"))


def test_a_broken_checkpoint_is_named(tmp_path: Path) -> None:
    train(tiny(), tmp_path, device=torch.device("cpu"), stop_after=3)
    (newest,) = tmp_path.glob("checkpoint-*")
    whole = (newest / "model.safetensors").read_bytes()
    (newest / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=f"{newest.name}: this checkpoint cannot be read"):
        train(tiny(), tmp_path, device=torch.device("cpu"))


@pytest.mark.parametrize(("often", "sign"), [(1, "the loss is nan after step 3"), (12, "a weight is .* after step 3")])
def test_a_diverged_run_stops_and_saves_nothing_of_it(
    often: int, sign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a checkpoint is due before the log is."""
    monkeypatch.setattr(loop, "learning_rate", lambda recipe, step, steps: 1e30 if step == 1 else 1e-3)
    recipe = tiny(log_every=often, validate_every=1)
    recipe = replace(recipe, optimizer=replace(recipe.optimizer, clip=None))
    train(recipe, tmp_path, device=torch.device("cpu"), stop_after=1)
    with pytest.raises(Diverged, match=f"{sign}: the run has diverged.* start_from=.*best") as raised:
        train(recipe, tmp_path, device=torch.device("cpu"))
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-00000001"]
    (best,) = re.findall("start_from=([^`]+)", str(raised.value))  # what the message says can be done
    again = replace(tiny(), start_from=best)
    train(again, tmp_path / "again", device=torch.device("cpu"), stop_after=1)


def test_a_model_that_is_not_finite_is_not_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first validation comes after the step that broke it."""
    monkeypatch.setattr(loop, "learning_rate", lambda recipe, step, steps: float("nan"))
    with pytest.raises(
        Diverged, match=r"a weight is .* after step 1: the run has diverged. Start a new run in another folder"
    ):
        train(tiny(validate_every=1, log_every=1), tmp_path, device=torch.device("cpu"))
    assert not (tmp_path / "best").exists()


SHARED_RUNS: list[tuple[str, Literal["adam", "muon"]]] = [("mle", "adam"), ("mle", "muon"), ("rl_beam_div", "adam")]
IN_TWO_PROCESSES = """
import json, os, sys
from pathlib import Path
import torch
from karelsynth.train.loop import train
from karelsynth.train.recipe import recipe_from

recipes, folder, device = json.loads(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
for name, recipe in recipes.items():
    if recipe["port"] is not None:  # torchrun's own store serves one group
        os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "False", "MASTER_PORT": str(recipe["port"])}
    train(recipe_from(recipe["recipe"]), folder / name, device=None if device == "cuda" else torch.device("cpu"))
"""


def shared_recipe(name: str, optimizer: Literal["adam", "muon"]) -> Recipe:
    plain = tiny(name, steps=4, validate_every=100, checkpoint_every=100)
    return replace(plain, optimizer=replace(plain.optimizer, name=optimizer))


@pytest.fixture(scope="module")
def in_two_processes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of runs in two processes on a device; all in one go, since processes take long to start."""

    @cache
    def run(device: str) -> Path:
        folder = tmp_path_factory.mktemp("two")
        script = folder / "run.py"
        script.write_text(IN_TWO_PROCESSES)
        recipes: dict[str, Any] = {}
        with ExitStack() as stack:
            for name, optimizer in SHARED_RUNS:
                taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                port = taken.getsockname()[1] if recipes else None
                recipes[f"{name}-{optimizer}"] = {"recipe": shared_recipe(name, optimizer).to_json(), "port": port}
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script),
             json.dumps(recipes), str(folder), device],
            check=True,
            timeout=600,
            capture_output=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        return folder

    return run


@pytest.mark.parametrize(("name", "optimizer"), SHARED_RUNS)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_two_processes_do_what_one_does(
    device: str,
    in_two_processes: Callable[[str], Path],
    name: str,
    optimizer: Literal["adam", "muon"],
    tmp_path: Path,
) -> None:
    """DistributedDataParallel over two processes, the same global batch: the same weights, up to rounding.

    Where there is one GPU, they share it.
    """
    recipe = shared_recipe(name, optimizer)
    train(recipe, tmp_path / "one", device=torch.device(device))
    one, two = weights(tmp_path / "one"), weights(in_two_processes(device) / f"{name}-{optimizer}")
    if device == "cpu" and optimizer == "adam":
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
        return
    # TensorFloat-32 rounds, and so does Muon, which computes in bfloat16; and Adam makes full steps of gradients that
    # are only rounding. A few weights differ, by no more than four steps of one run and four of the other.
    mine, others = (torch.cat([weights[key].flatten() for key in one]) for weights in (one, two))
    torch.testing.assert_close(mine, others, rtol=0, atol=2 * 4 * recipe.optimizer.learning_rate)
    assert (~torch.isclose(mine, others, rtol=1e-2, atol=1e-3)).float().mean() < 0.002


@pytest.mark.parametrize("name", ["rl", "rl baseline", "rl_beam", "rl_beam_div", "mml"])
def test_scoring_what_has_no_gradient_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses and gradients of a step, with rewards by chance: some tasks have none, and some only rewards."""
    model = tiny_model(syntax="handwritten", max_length=72)
    recipe = replace(tiny(name.split()[0]).objective, baseline="baseline" in name)
    (batch,) = BatchLoader(TaskStream(4), model, batch_size=12, seed=1, pack=False).batches(0, 1)
    chances = np.array([0, 0.5, 1, 0.5] * 3)[:, None]
    drawn = np.random.default_rng(2).random((12, 10)) < chances
    monkeypatch.setattr(steps, "REWARDS", {recipe.reward: lambda outcomes: drawn[:, : outcomes.syntax.shape[1]].copy()})
    seen = []
    for needed in (RL_OBJECTIVES[recipe.name].gradients, "all"):
        known = replace(RL_OBJECTIVES[recipe.name], gradients=needed)
        monkeypatch.setattr(steps, "RL_OBJECTIVES", {recipe.name: known})
        loss, metrics = Loss(model, recipe, ProcessGroup(0, 1, torch.device("cpu")))(
            batch, torch.Generator().manual_seed(3)
        )
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        seen.append((loss.detach(), metrics["reward"], [one for one in gradients if one is not None]))
    assert any(one.abs().max() > 1e-4 for one in seen[0][2])
    torch.testing.assert_close(seen[0], seen[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["mle", "rl_beam"])
def test_examples_that_are_not_shown_do_not_matter(name: str) -> None:
    """Of `data.drop_examples`: whatever is in them, a step's loss is the same."""
    model, recipe = tiny_model(syntax="handwritten", max_length=72), replace(tiny(name).objective, reward="consistency")
    (batch,) = BatchLoader(TaskStream(4), model, batch_size=12, seed=1, pack=name == "mle", drop_examples=1.0).batches(
        0, 1
    )
    assert batch.present is not None
    hidden = ~batch.present[:, :, None, None]
    others = {part: torch.where(hidden, getattr(batch, part).roll(1, 0), getattr(batch, part)) for part in GRIDS}
    assert any(not torch.equal(grids, getattr(batch, part)) for part, grids in others.items())
    loss_of = Loss(model, recipe, ProcessGroup(0, 1, torch.device("cpu")))
    changed = replace(batch, inputs=others["inputs"], outputs=others["outputs"])
    record = [
        float(loss_of(one, torch.Generator())[0].detach()) for one in (batch, changed, replace(batch, present=None))
    ]
    assert record[1] == pytest.approx(record[0], rel=1e-5)
    assert record[2] != pytest.approx(record[0], rel=1e-3)


def test_a_run_shows_fewer_examples_if_its_recipe_says_so(tmp_path: Path) -> None:
    recipe = tiny(steps=2)
    for share in (0.0, 1.0):
        train(
            replace(recipe, data=replace(recipe.data, drop_examples=share)),
            tmp_path / str(share),
            device=torch.device("cpu"),
        )
    one, other = (weights(tmp_path / name) for name in ("0.0", "1.0"))
    assert any(not torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("wanted", [True, False])
def test_the_reference_joins_the_beam_if_it_is_wanted(wanted: bool) -> None:
    model = tiny_model(syntax="handwritten", max_length=72)  # which hits on nothing by itself
    (batch,) = BatchLoader(TaskStream(4), model, batch_size=12, seed=1, pack=False).batches(0, 1)
    recipe = replace(tiny("rl_beam").objective, add_reference=wanted)
    _, metrics = Loss(model, recipe, ProcessGroup(0, 1, torch.device("cpu")))(batch, torch.Generator())
    assert float(metrics["best_reward"]) == (1.0 if wanted else 0.0)


def test_processes_without_a_gpu_of_their_own_do_not_ask_nccl() -> None:
    assert backend("cuda", 2, 2) == "nccl"
    assert backend("cuda", 3, 2) == "gloo"
    assert backend("cpu", 1, 2) == "gloo"


def test_the_loss_falls_and_samples_are_shown(tmp_path: Path) -> None:
    seen: list[TrainingProgress] = []
    recipe = tiny("mle", "none", steps=80, log_every=20, validate_every=80, checkpoint_every=80)
    recipe = replace(recipe, optimizer=replace(recipe.optimizer, learning_rate=1e-2))
    train(recipe, tmp_path, device=torch.device("cpu"), on_progress=seen.append)
    assert [progress.step for progress in seen] == [20, 40, 60, 80]
    assert seen[-1].metrics["loss"] < 0.8 * seen[0].metrics["loss"]
    entries = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    assert "reference: DEF run" in entries[-1]["sample"]
    assert entries[-1]["validation_syntax"] >= 0
    assert (tmp_path / "best" / "model.safetensors").exists()
    model = Synthesizer.from_pretrained(tmp_path / "final")
    assert model.settings == recipe.model


def test_a_model_of_other_settings_is_not_a_start(tmp_path: Path) -> None:
    Synthesizer(ModelSettings(**TINY)).save_pretrained(tmp_path / "small")  # type: ignore[arg-type]
    recipe = replace(tiny(), start_from=str(tmp_path / "small"))
    with pytest.raises(
        KarelsynthError, match=r"differs from the recipe's \[model\]: `\w+` is .* there and .* in the recipe"
    ):
        train(recipe, tmp_path / "run", device=torch.device("cpu"))


def test_a_start_may_have_another_max_length(tmp_path: Path) -> None:
    """No weight depends on it; the new model decodes up to the recipe's."""
    recipe = tiny(steps=2)
    longer = replace(recipe.model, max_length=recipe.model.max_length + 8)
    Synthesizer(longer).save_pretrained(tmp_path / "longer")
    train(replace(recipe, start_from=str(tmp_path / "longer")), tmp_path / "run", device=torch.device("cpu"))
    assert Synthesizer.from_pretrained(tmp_path / "run" / "final").settings == recipe.model


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("execution", [False, True])
@pytest.mark.parametrize(("name", "syntax"), [("mle", "handwritten"), ("rl", "none"), ("rl_beam_div", "learned")])
def test_every_objective_trains_on_the_gpu(name: str, syntax: str, execution: bool, tmp_path: Path) -> None:
    """The same code on CUDA, in bfloat16, stopped and taken up again."""
    recipe = tiny(name, syntax, steps=6, validate_every=3, checkpoint_every=2, precision="bfloat16")
    beyond: dict[str, Any] = {
        "execution": execution,
        "egocentric": execution,
        "mixing": execution,
        "head_size": 8 * execution,
    }
    recipe = replace(recipe, model=replace(recipe.model, **beyond))
    train(recipe, tmp_path, stop_after=3)
    train(recipe, tmp_path)
    losses = [json.loads(line).get("loss") for line in (tmp_path / METRICS).read_text().splitlines()]
    assert all(np.isfinite(loss) for loss in losses if loss is not None)


@pytest.mark.gpu
@pytest.mark.parametrize("execution", [False, True])
def test_gpu_and_cpu_find_the_same_programs(execution: bool) -> None:
    model = tiny_model(syntax="handwritten", execution=execution, egocentric=execution, mixing=execution).eval()
    tasks = generate(3, 0, 16, reserved=True)
    inputs, outputs = (torch.from_numpy(worlds[:, :5].copy()) for worlds in (tasks.inputs, tasks.outputs))
    found = {}
    for device in ("cpu", "cuda"):
        here = model.to(device)
        with torch.no_grad():
            encoded = here.encode(inputs.to(device), outputs.to(device))
            found[device] = beam_search(here, encoded, beam=8, dtype=torch.float32).cpu()
    torch.testing.assert_close(found["cuda"].logprobs, found["cpu"].logprobs, rtol=1e-2, atol=2e-2)
    assert (found["cuda"].tokens[:, 0] == found["cpu"].tokens[:, 0]).all(1).float().mean() > 0.8


@pytest.mark.gpu
@pytest.mark.parametrize("syntax", ["none", "handwritten", "learned"])
def test_recorded_steps_find_the_same_programs(syntax: str) -> None:
    """CUDA graphs against launching every operation; twice, with other weights the second time."""
    model = tiny_model(syntax=syntax).to("cuda").eval()
    tasks = generate(3, 0, 90, reserved=True)
    worlds = (torch.from_numpy(part[:, :5].copy()).to("cuda") for part in (tasks.inputs, tasks.outputs))
    with torch.no_grad():
        encoded = model.encode(*worlds)
        for _ in range(2):
            plain, replayed = (
                beam_search(model, encoded, beam=8, dtype=torch.float32, replay=again).cpu() for again in (False, True)
            )
            assert torch.equal(plain.tokens, replayed.tokens)
            torch.testing.assert_close(plain.logprobs, replayed.logprobs)
            lstm_of(model).output.bias += torch.randn(VOCABULARY_SIZE, device="cuda")
    assert not replay._disabled
