"""Classroom Python for Stanford Karel: a complete file for the package `stanfordkarel`.

Markers are called beepers, a blocked side has its own condition, and there is no right turn: programs that turn right
define a helper function. The reader accepts what students write: helper functions without arguments (their statements
replace the calls), definitions in any order, docstrings, and files without the import or the last two lines. It refuses
what Python would run differently.

Python refuses more than 20 nested loops, so such programs convert but do not run there.
"""

from __future__ import annotations

import json
from keyword import iskeyword
from typing import TYPE_CHECKING, Final, NoReturn

from karelsynth.errors import nearest
from karelsynth.karel.dialects.indented import Parser, Spelling, block_lines
from karelsynth.karel.program import Action, Block, Condition, Not, Program, Repeat, Sensor
from karelsynth.karel.world import HEADINGS

if TYPE_CHECKING:
    from karelsynth.karel.dialects.indented import OnStatement, Word

_ACTIONS: Final[dict[str, Action]] = {
    "move": Action.MOVE,
    "turn_left": Action.TURN_LEFT,
    "turn_right": Action.TURN_RIGHT,
    "pick_beeper": Action.PICK_MARKER,
    "put_beeper": Action.PUT_MARKER,
}
_CONDITIONS: Final[dict[str, Condition]] = {
    "front_is_clear": Sensor.FRONT_IS_CLEAR,
    "front_is_blocked": Not(Sensor.FRONT_IS_CLEAR),
    "left_is_clear": Sensor.LEFT_IS_CLEAR,
    "left_is_blocked": Not(Sensor.LEFT_IS_CLEAR),
    "right_is_clear": Sensor.RIGHT_IS_CLEAR,
    "right_is_blocked": Not(Sensor.RIGHT_IS_CLEAR),
    "beepers_present": Sensor.MARKERS_PRESENT,
    "no_beepers_present": Sensor.NO_MARKERS_PRESENT,
}
_HEADINGS: Final = tuple(f"{no}facing_{heading}" for no in ("", "not_") for heading in HEADINGS)
_NO_COMPASS: Final = "this Karel cannot sense its heading; look with `front_is_clear()` or `left_is_clear()`"
_NO_COLOUR: Final = "this Karel has no colours; mark corners with `put_beeper()`"
_NO_BAG: Final = "this Karel's bag is never empty; test the corner it stands on with `beepers_present()`"

SPELLING: Final = Spelling(
    python=True,
    indent=4,
    actions=_ACTIONS,
    conditions=_CONDITIONS,
    heads={"REPEAT": "for _ in range({}):", "WHILE": "while {}:", "IF": "if {}:", "IFELSE": "if {}:"},
    foreign={
        **{action.value: word for word, action in _ACTIONS.items()},
        **{condition.value: word for word, condition in _CONDITIONS.items() if isinstance(condition, Sensor)},
    },
    lacking={
        "repeat": "there is no `repeat`; to do something four times, write `for _ in range(4):`",
        "ifelse": "there is no `ifelse`; write `if …:` and `else:`",
        **dict.fromkeys(_HEADINGS, _NO_COMPASS),
        **dict.fromkeys(("paint_corner", "corner_color_is"), _NO_COLOUR),
        **dict.fromkeys(("beepers_in_bag", "no_beepers_in_bag"), _NO_BAG),
    },
)

_IMPORT: Final = "from stanfordkarel import *"
_MODULES: Final = (["stanfordkarel"], ["karel", ".", "stanfordkarel"])
_RUN: Final = "run_karel_program"
_THREE_LEFT: Final[Block] = (Action.TURN_LEFT,) * 3
_TURN_RIGHT: Final = (_THREE_LEFT, (Repeat(3, (Action.TURN_LEFT,)),))
_MOST_WRITTEN_OUT: Final = 10_000
"""The most calls and statements inside helpers that are written out, over all functions of a text. Helpers that call
helpers can make a short text an exponentially long program."""


def parse(text: str, on_statement: OnStatement | None = None) -> Program:
    """Read a Stanford Karel file. `on_statement` is called for a helper's statements at each call of the helper."""
    return _Parser(text, SPELLING, on_statement).program()


