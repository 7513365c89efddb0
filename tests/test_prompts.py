"""Prompts say all that is needed, and programs come out of any answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError
from karelsynth.karel.dialects import DIALECTS
from karelsynth.karel.dialects.paper import SPELLING as PAPER
from karelsynth.karel.dialects.stanford import SPELLING as STANFORD
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import TOKENS
from karelsynth.karel.world import World
from karelsynth.tasks.named import named_tasks
from karelsynth.tasks.prompts import MARK, answer_of, programs_from_answer, prompt_of
from karelsynth.tasks.sets import scoring_of
from tests.command_line import call
from tests.strategies import programs

MOVE = "def run():\n  move()"
STANFORD_FILE = """from stanfordkarel import *


def turn_around():
    turn_left()
    turn_left()


def main():
    turn_around()
    move()


if __name__ == "__main__":
    run_karel_program()"""


@given(st.lists(programs(), min_size=1, max_size=3), st.sampled_from(DIALECTS))
@settings(max_examples=40)
def test_an_answer_gives_back_its_programs(written: list[Program], dialect: str) -> None:
    assert [Program.parse(text) for text in programs_from_answer(answer_of(written, dialect))] == written


WORDS = st.text(st.characters(blacklist_characters="`~<>", blacklist_categories=("Cs", "Cc")), max_size=30).filter(
    lambda text: not re.search(rf"def|DEF|import|{MARK}", text, re.IGNORECASE)
)


@given(
    st.lists(programs(depth=2), min_size=1, max_size=3),
    st.sampled_from(DIALECTS),
    st.lists(WORDS, min_size=4, max_size=4),
    st.sampled_from(["```", "```python", "~~~", "````karel"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
@settings(max_examples=60)
def test_prose_around_blocks_of_code_does_not_matter(
    written: list[Program], dialect: str, prose: list[str], fence: str, newline: str, marked: bool
) -> None:
    """Nor does the kind of fence, the end of lines, and drafts above the mark."""
    close = re.sub(r"\w+", "", fence)
    blocks = [f"{prose[n]}\n{fence}\n{program.to(dialect)}\n{close}\n" for n, program in enumerate(written)]
    text = "\n".join([*blocks, prose[3]])
    if marked:
        text = f"{prose[3]}\n```\n{MOVE}\n```\n**{MARK}:**\n{text}"
    found = programs_from_answer(text.replace("\n", newline))
    assert [Program.parse(program) for program in found] == written


@given(st.text(max_size=200))
def test_any_text_is_an_answer(text: str) -> None:
    assert all(isinstance(program, str) for program in programs_from_answer(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("I do not know.", []),
        ("```\n. . >\n. # .\n```", []),  # a drawing
        (f"```\n{MOVE}\n```", [MOVE]),
        (f"```\n{MOVE}\n", [MOVE]),  # cut off
        ("Sure!\n\n  ```python\n  def run():\n    move()\n  ```\nIt moves.", [MOVE]),
        (f"```\nfirst try\n```\n```\n{MOVE}\n```", [MOVE]),
        (f"```python\n{MOVE}\n```python\ndef run():\n  turnLeft()\n```", [MOVE, "def run():\n  turnLeft()"]),
        (f"```\n{MOVE}\n\ndef run():\n  turnLeft()\n```", [MOVE, "def run():\n  turnLeft()"]),
        (f"<think>```\ndef run():\n  turnLeft()\n```</think>```\n{MOVE}\n```", [MOVE]),
        (f"<think>```\n{MOVE}\n```", []),  # it never got to its answer
        (f"Hm: ```\ndef run():\n  turnLeft()\n```</think>\n```\n{MOVE}\n```", [MOVE]),  # `<think>` was in the prompt
        (f"Draft:\n```\ndef run():\n  turnLeft()\n```\n## Answer\n```\n{MOVE}\n```", [MOVE]),
        (f"```\n{MOVE}\n```\nANSWER", [MOVE]),  # nothing below the mark
        (f"{MARK}\n{MOVE}\n", [MOVE]),
        (f"It is\n{MOVE}\n\nwhich moves.", [MOVE]),
        ("So: `DEF run m( move m)` or DEF run m( turnLeft m).", ["DEF run m( move m)", "DEF run m( turnLeft m)"]),
        ("DEF run m(\n move\n m)", ["DEF run m( move m)"]),
        ("DEF run m( move DEF run m( turnLeft m)", ["DEF run m( turnLeft m)"]),
        (f"```python\n{STANFORD_FILE}\n```", [STANFORD_FILE]),
        ("```\ndef run():\n\tmove()\n```", ["def run():\n    move()"]),
        ("```\ndef run(:\n```", ["def run(:"]),  # wrong, at its rank
        ("> ```\n> def run():\n>   move()\n> ```", [MOVE]),  # a quotation
    ],
)
def test_answers_as_they_come(text: str, expected: list[str]) -> None:
    assert programs_from_answer(text) == expected


def test_hostile_answers_take_no_time() -> None:
    """Quadratic time would be minutes."""
    for text in ("DEF run m( " * 20_000, "<think>" * 30_000, " " * 200_000, "```\n" * 50_000, "def run():\n" * 20_000):
        programs_from_answer(text)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_prompt_says_all(dialect: str) -> None:
    tasks = named_tasks("test", 3)
    for number in range(3):
        task = tasks.task(number)
        text = prompt_of(task, dialect=dialect)
        words = {
            "paper": {*PAPER.actions, *PAPER.conditions},
            "stanford": {*STANFORD.actions, *STANFORD.conditions},
            "tokens": {token for token in TOKENS[1:51] if not token.startswith("R=")} - {"<s>", "<pad>"},
        }[dialect]
        assert [word for word in words if word not in text] == []
        assert MARK in text
        # The examples can be read back from the prompt.
        drawn = re.findall(r"(?:before|after):\n((?:[.#\d^>v< ]+\n)+)", text + "\n")
        worlds = [World.parse(drawing) for drawing in drawn]
        assert worlds == [world for example in task.examples for world in example]


def test_a_prompt_asks_for_as_many_as_wanted() -> None:
    task = named_tasks("test", 1).task(0)
    assert "one fenced block" in prompt_of(task)
    assert "up to 5 different programs" in prompt_of(task, programs=5)
    with pytest.raises(KarelsynthError, match="number of programs is a whole number from 1 to 100, not 0"):
        prompt_of(task, programs=0)
    with pytest.raises(KarelsynthError, match="no dialect `java`; there are"):
        prompt_of(task, dialect="java")


def test_prompts_and_canned_answers_are_scored(tmp_path: Path) -> None:
    """From the prompts' file to the score, with the ids compared on the way."""
    out = tmp_path / "prompts.jsonl"
    assert "4 prompts" in call("prompt", "examples_2", "--limit", 4, "--out", out, "--to", "stanford").stderr
    prompts = [json.loads(line) for line in out.read_text().splitlines()]
    assert [prompt["number"] for prompt in prompts] == [1, 2, 3, 4]
    content = prompts[0]["messages"][0]["content"]
    assert "Example 2" in content
    assert "Example 3" not in content
    made = named_tasks("examples_2", 4)
    answers = tmp_path / "answers.jsonl"
    lines = [
        {"number": prompt["number"], "id": prompt["id"], "answer": f"Hm.\n{answer_of([made.program(n)], 'stanford')}"}
        for n, prompt in enumerate(prompts)
    ]
    answers.write_text("\n".join(map(json.dumps, lines)))
    assert "top-1 generalization 100.00 %" in call("score", answers, "examples_2", "--limit", 4).stdout
    with pytest.raises(KarelsynthError, match="these are not the same tasks: task 1 has the id"):
        call("score", answers, "test", "--limit", 4)  # which shows five examples


def test_a_prompt_allows_the_steps_that_its_set_is_scored_with(tmp_path: Path) -> None:
    for name in ("test", "classroom"):
        call("prompt", name, "--limit", 1, "--out", tmp_path / name)
        text = json.loads((tmp_path / name).read_text())["messages"][0]["content"]
        assert f"takes more than {scoring_of(name).max_ticks} steps" in text


def test_a_prompt_never_shows_the_example_that_is_held_out(tmp_path: Path) -> None:
    with pytest.raises(KarelsynthError, match="at most 5 can be given"):
        call("prompt", "test", "--limit", 1, "--given", 6, "--out", tmp_path / "prompts.jsonl")
    assert not (tmp_path / "prompts.jsonl").exists()
