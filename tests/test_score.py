"""Anyone's programs: functions and files of predictions are scored as models are, and reports are compared."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError, TaskFileError
from karelsynth.evaluate import as_bits, encode_answers, evaluate
from karelsynth.karel.dialects import DIALECTS
from karelsynth.karel.program import Action, Program
from karelsynth.karel.tokens import NO_TOKEN
from karelsynth.reproduce.intervals import paired_interval
from karelsynth.score import compare, mcnemar, read_predictions, read_report, report_of, score
from karelsynth.tasks.batch import GivenExamples, TaskBatch
from karelsynth.tasks.generate import generate
from karelsynth.tasks.named import named_tasks
from karelsynth.tasks.prompts import answer_of
from tests.command_line import call
from tests.models import tiny_model
from tests.strategies import programs

WRONG = Program.parse("DEF run m( turnLeft m)")
HELPERS = """def two_steps():
    move()
    move()

def main():
    two_steps()
    put_beeper()
"""


@pytest.fixture(scope="module")
def tasks() -> TaskBatch:
    return named_tasks("test", 12)


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


# Functions


def test_any_function_is_scored(tasks: TaskBatch) -> None:
    seen: list[tuple[int, ...]] = []

    def oracle(examples: GivenExamples) -> list[list[Program | str | list[int]]]:
        first = sum(shape[0] for shape in seen)
        seen.append(examples.inputs.shape)
        found: list[list[Program | str | list[int]]] = []
        for number, task in enumerate(examples):
            assert len(task.examples) == 5
            program = tasks.program(first + number)
            forms: list[Program | str | list[int]] = [program, program.to("stanford"), program.token_ids]
            found.append([WRONG, "no program at all", forms[number % 3]])
        return found

    done: list[int] = []
    report = evaluate(oracle, tasks, batch_size=5, progress=done.append)
    assert seen == [(5, 5, 18, 18), (5, 5, 18, 18), (2, 5, 18, 18)]
    assert done == [5, 5, 2]
    figures = report.to_json()
    assert (figures["generalization"]["1"], figures["generalization"]["5"]) == (0.0, 100.0)
    assert (figures["exact"]["5"], figures["filtered_generalization"]) == (100.0, 100.0)
    assert figures["syntax_share"]["5"] == round(200 / 3, 2)
    assert figures["beam"] == 3
    assert figures["seconds_per_task"] > 0
    assert figures["provenance"]["decoding"] == "submitted"
    assert "torch" not in figures["provenance"]
    assert report.digest == tasks.digest


def test_a_report_as_text_is_one_line_with_both_protocols(tasks: TaskBatch) -> None:
    right = [[tasks.program(number)] for number in range(len(tasks))]
    text = str(replace(evaluate(right, tasks), seconds=0.5 * len(tasks)))
    assert text.startswith("submitted top-1 generalization 100.00 % (95 %: ")
    assert ", filtered 100.00 % (" in text
    assert text.endswith("some consistent program for 100.00 %, 0.5000 s a task")
    assert "\n" not in text


def test_a_model_goes_by_its_name(tasks: TaskBatch, tmp_path: Path) -> None:
    """As on the command line; what is no system is an error that says so."""
    tiny_model().save_pretrained(tmp_path / "model")
    named = evaluate(tmp_path / "model", tasks, limit=2, beam=2)
    assert named.provenance["model"] == str(tmp_path / "model")
    assert named.by_task() == evaluate(tiny_model(), tasks, limit=2, beam=2).by_task()
    with pytest.raises(KarelsynthError, match="there is no such folder"):
        evaluate(str(tmp_path / "none"), tasks)
    with pytest.raises(KarelsynthError, match="a model, a function, or a list of programs for each task, not a int"):
        evaluate(3, tasks)  # type: ignore[arg-type]


def test_score_of_programs_in_place_of_a_file_says_what_takes_them(tasks: TaskBatch) -> None:
    with pytest.raises(KarelsynthError, match="`score` reads a file of predictions, and this is a list: `evaluate`"):
        score([["move"]], tasks)  # type: ignore[arg-type]


def test_a_function_is_scored_on_a_set_as_the_set_says() -> None:
    shown = []

    def nothing(examples: GivenExamples) -> list[list[Program]]:
        shown.append(examples.inputs.shape[1])
        return [[] for _ in examples]

    figures = evaluate(nothing, "examples_2", limit=3).to_json()
    assert shown == [2]
    assert (figures["tasks"], figures["generalization"]["1"], figures["syntax"]["1"]) == (3, 0.0, 0.0)
    assert figures["provenance"]["data"] == "examples_2"
    classroom = named_tasks("classroom")
    references = evaluate(lambda examples: [[classroom.program(n)] for n in range(50)], "classroom", batch_size=50)
    assert references.to_json()["generalization"]["1"] == 100.0  # some need more than 200 ticks


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "12 lists were expected, and it gave 0 lists"),
        ("text", "12 lists were expected, and it gave a str"),
        (None, "it gave a NoneType"),
        ([WRONG] * 12, "a list of programs for each task, best first, also if it is a list of one"),
        (["DEF run m( move m)"] * 12, "also if it is a list of one"),
        ([[3.5]] * 12, "a program is a Program, a text or a list of token ids, not `3.5`"),
    ],
)
def test_wrong_results_of_a_function_are_explained(tasks: TaskBatch, answers: Any, message: str) -> None:
    with pytest.raises(KarelsynthError, match=message):
        evaluate(lambda examples: answers, tasks)


@given(st.lists(st.lists(programs(depth=2), max_size=2), min_size=1, max_size=3), st.sampled_from(DIALECTS))
@settings(max_examples=40)
def test_programs_of_every_dialect_become_arrays(answers: list[list[Program]], dialect: str) -> None:
    tokens, lengths = encode_answers(answers, len(answers))
    texts = [[program.to(dialect) for program in ranked] for ranked in answers]
    again, same = encode_answers(texts, len(answers))
    np.testing.assert_array_equal(tokens, again)
    np.testing.assert_array_equal(lengths, same)
    for row, ranked in enumerate(answers):
        for slot, program in enumerate(ranked):
            assert Program.from_tokens(tokens[row, slot, : lengths[row, slot]].tolist()) == program
        assert not lengths[row, len(ranked) :].any()


def test_programs_that_the_machine_cannot_run_are_wrong(tasks: TaskBatch) -> None:
    long = Program((Action.MOVE,) * 40_000)
    report = evaluate(lambda examples: [[long, long.token_ids, [], [255, 1]]] * len(examples), tasks[:2])
    assert not report.judged.syntax.any()
    assert report.judged.filled.all()
    with pytest.raises(KarelsynthError, match="given examples is a whole number from 1 on, not 0"):
        evaluate(lambda examples: [[]], tasks, given=0)
    with pytest.raises(KarelsynthError, match="the beam is a whole number from 1 on, not 0"):
        evaluate("shipped", tasks, beam=0)


@given(st.text(max_size=80))
def test_any_text_is_a_program_or_wrong(text: str) -> None:
    tokens, lengths = encode_answers([[text]], 1)
    try:
        assert tokens[0, 0].tolist() == Program.parse(text).token_ids
    except KarelsynthError:
        assert (tokens[0, 0].tolist(), lengths.tolist()) == ([NO_TOKEN], [[1]])


# Files


def test_every_form_of_a_prediction_is_read(tasks: TaskBatch, tmp_path: Path) -> None:
    right = [tasks.program(number) for number in range(12)]
    solution = {"number": 4, "answers": [{"programs": {"tokens": right[3].to("tokens")}}], "seconds": 2}
    path = write(
        tmp_path / "p.jsonl",
        {"number": 2, "programs": [WRONG.to("tokens"), right[1].to("paper")]},
        {"number": 1, "program": right[0].to("stanford"), "seconds": 1.0},
        {"number": 3, "answer": f"I think:\n{answer_of([right[2]])}"},
        solution,
        {"number": 5, "answer": ["no idea", answer_of([right[4]], "stanford")]},
        {"number": 6, "programs": [list(right[5].tokens)]},
        {"number": 7, "programs": ["def run(:", "move move"]},
        {"number": 8, "programs": []},
        {"number": 9, "program": None},
    )
    report = score(path, tasks)
    assert report.judged.generalization[:, 0].tolist() == [n in (0, 2, 3, 4, 5) for n in range(12)]
    assert report.judged.exact.any(1).tolist() == [n < 6 for n in range(12)]
    assert report.judged.filled.sum(1).tolist() == [1, 2, 1, 1, 1, 1, 2, 0, 0, 0, 0, 0]
    assert not report.judged.syntax[6].any()
    figures = report.to_json()
    assert figures["seconds_per_task"] == pytest.approx(1.5)  # of those that say
    assert figures["provenance"]["missing"] == 3
    assert len(figures["provenance"]["predictions"]) == 16


def test_lines_without_numbers_are_in_the_order_of_the_tasks(tasks: TaskBatch, tmp_path: Path) -> None:
    texts = [tasks.program(number).to("paper") for number in range(12)]
    plain = write(tmp_path / "plain.jsonl", *texts[:6], *([text] for text in texts[6:]))
    report = score(plain, tasks)
    assert report.judged.exact.all()
    assert report.seconds is None
    numbered = write(
        tmp_path / "numbered.jsonl", *({"number": n + 1, "program": texts[n]} for n in reversed(range(12)))
    )
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(numbered.read_bytes()))
    for path in (numbered, packed):
        assert read_predictions(path).digest == read_predictions(plain).digest
    assert score(plain, tasks, limit=2).judged.exact.shape == (2, 1)


def test_helper_functions_and_other_dialects(tmp_path: Path) -> None:
    made = generate(0, 0, 1)
    path = write(tmp_path / "p.jsonl", {"program": HELPERS})
    assert score(path, made).judged.syntax.all()
    tokens, _ = encode_answers([[HELPERS]], 1)
    assert Program.from_tokens(tokens[0, 0].tolist()).to("tokens") == "DEF run m( move move putMarker m)"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "there is no prediction in it"),
        (["nonsense"], "line 1: not valid JSON"),
        (['{"number": 1}'], "line 1: it needs one of `programs`, `program`, `answer` or `answers`, and has none"),
        (['{"program": "a", "answer": "b"}'], "line 1: .* and has `program` and `answer`"),
        (['{"number": 0, "program": "a"}'], "`number` is that of a task, counted from 1, not `0`"),
        (['{"number": true, "program": "a"}'], "`number` is that of a task"),
        (['{"program": "a", "seconds": -1}'], "`seconds` is a time, not `-1`"),
        (['{"program": "a", "seconds": NaN}'], "`seconds` is a time"),
        (['{"programs": 3}'], "line 1: a list is expected, not `3`"),
        (['{"programs": [3]}'], "line 1: a program is a text or a list of tokens, not `3`"),
        (['{"answer": [3]}'], "`answer` is a text or a list of texts"),
        (['{"answers": ["def run(): move()"]}'], "`answers` are those of `karelsynth solve --json`"),
        (['{"number": 2, "program": "a"}', '"b"'], "line 2: some lines have a `number` and some do not"),
        (
            ['{"number": 2, "program": "a"}', '{"number": 2, "program": "b"}'],
            "line 2: a second prediction for task 2, after the one in line 1",
        ),
        (['{"number": 13, "program": "a"}'], "line 1: a prediction for task 13, but there are 12"),
        (['{"number": 1, "id": "0123", "program": "a"}'], "line 1: these are not the same tasks: task 1 has the id"),
        (["[" * 100_000], "line 1: not valid JSON"),
    ],
)
def test_wrong_files_are_errors(tasks: TaskBatch, tmp_path: Path, lines: list[str], message: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(TaskFileError, match=rf"p\.jsonl: .*{message}"):
        score(path, tasks)


# Comparing


def test_reports_are_compared_task_by_task(tasks: TaskBatch, tmp_path: Path) -> None:
    right = [tasks.program(number).to("tokens") for number in range(12)]
    one = score(write(tmp_path / "a", *[[text] for text in right[:9]]), tasks)
    two = score(write(tmp_path / "b", *[[text] if 1 < n < 5 else [] for n, text in enumerate(right)]), tasks)
    path = tmp_path / "two.json"
    path.write_text(json.dumps(report_of(two)))
    rows = {(row.measure, row.rank): row for row in compare(report_of(one), read_report(path))}
    assert len(rows) == 7  # filtered is a top 1
    first = rows["generalization", 1]
    assert (first.ours, first.theirs, first.only_ours, first.only_theirs) == (75.0, 25.0, 6, 0)
    assert first.difference == paired_interval(np.arange(12) < 9, (np.arange(12) > 1) & (np.arange(12) < 5))
    assert first.p == pytest.approx(2 / 2**6)
    assert rows["filtered generalization", 1].difference == first.difference


@pytest.mark.parametrize(("one", "other", "p"), [(0, 0, 1.0), (5, 5, 1.0), (1, 0, 1.0), (10, 2, 0.03857421875)])
def test_mcnemar(one: int, other: int, p: float) -> None:
    assert mcnemar(one, other) == mcnemar(other, one) == pytest.approx(p)
    assert 0 < mcnemar(3_000, 5_000) < 1e-9


def test_reports_that_cannot_be_compared(tasks: TaskBatch, tmp_path: Path) -> None:
    predictions = write(tmp_path / "p", ["DEF run m( move m)"])
    ours = report_of(score(predictions, tasks))
    path = tmp_path / "other.json"
    for text, message in (
        ("nonsense", "not valid JSON"),
        ("[]", "not a report with the results of each task"),
        ('{"tasks": 12}', "not a report with the results of each task"),
    ):
        path.write_text(text)
        with pytest.raises(KarelsynthError, match=message):
            read_report(path)
    path.write_text(json.dumps({**ours, "solved": {"1": "zz"}}))
    with pytest.raises(KarelsynthError, match=r"other\.json: the results of its tasks were altered"):
        compare(ours, read_report(path))
    path.write_text(json.dumps(report_of(score(predictions, tasks[:11]))))
    with pytest.raises(KarelsynthError, match=r"other\.json: a report on other tasks: 11 with digest"):
        compare(ours, read_report(path))
    figures = score(predictions, tasks).to_json()  # as `reproduce` writes them
    bits = {"1": as_bits(np.ones(12, np.bool_))}
    path.write_text(json.dumps({"report": figures, "digest": ours["digest"], "solved": bits}))
    (row,) = compare(ours, read_report(path))
    assert (row.measure, row.theirs) == ("generalization", 100.0)


# The command


def test_the_command(tmp_path: Path) -> None:
    made = named_tasks("test", 6)
    good = write(tmp_path / "good.jsonl", *[made.program(n).to("paper") for n in range(6)])
    bad = write(tmp_path / "bad.jsonl", *[{"program": "oh no", "seconds": 0.25}] * 4)
    first = call("score", bad, "test", "--limit", 6, "--json", tmp_path / "bad.json")
    assert "no prediction for 2 of 6 tasks" in first.stderr
    assert "submitted top-1 generalization 0.00 % (95 %: 0.00 to 39.03), filtered 0.00 %" in first.stdout
    assert "0.2500 s a task" in first.stdout
    assert f"digest of the tasks {made.digest}, of the predictions {read_predictions(bad).digest}" in first.stdout
    second = call(
        "score", good, "test", "--limit", 6, "--compare", tmp_path / "bad.json", "--json", tmp_path / "good.json"
    )
    assert "s a task" not in second.stdout
    assert "+100.00" in second.stdout
    report = json.loads((tmp_path / "good.json").read_text())
    assert report["generalization"]["1"] == 100.0
    assert report["compared"]["measures"][0]["only_ours"] == 6
    assert report["provenance"]["data"] == "test"
    with pytest.raises(TaskFileError, match="there is no such file"):
        call("score", tmp_path / "none.jsonl", "test", "--limit", 1)


def test_the_table_shows_all_programs_of_a_task(tmp_path: Path) -> None:
    """Up to five are the next rank's, so they are in the table, too."""
    made = named_tasks("test", 6)
    lines = [{"programs": ["oh no", made.program(n).to("paper")]} for n in range(6)]
    said = call("score", write(tmp_path / "two.jsonl", *lines), "test", "--limit", 6).stdout
    assert "6 tasks, up to 2 programs each" in said
    row = next(line for line in said.splitlines() if "generalization" in line)
    assert re.findall(r"\d+\.\d+", row) == ["0.00", "100.00"]
    one = call("score", write(tmp_path / "one.jsonl", *[{"program": "oh no"}] * 6), "test", "--limit", 6).stdout
    assert "top 5" not in one


def test_what_solve_prints_is_scored(tmp_path: Path) -> None:
    solved = call("solve", "classroom", "--limit", 2, "--json", "--budget", 5)
    (tmp_path / "solved.jsonl").write_text(solved.stdout)
    assert [json.loads(line)["name"] for line in solved.stdout.splitlines()] == ["walk-to-the-wall", "flag-at-the-wall"]
    said = call("score", tmp_path / "solved.jsonl", "classroom", "--limit", 2).stdout
    assert "filtered 100.00 %" in said
