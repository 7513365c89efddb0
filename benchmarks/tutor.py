"""How well the tutor repairs students' programs, and how fast: references with one to three realistic mistakes each.

    python benchmarks/tutor.py [--mutants 2000] [--seed 1] [--probes 200] [--processor] [--rows FILE] [--json OUT]
    python benchmarks/tutor.py --summarize FILE ...

The references are those of the set `classroom` and of the gallery (`tests/golden/gallery`). A mistake is one
of: off by one, missing action, wrong turn, wrong action, `if` for `while`, negated condition, wrong order, wrong
branch, forgotten edge case (a guard, an else or a guarded action is missing), wrong indentation. A mutant is kept if it
is wrong on at least one example. Hints may ask the solver, which is loaded before. The words of the table:

- repaired: the hint has a right program;
- within: it has at most as many edits as there are mistakes;
- general: of the repaired ones, those that are right on all fresh worlds, which the tutor does not see: 24 for a
  classroom task, and for one of the gallery up to 24 variations of its inputs;
- median, 95 %, slowest: seconds of one hint, all parts of it;
- cores got: processor seconds per second. If other work shares the machine, the search finds less in its time.
  `--processor` limits all parts by processor time instead: what they find then hardly depends on other work. The
  threads of a part count together, so each part has less time than it has on a quiet machine;
- processor: the median, the 95th percentile and the largest processor time of a hint.

Then a class of 500 and of 1,000 programs is graded on 29 worlds, with the first three wrong runs of each explained, and
a folder of 500 by the command, its start included. Hints that call the solver are timed on programs that are far off
(`--far-only` measures these alone; `--processor` in processor time): a single turn, and the reference of another
exercise, for each exercise. Last, mutants that are right on two examples of a task but wrong on a fresh world are
unmasked: `probe` searches a world, without the fresh ones.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karelsynth import Program, World, run_batch
from karelsynth.karel.dialects import read_source
from karelsynth.karel.program import Action, Block, If, IfElse, Not, Repeat, Sensor, Statement, While, inner_blocks
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.task_files import gallery
from karelsynth.tasks.variations import fresh_examples
from karelsynth.tutor.grade import Submission, grade
from karelsynth.tutor.hint import Solve, find_hint, right_programs
from karelsynth.tutor.probe import unmasking_world

ROOT = Path(__file__).parent.parent
MOST_TICKS = 10_000
FRESH = 24
MOST_DRAWN = 200_000
"""Mutants that are drawn before the search for slipping ones ends."""


@dataclass(frozen=True)
class Exercise:
    """A task with its reference and the worlds on which repairs are scored."""

    name: str
    task: Task
    reference: Program
    fresh: tuple[Example, ...]


def read_exercises(only: Sequence[str] | None = None) -> list[Exercise]:
    """The classroom's tasks, and those of the gallery."""
    found = []
    for line in (ROOT / "src" / "karelsynth" / "tasks" / "classroom.jsonl").read_text(encoding="utf-8").splitlines():
        data = json.loads(line)
        examples, fresh = (
            tuple(Example(World.parse(pair["input"]), World.parse(pair["output"])) for pair in data[key])
            for key in ("examples", "fresh")
        )
        found.append(Exercise(data["name"], Task(examples, data["name"]), Program.parse(data["reference"]), fresh))
    for entry in gallery():
        text = (ROOT / "tests" / "golden" / "gallery" / f"{entry.slug}.karel").read_text(encoding="utf-8")
        reference = Program.parse(text, "paper")
        fresh = tuple(fresh_examples(entry.task, reference, count=FRESH, seed=1))
        found.append(Exercise(f"gallery/{entry.slug}", entry.task, reference, fresh))
    return [exercise for exercise in found if not only or exercise.name in only]


# Mistakes


def places(block: Block, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Block]]:
    """Every block of a program, with the indices that lead to it: of a statement, then of one of its blocks."""
    yield path, block
    for number, statement in enumerate(block):
        for which, (_, inner) in enumerate(inner_blocks(statement)):
            yield from places(inner, (*path, number, which))


