"""Simpler reference programs: without the parts that no example of the task needs.

    simpler = simplify(batch)             # the same tasks; programs correct on all examples, and never longer

Random programs have many parts without effect: equal branches, loops that run once, steps that cancel. No learner can
infer these from the examples. A simplified program is a local optimum: every shorter program that one change leads to
is wrong on some example, or reserved for testing. On other worlds it may differ from the original program, and it need
not be in the normal form of the data.

Of the changes that keep a program correct, the one that saves most tokens is made, until none is left. The changes:
delete up to four adjacent statements, or replace them by one action; replace a control statement by its body or one of
its branches; make a WHILE a REPEAT; delete an ELSE; swap the branches of an IFELSE with a negated condition.
Statements that commute are sorted: putting and picking markers before turns. Two right turns become two left turns.

The search for changes is compiled by Numba.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from karelsynth.errors import KarelsynthError
from karelsynth.generator.program_kernel import is_reserved_program
from karelsynth.karel.compiled import I16Array, I64Array, U8Array, compiled
from karelsynth.karel.grammar import CONDITIONS, KAREL
from karelsynth.karel.interpreter import PAPER_TICKS, Status
from karelsynth.karel.machine import heroes_of
from karelsynth.karel.machine_kernel import (
    CELLS,
    IFELSE,
    WHILE,
    CodeBuffers,
    code_buffers,
    compile_program,
    put_hero_back,
    run_code,
    take_hero_out,
)
from karelsynth.karel.structure_kernel import (
    ACTION,
    ACTION_KINDS,
    CLOSE_R,
    CLOSES,
    COUNT_KINDS,
    ELSE,
    FIRST_ACTION,
    IFELSE_HEAD,
    LAST_ACTION,
    OPENS,
    PARTS,
    REPEAT_HEAD,
    TO_IF,
    Statements,
    edited_length,
    find_statements,
    new_statements,
    note_edit,
    write_edited,
)
from karelsynth.karel.syntax_compiler import ParserTables, compile_grammar
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.tokens import ID, PAD

if TYPE_CHECKING:
    from karelsynth.tasks.batch import TaskBatch

_LONGEST_CUT: Final = 4
"""Statements that are deleted or replaced at a time."""
_MOST: Final = 2400
"""The greatest number of changes of a program; further ones are ignored."""
_OK = int(Status.OK)
_NOT, _LEFT, _RIGHT = ID["not"], ID["turnLeft"], ID["turnRight"]
_PICK, _PUT = ID["pickMarker"], ID["putMarker"]
_NONE: Final = -1
_PLAIN: Final = np.full(256, _NONE, np.int64)
"""[256]: for each token that is a whole condition, its number in CONDITIONS."""
for _number, _name in enumerate(CONDITIONS):
    if " " not in _name:
        _PLAIN[ID[_name]] = _number


@compiled()
def _shorter(tokens: U8Array, length: int, statements: Statements, edits: I64Array, parts_only: bool) -> int:
    """Write every edit that saves tokens to `edits` [·, PARTS]; returns how many. The edited programs all parse.

    With `parts_only`, only those that take a part of the program away, or fix how often a loop runs. `statements` is
    scratch space.
    """
    find_statements(tokens, length, statements)
    ends, opens, elses = statements
    count = 0
    for at in range(3, length - 1):
        end = ends[at]
        if end == 0:
            continue
        last = end
        for _ in range(_LONGEST_CUT):
            if not (OPENS[tokens[at - 1]] and CLOSES[tokens[last]]):  # a block must not become empty
                count = note_edit(edits, count, at, 0, 0, 0, 0, 0, 0, 0, last)
            if last - at > 1 and not parts_only:
                for action in range(ACTION_KINDS):
                    count = note_edit(edits, count, at, ACTION + action, 0, 0, 0, 0, 0, 0, last)
            if ends[last] == 0:
                break
            last = ends[last]
        if FIRST_ACTION <= tokens[at] <= LAST_ACTION:
            continue
        body, close = opens[at] + 1, elses[at] - 1 if elses[at] > 0 else end - 1  # of the first block
        count = note_edit(edits, count, at, 0, body, close, 0, 0, 0, 0, end)
        if tokens[at] == WHILE:
            for times in range(COUNT_KINDS):
                count = note_edit(edits, count, at, REPEAT_HEAD + times, body, close, CLOSE_R, 0, 0, 0, end)
        elif tokens[at] == IFELSE:
            other = elses[at] + 2
            count = note_edit(edits, count, at, 0, other, end - 1, 0, 0, 0, 0, end)
            count = note_edit(edits, count, at, TO_IF, at + 1, close + 1, 0, 0, 0, 0, end)
            if tokens[at + 2] == _NOT and _PLAIN[tokens[at + 4]] != _NONE and not parts_only:
                head = IFELSE_HEAD + _PLAIN[tokens[at + 4]]
                count = note_edit(edits, count, at, head, other, end - 1, ELSE, body, close, 0, end - 1)
    return count


@compiled()
def _in_order(tokens: U8Array, length: int, out: U8Array) -> bool:
    """Write a program to `out` with commuting statements sorted; returns whether anything has changed."""
    for place in range(length):
        out[0, place] = tokens[place]
    changed, again = False, True
    while again:
        again = False
        for at in range(3, length - 1):
            one, other = out[0, at], out[0, at + 1]
            if (one == _LEFT or one == _RIGHT) and (other == _PICK or other == _PUT):
                out[0, at], out[0, at + 1] = other, one
                again = True
            elif one == _RIGHT and other == _RIGHT:
                out[0, at], out[0, at + 1] = _LEFT, _LEFT
                again = True
        changed |= again
    return changed


@compiled()
def _take(tokens: U8Array, task: int, length: int, out: U8Array, size: int) -> None:
    """Overwrite a task's program of `length` tokens by out[0, :size]."""
    for place in range(size):
        tokens[task, place] = out[0, place]
    for place in range(size, length):
        tokens[task, place] = PAD


