"""Programs as they are written: functions, calls, comments, and the place of every statement in the text.

A `Program` is what runs. A `SourceProgram` is what a person wrote: a main function, helper functions that it calls, and
comments. Its `program` has every call of a helper replaced by the helper's statements.

    source = read_source(text)
    source.functions["turn_around"].body  # SourceStatements; those with the keyword `call` name a helper
    source.program  # without calls
    source.spans  # the place in the text of every statement of `program`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from karelsynth.errors import ProgramSyntaxError
from karelsynth.karel.program import (
    BODY_AT,
    COMPOSITES,
    DEEPEST,
    TOO_DEEP,
    Action,
    Block,
    Condition,
    Program,
    Repeat,
    Statement,
    inner_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CALL: Final = "call"
"""The keyword of a statement that calls a helper."""
MOST_WRITTEN_OUT: Final = 10_000
"""The most statements of a function whose calls are replaced by the helpers' statements. Helpers that call helpers can
make a short text an exponentially long program."""
_CALL_DEPTH: Final = 2
"""A call counts as this many levels of nesting."""


class SourceSpan(NamedTuple):
    """The first line of a statement in the text, without the colon. `line` and `column` count from 1."""

    line: int
    column: int
    width: int


class Comment(NamedTuple):
    """A comment, with its `#`, or a docstring, with its quotation marks."""

    line: int
    column: int
    text: str
    alone: bool
    """Whether it begins its line."""


class SourcePlace(NamedTuple):
    """Where a statement is in the text. Lines count from 1."""

    span: SourceSpan
    last_line: int
    """The last line of the statement's last block."""
    else_line: int = 0
    """The line of the `else`; 0 if there is none."""
    variable: str = ""
    """The loop variable of a counting loop in classroom Python."""


@dataclass(frozen=True, eq=False)
class SourceStatement:
    """A statement as it is written. `keyword` is the token of an action, the keyword of a node, or CALL."""

    keyword: str
    detail: Condition | int | str | None = None
    """A condition, a count, or a helper's name; None for an action."""
    blocks: tuple[SourceBlock, ...] = ()
    place: SourcePlace | None = None
    """None for a statement that is not in the text."""

    def walk(self) -> Iterator[SourceStatement]:
        """This statement and those inside, in the order of the text."""
        yield self
        for block in self.blocks:
            for statement in block:
                yield from statement.walk()


SourceBlock = tuple[SourceStatement, ...]


@dataclass(frozen=True, eq=False)
class SourceFunction:
    """A function; `span` is its head, from `def` to the closing parenthesis."""

    name: str
    body: SourceBlock
    span: SourceSpan

    def walk(self) -> Iterator[SourceStatement]:
        """All statements, in the order of the text."""
        for statement in self.body:
            yield from statement.walk()


class SourceCall(NamedTuple):
    """A call of a helper in what runs: the helper's statements in its place."""

    name: str
    span: SourceSpan
    """The place of the call in the text."""
    start: int
    """The index of the first token of the helper's statements in `SourceProgram.program`."""
    end: int
    """The index after their last token."""


@dataclass(frozen=True, eq=False)
class SourceProgram:
    """A program as it is written. The constructor raises ProgramSyntaxError for recursion and for too long programs."""

    text: str
    dialect: str
    lines: tuple[str, ...]
    main: str
    """The name of the main function: `run` or `main`."""
    functions: Mapping[str, SourceFunction]
    """By name, in the order of the text."""
    comments: tuple[Comment, ...] = ()
    built_in: Mapping[str, Action] = field(default_factory=dict)
    """Names of functions whose calls mean an action: `turn_right`."""

    def __post_init__(self) -> None:
        _ = self.program

    @property
    def body(self) -> SourceBlock:
        """The body of the main function."""
        return self.functions[self.main].body

    @property
    def helpers(self) -> tuple[str, ...]:
        """The names of the helper functions, in the order of the text."""
        return tuple(name for name in self.functions if name != self.main and name not in self.built_in)

    @cached_property
    def reached(self) -> frozenset[str]:
        """The names of the functions that a run can reach, the main one included."""
        found, waiting = {self.main}, [self.main]
        while waiting:
            for statement in self.functions[waiting.pop()].walk():
                if statement.keyword == CALL and statement.detail not in found:
                    found.add(str(statement.detail))
                    waiting.append(str(statement.detail))
        return frozenset(found)

    @cached_property
    def program(self) -> Program:
        """What runs: calls are replaced by the statements of the helpers."""
        return Program(self.block_of(self.main))

    def block_of(self, function: str) -> Block:
        """The statements of a function, with calls replaced."""
        return self._blocks[function]

    @cached_property
    def _blocks(self) -> dict[str, Block]:
        inliner = _Inliner(self)
        return {name: inliner.function(name, 0)[0] for name in self.functions}

    @property
    def statements(self) -> dict[int, SourceStatement]:
        """The written statement behind each statement of `program`, by the index of the latter's first token."""
        return self._origins[0]

    @property
    def calls(self) -> tuple[SourceCall, ...]:
        """The calls of helpers in `program`, in its order: an outer call before those inside of it."""
        return self._origins[1]

    @cached_property
    def spans(self) -> dict[int, SourceSpan]:
        """The place of each statement of `program`, by the index of its first token. A helper's are in the helper."""
        return {at: source.place.span for at, source in self.statements.items() if source.place is not None}

    @cached_property
    def _origins(self) -> tuple[dict[int, SourceStatement], tuple[SourceCall, ...]]:
        """`statements` and `calls`: the text and what runs, gone through side by side."""
        statements: dict[int, SourceStatement] = {}
        calls: list[SourceCall] = []
        running = self.program.walk()

        def pass_block(block: SourceBlock) -> tuple[int, int]:
            """Go through a block; returns the index of its first token, and the one after its last."""
            places = [pass_statement(statement) for statement in block]
            return places[0][0], places[-1][1]

        def pass_statement(statement: SourceStatement) -> tuple[int, int]:
            if statement.keyword == CALL:
                name, place = str(statement.detail), len(calls)
                start, end = pass_block(self.functions[name].body)
                if statement.place is not None:
                    calls.insert(place, SourceCall(name, statement.place.span, start, end))
                return start, end
            start, node = next(running)
            statements[start] = statement
            for inner in statement.blocks:
                pass_block(inner)
            return start, start + node.size

        pass_block(self.body)
        return statements, tuple(calls)

    def fail(self, statement: SourceStatement, reason: str) -> NoReturn:
        """Raise ProgramSyntaxError at a statement."""
        span = SourceSpan(1, 1, 1) if statement.place is None else statement.place.span
        line = self.lines[span.line - 1] if self.lines else ""
        width = len(str(statement.detail)) if statement.keyword == CALL else span.width
        raise ProgramSyntaxError(reason, line=span.line, column=span.column, source_line=line, width=width)