def with_block(block: Block, path: tuple[int, ...], new: Block) -> Block:
    """A copy of a block with the block at `path` replaced."""
    if not path:
        return new
    number, which, *rest = path
    statement = block[number]
    blocks = [inner for _, inner in inner_blocks(statement)]
    blocks[which] = with_block(blocks[which], tuple(rest), new)
    return (*block[:number], rebuilt(statement, blocks), *block[number + 1 :])


def rebuilt(statement: Statement, blocks: Sequence[Block]) -> Statement:
    match statement:
        case Repeat(times, _):
            return Repeat(times, *blocks)
        case While(condition, _):
            return While(condition, *blocks)
        case If(condition, _):
            return If(condition, *blocks)
        case IfElse(condition, _, _):
            return IfElse(condition, *blocks)
    raise AssertionError(statement)


def negated(condition: Any) -> Any:
    match condition:
        case Not(inner):
            return inner
        case Sensor.MARKERS_PRESENT:
            return Sensor.NO_MARKERS_PRESENT
        case Sensor.NO_MARKERS_PRESENT:
            return Sensor.MARKERS_PRESENT
    return Not(condition)


def mistakes(block: Block) -> Iterator[tuple[str, Block]]:
    """Every mistake of one block: its kind and the block with it."""
    turns = {Action.TURN_LEFT: Action.TURN_RIGHT, Action.TURN_RIGHT: Action.TURN_LEFT}
    for at, statement in enumerate(block):
        before, after = block[:at], block[at + 1 :]

        def made(*new: Statement, before: Block = before, after: Block = after) -> Block:
            return (*before, *new, *after)

        if isinstance(statement, Action):
            if len(block) > 1:
                yield "missing action", made()
            if statement in turns:
                yield "wrong turn", made(turns[statement])
            elif statement is Action.MOVE:
                yield "off by one", made(statement, statement)
            else:
                swapped = Action.PUT_MARKER if statement is Action.PICK_MARKER else Action.PICK_MARKER
                yield "wrong action", made(swapped)
        if after and statement != after[0]:
            yield "wrong order", (*before, after[0], statement, *after[1:])
        match statement:
            case Repeat(times, body):
                yield "off by one", made(Repeat(times + 1, body)) if times < 19 else made(Repeat(times - 1, body))
                if times > 1:
                    yield "off by one", made(Repeat(times - 1, body))
            case While(condition, body):
                yield "if for while", made(If(condition, body))
                yield "negated condition", made(While(negated(condition), body))
            case If(condition, body):
                yield "while for if", made(While(condition, body))
                yield "negated condition", made(If(negated(condition), body))
                yield "forgotten edge case", made(*body)
                if len(body) == 1 and isinstance(body[0], Action) and len(block) > 1:
                    yield "forgotten edge case", made()
            case IfElse(condition, then, otherwise):
                yield "negated condition", made(IfElse(negated(condition), then, otherwise))
                yield "wrong branch", made(IfElse(condition, otherwise, then))
                if len(otherwise) == 1 and isinstance(otherwise[0], Action):
                    yield "forgotten edge case", made(If(condition, then))
        blocks = [inner for _, inner in inner_blocks(statement)]
        if blocks and len(blocks[-1]) > 1:
            yield "wrong indentation", made(rebuilt(statement, [*blocks[:-1], blocks[-1][:-1]]), blocks[-1][-1])
        if blocks and after:
            inner = rebuilt(statement, [*blocks[:-1], (*blocks[-1], after[0])])
            yield "wrong indentation", (*before, inner, *after[1:])


def mutant(program: Program, count: int, rng: random.Random) -> tuple[Program, tuple[str, ...]]:
    """A program with `count` mistakes: a kind that is possible, then a place, equally likely each."""
    kinds = []
    for _ in range(count):
        possible: dict[str, list[Block]] = {}
        for path, block in places(program.body):
            for kind, new in mistakes(block):
                possible.setdefault(kind, []).append(with_block(program.body, path, new))
        kind = rng.choice(sorted(possible))
        program = Program(rng.choice(possible[kind]))
        kinds.append(kind)
    return program, tuple(kinds)


# Measuring


@dataclass(frozen=True)
class Mutant:
    """A student's program: a reference with mistakes."""

    exercise: Exercise
    program: Program
    kinds: tuple[str, ...]


