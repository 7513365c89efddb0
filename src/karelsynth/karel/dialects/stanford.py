"""Classroom Python for Stanford Karel: a complete file for the package `stanfordkarel`.

Markers are called beepers, a blocked side has its own condition, and there is no right turn: programs that turn right
define a helper function. The reader accepts what students write: helper functions without arguments (their statements
replace the calls), definitions in any order, docstrings, and files without the import or the last two lines. It refuses
texts that Python would run differently.

Python allows at most 20 nested loops. A program with more can be converted, but Python does not run it.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn

from karelsynth.errors import nearest
from karelsynth.karel.dialects.indented import Parser, Spelling, block_lines
from karelsynth.karel.program import Action, Block, Condition, Not, Program, Repeat, Sensor
from karelsynth.karel.world import HEADINGS

if TYPE_CHECKING:
    from karelsynth.karel.dialects.indented import Word
    from karelsynth.karel.dialects.source import SourceProgram

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
_RUN: Final = "run_karel_program"

SPELLING: Final = Spelling(
    dialect="stanford",
    main="main",
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
    names=("range", _RUN),
)

_IMPORT: Final = "from stanfordkarel import *"
_MODULES: Final = (["stanfordkarel"], ["karel", ".", "stanfordkarel"])
_THREE_LEFT: Final[Block] = (Action.TURN_LEFT,) * 3
_TURN_RIGHT: Final = (_THREE_LEFT, (Repeat(3, (Action.TURN_LEFT,)),))


def read(text: str) -> SourceProgram:
    """Read a Stanford Karel file."""
    return _Parser(text, SPELLING).source()


def render(program: Program, world: str = "") -> str:
    """The program as a complete file; `world` names the world file to run it in, by default the package's."""
    main = ["def main():", *block_lines(program.body, SPELLING)]
    return complete_file([main], turns_right="turnRight" in program.tokens, world=world)


def complete_file(parts: list[list[str]], *, turns_right: bool, world: str = "") -> str:
    """A complete file around the lines of its functions. With `turns_right`, `turn_right` is defined first."""
    around = [
        [_IMPORT],
        *([["def turn_right():", *block_lines(_THREE_LEFT, SPELLING)]] if turns_right else []),
        *parts,
        ['if __name__ == "__main__":', f"    {_RUN}({json.dumps(world, ensure_ascii=False) if world else ''})"],
    ]
    return "\n\n\n".join("\n".join(part) for part in around) + "\n"


class _Parser(Parser):
    """`variables` holds the loop variables of the function that is being read, `used` the words of Karel's that each
    function uses."""

    built_in = MappingProxyType({"turn_right": Action.TURN_RIGHT})

    def __init__(self, text: str, spelling: Spelling) -> None:
        super().__init__(text, spelling)
        self.variables: set[str] = set()
        self.imported: set[str] | None = None
        self.started: dict[str, Word] = {}
        self.used: dict[str, dict[str, Word]] = {}

    # The file

    def source(self) -> SourceProgram:
        source = super().source()
        if "turn_right" in source.functions and source.block_of("turn_right") not in _TURN_RIGHT:
            name = self.words[self.starts["turn_right"] + 1]
            self.fail(name, "`turn_right` must consist of exactly three `turn_left()`")
        self.check_imported(source)
        return source

    def outside(self) -> None:
        word = self.next
        if word.text in ("from", "import"):
            self.imports()
        elif word.text == "if" and self.words[self.at + 1].text == "__name__":
            self.footer()
        elif word.text in (_RUN, "main"):
            self.start()
        elif word.text in (*SPELLING.actions, *SPELLING.keywords, *self.starts):
            self.fail(word, f"`{word.text}` is outside any function; indent it, below `def main():`")
        else:
            self.unexpected("`def main():`", ["def"])

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

    def check_imported(self, source: SourceProgram) -> None:
        """Raise an error for names that are used but not imported. Files without any import pass.

        `run_karel_program` gives `main` all of Karel's functions, imported or not. A direct call of `main` does not.
        """
        if self.imported is None:
            return
        used = {_RUN: self.started[_RUN]} if _RUN in self.started else {}
        if "main" in self.started:
            used |= {name: word for function in source.reached for name, word in self.used.get(function, {}).items()}
        for name, word in sorted(used.items(), key=lambda item: (item[1].line, item[1].column)):
            if name not in self.imported:
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
        self.started[word.text] = word
        self.expect("(")
        self.accept_kind("string")
        self.expect(")")
        self.end_of_line()

    def no_main(self) -> NoReturn:
        close = nearest("main", self.starts)
        if close is not None:
            self.fail(self.words[self.starts[close] + 1], "there is no `main`; expected `def main():`", "main")
        super().no_main()

    # Functions

    def definition(self) -> None:
        self.variables, at = set(), self.at + 1
        while self.words[at].kind != "end" and self.words[at].text != "def":
            if self.words[at].text == "for" and self.words[at + 1].kind == "name":
                self.variables.add(self.words[at + 1].text)
            at += 1
        super().definition()

    def parameters(self) -> None:
        super().parameters()
        if self.accept("->"):
            self.expect("None")

    def parentheses(self, word: Word) -> None:
        super().parentheses(word)
        self.check_hidden(word)
        if word.text != "turn_right" and word.text not in self.starts:
            self.used.setdefault(self.here, {}).setdefault(word.text, word)

    def check_hidden(self, word: Word) -> None:
        """Raise an error if a loop variable hides the function of that name. To Python, a loop variable is local in the
        whole function."""
        if word.text in self.variables:
            reason = f"`{word.text}` is a loop variable in this function, and Python cannot call a number"
            self.fail(word, f"{reason}; name the variable `i` instead")

    # Loops

    def count(self) -> tuple[int, str]:
        """`_ in range(4)`, after the `for`."""
        variable = self.new_name("a loop variable, as in `for _ in range(4):`")
        self.expect("in")
        self.expect("range")
        self.check_hidden(self.words[self.at - 1])
        self.expect("(")
        times = self.number()
        if self.next.text == ",":
            self.fail(self.next, "`range` takes one number here; expected `)`")
        self.expect(")")
        return times, variable.text
