"""Edits in words that a student understands, in three levels: where to look, what kind of change, the change itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from karelsynth.karel.dialects.source import CALL, SourceProgram, SourceStatement
from karelsynth.karel.program import Condition, Not, Sensor
from karelsynth.karel.tokens import TOKENS
from karelsynth.tutor.edits import Edit, EditedCode, Node, NodeBlock, condition_of, nodes_of, written_as
from karelsynth.tutor.rewrite import fragment

_TURNS: Final = ("turnLeft", "turnRight")
_LOOPS: Final = ("WHILE", "REPEAT")


@dataclass(frozen=True)
class HintStep:
    """One change, in three levels."""

    line: int
    """The line of the student's text to look at, from 1."""
    where: str
    kind: str
    change: str


def hint_steps(source: SourceProgram, code: EditedCode, path: tuple[Edit, ...]) -> list[HintStep]:
    """The edits of a path in words, in the order of the lines. Applies them to `code`."""
    steps = []
    for edit in path:
        steps.append(_Describer(source, code, edit).step())
        code.apply(edit)
    return sorted(steps, key=lambda step: step.line)


class _Describer:
    """Describes an edit of a program before it is applied."""

    def __init__(self, source: SourceProgram, code: EditedCode, edit: Edit) -> None:
        self.source, self.code, self.edit = source, code, edit
        self.dialect = source.dialect
        self.on_one_line = source.dialect == "tokens"
        self.old = code.statement_at(edit.function, edit.at)
        self.before = self.statement_before()

    def statement_before(self) -> SourceStatement | None:
        """The written statement that ends where something is inserted, if it is in the same block."""

        def search(block: NodeBlock) -> SourceStatement | None:
            for node in block.nodes:
                if node.end == self.edit.at:
                    return self.code.statement_at(self.edit.function, node.start)
                for inner in node.blocks:
                    if inner.start <= self.edit.at <= inner.end:
                        return search(inner)
            return None

        return search(nodes_of(self.code.bodies[self.edit.function]))

    def new(self) -> SourceStatement:
        """The first statement of what the edit writes, with the action inside if there is one."""
        node = nodes_of(self.edit.middle).nodes[0]
        inside = [each for block in node.blocks[:1] for each in block.nodes[:1] if not each.blocks]
        return self.written(node, *inside)

    def written(self, node: Node, *inside: Node) -> SourceStatement:
        """A statement of what the edit writes; `inside` is what its first block begins with, if anything."""
        keyword, detail = written_as(self.edit.middle, node, self.code.names)
        return SourceStatement(keyword, detail, (tuple(map(self.written, inside)),) if inside else ())

    def step(self) -> HintStep:
        line, where = self.place()
        kind, change = getattr(self, "_" + self.edit.kind.replace(" ", "_"))()
        if self.on_one_line:
            kind, change = (_with_tokens(words) for words in (kind, change))
        return HintStep(line, where, kind, change)

    def place(self) -> tuple[int, str]:
        """The line, and level one in words."""
        statement = self.old or self.before
        if statement is None or statement.place is None:
            function = self.source.functions[self.code.names[self.edit.function]]
            if self.on_one_line:
                return function.span.line, "Look at the beginning of the program."
            return function.span.line, f"Look at `{function.name}`, from line {function.span.line} on."
        line = statement.place.span.line
        if self.edit.kind in ("insert", "insert block"):
            if statement is self.before:
                return statement.place.last_line, f"Look at what happens {self.after(statement)}."
            return line, f"Look at what happens before {self.line_words(line)}{self.text(statement)}."
        return line, f"Look at {self.line_words(line)}{self.text(statement)}."

    def line_words(self, line: int) -> str:
        """A line, before its code; nothing where all is on one line."""
        return "" if self.on_one_line else f"line {line}, "

    def after(self, statement: SourceStatement) -> str:
        assert statement.place is not None
        return f"after {self.text(statement) if self.on_one_line else f'line {statement.place.last_line}'}"

    # Levels two and three, by the kind of the edit

    def text(self, statement: SourceStatement | None) -> str:
        return "`…`" if statement is None else f"`{fragment(statement, self.dialect, self.source.lines)}`"

    def thing(self) -> str:
        """The old statement with a block, in a word."""
        return "loop" if self.old is not None and self.old.keyword in _LOOPS else "`if`"

    def at_line(self) -> str:
        if self.on_one_line or self.old is None or self.old.place is None:
            return ""
        return f" in line {self.old.place.span.line}"

    def _replace(self) -> tuple[str, str]:
        new, old = self.new(), self.old
        kind = "This is the wrong action here."
        if old is not None and {old.keyword, new.keyword} == set(_TURNS):
            kind = "Karel turns the wrong way here."
        elif old is not None and {old.keyword, new.keyword} == {"pickMarker", "putMarker"}:
            kind = "Putting and picking are mixed up here."
        elif CALL in (new.keyword, old.keyword if old is not None else ""):
            kind = "This is the wrong thing to do here."
        return kind, f"Write {self.text(new)} instead of {self.text(old)}{self.at_line()}."

    def _insert(self) -> tuple[str, str]:
        new = self.new()
        what = {"move": "a step", "turnLeft": "a turn", "turnRight": "a turn"}.get(new.keyword, "an action")
        kind = f"Here {what} is missing."
        if self.before is not None and self.old is None and self.before.keyword in _LOOPS:
            kind = f"When this loop ends, {what} is still missing."
            if any(inner.keyword == new.keyword for inner in self.before.walk()):
                kind = f"When this loop ends, {what} is still missing: it stops before the last place is done."
        if self.before is not None and self.before.place is not None:
            indented = "" if self.on_one_line else ", indented like the statement there"
            return kind, f"Insert {self.text(new)} {self.after(self.before)}{indented}."
        return kind, f"Insert {self.text(new)} before {self.text(self.old)}{self.at_line()}."

    def _insert_block(self) -> tuple[str, str]:
        new = self.new()
        test = condition_words(new.detail)
        kind = f"A case is forgotten here: something has to happen if {test}."
        if new.keyword == "WHILE":
            kind = f"Here a loop is missing: something has to happen again and again while {test}."
        place = ""
        if self.old is not None and self.old.place:
            place = f" before {self.text(self.old) if self.on_one_line else f'line {self.old.place.span.line}'}"
        if self.before is not None and self.before.place is not None:
            place = f" {self.after(self.before)}"
        return kind, f"Insert {self.text(new)}{place}."

    def _delete(self) -> tuple[str, str]:
        return "This is one statement too many.", f"Delete {self.text(self.old)}{self.at_line()}."

    def _swap(self) -> tuple[str, str]:
        (first, _), _ = self.edit.segments
        assert isinstance(first, int)
        other = self.code.statement_at(self.edit.function, first)
        return (
            "Two statements are in the wrong order here.",
            f"Swap {self.text(self.old)} and {self.text(other)}: {self.text(other)} comes first.",
        )

    def _condition(self) -> tuple[str, str]:
        old = None if self.old is None else self.old.detail
        new = condition_of(self.edit.middle)
        kind = f"This {self.thing()} tests the wrong thing."
        if isinstance(old, Sensor | Not) and _opposite(old, new):
            kind = f"The test of this {self.thing()} is the wrong way round."
        head = self.head(SourceStatement("IF" if self.old is None else self.old.keyword, new))
        return kind, f"Test whether {condition_words(new)}: write {head}{self.at_line()}."

    def head(self, statement: SourceStatement) -> str:
        """The first line of a statement with a block."""
        long = (SourceStatement("move"),) * 2
        return self.text(SourceStatement(statement.keyword, statement.detail, (long,)))

    def _count(self) -> tuple[str, str]:
        old, new = 0 if self.old is None else self.old.detail, int(TOKENS[self.edit.middle[0]].removeprefix("R="))
        assert isinstance(old, int)
        more = new - old
        kind = {1: "This loop stops one round early.", -1: "This loop runs one round too many."}.get(
            more, "This loop stops too early." if more > 0 else "This loop runs too often."
        )
        return kind, f"Repeat {new} times instead of {old}{self.at_line()}."

    def _if_to_while(self) -> tuple[str, str]:
        return (
            "This happens only once, but it has to happen again and again.",
            f"Make a loop of it: `while` instead of `if`{self.at_line()}.",
        )

    def _while_to_if(self) -> tuple[str, str]:
        return "This repeats, but it has to happen only once.", f"Write `if` instead of `while`{self.at_line()}."

    def _repeat_to_while(self) -> tuple[str, str]:
        new = self.new()
        return (
            "This loop runs a fixed number of times, but how often is right depends on the world.",
            f"Repeat while {condition_words(new.detail)}: write {self.head(new)}{self.at_line()}.",
        )

    def _while_to_repeat(self) -> tuple[str, str]:
        new = self.new()
        return "This loop has to run a fixed number of times.", f"Write {self.head(new)}{self.at_line()}."

    def _swap_branches(self) -> tuple[str, str]:
        return (
            "The two branches of this `if` are the wrong way round.",
            f"Swap what is under the `if` and under the `else`{self.at_line()}.",
        )

    def _drop_else(self) -> tuple[str, str]:
        return "In the other case nothing has to happen.", f"Delete the `else` of the `if`{self.at_line()}."

    def _add_else(self) -> tuple[str, str]:
        last = nodes_of(self.edit.middle).nodes[0].blocks[-1].nodes[0]
        return (
            "In the other case something has to happen, too.",
            f"Add an `else` with {self.text(self.written(last))} to the `if`{self.at_line()}.",
        )

    def _unwrap(self) -> tuple[str, str]:
        return (
            f"What is inside this {self.thing()} has to happen once, in any case.",
            f"Delete {self.text(self.old)}{self.at_line()} and keep what is inside.",
        )

    def _wrap(self) -> tuple[str, str]:
        new = self.new()
        if new.keyword == "REPEAT":
            kind = "This has to happen several times."
        elif new.keyword == "WHILE":
            kind = f"This has to happen again and again while {condition_words(new.detail)}."
        else:
            kind = "This should happen only sometimes: test something first."
        count = len(nodes_of(self.edit.middle).nodes[0].blocks[0].nodes)
        what = f"{self.text(self.old)}{self.at_line()}"
        return kind, f"Put {what if count == 1 else f'{count} statements, from {what} on,'} inside {self.head(new)}."

    def _move_in(self) -> tuple[str, str]:
        return (
            "This belongs in the block above.",
            f"Move {self.text(self.old)} into the block before it."
            if self.on_one_line
            else f"Indent {self.text(self.old)}{self.at_line()} like the block above.",
        )

    def _move_out(self) -> tuple[str, str]:
        (first, _), *_ = self.edit.segments
        after = isinstance(first, int) and first != self.edit.at
        order = "after" if after else "before"
        return (
            f"This belongs {order} the block, not inside it.",
            f"Move {self.text(self.old)}{self.at_line()} out of its block, so that it comes {order} it.",
        )


def _with_tokens(words: str) -> str:
    """Words about a program in tokens: its keywords are in capitals."""
    for keyword in ("while", "if", "else"):
        words = words.replace(f"`{keyword}`", f"`{keyword.upper()}`")
    return words


def _opposite(one: Condition, other: Condition) -> bool:
    return Not(one) == other or one == Not(other) or {one, other} == {Sensor.MARKERS_PRESENT, Sensor.NO_MARKERS_PRESENT}


_SENSORS: Final = {
    Sensor.FRONT_IS_CLEAR: ("the way ahead is clear", "the way ahead is blocked"),
    Sensor.LEFT_IS_CLEAR: ("the left side is clear", "the left side is blocked"),
    Sensor.RIGHT_IS_CLEAR: ("the right side is clear", "the right side is blocked"),
    Sensor.MARKERS_PRESENT: ("there is a marker", "there is no marker"),
    Sensor.NO_MARKERS_PRESENT: ("there is no marker", "there is a marker"),
}


def condition_words(condition: object) -> str:
    """A condition in words."""
    denied = False
    while isinstance(condition, Not):
        denied, condition = not denied, condition.condition
    return _SENSORS[condition][denied] if isinstance(condition, Sensor) else ""
