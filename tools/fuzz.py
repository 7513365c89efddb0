"""Attack every parser and loader with malformed input, in this process.

python tools/fuzz.py --seconds 60            # all targets in turn; the same seed gives the same inputs
python tools/fuzz.py --only recipe --inputs 100000 --seed 7
python tools/fuzz.py --guided task --seconds 600     # guided by coverage; needs the extra `fuzz` (atheris)
python tools/fuzz.py --list

A target takes bytes. It may raise a KarelsynthError, which is the one message that a user sees. Any other exception is
a finding, and so is an input that takes more than five seconds. Findings are saved and printed; the exit status is 1.
Inputs are valid files with a few changes: of bytes, of words, of values inside JSON, and extreme values put in.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import karelsynth
from karelsynth.errors import KarelsynthError

SLOW: Final = 5.0
"""Seconds of processor time that no input may take."""
LARGEST: Final = 200_000
"""Bytes of the largest input."""
EXTREME_TEXTS: Final = (
    *("", " ", "\n", "\0", "\x1b[2J", "\ufeff", "\u2028", "é", "😀", "²", "٣", "%s", "../..", "/", "-", "nan", "inf"),
    *(
        "9" * 40,
        "1" * 4301,
        "1" + "0" * 309,
        "-1",
        "1e400",
        "0x10",
        "a" * 3000,
        "a." * 150 + "a",
        "[" * 1100,
        "{" * 1100,
    ),
    *("[" * 300 + "]" * 300, "((((" * 200, '"""', "'''", "#", "\\", "\\ud800", '"\\udfff"', "NaN", "Infinity", "null"),
)
EXTREME_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 0.5, -0.0, 1e308, 1e400, -1e400),
    *(float("nan"), "", "x", "\0", "😀", "9" * 50, "a" * 2000, "0:0", "1:2:3", "move", "run", [], [[]], {}, {"": {}}),
    *([None] * 30, list(range(300)), {"a": 1, "b": [2]}, {str(key): key for key in range(40)}),
)


INSTRUMENTED: Final = (
    *("karel.dialects", "karel.program", "karel.world", "karel.formats.drawing", "karel.formats.msr"),
    *("karel.formats.stanford", "tasks.task", "tasks.task_files", "tasks.manifest", "tasks.msr_records"),
    *("tasks.prompts", "train.recipe", "model.settings", "model.storage", "score", "curves", "reproduce.results"),
)
"""Modules whose coverage guides atheris. Compiled code cannot be instrumented."""


@dataclass(frozen=True)
class Target:
    """A parser or loader, and valid inputs for it."""

    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]


class Finding(Exception):
    """An input that broke a target."""


# Mutations


def mutations(seeds: Sequence[bytes], rng: random.Random) -> Iterator[bytes]:
    """Endless malformed inputs."""
    values = [value for seed in seeds if (value := _json_value(seed)) is not None]
    words = sorted({word for seed in seeds if len(seed) < 20_000 for word in re.findall(rb"[A-Za-z_]+|\d+|\S", seed)})
    while True:
        if values and rng.random() < 0.5:
            yield _json_mutant(rng.choice(values), rng)
            continue
        data = bytearray(rng.choice(seeds))
        for _ in range(1 + int(rng.expovariate(0.7))):
            _mutate(data, seeds, words, rng)
        yield bytes(data[:LARGEST])


def _mutate(data: bytearray, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> None:
    """Change a place of the data."""
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + int(rng.expovariate(0.1)))
    match rng.randrange(9):
        case 0 if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1:
            del data[start:end]
        case 2:
            data[start:start] = data[start:end] * rng.choice((1, 2, 50))
        case 3:
            data[start:end] = rng.choice(EXTREME_TEXTS).encode("utf-8", "surrogatepass")
        case 4 if words:
            data[start:end] = rng.choice(words)
        case 5:
            data[start:end] = rng.randbytes(rng.randrange(9))
        case 6:
            other = rng.choice(seeds)
            at = rng.randrange(len(other) + 1)
            data[start:end] = other[at : at + int(rng.expovariate(0.02))]
        case 7:
            lines = bytes(data).split(b"\n")
            one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[one], lines[two] = lines[two], lines[one]
            data[:] = b"\n".join(lines)
        case _:
            del data[start:]


def _json_value(seed: bytes) -> Any:
    try:
        return json.loads(seed.splitlines()[0] if seed.startswith(b"{") and b"\n{" in seed else seed)
    except (ValueError, IndexError):
        return None


