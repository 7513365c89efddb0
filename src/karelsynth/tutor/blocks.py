"""A program as blocks: the tree behind a text, and the text after somebody has moved blocks.

    blocks = read_blocks(text)
    blocks.functions[0].body  # BlockNodes, each with the number of its statement
    write_blocks(text, blocks.functions)  # the same text: nothing has moved

Lines whose statements stay keep their words, comments and blank lines. A block with nothing in it is no program, but
somebody who builds one needs it: it is written as a comment, HOLE, and read back as an empty block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from karelsynth.errors import KarelsynthError
from karelsynth.karel.dialects import read_source, recognise, render
from karelsynth.karel.dialects.source import CALL, SourceBlock, SourceFunction, SourceProgram, SourceStatement
from karelsynth.karel.program import Action, Condition, Not, Program, Sensor
from karelsynth.karel.tokens import LARGEST_COUNT
from karelsynth.tutor.rewrite import rewritten

HOLE: Final = "# nothing here yet"
"""The line of an empty block."""
MOST_BLOCKS: Final = 2_000
DEEPEST_BLOCKS: Final = 60
HOLE_CALL: Final = "nothing_here_yet"
"""The name of a helper that stands for a hole while the text is read and written."""
_HOLE_LINE: Final = re.compile(rf"^([ \t]*){re.escape(HOLE)}[ \t]*$", re.MULTILINE)
_CALL_LINE: Final = re.compile(rf"\b{HOLE_CALL}\(\)")
_CODE_LINE: Final = re.compile(r"^([ \t]*)[^\s#]", re.MULTILINE)
_HELPER: Final = f"\n\n\ndef {HOLE_CALL}():\n    move()\n"
_NOT: Final = "not "
_BLOCKS: Final = {"WHILE": 1, "IF": 1, "IFELSE": 2, "REPEAT": 1}
"""How many blocks a statement has inside; actions and calls have none."""


@dataclass(frozen=True)
class BlockNode:
    """A statement as a block."""

    keyword: str
    """The token of an action, WHILE, IF, IFELSE, REPEAT, or `call`."""
    detail: str | int | None = None
    """A condition such as `not frontIsClear`, a count, or a helper's name; None for an action."""
    blocks: tuple[tuple[BlockNode, ...], ...] = ()
    number: int | None = None
    """Which statement of the text this is; None for a new one."""
    line: int | None = None
    """The statement's place in the text, from 1."""
    column: int | None = None


@dataclass(frozen=True)
class BlockFunction:
    """A function as blocks."""

    name: str
    body: tuple[BlockNode, ...]


@dataclass(frozen=True)
class BlockProgram:
    """The blocks of a text."""

    program: str
    """The text."""
    dialect: str
    main: str
    functions: tuple[BlockFunction, ...]
    """In the order of the text."""

    @property
    def complete(self) -> bool:
        """Whether no block is empty: the text is a program."""
        return all(function.body and not _has_hole(function.body) for function in self.functions)


def _has_hole(body: Sequence[BlockNode]) -> bool:
    return any(not block or _has_hole(block) for node in body for block in node.blocks)


def read_blocks(text: str, dialect: str | None = None) -> BlockProgram:
    """The blocks of a text; an empty text is an empty main function. Raises ProgramSyntaxError.

    Args:
        dialect: that of an empty text, `paper` if it is not given.
    """
    if not text.strip():
        dialect = dialect or "paper"
        main = "main" if dialect == "stanford" else "run"
        return BlockProgram(text, dialect, main, (BlockFunction(main, ()),))
    source = read_with_holes(text)
    numbers = {id(statement): number for number, (_, statement) in enumerate(_numbered(source))}
    functions = tuple(
        BlockFunction(function.name, _nodes(function.body, numbers)) for function in _shown_functions(source)
    )
    return BlockProgram(text, source.dialect, source.main, functions)


def write_blocks(text: str, functions: Sequence[BlockFunction], dialect: str | None = None) -> str:
    """The text after its blocks have become `functions`; a function that is not among them stays as it is.

    Args:
        dialect: that of an empty text, `paper` if it is not given.
    """
    text = started(text, dialect)
    source = read_with_holes(text)
    changed = _Builder(source).changed(functions)
    if not changed:
        return text
    merged = {
        name: replace(function, body=changed.get(name, function.body)) for name, function in source.functions.items()
    }
    program = replace(source, functions=merged).program
    written = rewritten(source, changed, program)
    if HOLE_CALL not in written:
        return written
    return _CALL_LINE.sub(HOLE, written.replace(_helper(text), ""))


def started(text: str, dialect: str | None = None) -> str:
    """The text, or if it is empty, that of an empty main function."""
    return text if text.strip() else render(Program((Action.MOVE,)), dialect or "paper").replace("move()", HOLE)


def read_with_holes(text: str) -> SourceProgram:
    """The text with its holes filled by calls of a helper."""
    if recognise(text) == "tokens":
        return read_source(text)
    if HOLE_CALL in text:
        raise KarelsynthError(f"`{HOLE_CALL}` is the name of empty blocks: choose another one")
    if not _HOLE_LINE.search(text):
        read_source(text)  # a mistake is reported in the text as it is
    return read_source(_HOLE_LINE.sub(rf"\1{HOLE_CALL}()", text) + _helper(text))


def _helper(text: str) -> str:
    """The lines of the helper that are put after a text, indented like the text, which may be indented as a whole."""
    margin = next((found[1] for found in _CODE_LINE.finditer(text)), "")
    return _HELPER.replace("\n", f"\n{margin}").rstrip() + "\n"


