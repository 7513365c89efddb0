"""The guard around each parser: extreme input is an error of ours, and no other code parses."""

from __future__ import annotations

import ast
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import karelsynth
from karelsynth.errors import KarelsynthError
from karelsynth.model.storage import read_recipe
from karelsynth.parsing import ParseError, parse_json, parse_toml, reading
from karelsynth.tasks.manifest import read_manifest
from karelsynth.tasks.task_files import tasks_from_text
from karelsynth.train.recipe import RecipeError, load_recipe, recipe_from

DEEP = "[" * 1000 + "]" * 1000
LONG = "1" * 4301
HUGE = "1" + "0" * 309


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2", "line 1, column 3: not valid JSON: Extra data"),
        ("[" * 100_000, "nested too deep"),
        (LONG, "a number in it is too long"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"\\udfff": 1}', "half of a surrogate pair"),
        ("\ud800", "half of a surrogate pair"),
        (b'"\xed\xa0\x80"', r"not UTF-8 text \(byte 1\)"),
        ("{}".encode("utf-16"), r"not UTF-8 text \(byte 0\)"),
        ("{,}", "line 1, column 2: not valid JSON: Expecting"),
    ],
)
def test_what_is_no_json(text: str | bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_json(text)


def test_json_is_json() -> None:
    value = {"a": [1, 2.5, None, True], "😀": "\\ud83d"}
    assert parse_json(json.dumps(value)) == value  # a pair of surrogates is a character, and a backslash is one
    assert parse_json(b"\xef\xbb\xbf" + json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a = {DEEP}", "nested too deep"),
        (f"a = {LONG}", "a number in it is too long"),
        ("a." * 300 + "a = 1", "line 1, column 1: .*more than 200 dots in one line"),
        ("a = '\ud800'", "half of a surrogate pair"),
        ("a = ", "not valid TOML: Invalid value"),
    ],
)
def test_what_is_no_toml(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_toml(text)


def test_parse_errors_travel_between_processes() -> None:
    with pytest.raises(ParseError) as caught:
        parse_json("[1,")
    other = pickle.loads(pickle.dumps(caught.value))
    assert (str(other), other.line, other.column) == (str(caught.value), 1, 4)


def test_bugs_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), reading(KarelsynthError, "here"):
        raise ZeroDivisionError
    with pytest.raises(KarelsynthError, match=r"^here: a number in it is too large$"), reading(KarelsynthError, "here"):
        float(10**400)


@pytest.mark.parametrize("value", [DEEP, LONG, HUGE, "{" + "a = {" * 900 + "}" * 901])
def test_recipes_with_extreme_values_are_refused(value: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    for key in ("optimizer.learning_rate", "run.steps", "name", "objective", "objective.options", "plugins", "other"):
        path.write_text(f"{key} = {value}\n")
        with pytest.raises(RecipeError, match=r"recipe\.toml: "):
            load_recipe(path)
        if key != "name":  # any text is a name
            with pytest.raises(RecipeError) as caught:
                load_recipe("mle", [f"{key}={value}"])
            assert len(str(caught.value)) < 1000


def test_saved_recipes_with_extreme_values_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="too large"):
        recipe_from({"name": "a", "optimizer": {"learning_rate": int(HUGE)}})
    for text in (DEEP * 50, LONG, '"\\ud800"'):
        (tmp_path / "recipe.json").write_text(text)
        with pytest.raises(KarelsynthError, match=r"recipe\.json: .*not valid JSON"):
            read_recipe(tmp_path)
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(KarelsynthError, match=r"manifest\.json: .*not valid JSON"):
            read_manifest(tmp_path)


def test_half_a_character_in_a_task() -> None:
    texts = '{"examples": []}\ud800', '{"examples": []}\n\ud800', "input:\n\ud800", '{"name": "\ud800"}', "\ud800:"
    for text in texts:
        with pytest.raises(KarelsynthError):
            tasks_from_text(text, "here")


MEMORY = """
import resource, sys
from karelsynth.errors import KarelsynthError
{imports}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    {call}
except KarelsynthError as error:
    print(error, file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted as on Linux")
@pytest.mark.parametrize(
    ("imports", "call", "content", "most"),
    [
        ("from karelsynth.train.recipe import load_recipe", "load_recipe(sys.argv[1])", b"a." * 50_000 + b"a = 1", 100),
        ("from karelsynth.train.recipe import load_recipe", "load_recipe(sys.argv[1])", b"a." * 32_000 + b"a = 1", 100),
        ("from karelsynth.tasks.task_files import read_tasks", "read_tasks(sys.argv[1])", b"[" + b"[]," * 2**25, 700),
    ],
)
def test_memory_is_bounded(imports: str, call: str, content: bytes, most: int, tmp_path: Path) -> None:
    path = tmp_path / "input.json"
    path.write_bytes(content)
    code = MEMORY.format(imports=imports, call=call)
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert str(path) in ended.stderr
    assert int(ended.stdout) < most, "megabytes"


def test_nothing_parses_without_the_guard() -> None:
    """The package's own files may be parsed as they are."""
    package = Path(karelsynth.__file__).parent
    own = {"parsing.py", "tasks/named.py", "tasks/statistics.py", "generator/sampler.py"}
    copies = {"train/loop.py"}  # of what it has just written
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("json.loads", "json.load", "tomllib.loads"):
                assert name in own | copies, f"{name}, line {node.lineno}: use karelsynth.parsing"
