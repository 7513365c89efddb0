"""The Triton kernels: an LSTM's cells, forward and backward, and the steps of the syntax machine.

Import them through `triton_launch`, since Triton comes only with PyTorch for GPUs.

The cells are the twins of `cell_kernel.cells`, which says why they exist: from the terms of the gates to the new state
in one pass. A program of a cell kernel does one row: a hypothesis or a node, and an example. Numbers may be of any
precision, except that c and its gradient are float32 in training. All arithmetic is in float32.

The syntax machine's `mask` and `advance` (`karel.syntax`) take dozens of tensor operations on a few thousand numbers.
Launching those takes longer than all else in a search, so there is one kernel for each.
"""

# mypy: ignore-errors
# ruff: noqa: N803 - Triton knows constants by their type, and we by capitals

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    return 2 / (1 + tl.exp(-2 * x)) - 1


@triton.jit
def _gates_at(base, row, at, inside, SIZE: tl.constexpr):
    """Four float32 vectors: i, f, o, g."""
    start = base + row * 4 * SIZE + at
    i = tl.load(start, inside, 0.0).to(tl.float32)
    f = tl.load(start + SIZE, inside, 0.0).to(tl.float32)
    o = tl.load(start + 2 * SIZE, inside, 0.0).to(tl.float32)
    g = tl.load(start + 3 * SIZE, inside, 0.0).to(tl.float32)
    return i, f, o, g


@triton.jit
def _put_gates(base, row, at, inside, i, f, o, g, SIZE: tl.constexpr):
    start = base + row * 4 * SIZE + at
    tl.store(start, i, inside)
    tl.store(start + SIZE, f, inside)
    tl.store(start + 2 * SIZE, o, inside)
    tl.store(start + 3 * SIZE, g, inside)


@triton.jit
def _cell(i, f, o, g, before):
    """Gates after sigmoid and tanh, c and h, from gates and c before."""
    i, f, o, g = tl.sigmoid(i), tl.sigmoid(f), tl.sigmoid(o), _tanh(g)
    after = f * before + i * g
    return i, f, o, g, after, o * _tanh(after)


@triton.jit
def _cell_backward(of_h, of_c, i, f, o, g, after, before):
    """From the gradients of h and c those of the four gates and of c before."""
    tanh_c = _tanh(after)
    of_c += of_h * o * (1 - tanh_c * tanh_c)
    grad_i, grad_f = of_c * g * i * (1 - i), of_c * before * f * (1 - f)
    grad_o, grad_g = of_h * tanh_c * o * (1 - o), of_c * i * (1 - g * g)
    return grad_i, grad_f, grad_o, grad_g, of_c * f


@triton.jit
def cells(
    of_states, states, of_inputs, inputs, of_tokens, tokens, c, parents, new_h, new_c, examples,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, OWN_INPUTS: tl.constexpr, ONE_TOKEN: tl.constexpr,
):  # fmt: skip
    """See `cell_kernel.cells`. Row n has its own inputs if OWN_INPUTS, and the first token if ONE_TOKEN."""
    row = tl.program_id(0).to(tl.int64)
    node, example = row // examples, row % examples
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    state = tl.load(states + node).to(tl.int64) * examples + example
    i, f, o, g = _gates_at(of_states, state, at, inside, SIZE)
    place = row
    if not OWN_INPUTS:
        place = tl.load(inputs + node).to(tl.int64) * examples + example
    i1, f1, o1, g1 = _gates_at(of_inputs, place, at, inside, SIZE)
    i, f, o, g = i + i1, f + f1, o + o1, g + g1
    token = row * 0
    if not ONE_TOKEN:
        token = tl.load(tokens + node).to(tl.int64)
    i2, f2, o2, g2 = _gates_at(of_tokens, token, at, inside, SIZE)
    i, f, o, g = i + i2, f + f2, o + o2, g + g2
    parent = tl.load(parents + node).to(tl.int64) * examples + example
    before = tl.load(c + parent * SIZE + at, inside, 0.0).to(tl.float32)
    i, f, o, g, after, h = _cell(i, f, o, g, before)
    tl.store(new_c + row * SIZE + at, after, inside)
    tl.store(new_h + row * SIZE + at, h, inside)


