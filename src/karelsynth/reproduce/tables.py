"""The paper's tables as Markdown, with our figures beside the paper's.

A cell of one seed has percent and Wilson's 95 % interval over tasks, `74.76 (73.02–76.43)`. A cell of several seeds has
their mean and Student's interval over seeds, `12.31 [10.89–13.73]`. Tables of one seed name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from karelsynth.reproduce.intervals import mean_interval
from karelsynth.reproduce.results import Recipes, Result, Results
from karelsynth.reproduce.rows import OBJECTIVES, RANKED, ROWS, SEEDS, SYNTAXES, VALIDITY, SetName, TableRow

NOT_YET: Final = "not yet"
NONE: Final = "–"
"""For a figure that the paper does not have, or a row that does not exist."""
STALE: Final = "†"
"""Marks results of another recipe than today's, or of other training tasks."""


def markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table. The first column is text, the others are figures."""
    rule = ["---"] + ["---:"] * (len(heading) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, rule, *rows))


def cell(results: Results, row: TableRow, measure: str, rank: int = 1) -> str:
    """The cell of a row."""
    found = seeds_of(results, row)
    return _cell(found, [(result.top(measure, rank), result.interval(measure, rank)) for result in found], row)


def _cell(found: list[Result], shares: list[tuple[float, Sequence[float]]], row: TableRow) -> str:
    """A cell from each seed's share and its interval over tasks."""
    if not found:
        return NOT_YET
    stale = max(mark(result) for result in found)
    if len(found) == 1:
        shown = _interval(*shares[0])
    else:
        middle, low, high = mean_interval([share for share, _ in shares])
        shown = f"{middle:.2f} [{max(low, 0):.2f}–{min(high, 100):.2f}]"
    wanted = len(SEEDS[row.tasks])
    return shown + stale + (f", {len(found)} of {wanted} seeds" if len(found) < wanted else "")


def seeds_of(results: Results, row: TableRow) -> list[Result]:
    """The results of a row, by seed."""
    return [results[job] for job in sorted(results, key=lambda job: job.seed) if job.row == row]


def shown_of(results: Results, row: TableRow) -> Result | None:
    """The result of a row's first seed, for tables of one seed."""
    return next(iter(seeds_of(results, row)), None)


def mark(result: Result) -> str:
    """`†` if the result is stale, else an empty string."""
    return STALE if result.stale else ""


def objectives(results: Results) -> str:
    """Top-1 generalization and exact match by objective, on both sets."""
    return _two_sets(OBJECTIVES, ("generalization", "exact"), results)


def syntax(results: Results) -> str:
    """Top-1 generalization by kind of syntax, on both sets."""
    return _two_sets(SYNTAXES, ("generalization",), results)


def _two_sets(names: Sequence[str], measures: Sequence[str], results: Results) -> str:
    columns: list[tuple[SetName, str]] = [(which, measure) for which in ("full", "small") for measure in measures]
    heading = ["top 1, %"]
    for which, measure in columns:
        heading += [f"{which} set: {measure}", "paper"]
    lines = []
    for name in names:
        line = [f"**{ROWS[name].label}**"]
        for which, measure in columns:
            row = ROWS.get(name if which == "full" else f"small_{name}")
            line += [NONE, NONE] if row is None else _beside_paper(row, measure, results)
        lines.append(line)
    return markdown(heading, lines)


def plain(names: Sequence[str], results: Results) -> str:
    """Top-1 generalization and exact match of any rows."""
    lines = []
    for row in (ROWS[name] for name in names):
        figures = [_beside_paper(row, measure, results) for measure in ("generalization", "exact")]
        lines.append([f"**{row.label}** ({row.tasks} set)", *figures[0], *figures[1]])
    return markdown(["top 1, %", "generalization", "paper", "exact", "paper"], lines)


def _beside_paper(row: TableRow, measure: str, results: Results, rank: int = 1) -> list[str]:
    return [cell(results, row, measure, rank), _paper(row.paper_figure(measure, rank))]


def ranks(results: Results) -> str:
    """Generalization at ranks 1, 5 and 50, full set."""
    heading = ["generalization, %"]
    for rank in (1, 5, 50):
        heading += [f"top {rank}", "paper"]
    lines = []
    for row in (ROWS[name] for name in RANKED):
        line = [f"**{row.label}**"]
        for rank in (1, 5, 50):
            line += _beside_paper(row, "generalization", results, rank)
        lines.append(line)
    return markdown(heading, lines)


def validity(results: Results) -> str:
    """The share of programs that parse, with the learned syntax and without."""
    found = shown_of(results, ROWS["mle_learned"])
    stale, seed = ("", "") if found is None else (mark(found), f" (seed {found.job.seed})")
    lines = []
    for rank, (joint, without) in VALIDITY.items():
        line = [f"among the top {rank}"]
        for way, paper in (("joint", joint), ("without", without)):
            share = None if found is None else found.record["validity"][way][str(rank)]
            shown = NOT_YET if share is None else _interval(share["share"], share["confidence_95"]) + stale
            line += [shown, _paper(paper)]
        lines.append(line)
    return markdown([f"valid programs, %{seed}", "joint model", "paper", "without learned syntax", "paper"], lines)


def aliasing(results: Results) -> str:
    """The scores of programs A and B under the models of the full set."""
    lines = []
    for row in (ROWS[name] for name in RANKED):
        found = shown_of(results, row)
        label, cells = f"**{row.label}**", [NOT_YET] * 4
        if found is not None:
            label += f" (seed {found.job.seed}){mark(found)}"
            cells = [text for scores in found.record["aliasing"] for text in _scores(scores)]
        lines.append([label, *cells])
    return markdown(["model", "log p(A)", "rank of A", "log p(B)", "rank of B"], lines)


