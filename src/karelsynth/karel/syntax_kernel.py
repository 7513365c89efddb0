"""The syntax machine as compiled code.

Teacher forcing calls `masks_along` for every batch: it returns `SyntaxMachine.mask` before each token of whole
programs. Searches on a CPU call `append_tokens` at every step: it does `SyntaxMachine.advance` and appends forced
tokens.
"""

from __future__ import annotations

import numpy as np
from numba import types

from karelsynth.karel.compiled import BoolArray, I16Array, I32Array, I64Array, U8Array, compiled, read_only
from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.karel.syntax_compiler import CONTROL_BITS, DEAD, OPERATION_BITS, POP, STAY
from karelsynth.karel.tokens import VOCABULARY_SIZE, token_bytes

_CONTROL_MASK = (1 << CONTROL_BITS) - 1


@compiled(
    types.int64(
        read_only(types.uint8, 2), read_only(types.int64, 1), read_only(types.int64, 2), read_only(types.int32, 2),
        read_only(types.int16, 2), types.int64, types.int64, types.int64, types.boolean[:, ::1],
    )
)  # fmt: skip
def _walk(
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
            control = entry & _CONTROL_MASK
            operation = (entry >> CONTROL_BITS) & POP
            if operation == POP:
                depth -= 1
            elif operation != STAY:
                depth += 1
                stack[depth] = operation
    return -1


def masks_along(
    machine: SyntaxMachine, tokens: U8Array, lengths: I64Array, rows: I64Array
) -> tuple[BoolArray, tuple[int, int] | None]:
    """The masks before the tokens of N programs, and the first (program, token) that the machine refuses, or None.

    Args:
        tokens: [N, L]. Numbers that are no token are refused.
        lengths: [N].
        rows: [N, L], the row of the result for each token: 0 … P − 1 without gaps, or negative for no row.

    Returns masks, bool [P, 52].
    """
    masks = np.empty((int(rows.max(initial=-1)) + 1, VOCABULARY_SIZE), np.bool_)
    wrong = _walk(
        token_bytes(tokens),
        np.ascontiguousarray(lengths, np.int64),
        np.ascontiguousarray(rows, np.int64),
        machine.tables.transition,
        machine.tables.price,
        machine.symbols,
        *machine.start,
        masks,
    )
    return masks, None if wrong < 0 else divmod(int(wrong), tokens.shape[1])


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
    """`append_tokens` for one row. Allocates nothing, so that a GPU can run it."""
    words, low, top_shift = states.shape[1] - 2, (1 << symbol_bits) - 1, word_bits - symbol_bits
    if token < 0 and append_forced:
        token = forced[states[row, 0] * symbols + (states[row, 2] & low)]
    while token >= 0 and lengths[row] < tokens.shape[1]:
        known = token < VOCABULARY_SIZE
        entry = transition[states[row, 0] * symbols + (states[row, 2] & low), token if known else 0]
        operation = (entry >> CONTROL_BITS) & POP
        states[row, 0] = entry & _CONTROL_MASK
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
def _write(
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


def append_tokens(
    machine: SyntaxMachine,
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
        chosen: int64 [N], the token to append, or NONE to append forced tokens only. A number that is no token makes
            the state dead.
        active: bool [N], the rows to append to.
        append_forced: whether to append forced tokens.
    """
    tables = machine.tables
    _write(
        states, tokens, lengths, chosen, active, append_forced, tables.transition, tables.forced, machine.symbols,
        machine.symbol_bits, machine.word_bits,
    )  # fmt: skip
