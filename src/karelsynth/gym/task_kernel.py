"""The compiled core of the environments: worlds that tasks make, and what an action does and earns in them.

A world is a row of cells of H × W codes (`formats.codes`) without the hero, its frame included, row 0 at the bottom.
`act` is the one place that knows the tasks' rules; `karelsynth.gym.tasks` describes them in words. Environments call
it action by action, and `run_range` calls it for the actions of programs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from karelsynth.generator.random_kernel import draw
from karelsynth.karel.compiled import BoolArray, F64Array, I32Array, I64Array, U8Array, U64Array, compiled
from karelsynth.karel.formats.codes import FRAME, HERO, WALL
from karelsynth.karel.machine_kernel import (
    AGAIN,
    BRANCH,
    JUMP,
    LOOP,
    NEGATED,
    ON_MARKERS,
    SET,
    code_buffers,
    compile_program,
)
from karelsynth.karel.syntax_compiler import ParserTables
from karelsynth.karel.tokens import ID
from karelsynth.karel.world import MOST_MARKERS

# Actions, in the order of their tokens.
MOVE, LEFT, RIGHT, PICK, PUT = range(5)
ACTIONS: Final = 5
_FIRST_ACTION: Final = ID["move"]
# Tasks.
EXAMPLE, STAIRS, CORNERS, TOP_OFF, MAZE, HOUSE, HARVEST, DOOR_KEY, STROKE, SEED, SNAKE = range(11)
# What a move against a wall does.
STAY, TURN, CRASH = range(3)
NORTH, EAST, SOUTH, WEST = range(4)
# Slots of a world's memory.
_GOAL, _KEY, _COUNT, _TOTAL, _OPEN, _LENGTH, _HEAD = range(7)
_BODY: Final = 8
_FOOD_EATEN: Final = 20
_FIRST_LENGTH: Final = 2
MEMORY: Final = _BODY + _FOOD_EATEN + _FIRST_LENGTH + 2
_LITTER: Final = 10
"""Markers in the house."""


class Worlds(NamedTuple):
    """N worlds of one task, and the state of their episodes."""

    cells: U8Array
    """[N, H · W]: cell codes without the hero. The codes from HERO on are piles of 11, 12, … markers, in passing."""
    before: U8Array
    """[N, H · W]: the cells at the start; for EXAMPLE, the world to reach, with its hero."""
    place: I32Array
    """[N, 2]: the hero's cell and heading."""
    memory: I32Array
    """[N, MEMORY]: what else the task remembers."""
    progress: F64Array
    """[N]: the return so far."""
    random: U64Array
    """[N, 1]: the source of random numbers."""


class Rules(NamedTuple):
    """What all worlds of a task have in common."""

    task: int
    height: int
    width: int
    bump: int
    """STAY, TURN or CRASH."""
    most: int
    """The code of a cell with the most markers. Putting one more, or picking where there is none, fails like a move
    into a wall."""


@compiled()
def _below(random: U64Array, limit: int) -> int:
    """A random number from 0 to limit − 1."""
    return int(draw(random) % np.uint64(limit))


@compiled()
def _room(cells: U8Array, height: int, width: int) -> None:
    """An empty room within its frame."""
    for row in range(height):
        for col in range(width):
            edge = row == 0 or col == 0 or row == height - 1 or col == width - 1
            cells[row * width + col] = FRAME if edge else 0