def _shown_functions(source: SourceProgram) -> Iterator[SourceFunction]:
    """The functions that are shown as blocks, in the order of the text."""
    for name, function in source.functions.items():
        if name != HOLE_CALL and name not in source.built_in:
            yield function


def _numbered(source: SourceProgram) -> list[tuple[str, SourceStatement]]:
    """The statements that are shown, each with its function's name; the number of one is its place here."""
    return [
        (function.name, statement)
        for function in _shown_functions(source)
        for written in function.body
        for statement in written.walk()
    ]


def _is_hole(statement: SourceStatement) -> bool:
    return statement.keyword == CALL and statement.detail == HOLE_CALL


def _nodes(block: SourceBlock, numbers: dict[int, int]) -> tuple[BlockNode, ...]:
    found = []
    for statement in block:
        if not _is_hole(statement):
            assert statement.place is not None
            inner = tuple(_nodes(each, numbers) for each in statement.blocks)
            detail, span = detail_text(statement.detail), statement.place.span
            found.append(BlockNode(statement.keyword, detail, inner, numbers[id(statement)], span.line, span.column))
    return tuple(found)


def detail_text(detail: Condition | int | str | None) -> str | int | None:
    if isinstance(detail, Not):
        return f"{_NOT}{detail_text(detail.condition)}"
    return detail.value if isinstance(detail, Sensor) else detail


class _Builder:
    """Statements for blocks. Those that have not changed are the text's own."""

    def __init__(self, source: SourceProgram) -> None:
        self.source = source
        self.written = _numbered(source)
        self.used: set[int] = set()
        self.count = 0

    def changed(self, functions: Sequence[BlockFunction]) -> dict[str, SourceBlock]:
        """The functions that differ from the text, by name."""
        shown = {function.name: function for function in _shown_functions(self.source)}
        found: dict[str, SourceBlock] = {}
        for function in functions:
            if function.name not in shown:
                raise KarelsynthError(f"the text has no function `{function.name}`: these blocks are of another text")
            old = shown[function.name].body
            new = self.block(function.name, function.body, 0)
            if not _same(new, old):
                found[function.name] = new
        return found

    def block(self, function: str, body: Sequence[BlockNode], depth: int) -> SourceBlock:
        if depth > DEEPEST_BLOCKS:
            raise KarelsynthError(f"blocks are nested too deeply: at most {DEEPEST_BLOCKS} levels are allowed")
        if not body:
            return (self.hole(),)
        return tuple(self.statement(function, node, depth) for node in body)

    def hole(self) -> SourceStatement:
        if self.source.dialect == "tokens":  # they have no comments
            return SourceStatement(Action.MOVE.value)
        return SourceStatement(CALL, HOLE_CALL)

    def statement(self, function: str, node: BlockNode, depth: int) -> SourceStatement:
        self.count += 1
        if self.count > MOST_BLOCKS:
            raise KarelsynthError(f"there are too many blocks: at most {MOST_BLOCKS:,} are allowed")
        original = self.original(function, node.number)
        blocks = tuple(self.block(function, inner, depth + 1) for inner in node.blocks)
        detail = self.detail(node)
        if original is None:
            return SourceStatement(node.keyword, detail, blocks)
        same_head = (original.keyword, original.detail) == (node.keyword, detail)
        if same_head and all(_same(new, old) for new, old in zip(blocks, original.blocks, strict=True)):
            return original
        return SourceStatement(node.keyword, detail, blocks, original.place)

    def original(self, function: str, number: int | None) -> SourceStatement | None:
        """The statement with this number. None if it is another function's, or was met before: a copy is new."""
        if number is None or number in self.used or not 0 <= number < len(self.written):
            return None
        home, statement = self.written[number]
        if home != function:
            return None
        self.used.add(number)
        return statement

    def detail(self, node: BlockNode) -> Condition | int | str | None:
        keyword, detail = node.keyword, node.detail
        expected = _BLOCKS.get(keyword, 0)
        if len(node.blocks) != expected:
            raise KarelsynthError(f"a block `{keyword}` has {expected} blocks inside, not {len(node.blocks)}")
        if keyword == CALL:
            if not isinstance(detail, str) or detail not in self.source.helpers:
                raise KarelsynthError(f"the text has no function `{detail}` to call")
            return detail
        if keyword == "REPEAT":
            if not isinstance(detail, int) or not 0 <= detail <= LARGEST_COUNT:
                raise KarelsynthError(f"a count is a whole number from 0 to {LARGEST_COUNT}, not {detail!r}")
            return detail
        if keyword in _BLOCKS:
            return _condition(detail)
        if keyword not in {action.value for action in Action}:
            raise KarelsynthError(f"there is no block `{keyword}`")
        if detail is not None:
            raise KarelsynthError(f"a block `{keyword}` has no detail")
        return None


def _same(new: SourceBlock, old: SourceBlock) -> bool:
    """Whether a block has the old statements, apart from holes."""
    one, other = ([each for each in block if not _is_hole(each)] for block in (new, old))
    return one == other  # statements are equal only to themselves


def _condition(detail: str | int | None) -> Condition:
    if not isinstance(detail, str):
        raise KarelsynthError(f"a condition is a sensor such as `frontIsClear`, not {detail!r}")
    sensor = detail
    negations = 0
    while sensor.startswith(_NOT) and negations < DEEPEST_BLOCKS:
        sensor, negations = sensor.removeprefix(_NOT), negations + 1
    names = {each.value: each for each in Sensor}
    if sensor not in names:
        raise KarelsynthError(f"there is no sensor `{sensor}`")
    condition: Condition = names[sensor]
    for _ in range(negations):
        condition = Not(condition)
    return condition
