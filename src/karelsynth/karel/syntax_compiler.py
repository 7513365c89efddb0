"""Compiles a grammar into the tables of the syntax machine.

The automaton's places are LR items (an alternative of a rule with a dot in it) and places inside a block. A place
inside a block holds the last action and the length of its run, which is all that `Grammar.never_adjacent` and
`longest_run` need. A move is a token that may come at a place, and where it leads. Entering a block pushes the item
after it; so does a condition of more than one token. A finished statement always leads to "in a block, after a control
statement", so statements push nothing themselves.

`needed[place][subset]` is the least number of tokens from a place to the end of its level (where the stack is popped)
that supplies at least the required actions in `subset`. It is computed from the moves by relaxation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, NamedTuple, Union

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.grammar import BLOCK, Alternative, Grammar
from karelsynth.karel.tokens import ACTIONS, ID, PAD, VOCABULARY_SIZE

DEAD: Final = 0
"""The control state after a token that was not admitted."""
ACCEPT: Final = 1
"""The control state after a program's last token."""

# A transition is one integer: next control state, stack operation, price.
CONTROL_BITS: Final = 12
CONTROL_MASK: Final = (1 << CONTROL_BITS) - 1
OPERATION_BITS: Final = 8
STAY: Final = 0
POP: Final = (1 << OPERATION_BITS) - 1
"""Other operations push the symbol of that number."""
NEVER: Final = 1 << 10
"""The price of a token that has no transition, in the packed ones."""
MOST_SPARE: Final = 2**15 - 2
"""The most spare tokens. In the table of prices, tokens without a transition cost one more."""
NONE: Final = -1
"""No token."""
_INFINITE: Final = 10**6


@dataclass(frozen=True)
class SyntaxTables:
    """The automaton as arrays, rows by control state and top of the stack (`row = control · symbols + top`)."""

    transition: Any
    """int32 [rows, 52]: next control | operation << 12 | price << 20."""
    price: Any
    """int16 [rows, 52]; MOST_SPARE + 1 where there is no transition."""
    forced: Any
    """int64 [rows]: the forced token (see `Grammar.forced_tokens`), or NONE where there is a choice."""

    def convert(self, function: Callable[[NDArray[Any]], Any]) -> SyntaxTables:
        """The same tables in another array library, for example `tables.convert(torch.as_tensor)`."""
        return SyntaxTables(*(function(getattr(self, field.name)) for field in fields(self)))


class _Item(NamedTuple):
    """Before symbol `dot` of an alternative of a rule."""

    rule: str
    alternative: Alternative
    dot: int

    @property
    def symbol(self) -> str | None:
        return self.alternative[self.dot] if self.dot < len(self.alternative) else None

    def next(self) -> _Item:
        return self._replace(dot=self.dot + 1)


class _InBlock(NamedTuple):
    """Inside a block: after nothing yet ("start"), after a control statement, or after `run` equal actions."""

    last: str
    run: int = 0


_Place = Union[_Item, _InBlock]
_BLOCK_START: Final = _InBlock("start")
_AFTER_CONTROL: Final = _InBlock("control")
_Extra = tuple[int, ...]
"""For each subset of the required actions (as bits): the number of extra tokens that it needs."""


class _Move(NamedTuple):
    """A token that may come at a place, and the place after it."""

    token: str | None
    """None for the token that closes a block; it depends on the block."""
    target: _Place | None
    """None if the move pops the stack, whose symbol says where to go."""
    met: int = 0
    """The required actions that the token supplies, as bits."""
    push: _Item | None = None
    """The item to return to when `target`'s level ends."""


class _Symbol(NamedTuple):
    """A stack symbol: the item to return to, and the extra tokens of everything below it."""

    back: _Item
    below: _Extra


class ParserTables(NamedTuple):
    """A pushdown automaton for compiled code that only checks syntax."""

    transition: NDArray[np.int32]
    """int32 [rows, 52], see `SyntaxTables`."""
    symbols: int
    """The number of stack symbols. Symbol 0 is the empty stack."""
    start: int
    """The control state before the first token."""


@dataclass(frozen=True)
class CompiledGrammar:
    """The automaton of a grammar."""

    tables: SyntaxTables
    parser: ParserTables
    """The part that compiled parsers need."""
    shortest: int
    """The number of tokens of the shortest program."""


@cache
def compile_grammar(grammar: Grammar) -> CompiledGrammar:
    """Compile a grammar. The result is cached."""
    return _Automaton(_Needs(grammar)).compile()


