"""The paper's text.

    def run():
      while(noMarkersPresent):
        putMarker()
        move()

Its actions and conditions are the data's tokens. The printer writes as above. The reader also accepts any indentation,
names without `()`, conditions without parentheses, `if … else` for `ifelse`, several statements on a line with `;`
between them, a body on the line of its head, and comments. As in classroom Python, there may be helper functions
without arguments, before or after `run`:

    def turnAround():
      turnLeft()
      turnLeft()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karelsynth.karel.dialects import stanford
from karelsynth.karel.dialects.indented import Parser, Spelling, block_lines
from karelsynth.karel.program import Action, Condition, Not, Program, Sensor

if TYPE_CHECKING:
    from karelsynth.karel.dialects.source import SourceProgram


def _written(condition: Condition) -> str:
    return f"not {_written(condition.condition)}" if isinstance(condition, Not) else condition.value


SPELLING: Final = Spelling(
    dialect="paper",
    main="run",
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
    names=("main",),  # a text with a `main` is classroom Python
)


def read(text: str) -> SourceProgram:
    """Read the paper's text."""
    return _Parser(text, SPELLING).source()


def render(program: Program) -> str:
    """The program as in the paper, indented by two spaces."""
    return "\n".join(["def run():", *block_lines(program.body, SPELLING)])


class _Parser(Parser):
    def definition(self) -> None:
        if "run" not in self.starts:  # the only function is probably meant to be it
            self.at += 1
            self.expect("run")
        super().definition()

    def outside(self) -> None:
        if self.functions:
            self.fail(self.next, "the program has ended; to belong to it, this line must be indented like its body")
        self.unexpected("`def run():`", ["def"])

    def count(self) -> tuple[int, str]:
        if not self.accept("("):
            return self.number(), ""
        times = self.number()
        self.expect(")")
        return times, ""
