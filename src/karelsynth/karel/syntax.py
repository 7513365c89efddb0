"""The syntax machine: which tokens may come next, for thousands of prefixes at once.

A `Grammar` is compiled into a pushdown automaton. The state of a prefix is a row of integers, so that a search copies
and reorders the states of its hypotheses as an array int64 [N, width]:

    column 0   the control state: the position in a rule, and the required actions that are still missing
    column 1   spare: the number of tokens left beyond the fewest that complete the program
    column 2…  the stack of open blocks and conditions, packed into words, the innermost lowest

The language is the grammar's programs of at most `max_length` tokens:

    state = machine.initial(n)                      # before `DEF`
    mask = machine.mask(state)                      # [n, 52]: some program continues with token t
    state = machine.advance(state, tokens)          # consume one token each
    machine.accepts(state)                          # [n]: the tokens so far are a program

Every token has a price: the number of spare tokens that it uses up. A token is admitted if the automaton has a
transition for it and the price is at most the spare tokens. This makes the mask exact: every admitted token can be
completed to a program, and no other token can.

Required actions (see `Grammar.required`) are part of the price. The cost of supplying them depends on the whole stack
of open blocks, but only through a small vector: the extra tokens needed for each subset of the requirements. There are
few such vectors, so each stack symbol includes the vector of everything below it.

`mask` and `advance` use indexing and integer arithmetic only. With `tables` converted to another array library
(`SyntaxTables.convert`), the same code works on tensors on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.grammar import KAREL, Grammar
from karelsynth.karel.syntax_compiler import (
    ACCEPT,
    CONTROL_BITS,
    DEAD,
    MOST_SPARE,
    OPERATION_BITS,
    POP,
    STAY,
    SyntaxTables,
    compile_grammar,
)
from karelsynth.karel.tokens import PAD, VOCABULARY_SIZE

DEFAULT_MAX_LENGTH: Final = 128
_WORD_BITS: Final = 60  # of int64; the sign and three more bits stay unused


class SyntaxMachine:
    """See the module's docstring."""

    def __init__(self, grammar: Grammar = KAREL, max_length: int = DEFAULT_MAX_LENGTH) -> None:
        compiled = compile_grammar(grammar)
        if max_length < compiled.shortest:
            raise ValueError(f"the shortest program has {compiled.shortest} tokens; max_length is {max_length}")
        if max_length - compiled.shortest > MOST_SPARE:
            raise ValueError(f"max_length goes to {compiled.shortest + MOST_SPARE:,}, not to {max_length:,}")
        self.grammar = grammar
        self.max_length = max_length
        self.tables: SyntaxTables = compiled.tables
        self.symbols = compiled.parser.symbols
        self.start = (compiled.parser.start, max_length - compiled.shortest)
        """The control state and the spare tokens before the first token."""
        self.symbol_bits = (self.symbols - 1).bit_length()
        self.word_bits = _WORD_BITS // self.symbol_bits * self.symbol_bits
        # Opening a level takes at least two tokens and closing it one, so max_length bounds the depth.
        deepest = (max_length - compiled.shortest) // 3 + 1
        self.words = -(-deepest * self.symbol_bits // self.word_bits)
        self.width = 2 + self.words

    def initial(self, count: int) -> NDArray[np.int64]:
        """States before the first token, int64 [count, width]."""
        state = np.zeros((count, self.width), np.int64)
        state[:, :2] = self.start
        return state

    def mask(self, state: Any, tables: SyntaxTables | None = None) -> Any:
        """Which tokens are admitted: bool [..., 52] for states [..., width]."""
        price = (tables or self.tables).price
        return price[self._row(state)] <= state[..., 1:2]

    def advance(self, state: Any, tokens: Any, tables: SyntaxTables | None = None) -> Any:
        """The states [..., width] after one token [...] each. What is not admitted, or no token, leads to DEAD.

        After the end of a program, `<pad>` changes nothing.
        """
        known = (tokens >= 0) & (tokens < VOCABULARY_SIZE)  # −1 would index the last token, and 52 is out of range
        entry = (tables or self.tables).transition[self._row(state), tokens * known]
        spare = state[..., 1] - (entry >> (CONTROL_BITS + OPERATION_BITS))
        alive = (spare >= 0) & known
        operation = (entry >> CONTROL_BITS) & POP
        new = state + 0  # a copy, in any array library
        new[..., 0] = (entry & ((1 << CONTROL_BITS) - 1)) * alive
        new[..., 1] = spare * alive - (~alive) * 1
        popped = operation == POP
        pushed = (operation > STAY) & ~popped
        kept = ~popped & ~pushed
        bits, top_shift = self.symbol_bits, self.word_bits - self.symbol_bits
        low = (1 << bits) - 1
        incoming = operation + 0
        for word in range(self.words):
            now = state[..., 2 + word]
            above = state[..., 3 + word] if word + 1 < self.words else now * 0
            up = ((now << bits) & ((1 << self.word_bits) - 1)) | incoming
            down = (now >> bits) | ((above & low) << top_shift)
            new[..., 2 + word] = now * kept + up * pushed + down * popped
            incoming = now >> top_shift
        return new

    def forced_token(self, state: Any, tables: SyntaxTables | None = None) -> Any:
        """The forced token after each state, [...], or NONE (−1) if there is a choice; see `Grammar.forced_tokens`."""
        return (tables or self.tables).forced[self._row(state)]

    def accepts(self, state: Any) -> Any:
        """Whether the tokens so far are a whole program: bool [...]."""
        return state[..., 0] == ACCEPT

    def read(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """The state after some tokens, [width]."""
        state: NDArray[np.int64] = self.initial(1)[0]
        for token in tokens:
            state = self.advance(state, token)
        return state

    def admits(self, tokens: Sequence[int]) -> bool:
        """Whether a sequence of ids, without the padding at its end, is a program of the grammar.

        For one sequence, Python lists are ten times as fast as `advance`.
        """
        length = len(tokens)
        while length and tokens[length - 1] == PAD:
            length -= 1
        transition, (control, spare), stack = self._transitions, self.start, [0]
        for token in tokens[:length]:
            if not 0 <= token < VOCABULARY_SIZE or control == ACCEPT:
                return False
            entry = transition[control * self.symbols + stack[-1]][token]
            spare -= entry >> (CONTROL_BITS + OPERATION_BITS)
            control = entry & ((1 << CONTROL_BITS) - 1)
            if spare < 0 or control == DEAD:
                return False
            operation = (entry >> CONTROL_BITS) & POP
            if operation == POP:
                stack.pop()
            elif operation != STAY:
                stack.append(operation)
        return bool(control == ACCEPT)

    @cached_property
    def _transitions(self) -> list[list[int]]:
        return self.tables.transition.tolist()  # type: ignore[no-any-return]

    def _row(self, state: Any) -> Any:
        return state[..., 0] * self.symbols + (state[..., 2] & ((1 << self.symbol_bits) - 1))


@cache
def syntax_machine(grammar: Grammar = KAREL, max_length: int = DEFAULT_MAX_LENGTH) -> SyntaxMachine:
    """A cached machine. Compiling one takes some milliseconds."""
    return SyntaxMachine(grammar, max_length)
