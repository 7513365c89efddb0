r"""Tasks as prompts for language models, and programs out of their answers.

    text = prompt_of(task)                        # the rules, the examples as drawings, the form of the answer
    programs_from_answer(reply)                   # ["def run():\n  move()"]

A prompt has five parts, always the same but for the examples: what Karel is, how a world is drawn, the language, the
examples, and how to answer. The answer has the line `ANSWER`; below it each program is a fenced block of code, best
first. Text above that line, such as drafts, does not count.

`programs_from_answer` reads more than that, because models seldom keep to the form. Without `ANSWER`, all blocks of
code that hold a program count, in their order. Without blocks of code, programs in the plain text count. Texts are
returned as they stand: whether one parses is found out when it is scored, and one that does not is wrong at its rank.
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Final

from karelsynth.errors import KarelsynthError, checked_int, listed, quoted
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.world import MOST_MARKERS
from karelsynth.tasks.batch import GIVEN_EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karelsynth.karel.program import Program
    from karelsynth.tasks.batch import TaskBatch
    from karelsynth.tasks.task import Task

MARK: Final = "ANSWER"
"""The line above the programs."""
MOST_PROGRAMS: Final = 100
"""The most programs that a prompt asks for."""

_INTRODUCTION: Final = f"""\
Karel is a robot in a grid world. Find a program that turns the first world of every example into its second world. \
The program must also be right on further examples of the same kind, which you do not see.

## Worlds

A world is drawn as rows of cells, separated by spaces. North is up.

.        an empty cell
#        a wall
1 to {MOST_MARKERS}  so many markers
^ > v <  Karel, facing north, east, south or west
>3       Karel facing east on a cell with 3 markers

Karel always has markers to put. Cells beyond the drawing are walls."""

_LANGUAGES: Final = {
    "paper": """\
A program is `def run():` and an indented block of statements, one on each line.

Actions: `move()`, `turnLeft()`, `turnRight()`, `pickMarker()`, `putMarker()`.
Loops: `repeat(N):` with N from 0 to 19, `while(CONDITION):`, each followed by an indented block.
Choices: `if(CONDITION):` followed by an indented block; `ifelse(CONDITION):` followed by a block, then `else:` and \
a block.
Conditions: `frontIsClear`, `leftIsClear`, `rightIsClear`, `markersPresent`, `noMarkersPresent`, `not CONDITION`.""",
    "stanford": """\
A program is Python: `def main():` and an indented block of statements, one on each line.

Actions: `move()`, `turn_left()`, `turn_right()`, `pick_beeper()`, `put_beeper()`. Markers are called beepers.
Loops: `for _ in range(N):` with N from 0 to 19, `while CONDITION:`, each followed by an indented block.
Choices: `if CONDITION:` followed by an indented block, and optionally `else:` and a block.
Conditions: `front_is_clear()`, `left_is_clear()`, `right_is_clear()`, `beepers_present()`; opposites: \
`front_is_blocked()`, `left_is_blocked()`, `right_is_blocked()`, `no_beepers_present()`.
Functions of your own without arguments are allowed, with `def`.""",
    "tokens": """\
A program is a line of tokens, separated by spaces: `DEF run m( STATEMENTS m)`.