def _json_mutant(value: Any, rng: random.Random) -> bytes:
    """A JSON value with a few of its parts replaced, removed, doubled or renamed."""
    value = json.loads(json.dumps(value))
    for _ in range(1 + int(rng.expovariate(0.7))):
        value = _changed(value, rng)
    text = json.dumps(value)
    if rng.random() < 0.05:
        text = text.replace("1", rng.choice(("1" * 4301, "1e400", "\\ud800", "[" * 500)), 1)
    return text.encode()


def _changed(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return deepcopy(rng.choice(EXTREME_VALUES))
    key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    if rng.random() < 0.7 and isinstance(value[key], dict | list):
        value[key] = _changed(value[key], rng)
        return value
    match rng.randrange(5):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[rng.choice(("", "x", "\0", "name", "kind", f"{key}s"))] = value.pop(key)
        case 1 | 2 if isinstance(value, list):
            value += value[: rng.randrange(len(value) + 1)]
        case _:
            value[key] = deepcopy(rng.choice(EXTREME_VALUES))
    return value


# Targets


def text_target(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    """A target that takes text; half of a surrogate pair may be in it, as in a string of JSON."""
    return lambda data: parse(data.decode("utf-8", "surrogateescape" if data[:1] == b"\\" else "replace"))


def file_target(name: str, load: Callable[[Path], object], folder: Path) -> Callable[[bytes], object]:
    """A target that reads a file of a folder, which is put back afterwards."""
    path = folder / name
    before = path.read_bytes() if path.is_file() else None

    def run(data: bytes) -> object:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        try:
            return load(folder)
        finally:
            if before is None:
                path.unlink()
            else:
                path.write_bytes(before)

    return run


def targets(folder: Path) -> dict[str, Target]:
    """All parsers and loaders, by name; `folder` is for the files of loaders."""
    language, files = (_language_targets(), _classroom_targets()), (_task_targets, _model_targets, _result_targets)
    return {name: target for part in (*language, *(make(folder) for make in files)) for name, target in part.items()}


PROGRAMS: Final = (
    "def run():\n  while(frontIsClear):\n    move()\n  if(not(markersPresent)):\n    putMarker()\n",
    "def run():\n  repeat(3):\n    turnLeft()\n  ifelse(leftIsClear):\n    move()\n  else:\n    turnRight()\n",
    'from stanfordkarel import *\n\ndef main():\n    """text"""\n    turn_around()  # why\n'
    "    while front_is_clear():\n        move()\n    for i in range(3):\n        put_beeper()\n\n\n"
    "def turn_around():\n    turn_left()\n    turn_left()\n",
    "def run():\n  twice()\ndef twice():\n  move()\n  move()\n",
)


def _language_targets() -> dict[str, Target]:
    from karelsynth.karel.dialects import DIALECTS, convert, parse, read_source, recognise, render
    from karelsynth.karel.formats import world_from_text
    from karelsynth.karel.formats.codes import world_from_codes
    from karelsynth.karel.formats.msr import program_from_json, tensor_to_string, world_from_tensor_string
    from karelsynth.karel.program import Program
    from karelsynth.karel.world import World
    from karelsynth.parsing import parse_json, parse_toml
    from karelsynth.tasks.prompts import programs_from_answer
    from karelsynth.tasks.task_files import gallery

    trees = [render(Program.parse(text), "tokens") for text in PROGRAMS]
    world = World.parse("# . . 2\n. > 1 #\n. . . .")
    worlds = [
        world.to_text(),
        world.to_stanford(),
        json.dumps(world.to_json()),
        gallery()[0].task.examples[0].input.to_text(),
    ]
    from karelsynth.karel.formats.msr import program_to_json

    def read_programs(text: str) -> None:
        for dialect in (None, *DIALECTS):
            for read in (parse, read_source):
                try:
                    read(text, dialect)
                except KarelsynthError as error:
                    str(error)
        recognise(text)

    def converted(text: str) -> None:
        for dialect in DIALECTS:
            with suppress(KarelsynthError):
                convert(text, dialect)

    def codes(data: bytes) -> object:
        import numpy as np

        return world_from_codes(np.frombuffer(data[:324].ljust(324, b"\0"), np.uint8).reshape(18, 18))

    tree = tuple(json.dumps(program_to_json(Program.parse(text))).encode() for text in PROGRAMS)
    sources = tuple(text.encode() for text in (*PROGRAMS, *trees))
    return {
        "json": Target(parse_json, (*tree, b'{"a": [1, 2.5, "x", null, true]}')),
        "toml": Target(text_target(parse_toml), (b'a = 1\nb.c = "x"\n[d]\ne = [1, 2.5, true]\n[[f]]\ng = {h = 1}\n',)),
        "program": Target(text_target(read_programs), sources),
        "convert": Target(text_target(converted), sources),
        "program_json": Target(lambda data: program_from_json(parse_json(data)), tree),
        "world": Target(text_target(world_from_text), tuple(text.encode() for text in worlds)),
        "world_codes": Target(codes, (world.to_codes().tobytes(),)),
        "world_tensor": Target(text_target(world_from_tensor_string), (tensor_to_string(world).encode(),)),
        "answer": Target(
            text_target(programs_from_answer),
            tuple(f"Karel walks.\n```python\n{text}```\nThat is it: `{text}`".encode() for text in PROGRAMS),
        ),
    }


def _classroom_targets() -> dict[str, Target]:
    """What teachers and students write: sets of challenges, blocks, and the requests that change them."""
    from pydantic import BaseModel, ValidationError

    from karelsynth.karel.dialects import DIALECTS
    from karelsynth.parsing import parse_json
    from karelsynth.tasks.task_files import gallery
    from karelsynth.tutor.blocks import read_blocks, write_blocks
    from karelsynth.tutor.challenges import parse_challenges
    from karelsynth.web import classroom, messages, solving, toolkit, tutoring

    example = {"input": "> . .\n. . .", "output": ". . >\n. . ."}
    given = {"examples": [example], "hidden": [{"input": "> .\n. .", "output": ". >\n. ."}], "hints": 2}
    challenge = {**given, "name": "Walk", "about": "Two steps", "starter": PROGRAMS[0]}
    whole = {"karelsynth": "challenges", "title": "Monday", "challenges": [challenge, challenge]}
    written, helpers = [], []
    for text in PROGRAMS:
        functions = classroom.BlocksResponse.of(read_blocks(text)).model_dump()["functions"]
        written.append({"program": text, "functions": functions})
        helpers.append({"program": text, "change": "define", "name": "side", "new_name": ""})
    helpers.append({"program": PROGRAMS[3], "change": "rename", "name": "twice", "new_name": "double"})
    helpers.append({"program": f"{PROGRAMS[3]}def rest():\n  move()\n", "change": "delete", "name": "rest"})

    def validated(kind: type[BaseModel], value: object) -> Any:
        try:
            return kind.model_validate(value)
        except ValidationError as error:  # the service answers 422
            raise KarelsynthError("not what the request should have") from error

    def request(kind: type[BaseModel], answer: Callable[[Any], object]) -> Callable[[bytes], object]:
        return lambda data: answer(validated(kind, parse_json(data)))

    state = SimpleNamespace(settings=SimpleNamespace(challenges=parse_challenges(json.dumps(whole))))
    service: Any = SimpleNamespace(app=SimpleNamespace(state=state))
    routes: dict[str, tuple[type[BaseModel], Callable[[Any], object]]] = {
        "run": (toolkit.RunRequest, toolkit.run),
        "check": (toolkit.CheckRequest, toolkit.check),
        "convert": (toolkit.ConvertRequest, toolkit.convert),
        "stanford": (toolkit.StanfordRequest, toolkit.stanford),
        "random-world": (toolkit.RandomWorldRequest, toolkit.make_random_world),
        "task/parse": (toolkit.TaskTextRequest, toolkit.read_task),
        "task/render": (toolkit.TaskRequest, toolkit.write_task),
        "judge": (tutoring.JudgeRequest, tutoring.judge),
        "grade": (tutoring.GradeRequest, lambda body: tutoring.grade(body, service)),
        "solve": (solving.SolveRequest, lambda body: messages.read_examples(body.examples).codes()),
        "challenges/parse": (classroom.ChallengeTextRequest, classroom.read_challenges),
        "blocks/read": (classroom.ReadBlocksRequest, classroom.blocks_of_text),
    }
    asked = {
        "run": {"program": PROGRAMS[0], "world": "> . .\n. 2 #"},
        "check": {"program": PROGRAMS[2]},
        "convert": {"program": PROGRAMS[3], "to": "stanford"},
        "stanford": {"program": PROGRAMS[1], "world": "> .\n. .", "name": "walk"},
        "random-world": {"rows": 4, "cols": 5, "seed": 1},
        "task/parse": {"text": "name: walk\nexample:\n> . -> . >\n. .    . .\n"},
        "task/render": {"examples": [example], "name": "walk", "about": "two steps"},
        "judge": {"examples": [example, example], "program": PROGRAMS[0]},
        "grade": {"examples": [example], "programs": [{"name": "Ada", "program": PROGRAMS[0]}], "challenge": 1},
        "solve": {"examples": [example], "budget": 1},
        "challenges/parse": {"text": json.dumps(whole)},
        "blocks/read": {"program": PROGRAMS[3], "dialect": "paper"},
    }

    def answered(data: bytes) -> object:
        value = parse_json(data)
        path = value.get("path") if isinstance(value, dict) else None
        if not isinstance(path, str) or path not in routes:
            raise KarelsynthError("no such path")
        kind, answer = routes[path]
        response = answer(validated(kind, value.get("body")))
        return response.model_dump_json() if isinstance(response, BaseModel) else response

    def rewritten(text: str) -> None:
        for dialect in (None, *DIALECTS):
            with suppress(KarelsynthError):
                write_blocks(text, read_blocks(text, dialect).functions, dialect)

    posed = [{**entry.task.to_json(), "reference": PROGRAMS[0], "level": "easy"} for entry in gallery()[:2]]
    lines = [json.dumps(each).encode() for each in posed]

    def encoded(values: Sequence[object]) -> tuple[bytes, ...]:
        return tuple(json.dumps(value).encode() for value in values)

    return {
        "challenges": Target(text_target(parse_challenges), (*encoded([whole, challenge, *posed]), b"\n".join(lines))),
        "blocks": Target(text_target(rewritten), tuple(text.encode() for text in PROGRAMS)),
        "block_tree": Target(request(classroom.WriteBlocksRequest, classroom.text_of_blocks), encoded(written)),
        "helper": Target(request(classroom.ChangeHelperRequest, classroom.change_helper), encoded(helpers)),
        "request": Target(answered, encoded([{"path": path, "body": body} for path, body in asked.items()])),
    }


def _task_targets(folder: Path) -> dict[str, Target]:
    from karelsynth.language_model import parse_reply, prompt_digest, read_answers
    from karelsynth.score import compare, read_predictions, read_report
    from karelsynth.tasks.msr_records import parse_record
    from karelsynth.tasks.msr_tasks import check_records, verify_file
    from karelsynth.tasks.original_files import recognise_original, unpacked
    from karelsynth.tasks.sets import export_msr, load_tasks, open_set, write_set
    from karelsynth.tasks.task_files import gallery, read_tasks, render_task, tasks_from_text
    from karelsynth.tutor.challenges import parse_challenges
    from karelsynth.tutor.lesson import parse_work

    place = folder / "tasks"
    made = write_set(place / "set", seed=1, count=6, examples=6, shard_size=4)
    export_msr(made, place / "tasks.jsonl")
    lines = (place / "tasks.jsonl").read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("val.json", lines)
    tasks = [entry.task for entry in gallery()[:4]]
    ours = [json.dumps(task.to_json()).encode() for task in tasks]
    texts = [render_task(task).encode() for task in tasks] + [b"example:\n> . -> . >\n. .    . .\n"]
    program = "def run():\n  move()"
    predictions = [
        json.dumps({"number": 1, "programs": [program, "DEF run m( move m)"], "seconds": 0.5}).encode(),
        json.dumps({"number": 2, "answer": f"```\n{program}\n```", "id": "abc"}).encode(),
        b'["def run(): move()"]',
        json.dumps({"answers": [{"programs": {"tokens": "DEF run m( move m)"}}]}).encode(),
    ]
    prompt = {"number": 1, "id": "abc", "messages": [{"role": "user", "content": "?"}]}
    asked = {"number": 1, "id": "abc", "settings": {"model": "m"}, "answer": [program], "finish": ["stop"]}
    answer = json.dumps({"prompt": prompt_digest(prompt), **asked}).encode() + b"\n"
    chat = {"choices": [{"message": {"role": "assistant", "content": program}, "finish_reason": "stop"}]}
    bits = {str(rank): "f8" for rank in (1, 5, 50, 100)}
    report = {"tasks": 8, "digest": "0" * 16, "report": {"a": 1}, "solved": bits, "filtered": bits, "written": bits}

    def zipped(at: Path) -> None:
        with unpacked(at / "tasks.zip") as path:
            recognise_original(path)

    def compared(at: Path) -> object:
        return compare({**report, "path": "here"}, read_report(at / "report.json"))

    def opened(at: Path) -> None:
        open_set(at / "set", verify=True)[:]
        load_tasks(at / "set", limit=3)

    def record(data: bytes) -> None:
        for number, line in enumerate(data.split(b"\n")[:3], 1):
            list(check_records([parse_record(line, number)]))

    first = lines.split(b"\n")[0]
    pair = {"input": "> .\n. .", "output": ". >\n. ."}
    challenge = {"name": "Go", "examples": [pair], "hidden": [pair], "starter": "def run():", "hints": 2}
    posed = json.dumps({"karelsynth": "challenges", "title": "One", "challenges": [challenge]}).encode()
    lesson = parse_challenges(posed.decode())
    programs = [{"number": 1, "name": "Go", "program": "def run():\n  move()", "hints": 1}]
    handed_in = json.dumps({"karelsynth": "work", "student": "Ada", "programs": programs}).encode()
    return {
        "task": Target(text_target(lambda text: tasks_from_text(text, "here")), (*ours, *texts, b"[" + ours[0] + b"]")),
        "student_work": Target(text_target(lambda text: parse_work(text, lesson)), (handed_in,)),
        "record": Target(record, (first, lines.split(b"\n")[1])),
        "task_file": Target(
            file_target("x.jsonl", lambda at: read_tasks(at / "x.jsonl"), place),
            (lines, b"\n".join(ours), gzip.compress(b"\n".join(ours), mtime=0), ours[0], texts[0]),
        ),
        "msr_file": Target(
            file_target("y.jsonl", lambda at: verify_file(at / "y.jsonl"), place),
            (first, lines, gzip.compress(lines, mtime=0)),
        ),
        "msr_zip": Target(file_target("tasks.zip", zipped, place), (packed.getvalue(),)),
        "manifest": Target(
            file_target("set/manifest.json", opened, place), ((place / "set/manifest.json").read_bytes(),)
        ),
        "shard": Target(
            file_target("set/shard-00000.safetensors", opened, place),
            ((place / "set/shard-00000.safetensors").read_bytes(),),
        ),
        "predictions": Target(
            file_target("predictions.jsonl", lambda at: read_predictions(at / "predictions.jsonl").digest, place),
            tuple(predictions),
        ),
        "answers": Target(
            lambda data: read_answers(io.BytesIO(data), place, [prompt], {"model": "m"}),
            (answer, answer[:40], answer + answer.replace(b'"number": 1', b'"number": 2')),
        ),
        "reply": Target(parse_reply, (json.dumps(chat).encode(),)),
        "report": Target(file_target("report.json", compared, place), (json.dumps(report).encode(),)),
    }


def _model_targets(folder: Path) -> dict[str, Target]:
    import torch

    from karelsynth.model.settings import ModelSettings
    from karelsynth.model.storage import load_model, read_recipe
    from karelsynth.model.synthesizer import Synthesizer
    from karelsynth.parsing import parse_json
    from karelsynth.reproduce.archive import check_weights, pack_weights
    from karelsynth.train import checkpoint
    from karelsynth.train.metrics import _kept
    from karelsynth.train.recipe import RECIPES, load_recipe, recipe_from

    place = folder / "models"
    model = Synthesizer(
        ModelSettings(channels=2, blocks=1, code_size=12, embedding_size=6, hidden_size=10, max_length=40)
    )
    model.save_pretrained(place / "model", torch.bfloat16)
    recipe = load_recipe("mle")
    (place / "model" / "recipe.json").write_text(json.dumps(recipe.to_json()))
    pack_weights([place / "model"], place / "weights.zip")
    sums = (place / "model" / "SHA256SUMS").read_bytes()
    notes = {"recipe": recipe.to_json(), "best": None, "tasks": {}}
    (place / "run").mkdir()
    checkpoint.save(place / "run", checkpoint.Checkpoint(3, dict(model.state_dict()), {"a/step": torch.ones(1)}, notes))
    saved = place / "run" / "checkpoint-00000003"
    for plain in (place / "model", saved):  # or every change would be found by its checksum alone
        (plain / "SHA256SUMS").unlink()
    recipes = tuple(path.read_bytes() for path in sorted(RECIPES.glob("*.toml")))
    settings = (
        b"run.steps=100",
        b"objective.options={a = 1}",
        b"data.validation=val",
        b'plugins=["os"]',
        b"model.layers=2",
    )
    loaded = lambda at: Synthesizer.from_pretrained(at / "model")  # noqa: E731
    metrics = b'{"step": 1, "loss": 2.5}\n{"step": 2, "loss": NaN, "sample": "x"}\n'
    return {
        "recipe": Target(
            file_target("recipe.toml", lambda at: load_recipe(at / "recipe.toml").to_json(), place),
            tuple(text for text in recipes if b"plugins" not in text),
        ),
        "setting": Target(text_target(lambda text: load_recipe("mle", [text.replace("plugins", "plugin")])), settings),
        "saved_recipe": Target(_mapping(parse_json, recipe_from), (json.dumps(recipe.to_json()).encode(),)),
        "recipe_json": Target(
            file_target("model/recipe.json", lambda at: read_recipe(at / "model"), place),
            ((place / "model/recipe.json").read_bytes(),),
        ),
        "config": Target(
            file_target("model/config.json", _bounded_model(place), place),
            ((place / "model/config.json").read_bytes(),),
        ),
        "weights": Target(
            file_target("model/model.safetensors", loaded, place), ((place / "model/model.safetensors").read_bytes(),)
        ),
        "sums": Target(file_target("model/SHA256SUMS", lambda at: load_model(at / "model"), place), (sums,)),
        "checkpoint": Target(
            file_target("run/checkpoint-00000003/notes.json", lambda at: checkpoint.load_newest(at / "run"), place),
            ((saved / "notes.json").read_bytes(),),
        ),
        "checkpoint_weights": Target(
            file_target(
                "run/checkpoint-00000003/model.safetensors", lambda at: checkpoint.load_newest(at / "run"), place
            ),
            ((saved / "model.safetensors").read_bytes(),),
        ),
        "archive": Target(
            file_target("weights.zip", lambda at: check_weights(at / "weights.zip"), place),
            ((place / "weights.zip").read_bytes(),),
        ),
        "metrics": Target(file_target("metrics.jsonl", lambda at: _kept(at / "metrics.jsonl", 1), place), (metrics,)),
    }


def _mapping(parse: Callable[[bytes], Any], read: Callable[[Any], object]) -> Callable[[bytes], object]:
    """A target that reads a JSON object; the callers of `read` have made sure that it is one."""

    def run(data: bytes) -> object:
        value = parse(data)
        return read(value) if isinstance(value, dict) else None

    return run


def _bounded_model(place: Path) -> Callable[[Path], object]:
    """Loads settings, and the model if it is a small one: a network of any size may be asked for."""
    from karelsynth.model.storage import load_model, load_settings

    def load(at: Path) -> object:
        load_settings(at / "model")
        return load_model(place / "model")

    return load


def _result_targets(folder: Path) -> dict[str, Target]:
    from karelsynth.curves import read_curves
    from karelsynth.reproduce.results import read_results
    from karelsynth.reproduce.trained import _logged, read_history

    place, root = folder / "results", Path(__file__).parent.parent
    results = sorted((root / "results" / "reproduce").glob("mle-seed0.json"))
    curves = (
        sorted((root / "results").glob("**/curves*.json"))[:1] or sorted((root / "docs").glob("**/curves*.json"))[:1]
    )
    history = json.dumps({"machines": ["here"], "start": None, "gpu_gib": 1.5}).encode()
    metrics = b'{"step": 1, "validation_generalization": 2.5, "validation_exact": 1, "seconds": 3}\n'
    found = {
        "history": Target(file_target("history.json", read_history, place), (history,)),
        "run_log": Target(file_target("metrics.jsonl", _logged, place), (metrics, metrics * 3)),
    }
    if results:
        content = tuple(path.read_bytes() for path in results)
        found["result"] = Target(
            file_target("reproduce/mle-seed0.json", lambda at: read_results(at / "reproduce"), place), content
        )
    if curves:
        load = lambda at: read_curves(at / "curves.json")  # noqa: E731
        found["curves"] = Target(file_target("curves.json", load, place), (curves[0].read_bytes(),))
    return found


# Running


@dataclass
class Outcome:
    """What became of a target's inputs."""

    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    failures: int = 0


def attack(
    name: str, target: Target, *, seed: int, inputs: int | None, seconds: float | None, save: Path | None
) -> Outcome:
    """Run inputs until a number or a time is reached. Findings are printed, one for each place in the code."""
    rng = random.Random(f"{name} {seed}")  # so that targets do not depend on each other
    outcome, seen = Outcome(), set[str]()
    began = time.process_time()
    for data in mutations(target.seeds, rng):
        if (inputs is not None and outcome.inputs >= inputs) or (
            seconds is not None and time.process_time() - began >= seconds
        ):
            return outcome
        before = time.process_time()
        outcome.inputs += 1
        try:
            target.run(data)
        except KarelsynthError:
            outcome.refused += 1
        except Exception as error:  # a finding
            outcome.failures += 1
            _report(name, data, error, seen, save)
        spent = time.process_time() - before
        outcome.slowest = max(outcome.slowest, spent)
        if spent > SLOW:
            outcome.failures += 1
            _report(name, data, Finding(f"took {spent:.1f} s"), seen, save)
    raise AssertionError("mutations are endless")


def _report(name: str, data: bytes, error: Exception, seen: set[str], save: Path | None) -> None:
    frames = traceback.extract_tb(error.__traceback__)
    where = next((f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames) if "karelsynth" in f.filename), "")
    if f"{type(error).__name__} {where}" in seen:
        return
    seen.add(f"{type(error).__name__} {where}")
    print(f"{name}: {type(error).__name__} at {where}: {str(error)[:200]}\n  input: {data[:300]!r}", flush=True)
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}").write_bytes(data)


