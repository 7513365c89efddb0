"""The paper's text.

    def run():
      while(noMarkersPresent):
        putMarker()
        move()

Its actions and conditions are the data's tokens. The printer writes as above. The reader also accepts any indentation,
names without `()`, conditions without parentheses, `if … else` for `ifelse`, several statements on a line with `;`
between them, a body on the line of its head, and comments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karelsynth.karel.dialects import stanford
from karelsynth.karel.dialects.indented import Parser, Spelling, block_lines
from karelsynth.karel.program import Action, Condition, Not, Program, Sensor

if TYPE_CHECKING:
    from karelsynth.karel.dialects.indented import OnStatement


def _written(condition: Condition) -> str:
    return f"not {_written(condition.condition)}" if isinstance(condition, Not) else condition.value


SPELLING: Final = Spelling(
    python=False,
    indent=2,
    actions={action.value: action for action in Action},
    conditions={sensor.value: sensor for sensor in Sensor},
    heads={"REPEAT": "repeat({}):", "WHILE": "while({}):", "IF": "if({}):", "IFELSE": "ifelse({}):"},
    foreign={
        **{word: action.value for word, action in stanford.SPELLING.actions.items()},
        **{word: _written(condition) for word, condition in stanford.SPELLING.conditions.items()},
    },
    lacking={"for": "there is no `for`; to do something four times, write `repeat(4):`"},
)


def parse(text: str, on_statement: OnStatement | None = None) -> Program:
    """Read the paper's text."""
    return _Parser(text, SPELLING, on_statement).program()


def render(program: Program) -> str:
    """The program as in the paper, indented by two spaces."""
    return "\n".join(["def run():", *block_lines(program.body, SPELLING)])


class _Parser(Parser):
    def program(self) -> Program:
        if self.next.kind == "end":
            self.fail(self.next, "the program is empty; expected `def run():`")
        while self.accept_kind("string"):
            self.end_of_line()
        head = self.next
        if head.text != "def":
            self.unexpected("`def run():`", ["def"])
        self.at += 1
        self.expect("run")
        if self.accept("("):
            self.expect(")")
        body = self.block(head)
        if self.next.text == "def":
            self.fail(self.next, "there is only one `def`, that of `run`; write out what the others do")
        if self.next.kind != "end":
            self.fail(self.next, "the program has ended; to belong to it, this line must be indented like its body")
        return Program(body)

    def count(self) -> int:
        if not self.accept("("):
            return self.number()
        times = self.number()
        self.expect(")")
        return times
