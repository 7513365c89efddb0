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
(`SyntaxTables.convert`), the same code works on tensors on a GPU. On a CPU there are two compiled loops: `masks_along`
for teacher forcing, and `append_tokens` for each step of a search.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from karelsynth.karel.compiled import BoolArray, I16Array, I32Array, I64Array, U8Array, compiled, read_only
from karelsynth.karel.grammar import KAREL, Grammar
from karelsynth.karel.syntax_compiler import (
    ACCEPT,
    CONTROL_BITS,
    CONTROL_MASK,
    DEAD,
    MOST_SPARE,
    OPERATION_BITS,
    POP,
    STAY,
    SyntaxTables,
    compile_grammar,
)
from karelsynth.karel.tokens import PAD, VOCABULARY_SIZE, token_bytes, token_name

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
        new[..., 0] = (entry & CONTROL_MASK) * alive
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
        """Whether a sequence of ids, without the padding at its end, is a program of the language."""
        length = len(tokens)
        while length and tokens[length - 1] == PAD:
            length -= 1
        return length <= self.max_length and self.grammar.admits([token_name(token) for token in tokens[:length]])

    def masks_along(
        self, tokens: U8Array, lengths: I64Array, rows: I64Array
    ) -> tuple[BoolArray, tuple[int, int] | None]:
        """The masks before the tokens of N programs, and the first (program, token) that is refused, or None.

        Args:
            tokens: [N, L]. Numbers that are no token are refused.
            lengths: [N].
            rows: [N, L], the row of the result for each token: 0 … P − 1 without gaps, or negative for no row.

        Returns masks, bool [P, 52].
        """
        masks = np.empty((int(rows.max(initial=-1)) + 1, VOCABULARY_SIZE), np.bool_)
        wrong = _write_masks(
            token_bytes(tokens), np.ascontiguousarray(lengths, np.int64), np.ascontiguousarray(rows, np.int64),
            self.tables.transition, self.tables.price, self.symbols, *self.start, masks,
        )  # fmt: skip
        return masks, None if wrong < 0 else divmod(int(wrong), tokens.shape[1])

    def append_tokens(
        self,
        states: I64Array,
        tokens: U8Array,
        lengths: I64Array,
        chosen: I64Array,
        active: BoolArray,
        *,
        append_forced: bool,
    ) -> None:
        """Append a token to each of N prefixes, and then the forced tokens after it.

        Args:
            states: int64 [N, width], the state after each prefix; updated in place.
            tokens: uint8 [N, L], the prefixes; updated in place. A row of L tokens stays as it is.
            lengths: int64 [N], the length of each prefix; updated in place.
            chosen: int64 [N], the token to append, or NONE to append forced tokens only. A number that is no token
                makes the state dead.
            active: bool [N], the rows to append to.
            append_forced: whether to append forced tokens.
        """
        _append(
            states, tokens, lengths, chosen, active, append_forced, self.tables.transition, self.tables.forced,
            self.symbols, self.symbol_bits, self.word_bits,
        )  # fmt: skip

    def _row(self, state: Any) -> Any:
        return state[..., 0] * self.symbols + (state[..., 2] & ((1 << self.symbol_bits) - 1))


@cache
def syntax_machine(grammar: Grammar = KAREL, max_length: int = DEFAULT_MAX_LENGTH) -> SyntaxMachine:
    """A cached machine. Compiling one takes some milliseconds."""
    return SyntaxMachine(grammar, max_length)


