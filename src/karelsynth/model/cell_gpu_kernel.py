"""An LSTM's cell on a GPU, in Triton: from the parts of the gates to the new state in one pass, and back.

The twin of `cell_kernel`, which says why; import it through `cell_gpu`, for Triton comes only with PyTorch for GPUs. A
program of the kernel does one row: a hypothesis and an example. Numbers may be of any precision, and all arithmetic is
in float32.
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
    """Four float32 vectors: enter, forget, leave, fresh."""
    start = base + row * 4 * SIZE + at
    enter = tl.load(start, inside, 0.0).to(tl.float32)
    forget = tl.load(start + SIZE, inside, 0.0).to(tl.float32)
    leave = tl.load(start + 2 * SIZE, inside, 0.0).to(tl.float32)
    fresh = tl.load(start + 3 * SIZE, inside, 0.0).to(tl.float32)
    return enter, forget, leave, fresh


@triton.jit
def _put_gates(base, row, at, inside, enter, forget, leave, fresh, SIZE: tl.constexpr):
    start = base + row * 4 * SIZE + at
    tl.store(start, enter, inside)
    tl.store(start + SIZE, forget, inside)
    tl.store(start + 2 * SIZE, leave, inside)
    tl.store(start + 3 * SIZE, fresh, inside)


@triton.jit
def cells(
    of_states, states, of_inputs, inputs, of_tokens, tokens, c, parents, new_h, new_c, acts, examples,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, WITH_INPUTS: tl.constexpr, OWN_INPUTS: tl.constexpr,
    WITH_TOKENS: tl.constexpr, ONE_TOKEN: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """See `cell_kernel.cells`.

    Row n has no inputs unless WITH_INPUTS, and its own if OWN_INPUTS; no tokens unless WITH_TOKENS, and the first of
    them if ONE_TOKEN. If KEEP, the gates after sigmoid and tanh are written to `acts`, for the way back.
    """
    row = tl.program_id(0).to(tl.int64)
    node, example = row // examples, row % examples
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    state = tl.load(states + node).to(tl.int64) * examples + example
    enter, forget, leave, fresh = _gates_at(of_states, state, at, inside, SIZE)
    if WITH_INPUTS:
        place = row
        if not OWN_INPUTS:
            place = tl.load(inputs + node).to(tl.int64) * examples + example
        enter1, forget1, leave1, fresh1 = _gates_at(of_inputs, place, at, inside, SIZE)
        enter, forget, leave, fresh = enter + enter1, forget + forget1, leave + leave1, fresh + fresh1
    if WITH_TOKENS:
        token = row * 0
        if not ONE_TOKEN:
            token = tl.load(tokens + node).to(tl.int64)
        enter2, forget2, leave2, fresh2 = _gates_at(of_tokens, token, at, inside, SIZE)
        enter, forget, leave, fresh = enter + enter2, forget + forget2, leave + leave2, fresh + fresh2
    enter, forget, leave, fresh = tl.sigmoid(enter), tl.sigmoid(forget), tl.sigmoid(leave), _tanh(fresh)
    parent = tl.load(parents + node).to(tl.int64) * examples + example
    before = tl.load(c + parent * SIZE + at, inside, 0.0).to(tl.float32)
    after = forget * before + enter * fresh
    tl.store(new_c + row * SIZE + at, after, inside)
    tl.store(new_h + row * SIZE + at, leave * _tanh(after), inside)
    if KEEP:
        _put_gates(acts, row, at, inside, enter, forget, leave, fresh, SIZE)


@triton.jit
def children_sums(grad_gates, grad_c, first, last, sum_gates, sum_c, examples, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """For every row the sums over the nodes that go on from its own, `first` … `last` − 1, of two gradients."""
    row = tl.program_id(0).to(tl.int64)
    node, example = row // examples, row % examples
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    enter, forget = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    leave, fresh = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    of_c = tl.zeros([BLOCK], tl.float32)
    child, end = tl.load(first + node).to(tl.int64), tl.load(last + node).to(tl.int64)
    while child < end:
        place = child * examples + example
        enter1, forget1, leave1, fresh1 = _gates_at(grad_gates, place, at, inside, SIZE)
        enter, forget, leave, fresh = enter + enter1, forget + forget1, leave + leave1, fresh + fresh1
        of_c += tl.load(grad_c + place * SIZE + at, inside, 0.0).to(tl.float32)
        child += 1
    _put_gates(sum_gates, row, at, inside, enter, forget, leave, fresh, SIZE)
    tl.store(sum_c + row * SIZE + at, of_c, inside)


@triton.jit
def step_sums(values, steps, sizes, sums, examples, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """For every row of the first step the sum of its values over its `steps`; a step has so many nodes by `sizes`."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    enter, forget = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    leave, fresh = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    last = tl.load(steps + row // examples).to(tl.int64)
    step, place = last * 0, row
    while step < last:
        enter1, forget1, leave1, fresh1 = _gates_at(values, place, at, inside, SIZE)
        enter, forget, leave, fresh = enter + enter1, forget + forget1, leave + leave1, fresh + fresh1
        place += tl.load(sizes + step).to(tl.int64) * examples
        step += 1
    _put_gates(sums, row, at, inside, enter, forget, leave, fresh, SIZE)


@triton.jit(do_not_specialize=["more"])
def cells_back(
    grad_h, more_grad_h, grad_c, acts, c, c_before, parents, grad_before, examples, more,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, WITH_MORE: tl.constexpr,
):  # fmt: skip
    """From gradients of h and c to those of the gates, which take the place of `acts`, and of c before, one a row.

    If WITH_MORE, of the first `more` rows h has two gradients, and c has one of its own.
    """
    row = tl.program_id(0).to(tl.int64)
    node, example = row // examples, row % examples
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    place = row * SIZE + at
    of_h = tl.load(grad_h + place, inside, 0.0).to(tl.float32)
    of_c = tl.zeros([BLOCK], tl.float32)
    if WITH_MORE:
        has = inside & (row < more)
        of_h += tl.load(more_grad_h + place, has, 0.0).to(tl.float32)
        of_c += tl.load(grad_c + place, has, 0.0).to(tl.float32)
    enter, forget, leave, fresh = _gates_at(acts, row, at, inside, SIZE)
    bent = _tanh(tl.load(c + place, inside, 0.0).to(tl.float32))
    parent = tl.load(parents + node).to(tl.int64) * examples + example
    before = tl.load(c_before + parent * SIZE + at, inside, 0.0).to(tl.float32)
    of_c += of_h * leave * (1 - bent * bent)
    tl.store(grad_before + place, of_c * forget, inside)
    _put_gates(
        acts, row, at, inside,
        of_c * fresh * enter * (1 - enter),
        of_c * before * forget * (1 - forget),
        of_h * bent * leave * (1 - leave),
        of_c * enter * (1 - fresh * fresh),
        SIZE,
    )  # fmt: skip