class _Needs:
    """The moves from each place, and the least number of tokens from it; see the module's docstring."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.subsets = range(1 << len(grammar.required))
        self.parts = [[part for part in self.subsets if part & ~subset == 0] for subset in self.subsets]
        """For each subset of the required actions, the subsets of it."""
        self.first = _Item("program", grammar.rules["program"][0], 0)
        self.moves: dict[_Place, list[_Move]] = {}
        waiting: list[_Place] = [self.first]
        while waiting:
            place = waiting.pop()
            if place not in self.moves:
                self.moves[place] = self._moves(place)
                waiting += [to for move in self.moves[place] for to in (move.target, move.push) if to is not None]
        self.needed = {place: [_INFINITE] * len(self.subsets) for place in self.moves}
        while self._relax():
            pass

    def _moves(self, place: _Place) -> list[_Move]:
        """The moves from a place, in the order of the grammar's alternatives."""
        rules = self.grammar.rules
        if isinstance(place, _InBlock):
            found = []
            for alternative in rules["statement"]:
                token = alternative[0]
                if token not in ACTIONS:
                    found.append(_Move(token, _Item("statement", alternative, 1)))
                elif (after := self._after_action(place, token)) is not None:
                    supplied = sum(1 << bit for bit, actions in enumerate(self.grammar.required) if token in actions)
                    found.append(_Move(token, after, supplied))
            return found if place == _BLOCK_START else [*found, _Move(None, None)]
        symbol, following = place.symbol, place.next()
        if symbol is None:  # the end of the program
            return []
        if symbol in rules:
            return [
                _Move(alternative[0], following)
                if len(alternative) == 1
                else _Move(alternative[0], _Item(symbol, alternative, 1), push=following)
                for alternative in rules[symbol]
            ]
        if following.symbol == BLOCK:
            return [_Move(symbol, _BLOCK_START, push=following.next())]
        if following.symbol is None and following.rule not in ("program", "statement"):
            return [_Move(symbol, None)]  # the last token of a condition of several
        return [_Move(symbol, _after_symbol(following))]

    def _after_action(self, place: _InBlock, action: str) -> _InBlock | None:
        """The place after an action, or None where the grammar forbids it."""
        if (place.last, action) in self.grammar.never_adjacent:
            return None
        run = place.run + 1 if place.last == action else 1
        limit = self.grammar.longest_run
        if limit is None:
            return _InBlock(action)  # runs need no counting
        return _InBlock(action, run) if run <= limit else None

    def _relax(self) -> bool:
        """Lower the numbers once; returns whether one has changed."""
        changed = False
        for place, moves in reversed(self.moves.items()):
            for subset in self.subsets:
                at_the_end = 0 if subset == 0 and not moves else _INFINITE
                best = min((self._bound(move, subset) for move in moves), default=at_the_end)
                changed |= best != self.needed[place][subset]
                self.needed[place][subset] = best
        return changed

    def _bound(self, move: _Move, subset: int) -> int:
        """The least number of tokens to the end of the level, this move's included."""
        if move.target is None:  # the token that closes a block counts after the block
            return int(move.token is not None) if subset == 0 else _INFINITE
        subset &= ~move.met
        inside = self.needed[move.target]
        if move.push is None:
            return 1 + inside[subset]
        after = self.needed[move.push]
        return 1 + min(inside[part] + after[subset - part] for part in self.parts[subset])

    def extra(self, place: _Place, below: _Extra) -> _Extra:
        """The extra tokens of a place on top of a stack."""
        local = self.needed[place]
        return tuple(
            min(_INFINITE, *(local[part] - local[0] + below[subset - part] for part in self.parts[subset]))
            for subset in self.subsets
        )

    def cost(self, place: _Place, missing: int, below: _Extra) -> int:
        """The number of tokens to the end of the program, without those that the stack needs in any case."""
        return self.needed[place][0] + self.extra(place, below)[missing]


class _Visit(NamedTuple):
    """A control state (a place and the missing required actions) and the symbol on top of the stack."""

    place: _Place
    missing: int
    top: _Symbol | None