def render(program: Program, world: str = "") -> str:
    """The program as a complete file; `world` names the world file to run it in, by default the package's."""
    turns_right = any(statement is Action.TURN_RIGHT for _, statement in program.walk())
    parts = [
        [_IMPORT],
        *([["def turn_right():", *block_lines(_THREE_LEFT, SPELLING)]] if turns_right else []),
        ["def main():", *block_lines(program.body, SPELLING)],
        ['if __name__ == "__main__":', f"    {_RUN}({json.dumps(world, ensure_ascii=False) if world else ''})"],
    ]
    return "\n\n\n".join("\n".join(part) for part in parts) + "\n"


class _Parser(Parser):
    """`functions` holds the index of the `def` of every function of the text, `variables` the loop variables of each,
    `calling` the functions that are being read, each called by the one before."""

    def __init__(self, text: str, spelling: Spelling, on_statement: OnStatement | None) -> None:
        super().__init__(text, spelling, on_statement)
        self.functions: dict[str, int] = {}
        self.variables: dict[str, set[str]] = {}
        self.calling: list[str] = []
        self.written_out = 0
        self.imported: set[str] | None = None
        self.started: set[str] = set()
        self.used: dict[str, Word] = {}
        level, here = 0, ""
        for index, word in enumerate(self.words[:-1]):
            level += (word.kind == "indent") - (word.kind == "dedent")
            name = self.words[index + 1]
            if level == 0 and word.text == "def" and name.kind == "name":
                here = name.text
                self.functions.setdefault(here, index)
            elif word.text == "for" and name.kind == "name":
                self.variables.setdefault(here, set()).add(name.text)

    # The file

    def program(self) -> Program:
        if self.next.kind == "end":
            self.fail(self.next, "the program is empty; expected `def main():`")
        bodies: dict[str, Block] = {}
        while self.next.kind != "end":
            word = self.next
            if word.kind == "string":
                self.at += 1
                self.end_of_line()
            elif word.text in ("from", "import"):
                self.imports()
            elif word.text == "def":
                self.definition(bodies)
            elif word.text == "if" and self.words[self.at + 1].text == "__name__":
                self.footer()
            elif word.text in (_RUN, "main"):
                self.start()
            elif word.text in (*SPELLING.actions, *SPELLING.keywords, *self.functions):
                self.fail(word, f"`{word.text}` is outside any function; indent it, below `def main():`")
            else:
                self.unexpected("`def main():`", ["def"])
        if "main" not in bodies:
            self.no_main()
        self.check_imported()
        return Program(bodies["main"])

    def imports(self) -> None:
        """`from stanfordkarel import …`, or from `karel.stanfordkarel`, as in the course's own copy."""
        first = self.take()
        module: list[Word] = []
        while self.next.kind != "newline" and self.next.text != "import":
            module.append(self.take())
        if first.text == "import" or [word.text for word in module] not in _MODULES:
            self.fail(module[0] if module else self.next, f"nothing else can be imported; expected `{_IMPORT}`")
        self.expect("import")
        self.imported = self.imported or set()
        if self.accept("*"):
            self.imported |= {_RUN, *SPELLING.actions, *SPELLING.conditions}
        else:
            self.imported.add(self.new_name("`*`").text)
            while self.accept(","):
                self.imported.add(self.new_name("a name").text)
        self.end_of_line()

    def check_imported(self) -> None:
        """Raise an error for names that are used but not imported. Files without any import pass.

        `run_karel_program` gives `main` all of Karel's functions, imported or not. A direct call of `main` does not.
        """
        if self.imported is None:
            return
        for name, word in self.used.items():
            if name not in self.imported and (name == _RUN or "main" in self.started):
                self.fail(word, f"`{name}` is not imported: Python would stop here with a NameError; write `{_IMPORT}`")

    def footer(self) -> None:
        """`if __name__ == "__main__":` and the call below it."""
        self.at += 2
        self.expect("==")
        if not (self.accept('"__main__"') or self.accept("'__main__'")):
            self.unexpected('`"__main__"`')
        self.expect(":")
        below = self.accept_kind("newline")
        if below and not self.accept_kind("indent"):
            self.unexpected(f"`{_RUN}()`, indented")
        if self.next.text not in (_RUN, "main"):
            self.unexpected(f"`{_RUN}()`", [_RUN])
        self.start()
        if below and not self.accept_kind("dedent"):
            self.unexpected("the end of the program")

    def start(self) -> None:
        """`run_karel_program()`, perhaps with the name of a world, or `main()`."""
        word = self.take()
        if word.text in self.started:
            self.fail(word, f"`{word.text}` is called a second time: Python would run the program again; leave it out")
        self.started.add(word.text)
        if word.text == _RUN:
            self.used.setdefault(_RUN, word)
        self.expect("(")
        self.accept_kind("string")
        self.expect(")")
        self.end_of_line()

    def no_main(self) -> NoReturn:
        close = nearest("main", self.functions)
        if close is not None:
            self.fail(self.words[self.functions[close] + 1], "there is no `main`; expected `def main():`", "main")
        self.fail(self.next, "the program ends here without a `main`; expected `def main():`")

    # Functions

    def definition(self, bodies: dict[str, Block]) -> None:
        """A function at the left margin; `bodies` receives its body."""
        name = self.words[self.at + 1]
        if self.functions.get(name.text, self.at) != self.at:
            self.fail(name, f"`{name.text}` is defined twice")
        built_in = (*SPELLING.conditions, *SPELLING.lacking, *SPELLING.actions, "range", _RUN)
        if name.text in built_in and name.text != "turn_right":
            self.fail(name, f"`{name.text}` is a built-in name; choose another name for the function")
        body = self.function()
        if name.text == "turn_right" and body not in _TURN_RIGHT:
            self.fail(name, "`turn_right` must consist of exactly three `turn_left()`")
        bodies[name.text] = body

    def function(self) -> Block:
        """Read a function from its `def` on. Calls of helpers are replaced by the helpers' bodies."""
        head = self.take()
        name = self.new_name("the name of a function, as in `def main():`")
        self.expect("(")
        self.expect(")", "; functions take no arguments here")
        if self.accept("->"):
            self.expect("None")
        self.calling.append(name.text)
        body = self.block(head)
        self.calling.pop()
        return body

    def new_name(self, wanted: str) -> Word:
        if self.next.kind != "name" or iskeyword(self.next.text):
            self.unexpected(wanted)
        return self.take()

    def simple(self) -> Block:
        word = self.next
        if word.text not in self.functions or word.text in SPELLING.actions:
            return super().simple()
        self.at += 1
        self.parentheses(word)
        if word.text in self.calling:
            self.fail(word, f"`{word.text}` calls itself; expected a loop instead: there is no recursion")
        self.write_out(word)
        self.deeper(word, 2)  # a function takes more of Python's stack than a loop
        back, self.at = self.at, self.functions[word.text]
        body = self.function()
        self.at = back
        self.depth -= 2
        return body

    def callable(self) -> list[str]:
        return [name for name in self.functions if name not in ("main", *self.calling)]

    def parentheses(self, word: Word) -> None:
        super().parentheses(word)
        self.check_hidden(word)
        if self.calling[0] == "main" and word.text != "turn_right" and word.text not in self.functions:
            self.used.setdefault(word.text, word)

    def check_hidden(self, word: Word) -> None:
        """Raise an error if a loop variable hides the function of that name. To Python, a loop variable is local in the
        whole function."""
        if word.text in self.variables.get(self.calling[-1], ()):
            reason = f"`{word.text}` is a loop variable in this function, and Python cannot call a number"
            self.fail(word, f"{reason}; name the variable `i` instead")

    def note(self, first: Word) -> None:
        """Note only statements of `main` and of the functions it calls. Other functions are read to find mistakes."""
        if len(self.calling) > 1:
            self.write_out(first)
        if self.calling[0] == "main":
            super().note(first)

    def write_out(self, word: Word) -> None:
        self.written_out += 1
        if self.written_out > _MOST_WRITTEN_OUT:
            most = f"over {_MOST_WRITTEN_OUT:,} statements"
            self.fail(word, f"written out, the helper functions make the program too long: {most}")

    # Loops

    def count(self) -> int:
        """`_ in range(4)`, after the `for`."""
        self.new_name("a loop variable, as in `for _ in range(4):`")
        self.expect("in")
        self.expect("range")
        self.check_hidden(self.words[self.at - 1])
        self.expect("(")
        times = self.number()
        if self.next.text == ",":
            self.fail(self.next, "`range` takes one number here; expected `)`")
        self.expect(")")
        return times