class Workspace(NamedTuple):
    """Buffers for `find_shorter`."""

    text: U8Array
    """[1, L]: an edited program."""
    cells: U8Array
    """[1, 324]: the world that it runs in."""
    edits: I64Array
    """[·, PARTS]"""
    sizes: I64Array
    """[·]: the lengths of the edited programs."""
    statements: Statements
    buffers: CodeBuffers


@compiled()
def new_workspace(longest: int) -> Workspace:
    """Buffers for programs of at most so many tokens."""
    return Workspace(
        np.empty((1, longest), np.uint8), np.empty((1, CELLS), np.uint8), np.empty((_MOST, PARTS), np.int64),
        np.empty(_MOST, np.int64), new_statements(longest + 1), code_buffers(longest),
    )  # fmt: skip


@compiled()
def find_shorter(
    program: U8Array,
    row: int,
    heroes: I16Array,
    inputs: U8Array,
    outputs: U8Array,
    parser: ParserTables,
    max_ticks: int,
    reserved: bool,
    parts_only: bool,
    work: Workspace,
) -> int:
    """Write the shortest program that one edit leads to, and that is right on E examples, to `work.text`.

    Args:
        program: [T], a whole program.
        row: the first example's row in `inputs` and `outputs`.
        heroes: [E], the heroes' cells in the inputs.
        inputs, outputs: flat grids, [·, 324].
        reserved: whether a program that is reserved for testing may be found.
        parts_only: try only edits that take a part of the program away, or fix how often a loop runs.

    Returns its length; T if there is none.
    """
    text, cells, edits, sizes = work.text, work.cells, work.edits, work.sizes
    code, origin, stack, opened, counters = work.buffers
    length, examples = len(program), len(heroes)
    count = _shorter(program, length, work.statements, edits, parts_only)
    size = length
    for number in range(count):
        sizes[number] = edited_length(edits, number, length)
        size = min(size, sizes[number])
    failing = 0  # the example that the last edit failed on: the next one mostly fails there, too
    while size < length:
        for number in range(count):
            if sizes[number] != size:
                continue
            write_edited(program, length, edits, number, text, 0)
            right = compile_program(text[0, :size], parser, code, origin, stack, opened) < 0
            for step in range(examples if right else 0):
                example = (failing + step) % examples
                at = int(heroes[example])
                heading = take_hero_out(inputs, row + example, at, cells, 0)
                status, _, _, _, at, heading = run_code(
                    code, counters, cells, 0, at, heading, max_ticks, cells, False, cells, False, 0, True, True
                )
                put_hero_back(cells, 0, at, heading)
                different = 0
                for cell in range(CELLS):
                    different += cells[0, cell] != outputs[row + example, cell]
                if status != _OK or different > 0:
                    right, failing = False, example
                    break
            if right and (reserved or not is_reserved_program(text[0], size)):
                return size
        size += 1
    return length


