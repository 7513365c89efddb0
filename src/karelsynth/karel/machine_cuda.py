"""The batch machine on a GPU: one thread for each program and world.

    run_batch(programs, worlds, device="cuda")              # arrays on the host: they are copied there and back
    runs = run_on_gpu(tokens, worlds, expected=outputs)     # arrays on the GPU, of PyTorch, CuPy or Numba: they stay
    torch.as_tensor(runs.status, device="cuda")

The bytecode compiler and the loop that runs the bytecode are the host's own (`machine_kernel`); Numba compiles them for
the GPU as well. One kernel compiles every program once. A second one runs it: the threads of a block copy their worlds
together into the fast memory that they share, where each runs its program. `tests/test_machine_cuda.py` compares every
field with `run_batch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError
from karelsynth.karel.cuda import cuda, launch_lock, on_stream, why_not
from karelsynth.karel.formats.codes import HERO, SIDE
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.interpreter import MAX_TICKS, Status
from karelsynth.karel.machine import BatchRun, no_world
from karelsynth.karel.machine_kernel import CELLS, EDGE, compile_program, hero_cell, put_hero_back, run_code
from karelsynth.karel.syntax_compiler import ParserTables, compile_grammar
from karelsynth.karel.tokens import PAD

WORDS: Final = CELLS // 4
"""32-bit words of a world."""
BLOCK: Final = 64
"""Threads of a block; they share 64 worlds, 20 KB."""
_LANES: Final = 32
_BLOCKS_PER_PROCESSOR: Final = 10
"""As many as the shared memory of an H100 or H200 holds."""
_MOST_SCRATCH: Final = 2**29
"""Bytes for programs' code, and for the counters of all threads."""
_OK, _INVALID, _TOO_HIGH = int(Status.OK), int(Status.INVALID_PROGRAM), int(Status.PILE_TOO_HIGH)
_MOST_RESULTS: Final = 2**31
"""Bytes of results on the GPU at a time, for arrays on the host."""
_NONE_BAD: Final = 2**62


@dataclass(frozen=True)
class DeviceRun:
    """The results of P programs on K worlds each, as arrays on the GPU; see `machine.BatchRun`."""

    status: Any
    ticks: Any
    where: Any
    worlds: Any
    """uint8 [P · K, 324]."""
    correct: Any
    traces: Any
    """uint8 [P · K, max_ticks]."""
    trace_lengths: Any
    coverage: Any
    """uint8 [P · K, C]."""
    waits: Any


def run_on_gpu(
    programs: Any,
    worlds: Any,
    *,
    which: Any = None,
    heroes: Any = None,
    expected: Any = None,
    keep_worlds: bool = True,
    traces: bool = False,
    conditionals: int = 0,
    prefixes: bool = False,
    max_ticks: int = MAX_TICKS,
    stream: int = 0,
) -> DeviceRun:
    """`run_batch` for contiguous arrays on a GPU, anything with a `__cuda_array_interface__`. It does not wait.

    Args:
        programs: uint8 [P, L].
        worlds: uint8 [W, K, 18, 18].
        which: int64 [P], by default 0 … P − 1.
        heroes: int16 [W · K] by `heroes_on_gpu`; without, worlds are checked, which waits for the GPU.
        expected: of the shape of `worlds`.
        conditionals: C, the columns of `coverage`; 0 without it.
        stream: the CUDA stream's number.
    """
    empty = cuda.device_array
    count, per_program = programs.shape[0], worlds.shape[1]
    if heroes is None:
        heroes = heroes_on_gpu(worlds, stream=stream)
    if which is None:
        which = cuda.to_device(np.arange(count))
    runs, shape = count * per_program, (count, per_program)
    compare, keep_coverage = expected is not None, conditionals > 0

    def wanted(when: bool, shape: tuple[int, ...], dtype: Any, *, zeros: bool = False) -> Any:
        """An array of the result, or a small one in its place, since kernels take arrays only."""
        made = empty(shape if when else (1, 4), dtype)
        if when and zeros:
            made.copy_to_device(np.zeros(shape, dtype))
        return made

    out = DeviceRun(
        status=empty(shape, np.uint8),
        ticks=empty(shape, np.int16),
        where=empty(shape, np.int16),
        worlds=wanted(keep_worlds, (runs, CELLS), np.uint8),
        correct=wanted(compare, shape, np.bool_),
        traces=wanted(traces, (runs, max_ticks), np.uint8, zeros=True),
        trace_lengths=wanted(traces, shape, np.int16),
        coverage=wanted(keep_coverage, (runs, conditionals), np.uint8, zeros=True),
        waits=wanted(prefixes, shape, np.int16),
    )
    if runs:
        _launch(programs, which, worlds, heroes, expected, max_ticks, prefixes, keep_worlds, traces, keep_coverage, out,
                stream)  # fmt: skip
    return out