@compiled(
    types.int64(
        read_only(types.uint8, 2), read_only(types.int64, 1), read_only(types.int64, 2), read_only(types.int32, 2),
        read_only(types.int16, 2), types.int64, types.int64, types.int64, types.boolean[:, ::1],
    )
)  # fmt: skip
def _write_masks(
    tokens: U8Array,
    lengths: I64Array,
    rows: I64Array,
    transition: I32Array,
    price: I16Array,
    symbols: int,
    start: int,
    most_spare: int,
    masks: BoolArray,
) -> int:
    """Fill masks [P, 52]: row rows[n, t] is the mask before token t of program n. Negative rows are skipped.

    Returns n · L + t for the first wrong token t of program n, or -1.
    """
    stack = np.zeros(tokens.shape[1] + 2, np.int64)
    for number in range(tokens.shape[0]):
        control, spare, depth = start, most_spare, 0
        for at in range(lengths[number]):
            row = control * symbols + stack[depth]
            out = rows[number, at]
            if out >= 0:
                for token in range(VOCABULARY_SIZE):
                    masks[out, token] = price[row, token] <= spare
            token = tokens[number, at]
            if token >= VOCABULARY_SIZE or price[row, token] > spare:
                return int(number * tokens.shape[1] + at)
            entry = transition[row, token]
            spare -= entry >> (CONTROL_BITS + OPERATION_BITS)
            control = entry & CONTROL_MASK
            operation = (entry >> CONTROL_BITS) & POP
            if operation == POP:
                depth -= 1
            elif operation != STAY:
                depth += 1
                stack[depth] = operation
    return -1


@compiled(forceinline=True)
def append_to_row(
    row: int,
    token: int,
    states: I64Array,
    tokens: U8Array,
    lengths: I64Array,
    append_forced: bool,
    transition: I32Array,
    forced: I64Array,
    symbols: int,
    symbol_bits: int,
    word_bits: int,
) -> None:
    """`SyntaxMachine.append_tokens` for one row. Allocates nothing, so that a GPU can run it."""
    words, low, top_shift = states.shape[1] - 2, (1 << symbol_bits) - 1, word_bits - symbol_bits
    if token < 0 and append_forced:
        token = forced[states[row, 0] * symbols + (states[row, 2] & low)]
    while token >= 0 and lengths[row] < tokens.shape[1]:
        known = token < VOCABULARY_SIZE
        entry = transition[states[row, 0] * symbols + (states[row, 2] & low), token if known else 0]
        operation = (entry >> CONTROL_BITS) & POP
        states[row, 0] = entry & CONTROL_MASK
        states[row, 1] -= entry >> (CONTROL_BITS + OPERATION_BITS)
        if states[row, 1] < 0 or not known:
            states[row, 0], states[row, 1] = DEAD, -1
        if operation == POP:
            for word in range(words):
                above = states[row, 3 + word] if word + 1 < words else 0
                states[row, 2 + word] = states[row, 2 + word] >> symbol_bits | (above & low) << top_shift
        elif operation != STAY:
            incoming = np.int64(operation)
            for word in range(words):
                now = states[row, 2 + word]
                states[row, 2 + word] = (now << symbol_bits & ((1 << word_bits) - 1)) | incoming
                incoming = now >> top_shift
        tokens[row, lengths[row]] = token
        lengths[row] += 1
        token = forced[states[row, 0] * symbols + (states[row, 2] & low)] if append_forced else -1


@compiled(
    types.void(
        types.int64[:, ::1], types.uint8[:, ::1], types.int64[::1], read_only(types.int64, 1),
        read_only(types.boolean, 1), types.boolean, read_only(types.int32, 2), read_only(types.int64, 1),
        types.int64, types.int64, types.int64,
    )
)  # fmt: skip
def _append(
    states: I64Array,
    tokens: U8Array,
    lengths: I64Array,
    chosen: I64Array,
    active: BoolArray,
    append_forced: bool,
    transition: I32Array,
    forced: I64Array,
    symbols: int,
    symbol_bits: int,
    word_bits: int,
) -> None:
    for row in range(len(states)):
        if active[row]:
            append_to_row(
                row, chosen[row], states, tokens, lengths, append_forced, transition, forced, symbols, symbol_bits,
                word_bits,
            )  # fmt: skip
