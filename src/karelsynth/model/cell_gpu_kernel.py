"""An LSTM's cell on a GPU, in Triton: from the parts of the gates to the new state in one pass, and back.

The twin of `cell_kernel`, which says why; import it through `cell_gpu`, for Triton comes only with PyTorch for GPUs. A
program of the kernel does one row: a hypothesis and an example. Numbers may be of any precision (but for c of
sequences and its gradient, which are float32), and all arithmetic is in float32.
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
    of_states, states, of_inputs, inputs, of_tokens, tokens, c, parents, new_h, new_c, acts, examples,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, OWN_INPUTS: tl.constexpr, WITH_TOKENS: tl.constexpr,
    ONE_TOKEN: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """See `cell_kernel.cells`.

    Row n has its own inputs if OWN_INPUTS, no tokens unless WITH_TOKENS, and the first of them if ONE_TOKEN. If KEEP,
    the gates after sigmoid and tanh are written to `acts`, for the backward pass.
    """
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
    if WITH_TOKENS:
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
    if KEEP:
        _put_gates(acts, row, at, inside, i, f, o, g, SIZE)


@triton.jit
def children_sums(grad_gates, grad_c, first, last, sum_gates, sum_c, examples, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """For every row the sums over the nodes that go on from its own, `first` … `last` − 1, of two gradients."""
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


@triton.jit
def cells_backward(
    grad_h, more_grad_h, grad_c, acts, c, c_before, parents, grad_before, examples,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, WITH_MORE: tl.constexpr,
):  # fmt: skip
    """From gradients of h and c to those of the gates, which take the place of `acts`, and of c before, one a row.

    If WITH_MORE, h has two gradients, and c has one of its own.
    """
    row = tl.program_id(0).to(tl.int64)
    node, example = row // examples, row % examples
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    place = row * SIZE + at
    of_h = tl.load(grad_h + place, inside, 0.0).to(tl.float32)
    of_c = tl.zeros([BLOCK], tl.float32)
    if WITH_MORE:
        of_h += tl.load(more_grad_h + place, inside, 0.0).to(tl.float32)
        of_c += tl.load(grad_c + place, inside, 0.0).to(tl.float32)
    i, f, o, g = _gates_at(acts, row, at, inside, SIZE)
    after = tl.load(c + place, inside, 0.0).to(tl.float32)
    parent = tl.load(parents + node).to(tl.int64) * examples + example
    before = tl.load(c_before + parent * SIZE + at, inside, 0.0).to(tl.float32)
    i, f, o, g, of_before = _cell_backward(of_h, of_c, i, f, o, g, after, before)
    tl.store(grad_before + place, of_before, inside)
    _put_gates(acts, row, at, inside, i, f, o, g, SIZE)


@triton.jit(do_not_specialize=["start", "earlier"])
def sequence_cells(
    gates, of_programs, of_tokens, c_before, c, h, start, earlier, examples,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, WITH_PROGRAMS: tl.constexpr, WITH_TOKENS: tl.constexpr,
):  # fmt: skip
    """One step of packed programs, whose rows begin at `start`, and those before them, in `c_before`, at `earlier`.

    Gates after sigmoid and tanh take the place of `gates`.
    """
    row = tl.program_id(0).to(tl.int64)
    place = start + row
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    i, f, o, g = _gates_at(gates, place, at, inside, SIZE)
    if WITH_PROGRAMS:
        i1, f1, o1, g1 = _gates_at(of_programs, row, at, inside, SIZE)
        i, f, o, g = i + i1, f + f1, o + o1, g + g1
    if WITH_TOKENS:
        i2, f2, o2, g2 = _gates_at(of_tokens, place // examples, at, inside, SIZE)
        i, f, o, g = i + i2, f + f2, o + o2, g + g2
    before = tl.load(c_before + (earlier + row) * SIZE + at, inside, 0.0)
    i, f, o, g, after, new = _cell(i, f, o, g, before)
    tl.store(c + place * SIZE + at, after, inside)
    tl.store(h + place * SIZE + at, new, inside)
    _put_gates(gates, place, at, inside, i, f, o, g, SIZE)


@triton.jit(do_not_specialize=["start", "earlier", "later", "more"])
def sequence_cells_backward(
    grad_h, more_grad_h, gates, c, c_before, grad_before, start, earlier, later, more,
    SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The backward pass of `sequence_cells`: gradients of gates overwrite `gates`.

    The first `more` rows have a next step: a second gradient of h, and one of c, in `grad_before` from `later` on.
    """
    row = tl.program_id(0).to(tl.int64)
    place = start + row
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    goes_on = at < tl.where(row < more, SIZE, 0)
    of_h = tl.load(grad_h + place * SIZE + at, inside, 0.0).to(tl.float32)
    of_h += tl.load(more_grad_h + row * SIZE + at, goes_on, 0.0).to(tl.float32)
    of_c = tl.load(grad_before + (later + row) * SIZE + at, goes_on, 0.0)
    i, f, o, g = _gates_at(gates, place, at, inside, SIZE)
    after = tl.load(c + place * SIZE + at, inside, 0.0)
    before = tl.load(c_before + (earlier + row) * SIZE + at, inside, 0.0)
    i, f, o, g, of_before = _cell_backward(of_h, of_c, i, f, o, g, after, before)
    tl.store(grad_before + place * SIZE + at, of_before, inside)
    _put_gates(gates, place, at, inside, i, f, o, g, SIZE)


@triton.jit
def step_sums(values, steps, sizes, sums, examples, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """For every row of the first step the sum of its values over its `steps`; a step has so many nodes by `sizes`."""
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
