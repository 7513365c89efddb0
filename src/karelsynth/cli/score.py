"""The commands about anyone's synthesizer: score, prompt, ask; and how reports are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karelsynth.cli.common import (
    OUT,
    TASKS_HELP,
    RayAddress,
    check_outputs,
    console,
    counter,
    interruptible,
    load_scored,
    print_err,
    print_out,
    spread,
    write_text,
)
from karelsynth.cli.karel import Dialect
from karelsynth.errors import KarelsynthError
from karelsynth.files import atomic_writer, name_of
from karelsynth.parsing import ParseError, parse_json

if TYPE_CHECKING:
    from karelsynth.evaluate import Report
    from karelsynth.score import Compared, Predictions
    from karelsynth.tasks.batch import TaskBatch

Given = Annotated[
    int | None,
    typer.Option(min=1, help="How many examples of each task are given; by default five, or what the set says."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Use only the first N tasks.")]
ReportFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")]
AskedDialect = Annotated[Dialect, typer.Option("--to", help="The dialect to ask for.")]
Compare = Annotated[
    Path | None,
    typer.Option("--compare", metavar="REPORT", help="Compare with the report of another system, task by task."),
]


def score(
    predictions: Annotated[
        str,
        typer.Argument(
            metavar="PREDICTIONS",
            help="JSON lines, .gz too; - for standard input. One task a line: "
            '{"number": 1, "programs": ["…", "…"]}, best first, in any dialect; or "answer": the text of a reply.',
        ),
    ],
    tasks: Annotated[str, typer.Argument(metavar="TASKS", help=TASKS_HELP)],
    given: Given = None,
    limit: Limit = None,
    output: ReportFile = None,
    other: Compare = None,
    ray: RayAddress = None,
) -> None:
    """Score anyone's programs: exact match, generalization, consistency and syntax, at ranks 1, 5, 50 and 100.

    Both protocols are reported: the first program as it is, and the first one that is right on the given examples. A
    text that does not parse is a wrong program. Tasks without a prediction have no program. `seconds` of the
    predictions, where given, are averaged.
    """
    from karelsynth.score import read_predictions

    check_outputs(output)
    found = read_predictions(predictions)
    batch = load_scored(tasks, limit)
    _score(found, tasks, batch, given, limit, output, read_compared(other, batch), ray)


def _score(
    found: Predictions,
    tasks: str,
    batch: TaskBatch,
    given: int | None,
    limit: int | None,
    output: Path | None,
    compared: dict[str, Any] | None,
    ray: str | None = None,
    sources: dict[str, Any] | None = None,
) -> None:
    from karelsynth.score import score as run_scoring
    from karelsynth.tasks.sets import scoring_of

    scoring = scoring_of(tasks)
    given = given or scoring.given
    with spread(ray) as mapper, counter("scoring", unit="tasks", total=len(batch)) as progress:
        report = run_scoring(
            found,
            batch,
            given=given,
            max_ticks=scoring.max_ticks,
            limit=limit,
            provenance={"data": name_of(tasks), "given": given, **(sources or {})},
            progress=progress,
            mapper=mapper or map,
        )
    missing = report.provenance["missing"]
    if missing:
        print_err(f"{found.name}: no prediction for {missing:,} of {len(batch):,} tasks", "yellow")
    finish_report(report, output, compared)


def prompt(
    tasks: Annotated[str, typer.Argument(metavar="TASKS", help=TASKS_HELP)],
    out: Annotated[Path, typer.Option(*OUT, metavar="FILE", help="The file to write: JSON lines.")],
    programs: Annotated[int, typer.Option(min=1, max=100, help="How many programs to ask for.")] = 1,
    to: AskedDialect = Dialect.paper,
    given: Given = None,
    limit: Limit = None,
) -> None:
    """Write tasks as prompts for a language model.

    Each line has `number`, `id` and `messages`, as chat endpoints take them. Write a line `{"number": …, "id": …,
    "answer": "…"}` for each reply, and `karelsynth score` reads them. `karelsynth ask` does all of it.
    """
    from karelsynth.evaluate import check_given
    from karelsynth.tasks.prompts import prompt_lines
    from karelsynth.tasks.sets import scoring_of

    check_outputs(out)
    batch, scoring = load_scored(tasks, limit), scoring_of(tasks)
    shown, ticks = given or scoring.given, scoring.max_ticks
    check_given(batch, shown)
    with counter("writing", unit="tasks", total=len(batch)) as progress, atomic_writer(out) as file:
        for line in prompt_lines(batch, given=shown, programs=programs, dialect=to.value, max_ticks=ticks):
            file.write(line.encode() + b"\n")
            progress(1)
    print_err(f"{out}: {len(batch):,} prompts")  # not to standard output, which may be the file


def ask(
    tasks: Annotated[str, typer.Argument(metavar="TASKS", help=TASKS_HELP)],
    model: Annotated[str, typer.Option(metavar="NAME", help="The model's name at the endpoint.")],
    out: Annotated[
        Path,
        typer.Option(*OUT, metavar="FILE", help="The file of answers, JSON lines; an unfinished one is continued."),
    ],
    endpoint: Annotated[
        str,
        typer.Option(metavar="URL", help="The address of an endpoint with OpenAI's chat protocol, up to its version."),
    ] = "http://localhost:8000/v1",
    samples: Annotated[int, typer.Option(min=1, max=100, help="Replies to each prompt, ranked in their order.")] = 1,
    programs: Annotated[int, typer.Option(min=1, max=100, help="How many programs each reply may have.")] = 1,
    to: AskedDialect = Dialect.paper,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="0 for the likeliest reply.")] = 0.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="The longest reply, in the model's tokens.")] = 4096,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A further field of the request, for example --set top_p=0.95; null leaves a field out.",
        ),
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, max=256, help="Prompts that are sent at the same time.")] = 8,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one request.")] = 600.0,
    tries: Annotated[int, typer.Option(min=1, help="How often a request is tried before giving up.")] = 6,
    skip_refused: Annotated[
        bool,
        typer.Option(
            "--skip-refused", help="Go on if the endpoint refuses a prompt, because it is too long or filtered."
        ),
    ] = False,
    given: Given = None,
    limit: Limit = None,
    output: ReportFile = None,
    other: Compare = None,
) -> None:
    """Ask a language model for programs, and score them.

    Every answer is written to --out at once and verbatim, so the same command resumes after an interruption, and
    `karelsynth score` can score the file again. A key, if the endpoint needs one, is read from the environment variable
    OPENAI_API_KEY.
    """
    from karelsynth.evaluate import check_given
    from karelsynth.language_model import Endpoint, collect_answers, endpoint_key
    from karelsynth.score import read_predictions
    from karelsynth.tasks.prompts import prompt_lines
    from karelsynth.tasks.sets import scoring_of

    check_outputs(out, output)
    server = Endpoint(
        endpoint,
        model,
        temperature=temperature,
        max_tokens=max_tokens,
        fields=dict(map(_request_field, fields or [])),
        timeout=timeout,
        tries=tries,
        key=endpoint_key(),
    )
    if samples > 1 and server.settings.get("temperature") == 0:
        print_err("the samples may all be the same at --temperature 0", "yellow")
    batch = load_scored(tasks, limit)
    compared = read_compared(other, batch)
    scoring = scoring_of(tasks)
    shown, ticks = given or scoring.given, scoring.max_ticks
    check_given(batch, shown)
    lines = prompt_lines(batch, given=shown, programs=programs, dialect=to.value, max_ticks=ticks)
    prompts = [parse_json(line) for line in lines]
    with (
        interruptible(f"stopped; the same command resumes from {out}"),
        counter("asking", unit="tasks", total=len(batch)) as progress,
    ):
        found = collect_answers(
            server,
            prompts,
            out,
            samples=samples,
            at_once=at_once,
            skip_refused=skip_refused,
            progress=progress,
            retrying=_Retries(server.chat),
        )
    print_err(f"{out}: {found.answers:,} answers")
    if found.refused:
        print_err(f"{found.refused:,} prompts were refused and count as not answered; the same command tries again")
    if found.cut_off:
        print_err(f"{found.cut_off:,} were cut off: --max-tokens was too small for them", "yellow")
    sources = {"model": model, "settings": {**server.settings, "samples": samples, "programs": programs}}
    _score(read_predictions(out), tasks, batch, given, limit, output, compared, sources=sources)


class _Retries:
    """Prints why requests are sent again, each reason once."""

    def __init__(self, address: str) -> None:
        self._address, self._printed = address, set[str]()

    def __call__(self, reason: str) -> None:
        if reason not in self._printed:
            self._printed.add(reason)
            print_err(f"{self._address}: {reason}; trying again", "yellow")


def _request_field(text: str) -> tuple[str, Any]:
    """The name and the value of `--set NAME=VALUE`: the value is JSON, or a text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise KarelsynthError(f"--set {text}: write NAME=VALUE, for example --set top_p=0.95")
    try:
        return name, parse_json(value)
    except ParseError:
        return name, value