def make_mutants(exercises: Sequence[Exercise], count: int, seed: int) -> Iterator[Mutant]:
    """Distinct mutants that are wrong on an example: one, two and three mistakes in turn, all exercises in turn."""
    rng, made, seen = random.Random(seed), 0, set()
    for turn in range(1_000_000):
        exercise, number = exercises[turn % len(exercises)], turn // len(exercises) % 3 + 1
        inputs, outputs = exercise.task.codes()
        for _ in range(20):
            program, kinds = mutant(exercise.reference, number, rng)
            if program not in seen and not right_on(program, inputs, outputs):
                seen.add(program)
                yield Mutant(exercise, program, kinds)
                made += 1
                break
        if made == count:
            return


def right_on(program: Program, inputs: Any, outputs: Any) -> bool:
    runs = run_batch([program], inputs, expected=outputs, keep_worlds=False, max_ticks=MOST_TICKS)
    assert runs.correct is not None
    return bool(runs.correct.all())


def measure(
    mutant: Mutant, solve: Solve | None = None, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Any]:
    """The hint for a mutant, scored."""
    source = read_source(mutant.program.to("paper"))
    start, cpu = time.perf_counter(), time.process_time()
    hint = find_hint(mutant.exercise.task, source, solve=solve, clock=clock)
    seconds = time.perf_counter() - start
    repaired = hint.kind == "repair"
    general = False
    if repaired:
        assert hint.program is not None
        inputs, outputs = zip(*mutant.exercise.fresh, strict=True)
        general = right_on(hint.program, inputs, outputs)
    return {
        "name": mutant.exercise.name,
        "mistakes": len(mutant.kinds),
        "kinds": mutant.kinds,
        "hint": hint.kind,
        "repaired": repaired,
        "within": repaired and hint.edits <= len(mutant.kinds),
        "general": general,
        "edits": hint.edits,
        "seconds": seconds,
        "cores": (time.process_time() - cpu) / seconds,
        "program": mutant.program.to("paper"),
        "repair": hint.text,
    }


def measure_all(
    mutants: Sequence[Mutant], solve: Solve, clock: Callable[[], float], path: Path | None
) -> list[dict[str, Any]]:
    """The hints for all mutants. With a path, each is appended to that file at once; those in it are not repeated."""
    rows = read_rows(path) if path is not None and path.exists() else []
    if [row["program"] for row in rows] != [each.program.to("paper") for each in mutants[: len(rows)]]:
        raise SystemExit(f"{path}: holds the hints for other mutants: give another file, or the same seed and names")
    if path is not None:  # without a last line that was cut off
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for number, each in enumerate(mutants[len(rows) :], len(rows) + 1):
        rows.append(measure(each, solve, clock))
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
        if number % 50 == 0:
            print(f"{number} of {len(mutants)}", file=sys.stderr, flush=True)
    return rows


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The hints of a file that `measure_all` has written; a last line that was cut off is left out."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return [{**row, "kinds": tuple(row["kinds"])} for row in rows]


def quantiles(values: Sequence[float]) -> list[tuple[str, float]]:
    """The median, the 95th percentile and the largest of some values."""
    ordered = sorted(values)
    return [("median", statistics.median(ordered)), ("95", ordered[int(0.95 * (len(ordered) - 1))]),
            ("slowest", ordered[-1])]  # fmt: skip


