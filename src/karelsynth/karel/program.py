"""Programs as a frozen syntax tree.

    >>> program = Program.parse("def run():\\n  repeat(4):\\n    putMarker()\\n    move()")
    >>> program.tokens
    ('DEF', 'run', 'm(', 'REPEAT', 'R=4', 'r(', 'putMarker', 'move', 'r)', 'm)')

Nodes compare and hash by value. A statement is identified by the index of its first token, in runs, too. `size` is the
number of tokens of a statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, ClassVar, Final, Union

from karelsynth.errors import KarelsynthError
from karelsynth.karel.grammar import BLOCK, KAREL
from karelsynth.karel.tokens import LARGEST_COUNT

if TYPE_CHECKING:
    from karelsynth.karel.interpreter import Run
    from karelsynth.karel.world import World

DEEPEST: Final = 200
"""The deepest nesting of composite nodes. Readers and printers recurse, and Python's stack is finite."""
TOO_DEEP: Final = f"the program is nested more than {DEEPEST} deep"


class Action(Enum):
    """An action; the value is its token."""

    MOVE = "move"
    TURN_LEFT = "turnLeft"
    TURN_RIGHT = "turnRight"
    PICK_MARKER = "pickMarker"
    PUT_MARKER = "putMarker"

    @property
    def size(self) -> int:
        return 1


class Sensor(Enum):
    """A sensor; the value is its token."""

    MARKERS_PRESENT = "markersPresent"
    NO_MARKERS_PRESENT = "noMarkersPresent"
    LEFT_IS_CLEAR = "leftIsClear"
    RIGHT_IS_CLEAR = "rightIsClear"
    FRONT_IS_CLEAR = "frontIsClear"

    @property
    def size(self) -> int:
        return 1


class _Composite:
    """A node with the tokens of the grammar's alternative that begins with `keyword`.

    Its fields, in order, stand for the rules and blocks of that alternative.
    """

    keyword: ClassVar[str]

    @cached_property
    def layout(self) -> tuple[tuple[int, str | Part], ...]:
        """The node's tokens and parts in order, each with its offset from the node's first token."""
        parts = iter([getattr(self, field.name) for field in fields(self)])  # type: ignore[arg-type]
        offset, placed = 0, []
        for symbol in _ALTERNATIVES[self.keyword]:
            item = next(parts) if symbol == BLOCK or symbol in KAREL.rules else symbol
            placed.append((offset, item))
            offset += _size(item)
        return tuple(placed)

    @cached_property
    def size(self) -> int:
        """The number of tokens."""
        offset, last = self.layout[-1]
        return offset + _size(last)

    @cached_property
    def depth(self) -> int:
        """The depth of nested composite nodes, this one included."""
        return 1 + max(_depth(item) for _, item in self.layout)

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            part = getattr(self, field.name)
            if field.name == "condition":
                _check_condition(part)
            elif field.name != "times":
                _check_block(part)
        _ = self.size, self.depth  # computed from the inside out, because a deep tree would need a deep recursion


@dataclass(frozen=True)
class Not(_Composite):
    """`not condition`."""

    keyword: ClassVar[str] = "not"
    condition: Condition


@dataclass(frozen=True)
class Repeat(_Composite):
    """Run the body `times` times."""

    keyword: ClassVar[str] = "REPEAT"
    times: int
    body: Block

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "times", index(self.times))  # also from NumPy's integers
        except TypeError:
            raise KarelsynthError(f"a repeat count is a whole number, not {self.times!r}") from None
        if not 0 <= self.times <= LARGEST_COUNT:
            raise KarelsynthError(f"repeat counts go from 0 to {LARGEST_COUNT}, not {self.times}")
        super().__post_init__()


@dataclass(frozen=True)
class While(_Composite):
    """Run the body as long as the condition holds."""

    keyword: ClassVar[str] = "WHILE"
    condition: Condition
    body: Block


@dataclass(frozen=True)
class If(_Composite):
    """Run the body once if the condition holds."""

    keyword: ClassVar[str] = "IF"
    condition: Condition
    body: Block


@dataclass(frozen=True)
class IfElse(_Composite):
    """Run one of two blocks."""

    keyword: ClassVar[str] = "IFELSE"
    condition: Condition
    then: Block
    otherwise: Block


