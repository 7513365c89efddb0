"""The commands about models: train, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karelsynth.cli.common import (
    OUT,
    TASKS_HELP,
    Device,
    RayAddress,
    check_outputs,
    choose_device,
    counter,
    error_console,
    interruptible,
    load_scored,
    print_err,
    print_out,
    spread,
    write_text,
)
from karelsynth.cli.score import Compare, Given, Limit, ReportFile, finish_report, read_compared
from karelsynth.files import name_of, read_text

if TYPE_CHECKING:
    from karelsynth.train.loop import TrainingProgress


def _list_recipes(wanted: bool) -> None:
    if wanted:
        from karelsynth.train.recipe import RECIPES, load_recipe

        names = sorted(path.stem for path in RECIPES.glob("*.toml"))
        width = max(map(len, names))
        write_text("\n".join(f"{name:{width}}  {load_recipe(name).about}" for name in names), None)
        raise typer.Exit


def train(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE", help="A recipe of the package by its name, such as mle (--list has all), or a file."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(*OUT, metavar="DIR", help="The run's folder; runs/NAME if not given.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe, for example --set run.steps=100."),
    ] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Continue a run for more steps than it began with, --set run.steps=N.")
    ] = False,
    device: Device = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the recipe and exit, for example to begin one of your own.")
    ] = False,
    list_recipes: Annotated[
        bool, typer.Option("--list", help="List the package's recipes and exit.", callback=_list_recipes, is_eager=True)
    ] = False,
) -> None:
    """Train a synthesizer by a recipe.

    A run that was stopped or killed resumes from its last checkpoint when the same command is run again, and ends
    with the same weights as an uninterrupted run (on a GPU, nearly the same). With several GPUs:
    torchrun --nproc-per-node=8 -m karelsynth train …
    """
    from karelsynth.train.distributed import is_main_process
    from karelsynth.train.loop import train as run_training
    from karelsynth.train.recipe import load_recipe, recipe_path

    if show:
        write_text(read_text(recipe_path(recipe)), None)
        return
    chosen = load_recipe(recipe, changes or [])
    folder = out or Path("runs") / chosen.name
    stopped = f"stopped; the same command resumes from the last checkpoint in {folder}"
    with _TrainingBar(chosen.run.steps, shown=is_main_process()) as bar, interruptible(stopped):
        where = choose_device(device) if device else None
        final = run_training(chosen, folder, device=where, on_progress=bar, extend=extend)
    if is_main_process():
        if 0 < bar.step < chosen.run.steps:
            print_out(f"ended after step {bar.step:,} of {chosen.run.steps:,}: validation brought no new best score")
        print_out(f"the trained model is in {final}, the best on validation in {folder / 'best'}")


class _TrainingBar:
    """A progress bar of training steps with speed, loss and reward."""

    def __init__(self, steps: int, *, shown: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=error_console(),
            disable=not shown,
        )
        self._task = self._bar.add_task("", total=steps)
        self.step = 0
        """The last one that was reported."""

    def __enter__(self) -> _TrainingBar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def __call__(self, progress: TrainingProgress) -> None:
        metrics, self.step = progress.metrics, progress.step
        reward = f", reward {metrics['reward']:.3f}" if "reward" in metrics else ""
        text = f"{progress.tasks_per_second:,.0f} tasks/s, loss {metrics['loss']:.4f}{reward}"
        self._bar.update(self._task, completed=progress.step, description=text)


def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder with a trained model, one of the Hugging Face hub, OWNER/NAME, or `shipped`, the package's.",
        ),
    ],
    tasks: Annotated[str, typer.Argument(metavar="TASKS", help=TASKS_HELP)],
    beam: Annotated[int, typer.Option(min=1, help="Beam width.")] = 64,
    given: Given = None,
    limit: Limit = None,
    mask: Annotated[
        bool, typer.Option("--mask", help="Mask decoding with the handwritten syntax instead of the model's own.")
    ] = False,
    output: ReportFile = None,
    other: Compare = None,
    device: Device = None,
    ray: RayAddress = None,
) -> None:
    """Score a model: exact match, generalization, consistency and syntax, at ranks 1, 5, 50 and 100.

    Both protocols are reported. Unfiltered, the paper's: the most likely program. Filtered: the most likely program
    that is right on the given examples. A decoder that runs its program on the examples while it writes
    (`model.execution`) is not unfiltered in the paper's sense; its top 1 is called execution-guided.
    """
    from karelsynth.evaluate import evaluate as run_evaluation
    from karelsynth.karel.syntax import syntax_machine
    from karelsynth.model.storage import read_recipe
    from karelsynth.model.synthesizer import Synthesizer
    from karelsynth.tasks.sets import scoring_of
    from karelsynth.train.loop import FINAL
    from karelsynth.train.validation import chosen_on

    check_outputs(output)
    synthesizer = Synthesizer.from_pretrained(model, choose_device(device if ray is None else "cpu"))
    batch, scoring = load_scored(tasks, limit), scoring_of(tasks)
    compared = read_compared(other, batch)
    given = given or scoring.given
    recipe = read_recipe(model)
    provenance = {"model": model, "recipe": recipe, "data": name_of(tasks), "mask": mask, "given": given}
    if Path(model).name != FINAL and chosen_on(recipe, batch):
        provenance["chosen_on_these_tasks"] = True
        print_err(
            f"{model} was chosen on these tasks, so its scores on them are too high; evaluate it on other tasks, too",
            "yellow",
        )
    with spread(ray, device) as mapper, counter("evaluating", unit="tasks", total=len(batch)) as progress:
        report = run_evaluation(
            synthesizer,
            batch,
            beam=beam,
            given=given,
            max_ticks=scoring.max_ticks,
            machine=syntax_machine(max_length=synthesizer.settings.max_length) if mask else None,
            provenance=provenance,
            progress=progress,
            mapper=mapper or map,
        )
    finish_report(report, output, compared)
