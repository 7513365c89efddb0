"""The lexer, parser and printer that the paper's text and classroom Python share.

The lexer turns indentation into `indent` and `dedent` words, as Python does. It compares levels as text, so an
indentation may be of any width, and of tabs if they are used consistently. It raises no errors: text that it cannot
read becomes a word with a `problem`. The parser raises the error when it comes to that word, so that an error always
names the first mistake.

A `Spelling` holds a dialect's words as data. A dialect derives a parser from `Parser` for what is outside of the
functions (imports, the call of `main`) and for the head of its counting loop.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from keyword import iskeyword
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from karelsynth.errors import ProgramSyntaxError, listed, nearest
from karelsynth.karel.dialects.source import (
    CALL,
    Comment,
    SourceBlock,
    SourceFunction,
    SourcePlace,
    SourceProgram,
    SourceSpan,
    SourceStatement,
    source_block,
)
from karelsynth.karel.program import DEEPEST, TOO_DEEP, Action, Block, Condition, Not
from karelsynth.karel.tokens import LARGEST_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_COUNTS: Final = {str(n): n for n in range(LARGEST_COUNT + 1)}
_LACKING: Final = {
    "elif": "there is no `elif`; write `else:` with an `if` inside",
    "break": "there is no `break`; a loop ends when its condition is false",
    "continue": "there is no `continue`; put the rest of the loop's body inside an `if`",
    "return": "there is no `return`; put what would come after it inside an `if`",
    "pass": "there is no `pass`, and no empty block; leave out the statement around it, or test with `not`",
    "and": "there is no `and`: a condition tests one sensor; for two, put a second `if` inside the first",
    "or": "there is no `or`: a condition tests one sensor; for two, put a second `if` in the first one's `else:`",
    "True": "there is no `True`: a condition tests a sensor; write the condition under which the loop goes on",
    "False": "there is no `False`: a condition tests a sensor",
    "def": "`def` is only possible at the left margin",
}


class Word(NamedTuple):
    """A piece of the text. `line` and `column` count from 1.

    `kind` is `name`, `number`, `string`, `unclosed` (the quotation mark of a string without an end), `mark` (anything
    else that is visible), or, with an empty text, `newline`, `indent`, `dedent`, `end`. `problem` says what is wrong
    with the word, if anything is.
    """

    kind: str
    text: str
    line: int
    column: int
    problem: str = ""


_PIECE: Final = re.compile(
    r'''
      (?P<string> [rRbBuUfF]{0,2} (?: """ (?:[^\\]|\\.)*? """ | \'\'\' (?:[^\\]|\\.)*? \'\'\'
                                    | "(?!"") (?:[^"\\\n]|\\[^\n])* " | '(?!\'\') (?:[^'\\\n]|\\[^\n])* ' ) )
    | (?P<unclosed> """ .* | \'\'\' .* | ["'] [^\n]* )  # takes the rest, so that the search does not repeat
    | (?P<comment> \#[^\n]* )
    | (?P<newline> \n )
    | (?P<space> [ \t\f\xa0\u2000-\u200a\u202f\u3000]+ )  # as copied from web pages, or typed on a Japanese keyboard
    | (?P<number> [0-9]\w* )
    | (?P<name> [^\W\d]\w* )
    | (?P<mark> -> | == | . )
    ''',
    re.VERBOSE | re.DOTALL,
)
_SPACES: Final = {ord(space): " " for space in "\xa0\u202f" + "".join(map(chr, range(0x2000, 0x200B)))} | {0x3000: "  "}
"""Other space characters count as spaces in an indentation; the ideographic one counts as two."""


def lines_of(text: str) -> list[str]:
    """The lines of a text as line numbers count them. `str.splitlines` knows more line ends."""
    return re.sub(r"\r\n?", "\n", text.removeprefix("\ufeff")).split("\n")


def lex(text: str) -> tuple[list[Word], list[str], list[Comment]]:
    """The words of a text, the last one an `end`; the text's lines; its comments."""
    lines = lines_of(text)
    text = "\n".join(lines)
    words: list[Word] = []
    comments: list[Comment] = []
    levels: list[str] = []
    line, line_start = 1, 0
    fresh, after = True, 1  # whether the line has no word yet, and the column after the last word
    for match in _PIECE.finditer(text):
        kind, piece = str(match.lastgroup), match.group()
        column = match.start() - line_start + 1
        if kind == "newline":
            if not fresh:
                words.append(Word("newline", "", line, after))
            fresh = True
        elif kind == "comment":
            comments.append(Comment(line, column, piece.rstrip(), fresh))
        elif kind != "space":
            if fresh:
                words += _update_levels(text[line_start : match.start()], levels, line, column)
                fresh = False
            if kind == "unclosed":
                mark = piece[:3] if piece[:3] in ('"""', "'''") else piece[0]
                words.append(Word(kind, mark, line, column, "this quotation mark is never closed"))
            else:
                words.append(Word(kind, piece, line, column))
        if "\n" in piece:
            line += piece.count("\n")
            line_start = match.start() + piece.rindex("\n") + 1
        if kind not in ("newline", "space", "comment"):
            after = match.end() - line_start + 1
    if not fresh:
        words.append(Word("newline", "", line, after))
    last = words[-1] if words else Word("end", "", 1, 1)
    ends = ["dedent"] * (len(levels) - 1) + ["end"]
    return words + [Word(kind, "", last.line, last.column) for kind in ends], lines, comments


def _update_levels(indentation: str, levels: list[str], line: int, column: int) -> list[Word]:
    """The words for a line's indentation; updates `levels`, the open levels.

    The first line sets the margin, so a whole program may be indented.
    """
    indentation = indentation.translate(_SPACES)
    if not levels:
        levels.append(indentation)
    if indentation == levels[-1]:
        return []
    if indentation.startswith(levels[-1]):
        levels.append(indentation)
        return [Word("indent", "", line, column)]
    if indentation in levels:
        closed = len(levels) - 1 - levels.index(indentation)
        del levels[len(levels) - closed :]
        return [Word("dedent", "", line, column)] * closed
    if levels[-1].startswith(indentation):
        problem = "this line is indented less than the one above, but lines up with no earlier line"
    else:
        problem = "the indentation mixes tabs and spaces; use one of them throughout"
    return [Word("mark", "", line, column, problem)]


@dataclass(frozen=True)
class Spelling:
    """A dialect's words.

    `main` is the name of the main function.
    `actions` and `conditions` map words to what they mean; a condition's word may stand for a `Not`.
    `heads` are the first lines of the statements, by the node's keyword, with `{}` for count or condition.
    `foreign` maps words of other dialects to this dialect's. `lacking` maps words without a counterpart to a sentence
    that says what to do. `names` are other names with a meaning. With `python`, every name is called with `()`, and a
    loop or an `if` begins a line.
    """

    dialect: str
    main: str
    python: bool
    indent: int
    actions: Mapping[str, Action]
    conditions: Mapping[str, Condition]
    heads: Mapping[str, str]
    foreign: Mapping[str, str]
    lacking: Mapping[str, str]
    names: tuple[str, ...]

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """The words that begin a statement with a block."""
        return tuple(dict.fromkeys(head.replace("(", " ").split()[0] for head in self.heads.values()))

    @cached_property
    def reserved(self) -> frozenset[str]:
        """The names that no helper may have."""
        words = (*self.actions, *self.conditions, *self.keywords, *self.lacking, *self.names)
        return frozenset((*words, "else", "not", "def"))

    @cached_property
    def reason_lacking(self) -> Mapping[str, str]:
        return {**_LACKING, **self.lacking}

    @cached_property
    def action_words(self) -> Mapping[Action, str]:
        return {action: word for word, action in self.actions.items()}

    @cached_property
    def condition_words(self) -> Mapping[Condition, str]:
        return {condition: word for word, condition in self.conditions.items()}


def block_lines(block: Block, spelling: Spelling) -> list[str]:
    """The lines of a function's body."""
    return source_lines(source_block(block), spelling)


def source_lines(block: SourceBlock, spelling: Spelling, level: int = 1) -> list[str]:
    """The lines of a block that may have calls."""
    margin = " " * (spelling.indent * level)
    lines: list[str] = []
    for statement in block:
        opening = head_of(statement, spelling)
        lines += [] if statement.blocks else [f"{margin}{opening}"]
        for body in statement.blocks:
            lines += [f"{margin}{opening}:", *source_lines(body, spelling, level + 1)]
            opening = "else"
    return lines


def head_of(statement: SourceStatement, spelling: Spelling) -> str:
    """The first line of a statement, without indentation and colon."""
    detail = statement.detail
    if statement.keyword == CALL:
        return f"{detail}()"
    if detail is None:
        return f"{spelling.action_words[Action(statement.keyword)]}()"
    about = condition_text(detail, spelling) if not isinstance(detail, int | str) else str(detail)
    head = spelling.heads[statement.keyword].format(about).removesuffix(":")
    if spelling.python and statement.place is not None and statement.place.variable:
        head = head.replace("for _ in", f"for {statement.place.variable} in")
    return head


def condition_text(condition: Condition, spelling: Spelling) -> str:
    """A condition as it is written."""
    negations = ""
    while condition not in spelling.condition_words and isinstance(condition, Not):
        negations, condition = negations + "not ", condition.condition
    return f"{negations}{spelling.condition_words[condition]}{'()' * spelling.python}"


class Parser(ABC):
    """A recursive-descent parser for a text of functions.

    `at` is the index of the next word. `starts` holds the index of the `def` of every function of the text, `here` the
    name of the function that is being read.
    """

    built_in: Mapping[str, Action] = MappingProxyType({})
    """Names of functions whose calls mean an action."""

    def __init__(self, text: str, spelling: Spelling) -> None:
        self.text = text
        self.words, self.lines, self.comments = lex(text)
        self.spelling = spelling
        self.main = spelling.main
        self.at = 0
        self.depth = 0
        self.here = ""
        self.starts: dict[str, int] = {}
        self.functions: dict[str, SourceFunction] = {}
        level = 0
        for index, word in enumerate(self.words[:-1]):
            level += (word.kind == "indent") - (word.kind == "dedent")
            name = self.words[index + 1]
            if level == 0 and word.text == "def" and name.kind == "name":
                self.starts.setdefault(name.text, index)

    def source(self) -> SourceProgram:
        """Read the whole text."""
        if self.next.kind == "end":
            self.fail(self.next, f"the program is empty; expected `def {self.main}():`")
        while self.next.kind != "end":
            if self.next.kind == "string":
                self.docstring()
                self.end_of_line()
            elif self.next.text == "def":
                self.definition()
            else:
                self.outside()
        if self.main not in self.functions:
            self.no_main()
        built_in = {name: action for name, action in self.built_in.items() if name in self.functions}
        comments = tuple(sorted(self.comments))
        dialect, lines = self.spelling.dialect, tuple(self.lines)
        return SourceProgram(self.text, dialect, lines, self.main, self.functions, comments, built_in)

    @abstractmethod
    def outside(self) -> None:
        """Read what is at the left margin and neither a function nor a string."""

    def no_main(self) -> NoReturn:
        """Raise an error, because the main function is missing."""
        self.fail(self.next, f"the program ends here without a `{self.main}`; expected `def {self.main}():`")

    @abstractmethod
    def count(self) -> tuple[int, str]:
        """Read the head of a counting loop after its first word, up to the colon: the count and the loop variable."""

    # Functions

    def definition(self) -> None:
        """Read a function at the left margin into `functions`."""
        name = self.words[self.at + 1]
        if self.starts.get(name.text, self.at) != self.at:
            self.fail(name, f"`{name.text}` is defined twice")
        if name.text in self.spelling.reserved and name.text not in self.built_in:
            self.fail(name, f"`{name.text}` is a built-in name; choose another name for the function")
        head = self.take()
        self.new_name(f"the name of a function, as in `def {self.main}():`")
        self.here = name.text
        self.parameters()
        span = _span(head, self.words[self.at - 1])
        self.functions[name.text] = SourceFunction(name.text, self.block(head), span)

    def parameters(self) -> None:
        """The `()` after the name of a function."""
        if self.spelling.python or self.next.text == "(":
            self.expect("(")
            self.expect(")", "; functions take no arguments here")

    def new_name(self, wanted: str) -> Word:
        if self.next.kind != "name" or iskeyword(self.next.text):
            self.unexpected(wanted)
        return self.take()

    def docstring(self) -> None:
        """A string that is a line of its own, kept as a comment."""
        word = self.take()
        self.comments.append(Comment(word.line, word.column, word.text, True))

    # Blocks and statements

    def block(self, owner: Word) -> SourceBlock:
        """The block after a head: a colon, then the rest of the line or the indented lines below."""
        self.expect(":", f" after the `{owner.text}`" if owner.text == "else" else "")
        if self.next.kind != "newline":
            found = self.line(inline=True)
        else:
            self.at += 1
            found = []
            if self.next.kind == "indent":
                self.at += 1
                while not self.accept_kind("dedent"):
                    found += self.line()
            elif self.next.problem:
                self.fail(self.next, self.next.problem)
            elif self.next.kind not in ("dedent", "end") and self.next.text != "else":
                self.fail(self.next, f"expected an indented line: the body of the `{owner.text}` in line {owner.line}")
        if not found:
            self.fail(owner, f"the `{owner.text}` has an empty body; expected at least one statement, indented")
        return tuple(found)

    def line(self, inline: bool = False) -> list[SourceStatement]:
        """Statements up to the end of their line, or of the block that the last of them opens."""
        found: list[SourceStatement] = []
        start = self.at
        while True:
            word = self.next
            if word.text in self.spelling.keywords:
                begins_line = self.at == start and not inline
                if not begins_line and (self.spelling.python or word.text == "ifelse"):
                    self.fail(word, f"`{word.text}` must begin a line of its own")
                found.append(self.compound(begins_line))
                return found
            if word.kind == "string":
                self.docstring()
            else:
                found.append(self.simple())
            if not self.accept(";") or self.next.kind == "newline":
                break
        self.end_of_line()
        return found

    def compound(self, begins_line: bool) -> SourceStatement:
        """A statement with a block. An `else` belongs to an `if` that begins a line."""
        head = self.take()
        self.deeper(head)
        detail: Condition | int
        variable = ""
        if head.text in ("while", "if", "ifelse"):
            detail = self.condition()
        else:
            detail, variable = self.count()
        span = _span(head, self.words[self.at - 1])
        blocks, else_line = [self.block(head)], 0
        if head.text in ("if", "ifelse"):
            if begins_line and self.next.text == "else":
                else_line = self.next.line
                blocks.append(self.block(self.take()))
            elif head.text == "ifelse":
                self.unexpected(f"the `else:` of the `ifelse` in line {head.line}", ["else"])
        self.depth -= 1
        keyword = {"while": "WHILE", "if": "IF", "ifelse": "IF"}.get(head.text, "REPEAT")
        last = blocks[-1][-1].place
        assert last is not None
        place = SourcePlace(span, last.last_line, else_line, variable)
        return SourceStatement(keyword + "ELSE" * (len(blocks) > 1), detail, tuple(blocks), place)

    def simple(self) -> SourceStatement:
        """A statement without a block: an action, or the call of a helper."""
        word = self.next
        calls = word.text not in self.spelling.actions
        if calls and (word.text not in self.starts or word.text == self.main or word.kind != "name"):
            self.no_statement()
        self.at += 1
        self.parentheses(word)
        place = SourcePlace(_span(word, self.words[self.at - 1]), self.words[self.at - 1].line)
        if calls:
            return SourceStatement(CALL, word.text, (), place)
        return SourceStatement(self.spelling.actions[word.text].value, place=place)

    def no_statement(self) -> NoReturn:
        word, spelling = self.next, self.spelling
        if word.text == "else":
            self.fail(word, "this `else` has no `if` above it with the same indentation")
        if word.text in spelling.conditions:
            self.fail(word, f"`{word.text}` is a condition, not an action; it goes after `while` or `if`")
        if word.text == self.main and self.words[self.at + 1].text == "(":
            self.fail(word, f"`{self.main}` is the whole program; expected a loop instead: there is no recursion")
        if word.kind == "name" and self.words[self.at + 1].text in ("=", "+", "-"):
            loop = spelling.heads["REPEAT"].format(4)
            self.fail(word, f"there are no variables; to do something four times, write `{loop}`")
        helpers = (name for name in self.starts if name not in (self.main, self.here))
        choices = [*spelling.actions, *spelling.keywords, *helpers]
        self.unexpected(f"a statement: {listed(choices)}", choices)

    # Conditions and counts

    def condition(self) -> Condition:
        """A sensor after any number of `not` and opening parentheses. There are no other operators."""
        opened: list[Word] = []
        negations = 0
        while self.next.text in ("not", "("):
            word = self.take()
            if word.text == "(":
                opened.append(word)
            else:
                negations += 1
        word, words = self.next, self.spelling.conditions
        if word.text in self.spelling.actions:
            self.fail(word, f"`{word.text}` is an action, not a condition; expected {listed(words)}")
        if word.text not in words:
            self.unexpected(f"a condition: {listed(words)}", words)
        self.at += 1
        self.parentheses(word)
        for opening in reversed(opened):
            self.expect(")", f" to close the `(` in column {opening.column}")
        self.deeper(word, negations)
        self.depth -= negations
        condition = words[word.text]
        for _ in range(negations):
            condition = Not(condition)
        return condition

    def number(self) -> int:
        """How often a loop runs."""
        word = self.next
        wanted = f"a number from 0 to {LARGEST_COUNT}"
        if word.kind == "name":
            self.fail(word, f"`{word.text}` is no number, and there are no variables; expected {wanted}")
        if word.kind != "number":
            self.unexpected(wanted)
        if word.text not in _COUNTS:
            self.fail(word, f"`{word.text}` is not a valid count; expected {wanted}")
        self.at += 1
        return _COUNTS[word.text]

    def parentheses(self, word: Word) -> None:
        """The `()` after a name."""
        if self.accept("("):
            self.expect(")", f"; `{word.text}` takes nothing between its parentheses")
        elif self.spelling.python:
            self.fail(word, f"expected `()` after `{word.text}`", f"{word.text}()")

    # Moving on

    @property
    def next(self) -> Word:
        return self.words[self.at]

    def take(self) -> Word:
        self.at += 1
        return self.words[self.at - 1]

    def accept(self, text: str) -> bool:
        """Step over the next word if it is this one."""
        accepted = self.next.text == text
        self.at += accepted
        return accepted

    def accept_kind(self, kind: str) -> bool:
        accepted = self.next.kind == kind
        self.at += accepted
        return accepted

    def expect(self, text: str, why: str = "") -> None:
        if not self.accept(text):
            self.unexpected(f"`{text}`{why}", [text])

    def end_of_line(self) -> None:
        if not self.accept_kind("newline"):
            self.unexpected("`;` or the end of the line")

    def deeper(self, word: Word, levels: int = 1) -> None:
        self.depth += levels
        if self.depth > DEEPEST:
            self.fail(word, TOO_DEEP)

    # Errors

    def unexpected(self, wanted: str, choices: Iterable[str] = ()) -> NoReturn:
        """Raise an error for the next word. `choices` are the words that it could be a misspelling of."""
        word, spelling = self.next, self.spelling
        if word.problem:
            self.fail(word, word.problem)
        if word.text in spelling.reason_lacking:
            self.fail(word, spelling.reason_lacking[word.text])
        if word.kind in ("indent", "dedent"):
            direction = "more" if word.kind == "indent" else "less"
            self.fail(word, f"this line is indented {direction} than the one above; expected {wanted}")
        if word.kind in ("newline", "end"):
            self.fail(word, f"the {'line' if word.kind == 'newline' else 'program'} ends here; expected {wanted}")
        known = {*spelling.actions, *spelling.conditions, *spelling.keywords, "def", "else", "not"}
        if word.kind != "name" or word.text in known:
            shown = word.text.partition("\n")[0]
            shown = f"`{shown}`" if shown.isprintable() else f"character U+{ord(shown[0]):04X}"
            self.fail(word, f"unexpected {shown}; expected {wanted}")
        choices = list(choices)
        suggestion = spelling.foreign.get(word.text) or nearest(word.text, choices) or nearest(word.text, known)
        self.fail(word, f"unknown word `{word.text}`; expected {wanted}", suggestion)

    def fail(self, word: Word, reason: str, suggestion: str | None = None) -> NoReturn:
        line = self.lines[word.line - 1]
        raise ProgramSyntaxError(
            reason,
            line=word.line,
            column=word.column,
            source_line=line,
            suggestion=suggestion,
            width=min(len(word.text), len(line) - word.column + 1),
        )


def _span(first: Word, last: Word) -> SourceSpan:
    """The text from one word to another. Words of one statement are on one line."""
    return SourceSpan(first.line, first.column, last.column + len(last.text) - first.column)