_Inlined = tuple[Block, int, int]
"""A block with its calls replaced, the number of its statements (calls included), and the depth of its nesting."""


class _Inliner:
    """Replaces calls. A function is built once, and its block is shared by its calls.

    Raises ProgramSyntaxError at the statement that makes a function too long or too deep, or calls its own function.
    """

    def __init__(self, source: SourceProgram) -> None:
        self.source = source
        self.built: dict[str, _Inlined] = {}
        self.calling: list[str] = []

    def function(self, name: str, depth: int) -> _Inlined:
        """The body of a function; `depth` is the depth of the call."""
        if name not in self.built:
            self.calling.append(name)
            self.built[name] = self.block(self.source.functions[name].body, depth)
            self.calling.pop()
        return self.built[name]

    def block(self, block: SourceBlock, depth: int) -> _Inlined:
        found: list[Statement] = []
        size = height = 0
        for statement in block:
            nodes, more, levels = (
                self.call(statement, depth) if statement.keyword == CALL else self.statement(statement, depth)
            )
            size, height = size + more, max(height, levels)
            if size > MOST_WRITTEN_OUT and self.source.helpers:
                most = f"over {MOST_WRITTEN_OUT:,} statements"
                self.source.fail(statement, f"written out, the helper functions make the program too long: {most}")
            if depth + height > DEEPEST:
                self.source.fail(statement, TOO_DEEP)
            found += nodes
        return tuple(found), size, height

    def call(self, statement: SourceStatement, depth: int) -> _Inlined:
        name = str(statement.detail)
        if name in self.calling:
            self.source.fail(statement, f"`{name}` calls itself; expected a loop instead: there is no recursion")
        if depth + _CALL_DEPTH > DEEPEST:
            self.source.fail(statement, TOO_DEEP)
        body, size, height = self.function(name, depth + _CALL_DEPTH)
        return body, size + 1, height + _CALL_DEPTH

    def statement(self, statement: SourceStatement, depth: int) -> _Inlined:
        if not statement.blocks:
            return (Action(statement.keyword),), 1, 0
        inner = [self.block(block, depth + 1) for block in statement.blocks]
        blocks, sizes, heights = zip(*inner, strict=True)
        node: Any = COMPOSITES[statement.keyword]
        return (node(statement.detail, *blocks),), 1 + sum(sizes), 1 + max(heights)


PlaceOf = Callable[[int, Statement], SourcePlace]
"""Gives the place of a statement in the text, from the index of its first token."""


def source_block(block: Block, place_of: PlaceOf | None = None, at: int = BODY_AT) -> SourceBlock:
    """A block as it would be written; `at` is the index of its first token. Without `place_of`, it has no places."""
    found = []
    for statement in block:
        found.append(source_statement(statement, place_of, at))
        at += statement.size
    return tuple(found)


def source_statement(statement: Statement, place_of: PlaceOf | None = None, at: int = 0) -> SourceStatement:
    """A statement as it would be written; see `source_block`."""
    place = None if place_of is None else place_of(at, statement)
    if isinstance(statement, Action):
        return SourceStatement(statement.value, place=place)
    blocks = tuple(source_block(inner, place_of, at + offset) for offset, inner in inner_blocks(statement))
    detail = statement.times if isinstance(statement, Repeat) else statement.condition
    return SourceStatement(statement.keyword, detail, blocks, place)
