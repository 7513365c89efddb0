"""The hint for a student who has written nothing yet: how a right program begins.

    if opened(text) is not None:  # there is no statement yet
        hint = first_hint(task, text, solve=right_programs(solver))
        hint.text  # the text with a first statement

The statement has no more inside than one action: the rest is found with further hints.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from karelsynth.errors import KarelsynthError
from karelsynth.karel.dialects import parse
from karelsynth.karel.dialects.source import SourceStatement, source_statement
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.program import Statement
from karelsynth.tasks.task import Example, Task
from karelsynth.tutor.blocks import HOLE, BlockFunction, BlockNode, detail_text, read_blocks, started, write_blocks
from karelsynth.tutor.explain import TUTOR_TICKS
from karelsynth.tutor.hint import HINT_SECONDS, SEARCH_SHARE, Hint, Solve, right_examples
from karelsynth.tutor.rewrite import changed_lines, fragment
from karelsynth.tutor.wording import HintStep, condition_words

_HEAD: Final = re.compile(r"^([ \t]*)def[ \t]+(run|main)[ \t]*\([ \t]*\)[ \t]*:?[ \t]*$", re.MULTILINE)
_WHERE: Final = "Nothing is written yet. Look at example 1: what does Karel have to do first?"


def opened(text: str, dialect: str | None = None) -> str | None:
    """The text with an empty main function, if nothing is written yet but comments and the head of that function.

    None if more is written, or if the text is a row of tokens. `dialect` is that of a text without a head, `paper` if
    it is not given.
    """
    lines = (line.strip() for line in text.splitlines())
    code = [line for line in lines if line and not line.startswith("#")]
    if not code:
        text = "\n".join([*text.strip().splitlines(), started("", dialect)])
    elif _HEAD.fullmatch(code[-1]) and HOLE not in text:
        text = _HEAD.sub(_with_hole, text)
    try:
        blocks = read_blocks(text)
    except KarelsynthError:
        return None
    others = tuple(each for each in blocks.functions if each.name != blocks.main)
    (main,) = (each for each in blocks.functions if each.name == blocks.main)
    return None if main.body or not replace(blocks, functions=others).complete else text


def _with_hole(head: re.Match[str]) -> str:
    indent = head[1] + " " * (4 if head[2] == "main" else 2)
    return f"{head[0].rstrip().removesuffix(':')}:\n{indent}{HOLE}"


def first_hint(
    task: Task,
    text: str,
    *,
    dialect: str | None = None,
    hidden: Sequence[Example] = (),
    solve: Solve,
    seconds: float = HINT_SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Hint:
    """The first statement of a right program, for a text that `opened` takes."""
    start = clock()
    inputs, outputs = (worlds_to_codes(side) for side in zip(*task.examples, *hidden, strict=True))
    answers = list(solve(task, SEARCH_SHARE * seconds))
    program = next((each for each in answers if right_examples([each], inputs, outputs, TUTOR_TICKS).all()), None)
    if program is None:
        return Hint("none", seconds=clock() - start, tried=len(answers))
    empty = opened(text, dialect)
    assert empty is not None
    first, blocks = _first(program.body[0]), read_blocks(empty)
    inside = tuple((BlockNode(block[0].keyword),) for block in first.blocks)
    node = BlockNode(first.keyword, detail_text(first.detail), inside)
    written = write_blocks(empty, [BlockFunction(blocks.main, (node,))])
    step = HintStep(1, _WHERE, _kind(first), f"Begin with `{fragment(first, blocks.dialect)}`.")
    return Hint(
        "begin",
        steps=(step,),
        text=written,
        change=tuple(changed_lines(text, written)),
        program=parse(written, blocks.dialect),
        edits=1,
        seconds=clock() - start,
        tried=len(answers),
    )


def _first(statement: Statement) -> SourceStatement:
    """A statement with no more inside than its first action."""
    written = source_statement(statement)
    if not written.blocks:
        return written
    action = next(inner for inner in written.walk() if not inner.blocks)
    return replace(written, keyword=written.keyword.removesuffix("ELSE"), blocks=((action,),))


def _kind(first: SourceStatement) -> str:
    match first.keyword:
        case "WHILE":
            return f"A right program begins with a loop: it goes on while {condition_words(first.detail)}."
        case "REPEAT":
            return "A right program begins with a loop that runs a fixed number of times."
        case "IF":
            return f"A right program begins with a test: whether {condition_words(first.detail)}."
    actions = {"move": "a step", "pickMarker": "picking a marker up", "putMarker": "putting a marker down"}
    return f"A right program begins with {actions.get(first.keyword, 'a turn')}."
