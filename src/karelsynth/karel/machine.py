"""The batch machine: P programs × K worlds at once, on all cores.

    runs = run_batch(programs, worlds)            # uint8 [P, L] token ids, uint8 [P, K, 18, 18] cell codes
    runs.status, runs.worlds, runs.ticks          # [P, K], [P, K, 18, 18], [P, K]

It computes the same as `karelsynth.karel.interpreter`; tests compare every field on random programs and worlds. Any
sequence of tokens may be run: if it is no program, its status is INVALID_PROGRAM. Arrays of the right type (uint8, C
order) are not copied, and `torch.from_numpy` shares their memory. Calls may come from several threads at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karelsynth.errors import WorldError, checked_int, quoted
from karelsynth.karel.formats.codes import SIDE, worlds_to_codes
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.interpreter import MAX_TICKS, MOST_TICKS, Status
from karelsynth.karel.program import Program
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.tokens import NO_TOKEN, PAD, VOCABULARY_SIZE, token_bytes
from karelsynth.karel.world import World

LONGEST_PROGRAM = 32_000
"""The most tokens of a program, because token indices are 16-bit integers."""


@dataclass(frozen=True)
class BatchRun:
    """The results of P programs on K worlds each. Optional fields are None unless requested."""

    status: NDArray[np.uint8]
    """[P, K]: values of `Status`."""
    ticks: NDArray[np.int16]
    """[P, K]."""
    where: NDArray[np.int16]
    """[P, K]: the token whose statement crashed, ran out of ticks or repeats forever, or the first wrong token; -1 if
    the program came to its end."""
    worlds: NDArray[np.uint8] | None
    """[P, K, 18, 18]: the worlds at the end, as cell codes; a pile of more than ten counts as ten."""
    correct: NDArray[np.bool_] | None
    """[P, K]: the run is ok and ends in the expected world."""
    traces: NDArray[np.uint8] | None
    """[P, K, max_ticks]: the executed actions as token ids, padded with `<pad>`."""
    trace_lengths: NDArray[np.int16] | None
    """[P, K]."""
    coverage: NDArray[np.uint8] | None
    """[P, K, C]: for the c-th IF, IFELSE or WHILE, 1 if its condition was ever false, plus 2 if it was ever true."""
    waits: NDArray[np.int16] | None
    """[P, K], for prefixes: where a false condition jumped past the last token, the depth of the open block whose end
    the run waits for, 0 for the outermost; -1 if the run has reached the end of the tokens."""

    @property
    def ok(self) -> NDArray[np.bool_]:
        """[P, K]: the program came to its end, in a world."""
        return np.equal(self.status, Status.OK)


def encode_programs(programs: Sequence[Program | Sequence[int]]) -> NDArray[np.uint8]:
    """Token ids, uint8 [P, L], padded with `<pad>`. Lists of ids need not be programs; other numbers become 255."""
    rows = [_ids(number, program) for number, program in enumerate(programs)]
    tokens = np.full((len(rows), max((1, *map(len, rows)))), PAD, np.uint8)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids)] = ids
    return tokens


def _ids(number: int, program: Program | Sequence[int]) -> list[int]:
    if isinstance(program, Program):
        return program.token_ids
    try:
        ids = [index(token) for token in program]
    except TypeError:
        what = "a text" if isinstance(program, str) else quoted(repr(program))
        raise ValueError(
            f"programs[{number}] is {what}, neither a Program nor a list of token ids; Program.parse reads texts, "
            "Program.from_tokens the names of tokens"
        ) from None
    return [token if 0 <= token < VOCABULARY_SIZE else NO_TOKEN for token in ids]


def run_batch(
    programs: NDArray[Any] | Sequence[Program | Sequence[int]],
    worlds: NDArray[np.uint8] | Sequence[World] | Sequence[Sequence[World]],
    *,
    which: NDArray[Any] | None = None,
    expected: NDArray[np.uint8] | Sequence[World] | Sequence[Sequence[World]] | None = None,
    keep_worlds: bool = True,
    traces: bool = False,
    coverage: bool = False,
    prefixes: bool = False,
    max_ticks: int = MAX_TICKS,
    threads: int | None = None,
    device: str = "cpu",
) -> BatchRun:
    """Run every program on its worlds.

    With `prefixes`, an unfinished program runs until it needs a token that is not yet written. Every completion of the
    prefix begins with the same run. Its status is PILE_TOO_HIGH if a pile of more than ten is there at that point; a
    completion may still remove it. Prefixes may be padded.

    Args:
        programs: token ids, integers [P, L] (only `<pad>` may come after a program's `m)`), or a list of Programs or of
            lists of ids.
        worlds: cell codes, uint8 [W, K, 18, 18], or [K, 18, 18] for the same worlds for all; or K Worlds, or W lists
            of them.
        which: [P], the row of `worlds` that each program runs on; by default its own, or the only one.
        expected: the expected worlds, of the shape of `worlds`; fills `correct`.
        keep_worlds: whether to return the final worlds.
        traces, coverage: whether to return those.
        prefixes: whether unfinished programs are accepted; fills `waits`.
        max_ticks: the most ticks of a run; the paper's data and its evaluation have PAPER_TICKS.
        threads: the number of threads, by default one for each core.
        device: "cpu", or "cuda" to run on a GPU with the same result. Worth it for long runs, or for many: arrays are
            copied there and back. `machine_cuda.run_on_gpu` takes arrays that are there already.
    """
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device is cpu or cuda, not {quoted(str(device))}")
    tokens = _as_tokens(programs)
    codes = _as_worlds("worlds", worlds)
    wanted = codes[:0] if expected is None else _as_worlds("expected", expected)
    if expected is not None and wanted.shape != codes.shape:
        raise ValueError(f"expected has shape {wanted.shape}, worlds {codes.shape}: they must be the same")
    max_ticks = checked_int("max_ticks", max_ticks, 0, MOST_TICKS)
    rows = _as_rows(which, len(tokens), len(codes))
    count, per_program = len(tokens), codes.shape[1]
    shape = (count, per_program)
    conditionals = int(_conditionals(tokens).max(initial=0)) if coverage else 0
    if device == "cuda":
        from karelsynth.karel.machine_cuda import run_from_host

        return run_from_host(
            tokens, codes, rows, None if expected is None else wanted, keep_worlds=keep_worlds, traces=traces,
            coverage=conditionals if coverage else None, prefixes=prefixes, max_ticks=max_ticks,
        )  # fmt: skip
    heroes = heroes_of("worlds", codes, threads)

    from karelsynth.karel.machine_kernel import CELLS, RunOutputs, run_range

    absent, runs = (0, 0), count * per_program
    out = RunOutputs(
        status=np.empty(shape, np.uint8),
        ticks=np.empty(shape, np.int16),
        where=np.empty(shape, np.int16),
        worlds=np.empty((runs if keep_worlds else 0, CELLS), np.uint8),
        correct=np.empty(shape if expected is not None else absent, np.bool_),
        traces=np.zeros((runs, max_ticks) if traces else absent, np.uint8),
        trace_lengths=np.empty(shape if traces else absent, np.int16),
        coverage=np.zeros((runs, conditionals) if coverage else absent, np.uint8),
        waits=np.empty(shape if prefixes else absent, np.int16),
    )
    parallel_for(
        run_range, count, per_program, threads,
        tokens, rows, codes.reshape(-1, CELLS), heroes, wanted.reshape(-1, CELLS), compile_grammar(KAREL).parser,
        max_ticks, prefixes, out,
    )  # fmt: skip
    return BatchRun(
        out.status,
        out.ticks,
        out.where,
        out.worlds.reshape(*shape, SIDE, SIDE) if keep_worlds else None,
        out.correct if expected is not None else None,
        out.traces.reshape(*shape, max_ticks) if traces else None,
        out.trace_lengths if traces else None,
        out.coverage.reshape(*shape, conditionals) if coverage else None,
        out.waits if prefixes else None,
    )


def heroes_of(name: str, codes: NDArray[np.uint8], threads: int | None = None) -> NDArray[np.int16]:
    """The cells of the heroes of worlds [W, K, 18, 18], int16 [W, K], as indices into 324 cells.

    Raises WorldError if programs cannot run on a world. Its message calls the worlds `name`.
    """
    from karelsynth.karel.machine_kernel import find_heroes

    codes, heroes = np.ascontiguousarray(codes), np.empty(codes.shape[:2], np.int16)
    found = parallel_for(find_heroes, len(codes), codes.shape[1], threads, codes, heroes)
    bad = min((number for number in found if number >= 0), default=None)
    if bad is not None:
        raise no_world(name, codes, bad)
    return heroes


def no_world(name: str, codes: NDArray[np.uint8], number: int) -> WorldError:
    """The error for world `number` of [W · K], on which programs cannot run."""
    row, column = divmod(number, codes.shape[1])
    return WorldError(
        f"{name}[{row}, {column}] is not a world: it needs exactly one hero, on a free cell inside the frame, "
        "and a border that cannot be walked on (World.from_codes says more)"
    )


def _as_tokens(programs: NDArray[Any] | Sequence[Program | Sequence[int]]) -> NDArray[np.uint8]:
    tokens = encode_programs(programs) if isinstance(programs, Sequence) else np.asarray(programs)
    if tokens.ndim != 2 or not np.issubdtype(tokens.dtype, np.integer):
        raise ValueError(f"programs are integers [P, L] or a list of Programs, not {tokens.dtype} {list(tokens.shape)}")
    if tokens.shape[1] > LONGEST_PROGRAM:
        raise ValueError(f"programs have at most {LONGEST_PROGRAM} tokens, not {tokens.shape[1]}")
    return token_bytes(tokens)


def _as_worlds(name: str, worlds: NDArray[np.uint8] | Sequence[World] | Sequence[Sequence[World]]) -> NDArray[np.uint8]:
    codes = _codes(name, worlds) if isinstance(worlds, Sequence) else np.asarray(worlds)
    if codes.ndim == 3:
        codes = codes[None]
    if codes.ndim != 4 or codes.shape[2:] != (SIDE, SIDE) or codes.dtype != np.uint8:
        raise ValueError(f"{name} are uint8 [W, K, {SIDE}, {SIDE}], not {codes.dtype} {list(codes.shape)}")
    return np.ascontiguousarray(codes)


def _codes(name: str, worlds: Sequence[Any]) -> NDArray[np.uint8]:
    """The codes of K Worlds, or of W lists of K Worlds."""
    rows = worlds if worlds and all(isinstance(row, list | tuple) for row in worlds) else [worlds]
    for row in rows:
        if (stray := next((world for world in row if not isinstance(world, World)), None)) is not None:
            hint = "World.parse reads drawings, and cell codes go into one array"
            raise ValueError(f"{name} holds {quoted(repr(stray))}, which is no World; {hint}")
        if len(row) != len(rows[0]):
            raise ValueError(f"{name} has rows of {len(rows[0])} and of {len(row)} worlds: they must be equally long")
    return np.stack([worlds_to_codes(row) for row in rows])


def _as_rows(which: NDArray[Any] | None, programs: int, worlds: int) -> NDArray[np.int64]:
    if which is None:
        if worlds not in (1, programs):
            raise ValueError(f"{programs} programs but {worlds} rows of worlds: `which` must give each program's row")
        return np.zeros(programs, np.int64) if worlds == 1 else np.arange(programs, dtype=np.int64)
    rows = np.ascontiguousarray(which)
    if rows.dtype.kind not in "iu" and rows.size:
        raise ValueError(f"`which` holds whole numbers, not {rows.dtype}")
    rows = rows.astype(np.int64)
    if rows.shape != (programs,) or (programs and not 0 <= rows.min() <= rows.max() < worlds):
        raise ValueError(f"`which` names a row of worlds, 0 to {worlds - 1}, for each of the {programs} programs")
    return rows


def _conditionals(tokens: NDArray[np.uint8]) -> NDArray[Any]:
    """The number of IF, IFELSE and WHILE of each program, [P]."""
    from karelsynth.karel.machine_kernel import IF, IFELSE, WHILE

    counts: NDArray[Any] = np.isin(tokens, (IF, IFELSE, WHILE)).sum(axis=1)
    return counts