def run_from_host(
    tokens: NDArray[np.uint8],
    worlds: NDArray[np.uint8],
    which: NDArray[np.int64],
    expected: NDArray[np.uint8] | None,
    *,
    keep_worlds: bool,
    traces: bool,
    coverage: int | None,
    prefixes: bool,
    max_ticks: int,
) -> BatchRun:
    """`run_batch` on a GPU, for checked arguments: worlds [W, K, 18, 18]; `coverage` is its number of columns."""
    check_gpu()
    count, per_program = len(tokens), worlds.shape[1]
    shape = (count, per_program)
    out = BatchRun(
        status=np.empty(shape, np.uint8),
        ticks=np.empty(shape, np.int16),
        where=np.empty(shape, np.int16),
        worlds=np.empty((*shape, SIDE, SIDE), np.uint8) if keep_worlds else None,
        correct=np.empty(shape, np.bool_) if expected is not None else None,
        traces=np.zeros((*shape, max_ticks), np.uint8) if traces else None,
        trace_lengths=np.empty(shape, np.int16) if traces else None,
        coverage=None if coverage is None else np.zeros((*shape, coverage), np.uint8),
        waits=np.empty(shape, np.int16) if prefixes else None,
    )
    if not worlds.size:
        return out
    if not tokens.shape[1]:
        tokens = np.full((count, 1), PAD, np.uint8)  # which makes no difference
    codes = cuda.to_device(worlds)
    heroes = heroes_on_gpu(codes)
    targets = None if expected is None else cuda.to_device(expected)
    bytes_per_run = CELLS * keep_worlds + max_ticks * traces + (coverage or 0) + 16
    piece = max(1, _MOST_RESULTS // (bytes_per_run * per_program))
    for first in range(0, count, piece):
        some = slice(first, first + piece)
        found = run_on_gpu(
            cuda.to_device(tokens[some]), codes, which=cuda.to_device(which[some]), heroes=heroes, expected=targets,
            keep_worlds=keep_worlds, traces=traces, conditionals=coverage or 0, prefixes=prefixes, max_ticks=max_ticks,
        )  # fmt: skip
        for name in BatchRun.__dataclass_fields__:
            result = getattr(out, name)
            if result is not None and result.size:
                own = result[some]
                getattr(found, name).copy_to_host(own.reshape(getattr(found, name).shape))
    return out


def heroes_on_gpu(worlds: Any, *, stream: int = 0) -> Any:
    """The cells of the heroes of worlds uint8 [W, K, 18, 18] on the GPU, int16 [W · K]. Waits for the GPU.

    Raises WorldError if programs cannot run on a world.
    """
    flat = _view(worlds).reshape(-1, CELLS)
    heroes, first_bad = cuda.device_array(max(1, flat.shape[0]), np.int16), cuda.to_device(np.array([_NONE_BAD]))
    if flat.shape[0]:
        with launch_lock:
            launch = find_heroes_on_gpu[-(-flat.shape[0] // BLOCK), BLOCK, on_stream(stream)]
            launch(flat, _on_device("edge"), _view(heroes), first_bad)
        cuda.synchronize()
    bad = int(first_bad.copy_to_host()[0])
    if bad != _NONE_BAD:
        raise no_world("worlds", np.empty(worlds.shape, np.bool_), bad)
    return heroes


def check_gpu() -> None:
    """Raise KarelsynthError if Numba cannot use a GPU here."""
    reason = why_not()
    if reason is not None:
        raise KarelsynthError(
            f"programs cannot run on a GPU here: `pip install numba-cuda` brings what it needs on a machine with one. "
            f"Numba says: {' '.join(reason.split())}"
        )


def _view(array: Any) -> Any:
    return cuda.as_cuda_array(array, sync=False)


@cache
def _on_device(name: str) -> Any:
    """A constant table on the GPU."""
    return cuda.to_device(EDGE if name == "edge" else compile_grammar(KAREL).tables.transition)


@cache
def _processors() -> int:
    return int(cuda.get_current_device().MULTIPROCESSOR_COUNT)


def _launch(
    programs: Any,
    which: Any,
    worlds: Any,
    heroes: Any,
    expected: Any,
    max_ticks: int,
    prefixes: bool,
    keep_worlds: bool,
    keep_trace: bool,
    keep_coverage: bool,
    out: DeviceRun,
    stream_number: int,
) -> None:
    """Compile and run in pieces whose code fits into the scratch memory."""
    (count, length), per_program = programs.shape, worlds.shape[1]
    size, parser = 2 * length + 2, compile_grammar(KAREL).parser
    piece = max(1, min(count, _MOST_SCRATCH // (22 * size)))
    slots = 2 * (length + 1) + CELLS  # as in `CodeBuffers`
    most_blocks = max(1, min(_processors() * _BLOCKS_PER_PROCESSOR, _MOST_SCRATCH // (4 * slots * BLOCK)))
    blocks = min(most_blocks, -(-piece * per_program // BLOCK))
    empty = cuda.device_array
    code, origin = empty((piece, size), np.int64), empty((piece, size), np.int16)
    stack, opened = empty((piece, length + 2), np.int32), empty((piece, length + 2, 3), np.int32)
    wrong, open_end = empty((piece,), np.int32), empty((piece,), np.bool_)
    counters = empty((slots, blocks * BLOCK), np.int32)
    tokens, rows, heroes = _view(programs), _view(which), _view(heroes)
    words = _view(worlds).reshape(-1, CELLS).view(np.uint32)
    targets = words if expected is None else _view(expected).reshape(-1, CELLS).view(np.uint32)
    by_program = (out.status, out.ticks, out.where, out.correct, out.trace_lengths, out.waits)
    final = out.worlds.view(np.uint32)
    with launch_lock:
        stream = on_stream(stream_number)
        for first in range(0, count, piece):
            last = min(first + piece, count)
            some = slice(first, last)
            compile_programs[-(-(last - first) // BLOCK), BLOCK, stream](
                tokens[some], _on_device("transition"), parser.symbols, parser.start, prefixes, code, origin, stack,
                opened, wrong, open_end,
            )  # fmt: skip
            status, ticks, where, correct, trace_lengths, waits = (
                array[some] if array.shape[0] == count else array for array in by_program
            )
            run_programs[blocks, BLOCK, stream](
                code, origin, wrong, open_end, rows[some], words, heroes, targets, counters, max_ticks, prefixes,
                expected is not None, keep_worlds, keep_trace, keep_coverage, first * per_program, status, ticks,
                where, final, correct, out.traces, trace_lengths, out.coverage, waits,
            )  # fmt: skip


@cuda.jit  # type: ignore[untyped-decorator]
def find_heroes_on_gpu(worlds: Any, edge: Any, heroes: Any, first_bad: Any) -> None:
    """For each of worlds [N, 324] the hero's cell, or -1; `first_bad` [1] becomes the number of the first bad one."""
    number = cuda.grid(1)
    if number < worlds.shape[0]:
        place = hero_cell(worlds, number, edge)
        heroes[number] = place
        if place < 0:
            cuda.atomic.min(first_bad, 0, number)


@cuda.jit  # type: ignore[untyped-decorator]
def compile_programs(
    tokens: Any,
    transition: Any,
    symbols: int,
    start: int,
    prefixes: bool,
    code: Any,
    origin: Any,
    stack: Any,
    opened: Any,
    wrong: Any,
    open_end: Any,
) -> None:
    """Compile programs [P, L], one a thread; the arrays are those of `CodeBuffers`, with a row for each program.

    `wrong` [P] gets the first wrong token, or -1; `open_end` [P], whether the tokens are an unfinished program.
    """
    program = cuda.grid(1)
    if program < tokens.shape[0]:
        length = tokens.shape[1]
        while prefixes and length > 0 and tokens[program, length - 1] == PAD:
            length -= 1
        found = compile_program(
            tokens[program, :length], ParserTables(transition, symbols, start), code[program], origin[program],
            stack[program], opened[program],
        )  # fmt: skip
        unfinished = prefixes and found == length
        open_end[program] = unfinished
        wrong[program] = -1 if unfinished else found


@cuda.jit  # type: ignore[untyped-decorator]
def run_programs(
    code: Any,
    origin: Any,
    wrong: Any,
    open_end: Any,
    rows: Any,
    worlds: Any,
    heroes: Any,
    expected: Any,
    counters: Any,
    max_ticks: int,
    prefixes: bool,
    compare: bool,
    keep_worlds: bool,
    keep_trace: bool,
    keep_coverage: bool,
    first: int,
    statuses: Any,
    ticks: Any,
    where: Any,
    final: Any,
    correct: Any,
    traces: Any,
    trace_lengths: Any,
    coverage: Any,
    waits: Any,
) -> None:
    """Run compiled programs on their worlds, one run a thread at a time.

    Args:
        code, origin, wrong, open_end: by `compile_programs`.
        rows: int64 [P], the row of worlds of each program.
        worlds, expected: uint32 [W · K, 81].
        heroes: int16 [W · K].
        counters: int32 [·, threads], of each thread; a thread's are not adjacent, so that threads access neighbours.
        first: the number of the first run among all, the row of `final`, `traces` and `coverage`.
        statuses …: as in `RunOutputs`, `final` in words.
    """
    block = cuda.shared.array((BLOCK, WORDS), np.uint32)
    cells = block.view(np.uint8)
    sources = cuda.shared.array(BLOCK, np.int64)
    different = cuda.shared.array(BLOCK, np.int32)
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    lanes = min(_LANES, threads)
    lane, team, teams = thread % lanes, thread // lanes, threads // lanes
    own_counters = counters[:, cuda.grid(1)]
    per_program = statuses.shape[1]
    runs = statuses.shape[0] * per_program
    base = cuda.blockIdx.x * threads
    while base < runs:
        result, mine = base + thread, min(threads, runs - base)
        program = result // per_program
        number = result - program * per_program
        there = result < runs
        if there:
            sources[thread] = rows[program] * per_program + number
            different[thread] = 0
        cuda.syncthreads()
        for row in range(team, mine, teams):
            for word in range(lane, WORDS, lanes):
                block[row, word] = worlds[sources[row], word]
        cuda.syncthreads()
        status = _INVALID
        if there:
            used, done, pc, at = 0, 0, 0, int(heroes[sources[thread]])
            if wrong[program] < 0:
                heading = int(cells[thread, at] // HERO) - 1
                cells[thread, at] = cells[thread, at] % HERO
                status, used, pc, done, at, heading = run_code(
                    code[program], own_counters, cells, thread, at, heading, max_ticks, traces, keep_trace, coverage,
                    keep_coverage, first + result, True, True,
                )  # fmt: skip
                put_hero_back(cells, thread, at, heading)
            statuses[program, number] = status
            ticks[program, number] = used
            ended = status == _OK or status == _TOO_HIGH
            if ended:
                where[program, number] = -1
            else:
                where[program, number] = wrong[program] if status == _INVALID else origin[program, pc]
            if prefixes:
                waits[program, number] = origin[program, pc] if open_end[program] and ended else -1
            if keep_trace:
                trace_lengths[program, number] = done
        cuda.syncthreads()
        for row in range(team, mine, teams):
            for word in range(lane, WORDS, lanes):
                if keep_worlds:
                    final[first + base + row, word] = block[row, word]
                if compare and block[row, word] != expected[sources[row], word]:
                    different[row] = 1
        cuda.syncthreads()
        if compare and there:
            correct[program, number] = status == _OK and different[thread] == 0
        base += threads * cuda.gridDim.x