@cache
def workspace() -> Path:
    """A folder for the files of loaders, in memory where there is room for it."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="karelsynth-fuzz-", dir=shared if shared.is_dir() else None))


def guided(name: str, seconds: float, seed: int) -> None:
    """Let atheris choose inputs by the code that they reach. It ends the process."""
    import atheris

    package = Path(karelsynth.__file__).parent
    modules = [".".join(path.relative_to(package).with_suffix("").parts) for path in package.rglob("*.py")]
    left_out = [f"karelsynth.{module}" for module in modules if not module.startswith(INSTRUMENTED)]
    with atheris.instrument_imports(include=["karelsynth"], exclude=left_out):
        target = targets(workspace())[name]

    def run(data: bytes) -> None:
        with suppress(KarelsynthError):
            target.run(data)

    corpus = workspace() / "corpus"
    corpus.mkdir()
    for number, content in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(content)
    options = [f"-max_total_time={int(seconds)}", f"-seed={seed + 1}", "-rss_limit_mb=4096", "-max_len=20000"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], run)
    atheris.Fuzz()


def main() -> int:
    """Attack the chosen targets and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="processor time in all, divided among the targets")
    parser.add_argument("--inputs", type=int, help="inputs for each target")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same inputs")
    parser.add_argument("--only", action="append", metavar="TARGET", help="attack only this target; may be repeated")
    parser.add_argument("--save", type=Path, default=Path("build/fuzz"), help="the folder for findings")
    parser.add_argument("--guided", metavar="TARGET", help="attack one target, guided by coverage (atheris)")
    parser.add_argument("--list", action="store_true", help="list the targets")
    options = parser.parse_args()
    if options.guided:
        guided(options.guided, options.seconds or 60, options.seed)
        return 0
    try:
        known = targets(workspace())
        if options.list:
            print("\n".join(known))
            return 0
        if unknown := set(options.only or ()) - known.keys():
            parser.error(f"no target {min(unknown)}; there are {', '.join(known)}")
        chosen = {name: known[name] for name in options.only or known}
        share = None if options.seconds is None else options.seconds / len(chosen)
        inputs = 2000 if options.inputs is None and share is None else options.inputs
        failures = total = 0
        print(f"{'target':20} {'inputs':>10} {'refused':>10} {'slowest, s':>11} {'failures':>9}")
        for name, target in chosen.items():
            outcome = attack(name, target, seed=options.seed, inputs=inputs, seconds=share, save=options.save)
            counts = f"{outcome.inputs:>10,} {outcome.refused:>10,} {outcome.slowest:>11.2f} {outcome.failures:>9,}"
            print(f"{name:20} {counts}", flush=True)
            total, failures = total + outcome.inputs, failures + outcome.failures
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{total:,} inputs, {failures:,} failures; at most {memory:,.0f} MB of memory")
    finally:
        shutil.rmtree(workspace(), ignore_errors=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