Actions: `move`, `turnLeft`, `turnRight`, `pickMarker`, `putMarker`.
Loops: `REPEAT R=N r( STATEMENTS r)` with N from 0 to 19, `WHILE c( CONDITION c) w( STATEMENTS w)`.
Choices: `IF c( CONDITION c) i( STATEMENTS i)`, `IFELSE c( CONDITION c) i( STATEMENTS i) ELSE e( STATEMENTS e)`.
Conditions: `frontIsClear`, `leftIsClear`, `rightIsClear`, `markersPresent`, `noMarkersPresent`, \
`not c( CONDITION c)`.""",
}
_RULES: Final = """\
There are no variables, no other statements, and no empty blocks. A run fails if Karel moves into a wall, picks where \
there is no marker, or takes more than {max_ticks} steps (an action, a test of a condition and the start of a \
repetition are one step each)."""

_THINKING: Final = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT: Final = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
"""The end of thoughts whose beginning is not part of the reply: some endpoints put it into the prompt."""
_MARK_LINE: Final = re.compile(rf"^[#*_> \t]*(?:final )?{MARK}[*_: \t]*$", re.IGNORECASE | re.MULTILINE)
_FENCE: Final = re.compile(r"^(?P<indent>[ \t>]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_HEAD: Final = re.compile(r"^[ \t]*(?:def[ \t]+(?:run|main)\b|from[ \t]+(?:karel\.)?stanfordkarel\b)", re.MULTILINE)
_TOKENS: Final = re.compile(r"DEF\s+run\s+m\((?:(?!DEF).)*?\sm\)", re.DOTALL)  # up to the next: in linear time


def prompt_of(task: Task, *, programs: int = 1, dialect: str = "paper", max_ticks: int = PAPER_TICKS) -> str:
    """A prompt that asks for up to `programs` programs in a dialect, whose runs may take `max_ticks` steps."""
    programs = checked_int("the number of programs", programs, 1, MOST_PROGRAMS)
    if dialect not in _LANGUAGES:
        raise KarelsynthError(f"there is no dialect {quoted(dialect)}; there are {listed(_LANGUAGES, 'and')}")
    examples = [
        f"Example {number}, before:\n{example.input.to_text()}\n\nafter:\n{example.output.to_text()}"
        for number, example in enumerate(task.examples, 1)
    ]
    if programs == 1:
        how = "Below it, write the program as one fenced block of code and nothing else."
    else:
        how = (
            f"Below it, write up to {programs} different programs, the one that you trust most first, each in a fenced "
            "block of code of its own, and nothing else."
        )
    return "\n\n".join(
        [
            _INTRODUCTION,
            "## The language",
            _LANGUAGES[dialect],
            _RULES.format(max_ticks=max_ticks),
            "## Examples",
            *examples,
            "## Your answer",
            f"You may think first. Then write the line `{MARK}`. {how}",
        ]
    )


def answer_of(programs: Sequence[Program], dialect: str = "paper") -> str:
    """An answer in the form that a prompt asks for: what `programs_from_answer` reads."""
    blocks = [f"```\n{program.to(dialect).rstrip()}\n```" for program in programs]
    return "\n\n".join([MARK, *blocks]) + "\n"


def prompt_lines(
    tasks: TaskBatch,
    *,
    given: int = GIVEN_EXAMPLES,
    programs: int = 1,
    dialect: str = "paper",
    max_ticks: int = PAPER_TICKS,
) -> Iterator[str]:
    """The tasks as JSON lines: `number` (from 1), `id` and `messages`, as chat endpoints take them."""
    examples = tasks.examples(given)
    for number, task in enumerate(examples):
        text = prompt_of(task, programs=programs, dialect=dialect, max_ticks=max_ticks)
        messages = [{"role": "user", "content": text}]
        yield json.dumps({"number": number + 1, "id": examples.id(number), "messages": messages}, ensure_ascii=False)


def programs_from_answer(text: str) -> list[str]:
    """The texts of the programs in an answer, best first; see the module's docstring."""
    text = _THINKING.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _THOUGHT.split(text)[-1]
    marks = list(_MARK_LINE.finditer(text))
    if marks and (found := _programs(text[marks[-1].end() :])):
        return found
    return _programs(text)


def _programs(text: str) -> list[str]:
    blocks = [program for block in _blocks(text) for program in _split(block)]
    return blocks or _unfenced(text)


def _blocks(text: str) -> Iterator[str]:
    """The contents of fenced blocks; one that is not closed, as in an answer that was cut off, ends with the text."""
    inside: list[str] | None = None
    fence = indent = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if inside is not None and match and match["fence"].startswith(fence):
            yield "\n".join(inside)
            inside = None
            if not match["info"].strip():
                continue  # otherwise it opens the next block, and nothing has closed this one
        if inside is None:
            if match:
                inside, fence, indent = [], match["fence"], match["indent"]
        else:
            inside.append(line.removeprefix(indent))
    if inside is not None:
        yield "\n".join(inside)


def _split(block: str) -> list[str]:
    """The programs of a block of code; none if it holds something else, such as a drawing."""
    if tokens := _TOKENS.findall(block):
        return [" ".join(program.split()) for program in tokens]
    if not _HEAD.search(block):
        return []
    block = textwrap.dedent(block.expandtabs(4)).strip("\n")
    starts = [match.start() for match in re.finditer(r"^def[ \t]+run\b", block, re.MULTILINE)]
    if len(starts) < 2:  # a file of classroom Python has several functions
        return [block]
    return [block[start:end].rstrip() for start, end in zip(starts, [*starts[1:], None], strict=True)]


def _unfenced(text: str) -> list[str]:
    """Programs in plain text: a head and the lines below it that are indented deeper."""
    if tokens := _TOKENS.findall(text):
        return [" ".join(program.split()) for program in tokens]
    lines, found, at = text.expandtabs(4).split("\n"), list[str](), 0
    while at < len(lines):
        if not re.match(r" *def +(run|main)\b", lines[at]):
            at += 1
            continue
        level, end = _indentation(lines[at]), at + 1
        while end < len(lines) and (not lines[end].strip() or _indentation(lines[end]) > level):
            end += 1
        found.append(textwrap.dedent("\n".join(lines[at:end])).strip())
        at = end
    return found


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