class _Automaton:
    """Explores all reachable states and numbers control states and stack symbols in order of discovery."""

    def __init__(self, needs: _Needs) -> None:
        self.needs = needs
        self.grammar = needs.grammar
        self.controls: dict[tuple[_Place, int], int] = {}
        self.symbols: dict[_Symbol | None, int] = {None: 0}
        self.under: dict[_Symbol, set[_Symbol | None]] = {}  # the symbols below each symbol
        self.after_pop: dict[_Symbol, set[tuple[_Place, int]]] = {}
        self.entries: dict[tuple[int, int, int], int] = {}
        self.waiting: list[_Visit] = []
        self.reached: set[_Visit] = set()

    def compile(self) -> CompiledGrammar:
        everything = self.needs.subsets[-1]
        start = self.control(self.needs.first, everything)
        self.reach(_Visit(self.needs.first, everything, None))
        while self.waiting:
            self.visit(self.waiting.pop())
        controls, symbols = ACCEPT + 1 + len(self.controls), len(self.symbols)
        assert symbols < POP, "too many stack symbols for the packed transition"
        assert controls < 1 << CONTROL_BITS, "too many control states for the packed transition"
        never = DEAD | NEVER << (CONTROL_BITS + OPERATION_BITS)
        transition = np.full((controls * symbols, VOCABULARY_SIZE), never, np.int64)
        for (control, symbol, token), entry in self.entries.items():
            transition[control * symbols + symbol, token] = entry
        price = transition >> (CONTROL_BITS + OPERATION_BITS)
        price = np.where(price < NEVER, price, MOST_SPARE + 1).astype(np.int16)
        forced_ids = np.array([ID[token] for token in sorted(self.grammar.forced_tokens())], np.int64)
        may_come = price[:, forced_ids] <= MOST_SPARE
        forced = np.where(may_come, forced_ids, NONE).max(1, initial=NONE)
        # Padding after the end changes nothing, though the mask does not admit it.
        transition[ACCEPT * symbols : (ACCEPT + 1) * symbols, PAD] = ACCEPT
        tables = SyntaxTables(transition.astype(np.int32), price, forced)
        parser = ParserTables(tables.transition, symbols, start)
        return CompiledGrammar(tables, parser, self.needs.needed[self.needs.first][everything])

    def control(self, place: _Place, missing: int) -> int:
        if isinstance(place, _Item) and place.rule == "program" and place.symbol is None:
            return ACCEPT
        return self.controls.setdefault((place, missing), ACCEPT + 1 + len(self.controls))

    def reach(self, visit: _Visit) -> None:
        if visit not in self.reached and self.control(visit.place, visit.missing) != ACCEPT:
            self.reached.add(visit)
            self.waiting.append(visit)

    def stack_extra(self, top: _Symbol | None) -> _Extra:
        if top is None:
            return tuple(0 if subset == 0 else _INFINITE for subset in self.needs.subsets)
        return self.needs.extra(top.back, top.below)

    def visit(self, visit: _Visit) -> None:
        """Add the transitions of a control state with one symbol on top of the stack."""
        below = self.stack_extra(visit.top)
        now = self.needs.cost(visit.place, visit.missing, below)
        for move in self.needs.moves[visit.place]:
            self.add(visit, move, below, now)

    def add(self, visit: _Visit, move: _Move, below: _Extra, now: int) -> None:
        """Add a transition. Its price is one token, plus the cost of finishing after it, minus the cost `now`."""
        needs, top, missing = self.needs, visit.top, visit.missing & ~move.met
        token, target = move.token, move.target
        if target is None:
            assert top is not None
            if token is None:
                token, target = top.back.symbol, _after_symbol(top.back.next())
            else:
                target = top.back
            operation = POP
            then = needs.cost(target, missing, top.below) - needs.needed[top.back][0]
            self.after_pop.setdefault(top, set()).add((target, missing))
            reached = [_Visit(target, missing, under) for under in self.under[top]]
        elif move.push is not None:
            symbol = _Symbol(move.push, below)
            operation = self.symbols.setdefault(symbol, len(self.symbols))
            then = needs.cost(target, missing, self.stack_extra(symbol)) + needs.needed[move.push][0]
            self.under.setdefault(symbol, set()).add(top)
            reached = [_Visit(target, missing, symbol)]
            reached += [_Visit(*after, top) for after in self.after_pop.get(symbol, ())]
        else:
            operation = STAY
            then = needs.cost(target, missing, below)
            reached = [_Visit(target, missing, top)]
        assert token is not None
        price = 1 + then - now
        if price >= NEVER:
            return  # the missing actions cannot be supplied
        assert price >= 0
        entry = self.control(target, missing) | operation << CONTROL_BITS | price << (CONTROL_BITS + OPERATION_BITS)
        self.entries[self.control(visit.place, visit.missing), self.symbols[top], ID[token]] = entry
        for found in reached:
            self.reach(found)


def _after_symbol(item: _Item) -> _Place:
    """The place after a symbol. The end of a statement is "in a block, after a control statement"."""
    return _AFTER_CONTROL if item.symbol is None and item.rule == "statement" else item