def _scores(scores: Mapping[str, Any]) -> list[str]:
    return [f"{scores['logprob']:.2f}", "not in the beam" if scores["rank"] is None else str(scores["rank"])]


def protocols(results: Results) -> str:
    """Both protocols side by side, of the objectives on the full set."""
    heading = ["full set, %", "top 1, unfiltered", "top 1, filtered", "some consistent program in the beam"]
    lines = []
    for row in (ROWS[name] for name in OBJECTIVES):
        line = [f"**{row.label}**", cell(results, row, "generalization")]
        for name in ("filtered_generalization", "any_consistent"):
            found = seeds_of(results, row)
            shares = [(result.report[name], result.report["confidence_95"][name]) for result in found]
            line.append(_cell(found, shares, row))
        lines.append(line)
    return markdown(heading, lines)


def claim_scores(results: Results) -> str:
    """The measured rows on the tasks that decide claims, beside the paper's figures."""
    found = {job: scored for job, result in results.items() if (scored := result.on_claim_tasks()) is not None}
    rows = [row for row in ROWS.values() if seeds_of(found, row)]
    if not rows:
        return f"Scores on many tasks: {NOT_YET}."
    columns = [("generalization", rank) for rank in (1, 5, 50)] + [("exact", 1)]
    heading = [f"% of {max(int(result.report['tasks']) for result in found.values()):,} tasks"]
    for measure, rank in columns:
        heading += [f"top {rank}" if measure == "generalization" else measure, "paper"]
    lines = []
    for row in rows:
        line = [f"**{row.label}** ({row.tasks} set)"]
        for measure, rank in columns:
            line += _beside_paper(row, measure, found, rank)
        lines.append(line)
    return markdown(heading, lines)


def along_training(results: Results) -> str:
    """Exact match and generalization on the validation tasks during RL, full set. Bold: the selected model."""
    measured = [result for name in OBJECTIVES if ROWS[name].start for result in seeds_of(results, ROWS[name])]
    runs = [result for result in measured if result.validations]
    if not runs:
        return "No result here has kept its validations." if measured else f"The table: {NOT_YET}."
    steps = sorted({step for result in runs for step, _, _ in result.validations})
    lines = []
    for result in runs:
        best = max(result.validations, key=lambda validation: validation[1])  # the first of equal ones, as in training
        shown = {
            step: f"**{exact:.1f}** / **{right:.1f}**" if step == best[0] else f"{exact:.1f} / {right:.1f}"
            for step, right, exact in result.validations
        }
        lines.append([result.job.name + mark(result), *(shown.get(step, NONE) for step in steps)])
    return markdown(["exact / generalization, % at step", *(f"{step:,}" for step in steps)], lines)


def every_run(results: Results) -> str:
    """Every run: both protocols, novel programs, and provenance."""
    heading = ["run", "top 1", "filtered top 1", "novel, top 1", "exact", "last step: top 1, exact", "tasks seen",
               "minutes", "device", "commit"]  # fmt: skip
    lines = []
    for name in ROWS:
        for result in seeds_of(results, ROWS[name]):
            report, training = result.report, result.record["training"]
            novel = report["novel"]
            lines.append(
                [
                    result.job.name + mark(result),
                    _interval(result.top("generalization"), result.interval("generalization")),
                    _interval(report["filtered_generalization"], report["confidence_95"]["filtered_generalization"]),
                    _interval(novel["generalization"]["1"], novel["confidence_95"]["generalization"]["1"])
                    if novel["tasks"]
                    else NONE,
                    _interval(result.top("exact"), result.interval("exact")),
                    NONE
                    if result.last is None
                    else f"{result.last['generalization']['1']:.2f}, {result.last['exact']['1']:.2f}",
                    f"{training['tasks']:,}",
                    f"{training['seconds'] / 60:.1f}",
                    str(training["device"]),
                    str(report["provenance"].get("commit") or NONE),
                ]
            )
    return markdown(heading, lines) if lines else "No run has been measured yet."


def cost(*budgets: tuple[str, Results]) -> str:
    """The time of all runs, by row and budget."""
    heading = ["row", *(text for name, _ in budgets for text in (f"{name}: runs", "minutes"))]
    lines, sums = [], [0.0] * len(budgets)
    for row in ROWS.values():
        line = [row.recipe]
        for number, (_, results) in enumerate(budgets):
            minutes = [result.record["training"]["seconds"] / 60 for result in seeds_of(results, row)]
            sums[number] += sum(minutes)
            line += [str(len(minutes)), f"{sum(minutes):.1f}"] if minutes else [NOT_YET, NONE]
        lines.append(line)
    return markdown(heading, [*lines, ["**all**", *(text for total in sums for text in ("", f"**{total:.0f}**"))]])


def budgets(recipes: Recipes) -> str:
    """The budget of each row's recipe."""
    heading = ["recipe", "starts from", "batch", "steps", "tasks seen", "epochs", "learning rate", "precision"]
    lines = []
    for name, row in ROWS.items():
        recipe = recipes[name]
        run, seen = recipe.run, recipe.run.steps * recipe.run.batch_size
        epochs = NONE if recipe.data.tasks is None else f"{seen / recipe.data.tasks:.3g}"
        rate = f"{recipe.optimizer.learning_rate:g}, {recipe.optimizer.schedule}"
        steps = f"{'at most ' if run.patience else ''}{run.steps:,}"
        lines.append([name, row.start or NONE, f"{run.batch_size:,}", steps, f"{seen:,}", epochs, rate, run.precision])
    return markdown(heading, lines)


def _interval(value: float, interval: Sequence[float]) -> str:
    low, high = interval
    return f"{value:.2f} ({low:.2f}–{high:.2f})"


def _paper(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"