@triton.jit
def children_sums(grad_gates, grad_c, first, last, sum_gates, sum_c, examples, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """For every row the sums over its node's children, `first` … `last` − 1, of two gradients."""
    row = tl.program_id(0).to(tl.int64)
    node, example = row // examples, row % examples
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    i, f = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    o, g = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    of_c = tl.zeros([BLOCK], tl.float32)
    child, end = tl.load(first + node).to(tl.int64), tl.load(last + node).to(tl.int64)
    while child < end:
        place = child * examples + example
        i1, f1, o1, g1 = _gates_at(grad_gates, place, at, inside, SIZE)
        i, f, o, g = i + i1, f + f1, o + o1, g + g1
        of_c += tl.load(grad_c + place * SIZE + at, inside, 0.0).to(tl.float32)
        child += 1
    _put_gates(sum_gates, row, at, inside, i, f, o, g, SIZE)
    tl.store(sum_c + row * SIZE + at, of_c, inside)


@triton.jit(do_not_specialize=["start", "earlier"])
def trie_cells(
    gates, of_programs, of_tokens, of_states, parents, c_before, c, h, start, earlier, examples,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, WITH_PROGRAMS: tl.constexpr, WITH_TOKENS: tl.constexpr,
    SHARED: tl.constexpr,
):  # fmt: skip
    """One depth of a prefix trie, whose rows begin at `start`; those of the depth above, in `c_before`, at `earlier`.

    If SHARED, nodes have `parents`, by whose rows the states' term `of_states` is read. Otherwise row n continues row
    n, and the states' term is in `gates`. The activated gates replace `gates`.
    """
    row = tl.program_id(0).to(tl.int64)
    place = start + row
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    i, f, o, g = _gates_at(gates, place, at, inside, SIZE)
    above = row
    if SHARED:
        above = tl.load(parents + place // examples).to(tl.int64) * examples + row % examples
        i3, f3, o3, g3 = _gates_at(of_states, above, at, inside, SIZE)
        i, f, o, g = i + i3, f + f3, o + o3, g + g3
    if WITH_PROGRAMS:
        i1, f1, o1, g1 = _gates_at(of_programs, row, at, inside, SIZE)
        i, f, o, g = i + i1, f + f1, o + o1, g + g1
    if WITH_TOKENS:
        i2, f2, o2, g2 = _gates_at(of_tokens, place // examples, at, inside, SIZE)
        i, f, o, g = i + i2, f + f2, o + o2, g + g2
    before = tl.load(c_before + (earlier + above) * SIZE + at, inside, 0.0)
    i, f, o, g, after, new = _cell(i, f, o, g, before)
    tl.store(c + place * SIZE + at, after, inside)
    tl.store(h + place * SIZE + at, new, inside)
    _put_gates(gates, place, at, inside, i, f, o, g, SIZE)


@triton.jit(do_not_specialize=["start", "earlier", "later", "more"])
def trie_cells_backward(
    grad_h, more_grad_h, gates, parents, c, c_before, grad_after, grad_before, start, earlier, later, more, examples,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """The backward pass of `trie_cells`: gradients of gates overwrite `gates`.

    The first `more` rows have children: a second gradient of h, and one of c, in `grad_after` from `later` on.
    """
    row = tl.program_id(0).to(tl.int64)
    place = start + row
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    with_children = at < tl.where(row < more, SIZE, 0)
    of_h = tl.load(grad_h + place * SIZE + at, inside, 0.0).to(tl.float32)
    of_h += tl.load(more_grad_h + row * SIZE + at, with_children, 0.0).to(tl.float32)
    of_c = tl.load(grad_after + (later + row) * SIZE + at, with_children, 0.0)
    i, f, o, g = _gates_at(gates, place, at, inside, SIZE)
    after = tl.load(c + place * SIZE + at, inside, 0.0)
    above = row
    if SHARED:
        above = tl.load(parents + place // examples).to(tl.int64) * examples + row % examples
    before = tl.load(c_before + (earlier + above) * SIZE + at, inside, 0.0)
    i, f, o, g, of_before = _cell_backward(of_h, of_c, i, f, o, g, after, before)
    tl.store(grad_before + place * SIZE + at, of_before, inside)
    _put_gates(gates, place, at, inside, i, f, o, g, SIZE)


@triton.jit
def step_sums(values, steps, sizes, sums, examples, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """For every row of the first step the sum of its values over its `steps`. `sizes` has the nodes of each step."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    i, f = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    o, g = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    last = tl.load(steps + row // examples).to(tl.int64)
    step, place = last * 0, row
    while step < last:
        i1, f1, o1, g1 = _gates_at(values, place, at, inside, SIZE)
        i, f, o, g = i + i1, f + f1, o + o1, g + g1
        place += tl.load(sizes + step).to(tl.int64) * examples
        step += 1
    _put_gates(sums, row, at, inside, i, f, o, g, SIZE)


# The syntax machine


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