# Reports


def read_compared(other: Path | None, batch: TaskBatch) -> dict[str, Any] | None:
    """The report of `--compare`. One on other tasks is an error before long work."""
    from karelsynth.score import check_same_tasks, read_report

    if other is None:
        return None
    report = read_report(other)
    check_same_tasks({"digest": batch.digest, "tasks": len(batch)}, report)
    return report


def finish_report(report: Report, output: Path | None, other: dict[str, Any] | None) -> None:
    """Print a report and its comparison with another one; write it to a file."""
    from karelsynth.score import compare, report_of

    figures = report_of(report)
    _print_table(figures)
    print_out(str(report))
    predictions = report.provenance.get("predictions")
    print_out(
        f"digest of the tasks {report.digest}" + (f", of the predictions {predictions}" if predictions else ""), "dim"
    )
    rows = None if other is None else compare(figures, other)
    if other is not None and rows is not None:
        _print_comparison(rows, other["path"])
        figures["compared"] = {"with": other["path"], "measures": [_comparison_json(row) for row in rows]}
    if output is not None:
        write_text(json.dumps(figures, indent=1), output)


def _print_table(report: dict[str, Any]) -> None:
    from rich.table import Table

    most = report["beam"]
    submitted = report["provenance"]["decoding"] == "submitted"
    programs = f"beam {most}" if not submitted else "1 program each" if most == 1 else f"up to {most} programs each"
    print_out(f"{report['tasks']:,} tasks, {programs}")
    ranks = [rank for rank in report["generalization"] if rank == "1" or int(rank) <= most]
    if submitted:  # the next rank has all of them
        ranks = list(report["generalization"])[: len(ranks) + (int(ranks[-1]) < most)]
    table = Table()
    table.add_column("% of tasks")
    for rank in ranks:
        table.add_column(f"top {rank}", justify="right")
    rows = [(name, report) for name in ("generalization", "exact", "consistent", "syntax")]
    if report["novel"]["tasks"]:
        rows += [(name, report["novel"]) for name in ("generalization", "exact")]
    for name, part in rows:
        label = name if part is report else f"{name}, novel programs ({part['tasks']:,})"
        table.add_row(label, *(f"{part[name][rank]:.2f}" for rank in ranks))
    console().print(table)


def _print_comparison(rows: list[Compared], other: str) -> None:
    """One line for each measure, without a frame: it would not fit narrow terminals."""
    print_out(f"compared with {other}, task by task:", "bold")
    print_out(f"{'% of tasks':31} {'here':>6} {'there':>6}  difference (95 %)          only here, there  McNemar's p")
    for row in rows:
        middle, low, high = row.difference
        difference = f"{middle:+.2f} ({low:+.2f} to {high:+.2f})"
        p = "< 0.0001" if row.p < 0.0001 else f"{row.p:.4f}"
        print_out(
            f"{f'{row.measure}, top {row.rank}':31} {row.ours:6.2f} {row.theirs:6.2f}  {difference:26} "
            f"{f'{row.only_ours:,}, {row.only_theirs:,}':17} {p}"
        )


def _comparison_json(row: Compared) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(row), "difference": row.difference._asdict()}