Condition = Union[Sensor, Not]
Statement = Union[Action, Repeat, While, If, IfElse]
Block = tuple[Statement, ...]
BODY_AT: Final = KAREL.rules["program"][0].index(BLOCK)
"""The index of the first token of a program's body."""
Part = Union[int, Condition, Statement, Block]

COMPOSITES: Final[dict[str, type[_Composite]]] = {node.keyword: node for node in (Not, Repeat, While, If, IfElse)}
_ALTERNATIVES: Final = {alternative[0]: alternative for rule in KAREL.rules.values() for alternative in rule}


def _size(item: str | Part) -> int:
    if isinstance(item, tuple):
        return sum(statement.size for statement in item)
    return 1 if isinstance(item, str | int) else item.size


def _depth(item: str | Part) -> int:
    if isinstance(item, tuple):
        return max(_depth(statement) for statement in item)
    return item.depth if isinstance(item, _Composite) else 0


def _check_block(block: Block) -> None:
    if not isinstance(block, tuple):
        raise KarelsynthError(f"a block is a tuple of statements, not a {type(block).__name__}")
    if not block:
        raise KarelsynthError("a block holds at least one statement")
    for statement in block:
        if not isinstance(statement, Action | Repeat | While | If | IfElse):
            raise KarelsynthError(f"{statement!r} is not a statement: an Action, Repeat, While, If or IfElse")


def _check_condition(condition: Condition) -> None:
    if not isinstance(condition, Sensor | Not):
        raise KarelsynthError(f"{condition!r} is not a condition: a Sensor, or Not of a condition")


def inner_blocks(statement: Statement) -> list[tuple[int, Block]]:
    """The blocks of a statement, each with the offset of its first token from the statement's first token."""
    if isinstance(statement, Action):
        return []
    return [(offset, part) for offset, part in statement.layout if isinstance(part, tuple)]


@dataclass(frozen=True)
class Program:
    """A Karel program: the body of `def run()`."""

    body: Block

    def __post_init__(self) -> None:
        _check_block(self.body)
        if _depth(self.body) > DEEPEST:
            raise KarelsynthError(TOO_DEEP)

    @classmethod
    def parse(cls, text: str, dialect: str | None = None) -> Program:
        """Read a program. Without `dialect`, the dialect is recognised.

        Raises ProgramSyntaxError, which says where and what was expected.
        """
        from karelsynth.karel.dialects import parse

        return parse(text, dialect)

    @classmethod
    def from_tokens(cls, tokens: Sequence[str] | Sequence[int]) -> Program:
        """Read a program from the data's tokens, given as names or as ids (padding after the end is ignored)."""
        from karelsynth.karel.dialects.data import parse_tokens

        return parse_tokens(tokens)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The program in the data's tokens, from `DEF` to `m)`."""
        from karelsynth.karel.dialects.data import print_tokens

        return print_tokens(self)

    @property
    def token_ids(self) -> list[int]:
        """The program as ids of the token table."""
        from karelsynth.karel.tokens import ID

        return [ID[token] for token in self.tokens]

    def to(self, dialect: str) -> str:
        """The program's text in a dialect: `tokens`, `paper` or `stanford`."""
        from karelsynth.karel.dialects import render

        return render(self, dialect)

    def run(self, world: World, *, max_ticks: int | None = None) -> Run:
        """Run the program on a world, by default for at most MAX_TICKS; see `karelsynth.karel.interpreter.run`."""
        from karelsynth.karel.interpreter import MAX_TICKS, run

        return run(self, world, max_ticks=MAX_TICKS if max_ticks is None else max_ticks)

    @property
    def size(self) -> int:
        """The number of tokens, `DEF run m(` and `m)` included."""
        return len(self.tokens)

    def walk(self) -> Iterator[tuple[int, Statement]]:
        """Every statement with the index of its first token, in the order of the text."""
        yield from _walk(self.body, BODY_AT)

    def __str__(self) -> str:
        return self.to("paper")

    def __repr__(self) -> str:
        return f"Program.parse({' '.join(self.tokens)!r})"

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.to('paper'))}</pre>"


def _walk(block: Block, at: int) -> Iterator[tuple[int, Statement]]:
    for statement in block:
        yield at, statement
        for offset, inner in inner_blocks(statement):
            yield from _walk(inner, at + offset)
        at += statement.size