@compiled()
def _simplify_range(
    first: int,
    last: int,
    tokens: U8Array,
    lengths: I64Array,
    inputs: U8Array,
    heroes: I16Array,
    outputs: U8Array,
    parser: ParserTables,
    max_ticks: int,
    reserved: bool,
) -> int:
    """Simplify programs first … last − 1 of tokens [N, L] in place, and their lengths [N].

    Grids are flat, [N · E, 324]; `heroes` [N, E] are the heroes' cells. No program becomes one that is reserved
    for testing, unless `reserved`. Returns the first row that is no program, or -1.
    """
    most, examples = tokens.shape[1], heroes.shape[1]
    work = new_workspace(most)
    code, origin, stack, opened, _ = work.buffers
    for task in range(first, last):
        length = lengths[task]
        if not 0 < length <= most:
            return task
        if compile_program(tokens[task, :length], parser, code, origin, stack, opened) >= 0:
            return task
        better = True
        while better:
            length = lengths[task]
            if _in_order(tokens[task], length, work.text) and (
                reserved or not is_reserved_program(work.text[0], length)
            ):
                _take(tokens, task, length, work.text, length)
            size = find_shorter(
                tokens[task, :length], task * examples, heroes[task], inputs, outputs, parser, max_ticks, reserved,
                False, work,
            )  # fmt: skip
            better = size < length
            if better:
                _take(tokens, task, length, work.text, size)
                lengths[task] = size
    return -1


def simplify(
    tasks: TaskBatch, threads: int | None = None, *, max_ticks: int = PAPER_TICKS, reserved: bool = False
) -> TaskBatch:
    """The same tasks with simpler programs. No program becomes one that is reserved for testing, unless `reserved`.

    `novel` still describes the original programs. A program that is wrong on some example is replaced only by one that
    is correct on all, within `max_ticks`. Raises KarelsynthError for rows that are no program or no world.
    """
    tokens, lengths = np.array(tasks.tokens, np.uint8, order="C"), tasks.lengths.astype(np.int64)
    if tasks.inputs.shape != tasks.outputs.shape or not len(tokens) == len(lengths) == len(tasks.inputs):
        raise KarelsynthError(
            f"{len(tokens)} programs, {len(lengths)} lengths, inputs {list(tasks.inputs.shape)} and outputs "
            f"{list(tasks.outputs.shape)} do not make a batch of tasks"
        )
    heroes = heroes_of("inputs", tasks.inputs, threads)
    inputs, outputs = (np.ascontiguousarray(part).reshape(-1, CELLS) for part in (tasks.inputs, tasks.outputs))
    found: list[int] = parallel_for(
        _simplify_range, len(tokens), tasks.inputs.shape[1], threads,
        tokens, lengths, inputs, heroes, outputs, compile_grammar(KAREL).parser, max_ticks, reserved,
    )  # fmt: skip
    bad = min((number for number in found if number >= 0), default=None)
    if bad is not None:
        raise KarelsynthError(
            f"tokens[{bad}] with lengths[{bad}] = {tasks.lengths[bad]} is no program (Program.from_tokens says more)"
        )
    return replace(tasks, tokens=tokens, lengths=lengths.astype(tasks.lengths.dtype))