def summary(title: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of some mutants; at least one."""
    repaired = [row for row in rows if row["repaired"]]
    seconds = sorted(row["seconds"] for row in rows)
    return {
        "title": title,
        "mutants": len(rows),
        "repaired": len(repaired) / len(rows),
        "within": sum(row["within"] for row in rows) / len(rows),
        "general": sum(row["general"] for row in repaired) / max(1, len(repaired)),
        "median": statistics.median(seconds),
        "95": seconds[int(0.95 * (len(seconds) - 1))],
        "slowest": seconds[-1],
        "cores": sum(row["cores"] * row["seconds"] for row in rows) / sum(seconds),
        **{f"processor {name}": value for name, value in quantiles([row["cores"] * row["seconds"] for row in rows])},
    }


def print_summary(figures: dict[str, Any]) -> None:
    print(
        f"{figures['title']:22s} {figures['mutants']:5d}  repaired {figures['repaired']:6.1%}  "
        f"within {figures['within']:6.1%}  general {figures['general']:6.1%}  median {figures['median']:.3f} s  "
        f"95 % {figures['95']:.3f} s  slowest {figures['slowest']:.3f} s  cores got {figures['cores']:.2f}  "
        f"processor {figures['processor median']:.3f} / {figures['processor 95']:.3f} / "
        f"{figures['processor slowest']:.3f} s",
        flush=True,
    )


def summaries(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All mutants, by number of mistakes, by source, and single mistakes by kind."""
    parts = [("all", list(rows))]
    for number in (1, 2, 3):
        part = [row for row in rows if row["mistakes"] == number]
        parts.append((f"{number} mistake{'s' * (number > 1)}", part))
        for source, gallery_ in (("classroom", False), ("gallery", True)):
            of_source = [row for row in part if row["name"].startswith("gallery/") == gallery_]
            parts.append((f"  {source}", of_source))
    single = [row for row in rows if row["mistakes"] == 1]
    for kind in sorted({row["kinds"][0] for row in single}):
        parts.append((f"  {kind}", [row for row in single if row["kinds"] == (kind,)]))
    return [summary(title, part) for title, part in parts if part]


def measure_grading(exercise: Exercise, mutants: Sequence[Mutant]) -> dict[str, Any]:
    """The time to grade a class on one task: distinct programs in two dialects, with explanations."""
    texts = [each.program.to("stanford" if at % 2 else "paper") for at, each in enumerate(mutants)]
    class_ = [Submission(f"student {number}", text) for number, text in enumerate(texts, 1)]
    start = time.perf_counter()
    grades = grade(exercise.task, class_, hidden=exercise.fresh)
    for each in grades:
        each.to_json()
    return {"programs": len(grades), "seconds": time.perf_counter() - start}


def measure_folder(mutants: Sequence[Mutant]) -> float:
    """The seconds that `karelsynth grade` takes for a folder of programs, from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        for number, each in enumerate(mutants):
            dialect, ending = ("stanford", "py") if number % 2 else ("paper", "karel")
            Path(folder, f"student-{number}.{ending}").write_text(each.program.to(dialect), encoding="utf-8")
        command = [sys.executable, "-m", "karelsynth", "grade", "clean-the-row", folder, "--csv"]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - start
    assert len(done.stdout.splitlines()) == len(mutants) + 1, done.stderr
    return seconds


def far_programs(exercises: Sequence[Exercise]) -> Iterator[Mutant]:
    """For each exercise two programs that are far off: a single turn, and the reference of an unrelated exercise."""
    for number, exercise in enumerate(exercises):
        other = exercises[(number + len(exercises) // 2) % len(exercises)].reference
        for kind, program in (("a single turn", Program((Action.TURN_LEFT,))), ("unrelated", other)):
            if not right_on(program, *exercise.task.codes()):
                yield Mutant(exercise, program, (kind,))


def loaded_solver(exercises: Sequence[Exercise], clock: Callable[[], float]) -> Solve:
    """The solver, ready for some exercises."""
    from karelsynth.solve.solver import Solver

    solver = Solver.load()
    solver.turns.clock = clock
    solver.warm_up([exercise.task for exercise in exercises])
    return right_programs(solver)


def measure_far(exercises: Sequence[Exercise], count: int, solve: Solve, clock: Callable[[], float]) -> dict[str, Any]:
    """The seconds of hints for programs that are far off, of those hints that called the solver, by a clock."""
    calls = list[str]()

    def counted(task: Task, seconds: float) -> Sequence[Program]:
        calls.append(task.name)
        return solve(task, seconds)

    programs, times, kinds = list(far_programs(exercises))[:count], list[float](), Counter[str]()
    for each in programs:
        before, start = len(calls), clock()
        hint = find_hint(each.exercise.task, read_source(each.program.to("paper")), solve=counted, clock=clock)
        if len(calls) > before:
            times.append(clock() - start)
            kinds[hint.kind] += 1
    figures = dict(quantiles(times)) if times else {}
    return {"programs": len(programs), "solver called": len(times), "hints": dict(kinds), **figures}


def slipping_mutants(exercises: Sequence[Exercise], count: int, seed: int) -> Iterator[tuple[Mutant, Task]]:
    """Distinct mutants that are right on two examples of their task, drawn for each, but wrong on a fresh world; with
    the task of these two. Fewer than `count` if few are found."""
    rng, seen, found = random.Random(seed), set(), 0
    for turn in range(MOST_DRAWN):
        if found == count:
            return
        exercise = exercises[turn % len(exercises)]
        program, kinds = mutant(exercise.reference, rng.randint(1, 3), rng)
        task = Task(tuple(rng.sample(exercise.task.examples, min(2, len(exercise.task.examples)))))
        if (exercise.name, program) in seen or not right_on(program, *task.codes()):
            continue
        if not right_on(program, *zip(*exercise.fresh, strict=True)):
            seen.add((exercise.name, program))
            found += 1
            yield Mutant(exercise, program, kinds), task


def measure_probe(exercises: Sequence[Exercise], count: int, seed: int) -> dict[str, Any]:
    """Of mutants that slip through two examples, those that a probe of these examples unmasks."""
    slipping = list(slipping_mutants(exercises, count, seed))
    start = time.perf_counter()
    found = sum(unmasking_world(task, each.exercise.reference, each.program) is not None for each, task in slipping)
    seconds = time.perf_counter() - start
    names = len({each.exercise.name for each, _ in slipping})
    return {"mutants": len(slipping), "tasks": names, "unmasked": found / max(1, len(slipping)), "seconds": seconds}


def print_far(far: dict[str, Any]) -> None:
    print(f"{far['programs']} programs far off: the solver was called for {far['solver called']}", end="")
    if far["solver called"]:
        print(f" ({far['hints']}); these hints took a median of {far['median']:.3f} s, 95 % {far['95']:.3f} s, "
              f"slowest {far['slowest']:.3f} s", end="")  # fmt: skip
    print(flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=2000, help="how many programs with mistakes")
    parser.add_argument("--seed", type=int, default=1, help="of the mistakes")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only the exercises of these names")
    parser.add_argument("--probes", type=int, default=200, help="how many mutants to unmask")
    parser.add_argument("--far", type=int, default=1000, help="the most programs that are far off; 0: none")
    parser.add_argument("--far-only", action="store_true", help="measure nothing else")
    parser.add_argument("--processor", action="store_true", help="limit searches by processor time")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures as JSON")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="each hint as a JSON line; continues such a file")
    parser.add_argument("--summarize", type=Path, nargs="+", metavar="FILE", help="only the figures of such files")
    options = parser.parse_args(arguments)
    if options.summarize:
        for each in summaries([row for path in options.summarize for row in read_rows(path)]):
            print_summary(each)
        return
    exercises = read_exercises(options.only)
    clock = time.process_time if options.processor else time.perf_counter
    solve = loaded_solver(exercises, clock)
    find_hint(exercises[0].task, read_source("def run(): turnLeft()"), solve=solve)  # compiles
    if options.far_only:
        print_far(measure_far(exercises, options.far, solve, clock))
        return
    mutants = list(make_mutants(exercises, options.mutants, options.seed))
    measure(mutants[0], solve)
    rows = measure_all(mutants, solve, clock, options.rows)
    figures = summaries(rows)
    for each in figures:
        print_summary(each)
    hints = Counter(row["hint"] for row in rows if not row["repaired"])
    print(f"without a repair: {dict(hints)}")
    grading = [measure_grading(exercises[0], mutants[:count]) for count in (500, 1000) if count <= len(mutants)]
    for each in grading:
        print(f"{each['programs']} programs graded and explained in {each['seconds']:.2f} s")
    print(f"a folder of {len(mutants[:500])} programs graded in {measure_folder(mutants[:500]):.2f} s")
    far = measure_far(exercises, options.far, solve, clock) if options.far else {}
    if far:
        print_far(far)
    probing = measure_probe(exercises, options.probes, options.seed)
    print(f"{probing['mutants']} mutants of {probing['tasks']} tasks that slip through two examples: "
          f"{probing['unmasked']:.1%} unmasked, {probing['seconds']:.1f} s")  # fmt: skip
    if options.json is not None:
        report = {"summaries": figures, "grading": grading, "probing": probing, "far": far, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
