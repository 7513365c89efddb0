"""The syntax machine's steps on a GPU, in Triton: `SyntaxMachine.mask` and `advance` in one kernel each.

Written with tensors, as `karel.syntax` has them, a step takes dozens of operations on a few thousand numbers, and
launching those takes longer than all else in a search. Import this through `syntax_gpu`.
"""

# mypy: ignore-errors
# ruff: noqa: N803 - Triton knows constants by their type, and we by capitals

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def masks(
    states, price, admitted, count,
    WIDTH: tl.constexpr, SYMBOLS: tl.constexpr, SYMBOL_BITS: tl.constexpr, TOKENS: tl.constexpr,
    ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """See `SyntaxMachine.mask`."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    token = tl.arange(0, LANES)
    there = row < count
    control = tl.load(states + row * WIDTH, there, 0)
    spare = tl.load(states + row * WIDTH + 1, there, -1)
    top = tl.load(states + row * WIDTH + 2, there, 0) & ((1 << SYMBOL_BITS) - 1)
    start = (control * SYMBOLS + top) * TOKENS
    both = there[:, None] & (token < TOKENS)[None, :]
    prices = tl.load(price + start[:, None] + token[None, :], both, 0).to(tl.int64)
    tl.store(admitted + row[:, None] * TOKENS + token[None, :], prices <= spare[:, None], both)


@triton.jit
def advances(
    states, tokens, transition, new, count,
    WIDTH: tl.constexpr, SYMBOLS: tl.constexpr, SYMBOL_BITS: tl.constexpr, WORD_BITS: tl.constexpr,
    CONTROL_BITS: tl.constexpr, OPERATION_BITS: tl.constexpr, POP: tl.constexpr, STAY: tl.constexpr,
    TOKENS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """See `SyntaxMachine.advance`."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < count
    control = tl.load(states + row * WIDTH, there, 0)
    spare = tl.load(states + row * WIDTH + 1, there, 0)
    now = tl.load(states + row * WIDTH + 2, there, 0)
    token = tl.load(tokens + row, there, 0)
    known = (token >= 0) & (token < TOKENS)
    place = (control * SYMBOLS + (now & ((1 << SYMBOL_BITS) - 1))) * TOKENS + tl.where(known, token, 0)
    entry = tl.load(transition + place, there, 0).to(tl.int64)
    spare -= entry >> (CONTROL_BITS + OPERATION_BITS)
    alive = (spare >= 0) & known
    operation = (entry >> CONTROL_BITS) & POP
    tl.store(new + row * WIDTH, tl.where(alive, entry & ((1 << CONTROL_BITS) - 1), 0), there)
    tl.store(new + row * WIDTH + 1, tl.where(alive, spare, -1), there)
    popped = operation == POP
    pushed = (operation > STAY) & (operation != POP)
    incoming = operation
    for word in tl.static_range(WIDTH - 2):
        above = now * 0
        if word + 3 < WIDTH:
            above = tl.load(states + row * WIDTH + 3 + word, there, 0)
        up = ((now << SYMBOL_BITS) & ((1 << WORD_BITS) - 1)) | incoming
        down = (now >> SYMBOL_BITS) | ((above & ((1 << SYMBOL_BITS) - 1)) << (WORD_BITS - SYMBOL_BITS))
        tl.store(new + row * WIDTH + 2 + word, tl.where(pushed, up, tl.where(popped, down, now)), there)
        incoming = now >> (WORD_BITS - SYMBOL_BITS)
        now = above