@compiled()
def _maze(cells: U8Array, height: int, width: int, random: U64Array) -> None:
    """A random maze by depth-first search: corridors on odd rows and columns."""
    for cell in range(height * width):
        cells[cell] = max(cells[cell], WALL)
    stack = np.empty(height * width, np.int32)
    depth, stack[0] = 1, width + 1
    cells[width + 1] = 0
    steps = np.array((2 * width, 2, -2 * width, -2), np.int32)
    while depth:
        at = stack[depth - 1]
        row, col = at // width, at % width
        choices, chosen = 0, -1
        for heading in range(4):
            to_row, to_col = row + (2, 0, -2, 0)[heading], col + (0, 2, 0, -2)[heading]
            if 0 < to_row < height - 1 and 0 < to_col < width - 1 and cells[at + steps[heading]] == WALL:
                choices += 1
                if _below(random, choices) == 0:
                    chosen = heading
        if chosen < 0:
            depth -= 1
            continue
        cells[at + steps[chosen] // 2] = 0
        cells[at + steps[chosen]] = 0
        stack[depth] = at + steps[chosen]
        depth += 1


@compiled()
def _free_cell(cells: U8Array, but: int, random: U64Array, first: int, last: int, width: int) -> int:
    """A random cell without wall and markers, other than `but`, in columns first … last."""
    while True:
        cell = _below(random, len(cells))
        if cells[cell] == 0 and cell != but and first <= cell % width <= last:
            return int(cell)


@compiled()
def make(worlds: Worlds, rules: Rules, number: int, plan: U8Array) -> None:
    """Fill world `number` with a new start of the task; `plan` [H · W] is the house's."""
    cells, memory, random = worlds.cells[number], worlds.memory[number], worlds.random[number]
    task, height, width = rules.task, rules.height, rules.width
    _room(cells, height, width)
    memory[:] = 0
    worlds.progress[number] = 0.0
    at, heading, inner = width + 1, EAST, (height - 2) * (width - 2)
    if task == STAIRS:
        for step in range(1, width - 2):
            cells[step * width + step + 1] = WALL
            if step + 2 < width - 1:
                cells[step * width + step + 2] = WALL
        first = 1 + _below(random, width - 3)
        last = first + 1 + _below(random, width - 2 - first)
        at = first * width + first
        memory[_GOAL] = last * width + last
        cells[memory[_GOAL]] = 1
    elif task == CORNERS:
        at = width + 2 + _below(random, width - 4)
    elif task == TOP_OFF:
        count = 1 + _below(random, width - 4)
        for _ in range(count):
            cells[_free_cell(cells[: 2 * width], at, random, 2, width - 2, width)] = 1
    elif task == MAZE:
        _maze(cells, height, width, random)
        memory[_GOAL] = _free_cell(cells, at, random, 1, width - 2, width)
        cells[memory[_GOAL]] = 1
    elif task == HOUSE:
        cells[:] = plan % HERO
        for cell in range(height * width):
            if plan[cell] >= HERO:
                at, heading = cell, int(plan[cell] // HERO) - 1
        while memory[_TOTAL] < _LITTER:
            cell = _free_cell(cells, at, random, 1, width - 2, width)
            walls = 0
            for step in (width, 1, -width, -1):
                walls += cells[cell + step] >= WALL
            if walls:
                cells[cell] = 1
                memory[_TOTAL] += 1
    elif task == HARVEST:
        for cell in range(height * width):
            cells[cell] = 1 if cells[cell] == 0 else cells[cell]
        memory[_TOTAL] = inner
        at = width + 2 + _below(random, width - 4)
    elif task == DOOR_KEY:
        wall = (width + 1) // 2
        for row in range(1, height - 1):
            cells[row * width + wall] = WALL
        memory[_KEY] = _free_cell(cells, -1, random, 1, wall - 1, width)
        cells[memory[_KEY]] = 1
        memory[_GOAL] = _free_cell(cells, -1, random, wall + 1, width - 2, width)
        cells[memory[_GOAL]] = 1
        at = _free_cell(cells, -1, random, 1, wall - 1, width)
    elif task == STROKE or task == SEED:
        at = _free_cell(cells, -1, random, 1, width - 2, width)
        memory[_COUNT] = 1 if task == STROKE else 0
        memory[_TOTAL] = inner
    elif task == SNAKE:
        at = _free_cell(cells, -1, random, 1, width - 2, width)
        cells[_free_cell(cells, at, random, 1, width - 2, width)] = 1
        memory[_LENGTH] = _FIRST_LENGTH
    worlds.place[number, 0], worlds.place[number, 1] = at, heading
    worlds.before[number] = cells


@compiled()
def _topped_off(cells: U8Array, before: U8Array, at: int, width: int) -> float:
    """The share of the bottom row, from the left up to the hero's column, that is as it should be without a gap."""
    score = 0
    for col in range(1, at % width + 1):
        cell = width + col
        if cells[cell] != (2 if before[cell] == 1 else 0):
            break
        score += 1
    if score == width - 2 and at == 2 * width - 2:
        score += 1
    return score / (width - 1)


@compiled()
def _slither(cells: U8Array, memory: I32Array, random: U64Array, last: int, at: int, width: int) -> bool:
    """A move of the snake from one cell to another, both filled in. Returns whether it ran into its body."""
    if cells[at] == 2:
        return True
    ring = len(memory) - _BODY
    memory[_BODY + (memory[_HEAD] + memory[_TOTAL]) % ring] = last
    memory[_TOTAL] += 1
    cells[last] = 2
    if cells[at] == 1:
        memory[_COUNT] += 1
        cells[at] = 0
        if memory[_COUNT] < _FOOD_EATEN:
            cells[_free_cell(cells, at, random, 1, width - 2, width)] = 1
    if memory[_TOTAL] > _FIRST_LENGTH + memory[_COUNT]:
        cells[memory[_BODY + memory[_HEAD]]] = 0
        memory[_HEAD] = (memory[_HEAD] + 1) % ring
        memory[_TOTAL] -= 1
    return False


@compiled()
def act(worlds: Worlds, rules: Rules, number: int, action: int) -> tuple[float, bool]:
    """One action in world `number`. Returns the reward and whether the episode has ended."""
    cells, before, memory = worlds.cells[number], worlds.before[number], worlds.memory[number]
    task, width = rules.task, rules.width
    last = at = worlds.place[number, 0]
    heading = worlds.place[number, 1]
    failed = False
    if action == MOVE:
        ahead = at + (width, 1, -width, -1)[heading]
        failed = WALL <= cells[ahead] < HERO
        if not failed:
            at = ahead
        elif rules.bump == TURN:
            heading = (heading + 2) & 3
    elif action == LEFT or action == RIGHT:
        heading = (heading + (3 if action == LEFT else 1)) & 3
    elif task != SNAKE:
        failed = cells[at] == 0 if action == PICK else cells[at] >= rules.most
        if not failed and cells[at] == (MOST_MARKERS if action == PUT else HERO):
            cells[at] = HERO if action == PUT else MOST_MARKERS
        elif not failed:
            cells[at] += 1 if action == PUT else -1
    worlds.place[number, 0], worlds.place[number, 1] = at, heading
    if failed and rules.bump == CRASH:
        return 0.0, True
    changed = not failed and (action == PICK or action == PUT)
    score, ended = worlds.progress[number], False
    if task == EXAMPLE:
        different = 0
        for cell in range(len(cells)):
            different += before[cell] != cells[cell]
        # The world to reach has the hero on the hero's cell, too.
        there = cells[at] < HERO and before[at] == cells[at] + HERO * (heading + 1)
        ended = there and different == 1
        score = 1.0 if ended else 0.0
    elif task == STAIRS:
        off = at // width - at % width
        if at == memory[_GOAL]:
            score, ended = 1.0, True
        elif off < 0 or off > 1:
            score, ended = -1.0, True
    elif task == CORNERS:
        if changed:
            height = rules.height
            corners = (width + 1, 2 * width - 2, (height - 2) * width + 1, (height - 1) * width - 2)
            right = 0
            for corner in corners:
                right += cells[corner] > 0
            memory[_COUNT] += 1 if action == PUT else -1
            score, ended = right / 4, right == 4
            if memory[_COUNT] > right:
                score, ended = 0.0, True
    elif task == TOP_OFF:
        score = _topped_off(cells, before, at, width)
        ended = score == 1.0
    elif task == MAZE:
        ended = at == memory[_GOAL]
        score = 1.0 if ended else 0.0
    elif task == HOUSE or task == HARVEST:
        if changed and before[at] == 1:
            memory[_COUNT] += 1 if action == PICK else -1
            score = memory[_COUNT] / memory[_TOTAL]
            ended = memory[_COUNT] == memory[_TOTAL]
    elif task == DOOR_KEY:
        taken = cells[memory[_KEY]] == 0
        if taken and memory[_OPEN] == 0:
            memory[_OPEN] = 1
            wall, top = (width + 1) // 2, rules.height - 1
            cells[(top - 2) * width + wall] = 0
            cells[(top - 3) * width + wall] = 0
        ended = taken and cells[memory[_GOAL]] == 2
        score = 0.5 * taken + 0.5 * ended
    elif task == STROKE:
        if at != last:
            cells[last] = WALL
            memory[_COUNT] += 1
            score = (memory[_COUNT] - 1) / (memory[_TOTAL] - 1)
        ended = memory[_COUNT] == memory[_TOTAL] or (failed and action == MOVE)
    elif task == SEED:
        if changed:
            single = (cells[at] == 1) - (cells[at] == (2 if action == PUT else 0))
            memory[_COUNT] += single
            score = memory[_COUNT] / memory[_TOTAL]
            ended = memory[_COUNT] == memory[_TOTAL] or cells[at] > 1
    elif task == SNAKE and at != last:
        ended = _slither(cells, memory, worlds.random[number], last, at, width)
        score = memory[_COUNT] / _FOOD_EATEN
        ended = ended or memory[_COUNT] == _FOOD_EATEN
    reward = score - worlds.progress[number]
    worlds.progress[number] = score
    return reward, ended


@compiled()
def make_range(first: int, last: int, worlds: Worlds, rules: Rules, which: BoolArray, plan: U8Array) -> None:
    """Make the worlds first … last − 1 that are in `which` [N]."""
    for number in range(first, last):
        if which[number]:
            make(worlds, rules, number, plan)


@compiled()
def act_range(
    first: int,
    last: int,
    worlds: Worlds,
    rules: Rules,
    which: BoolArray,
    actions: I64Array,
    rewards: F64Array,
    ended: BoolArray,
) -> None:
    """One action [N] in each of the worlds first … last − 1 that are in `which` [N]; fills `rewards` and `ended`."""
    for number in range(first, last):
        if which[number]:
            rewards[number], ended[number] = act(worlds, rules, number, actions[number])
        else:
            rewards[number], ended[number] = 0.0, False


@compiled()
def _holds(worlds: Worlds, rules: Rules, number: int, operand: int) -> bool:
    """Whether a condition of the bytecode holds."""
    cells, at, heading = worlds.cells[number], worlds.place[number, 0], worlds.place[number, 1]
    width = rules.width
    if operand & ON_MARKERS:
        holds = 0 < cells[at] < WALL
    else:
        holds = cells[at + (width, 1, -width, -1)[(heading + operand) & 3]] < WALL
    return bool(holds ^ ((operand & NEGATED) != 0))


@compiled()
def run_range(
    first: int,
    last: int,
    tokens: U8Array,
    seeds: U64Array,
    rules: Rules,
    plan: U8Array,
    parser: ParserTables,
    worlds: Worlds,
    max_actions: int,
    max_ticks: int,
    returns: F64Array,
) -> None:
    """Run programs first … last − 1 of tokens [P, L] on the K worlds of the seeds and fill their returns [P, K].

    `worlds` has a row for each program, which serves for all of its worlds. Rows that are no valid program get NaN.
    """
    code, origin, stack, opened, counters = code_buffers(tokens.shape[1])
    for program in range(first, last):
        valid = compile_program(tokens[program], parser, code, origin, stack, opened) < 0
        for world in range(len(seeds)):
            if not valid:
                returns[program, world] = np.nan
                continue
            worlds.random[program, 0] = seeds[world]
            make(worlds, rules, program, plan)
            actions, ticks, pc, ended = 0, 0, 0, False
            while not ended and actions < max_actions and ticks < max_ticks:
                instruction = code[pc]
                operation, operand = instruction & 0xFF, (instruction >> 8) & 0xFF
                target, slot = (instruction >> 16) & 0xFFFF, instruction >> 32
                ticks += 1
                if operation >= _FIRST_ACTION:
                    _, ended = act(worlds, rules, program, operation - _FIRST_ACTION)
                    actions += 1
                    pc += 1
                elif operation == BRANCH or operation == AGAIN:
                    jumps = _holds(worlds, rules, program, operand) == (operation == AGAIN)
                    pc = target if jumps else pc + 1
                elif operation == LOOP:
                    counters[slot] -= 1
                    pc = pc + 1 if counters[slot] == 0 else target
                elif operation == SET:
                    counters[slot] = operand
                    pc = target if operand == 0 else pc + 1
                elif operation == JUMP:
                    pc = target
                else:
                    break
            returns[program, world] = worlds.progress[program]
