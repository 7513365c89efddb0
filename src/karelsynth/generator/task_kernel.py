"""Tasks (Numba): drawing a program and worlds for it, and the log-likelihood of a program given its worlds.

`generate_range` draws a program, then worlds until enough of them are good examples; if there are too few, it draws
another program. Task n of a seed depends on these two numbers alone: they determine the state of its random numbers.

Which worlds are accepted depends on those accepted before: known and short traces are mostly rejected, conditions are
steered to outcomes that are still unseen, and the search for worlds ends after some tries. At the end the worlds are
shuffled. The probability of all this has no closed form. `log_likelihood` estimates it by a particle filter, without
bias. A particle is an order of the given worlds. For each of them the filter makes the generator's own tries, and sums
over the tries the probability that the given world was drawn and accepted. It ignores that no two inputs of a task are
equal: worlds of more than a few cells hardly ever are.

The functions release the GIL and run on one thread; callers split the work.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from karelsynth.generator.program_kernel import SCRATCH_TOKENS, SHORTEST_RESERVED, draw_program, is_reserved_program
from karelsynth.generator.random_kernel import GAMMA, draw, mix, setting, shuffle, signed, uniform
from karelsynth.generator.sampler import (
    ALIKE,
    BARE,
    KEEP_DISTINCT_ROW,
    LEVELS,
    MOST_DISTINCT,
    ONE,
    SETTINGS_ROW,
    SHORT,
    UNSEEN,
    Sampler,
)
from karelsynth.generator.world_kernel import (
    DRAWN_WORLD,
    ENDLESS,
    GOOD,
    LENGTH,
    LONGEST_TRACE,
    RUN_LENGTH,
    RUN_SEEN,
    RUN_TRACE,
    SEEN,
    TRACE,
    WALL_CELLS,
    GivenWorlds,
    begin_world,
    complete_world,
    run_world,
    world_log_probability,
)
from karelsynth.karel.compiled import BoolArray, F64Array, I64Array, U8Array, U64Array, compiled, copy_row
from karelsynth.karel.machine_kernel import CELLS, IF, IFELSE, WHILE, code_buffers, compile_program
from karelsynth.karel.syntax_compiler import ParserTables

_ZERO, _ONE, _S48, _LONGEST = np.uint64(0), np.uint64(1), np.uint64(48), np.uint64(LONGEST_TRACE + 1)
FIRST_PATIENCE: Final = 16
"""Tries for the first example."""
PATIENCE: Final = 24
"""Tries for each example once the first is found. Good worlds are rejected in the first half of them only."""
_HOPELESS: Final = 1 << 32
"""More tries than any limit."""
TIRING: Final = 6
"""Extra tries that an endless run counts as: most such programs never end."""
_MOST_TRIES: Final = PATIENCE * 21 + TIRING + 2


@compiled()
def count_conditionals(tokens: U8Array, length: int) -> int:
    """The number of IF, IFELSE and WHILE statements."""
    count = 0
    for at in range(length):
        count += tokens[at] == IF or tokens[at] == IFELSE or tokens[at] == WHILE
    return count


@compiled()
def _all_outcomes(conditionals: int) -> np.uint64:
    """The value of SEEN once both outcomes of every condition have been seen."""
    return (_ONE << np.uint64(2 * conditionals)) - _ONE


@compiled()
def _draw_allowed(state: U64Array, sampler: Sampler, reserved: bool, tokens: U8Array, blocks: I64Array) -> int:
    """Draw a program; returns its length. Without `reserved`, programs reserved for testing are drawn again.

    The replacement has at least SHORTEST_RESERVED tokens, so that shorter programs, which are never reserved, do not
    become more frequent.
    """
    shortest, length, allowed = 0, 0, False
    while not allowed:
        length = draw_program(state, sampler, tokens, blocks)
        if length > shortest:
            allowed = reserved or not is_reserved_program(tokens, length)
            shortest = SHORTEST_RESERVED - 1
    return length


@compiled()
def _find_worlds(
    state: U64Array,
    sampler: Sampler,
    code: U64Array,
    conditionals: int,
    worlds: U64Array,
    cells: U8Array,
    marked: U8Array,
    counters: U64Array,
) -> bool:
    """Fill worlds [E, DRAWN_WORLD], cells and marked [E · 324] with good examples; False if there are too few."""
    wanted = len(worlds)
    bare = (draw(state) >> _S48) < setting(sampler, SETTINGS_ROW, BARE)
    found, tried, seen = 0, 0, _ZERO
    standard = _LONGEST  # the longest good trace since the last example; the first good world only sets it
    complete = _all_outcomes(conditionals)
    # Unseen outcomes are rare in the original: a strict task must show all outcomes in the first half of its examples.
    strict = (draw(state) >> _S48) >= setting(sampler, SETTINGS_ROW, UNSEEN)
    while found < wanted and tried < (PATIENCE * (found + 1) if found > 0 else FIRST_PATIENCE):
        tried += 1
        begin_world(state, sampler, bare, worlds, found)
        outcome = run_world(sampler, code, counters, complete & ~seen, worlds, cells, marked, found)
        if outcome != GOOD:
            tried += TIRING if outcome == ENDLESS else 0
            continue
        length, short = worlds[found, LENGTH], worlds[found, LENGTH] < standard
        standard = length if standard == _LONGEST else max(standard, length)
        shows_new = found > 0 and (worlds[found, SEEN] | seen) != seen
        if conditionals > 0 and not shows_new and 2 * tried < PATIENCE * (found + 1):
            known = False
            for other in range(found):
                known |= worlds[other, TRACE] == worlds[found, TRACE]
            if known and (draw(state) >> _S48) < setting(sampler, SETTINGS_ROW, ALIKE):
                continue
            if short and (draw(state) >> _S48) < setting(sampler, SETTINGS_ROW, SHORT):
                continue
        seen |= worlds[found, SEEN]
        standard = length
        found += 1
        if strict and seen != complete and 2 * found >= wanted:
            tried = _HOPELESS
    return found == wanted and tried < _HOPELESS


@compiled()
def _distinct(traces: U64Array) -> int:
    """The number of distinct traces."""
    distinct = 0
    for one in range(len(traces)):
        new = True
        for other in range(one):
            new &= traces[other] != traces[one]
        distinct += new
    return distinct


@compiled()
def _all_different(grids: U8Array, task: int) -> bool:
    """Whether no two of a task's grids, of [N, E, 324], are equal."""
    different = True
    for one in range(grids.shape[1]):
        for other in range(one):
            cell = 0
            while cell < CELLS and grids[task, one, cell] == grids[task, other, cell]:
                cell += 1
            different &= cell < CELLS
    return different


@compiled()
def generate_range(
    first: int,
    last: int,
    start: int,
    seed: int,
    reserved: bool,
    sampler: Sampler,
    parser: ParserTables,
    tokens: U8Array,
    lengths: U8Array,
    inputs: U8Array,
    outputs: U8Array,
    novel: BoolArray,
) -> None:
    """Draw tasks start + first … start + last − 1 of a seed and write them to rows first … last − 1.

    Arrays are those of a `TaskBatch` with flat grids, [N, E, 324]. The caller fills `tokens` with `<pad>`.
    """
    examples = inputs.shape[1]
    state = np.empty(1, np.uint64)
    text = np.empty(SCRATCH_TOKENS, np.uint8)
    blocks = np.empty(4 * LEVELS, np.int64)
    code, origin, stack, opened, _ = code_buffers(SCRATCH_TOKENS)
    instructions = code.view(np.uint64)
    counters = np.empty(SCRATCH_TOKENS + 1, np.uint64)
    order = np.empty(examples, np.int64)
    worlds = np.empty((examples, DRAWN_WORLD), np.uint64)
    cells = np.empty(examples * CELLS, np.uint8)
    marked = np.empty(examples * CELLS, np.uint8)
    # The two streams of a seed share no task, so a test set may have the seed of the training stream.
    stream = mix(mix(np.uint64(seed)) + (_ONE if reserved else _ZERO))
    for task in range(first, last):
        state[0] = mix(stream + np.uint64(start + task) * GAMMA)
        while True:
            length = _draw_allowed(state, sampler, reserved, text, blocks)
            compile_program(text[:length], parser, code, origin, stack, opened)
            conditionals = count_conditionals(text, length)
            if not _find_worlds(state, sampler, instructions, conditionals, worlds, cells, marked, counters):
                continue
            if conditionals > 0:  # balances the numbers of distinct traces
                kept = setting(sampler, KEEP_DISTINCT_ROW, min(_distinct(worlds[:, TRACE]), MOST_DISTINCT))
                if (draw(state) >> _S48) >= kept:
                    continue
            shuffle(state, order)  # the choice of a world depends on the earlier ones
            for number in range(examples):
                place = order[number]
                complete_world(sampler, worlds, cells, marked, number, inputs, outputs, task, place)
            if _all_different(inputs, task):
                break
        copy_row(text[:length], tokens[task])
        lengths[task] = length
        novel[task] = is_reserved_program(text, length)


@compiled()
def _acceptance(sampler: Sampler, known: bool, short: bool, choosy: bool) -> float:
    """The probability that a good world is accepted."""
    probability = 1.0
    if choosy:
        if known:
            probability *= 1 - setting(sampler, SETTINGS_ROW, ALIKE) / ONE
        if short:
            probability *= 1 - setting(sampler, SETTINGS_ROW, SHORT) / ONE
    return probability


class TryScratch(NamedTuple):
    """Scratch space of `_extend`."""

    shares: F64Array
    """[_MOST_TRIES]: the probability that the given world is accepted at each try."""
    times: I64Array
    """[_MOST_TRIES]: the number of each try."""
    worlds: U64Array
    """[1, DRAWN_WORLD]: the world that is tried."""
    cells: U8Array
    """[324]."""
    marked: U8Array
    """[324]."""
    counters: U64Array
    """One more than instructions of the program."""


class Particles(NamedTuple):
    """P particles: each an order of a task's worlds, and the generator's state after the first of them."""

    orders: I64Array
    """[P, W]: numbers of worlds; those from G on are free."""
    bare: BoolArray
    """[P]: the task's worlds have no walls."""
    tried: I64Array
    """[P]: the tries so far."""
    seen: U64Array
    """[P]: the outcomes of conditions seen so far."""
    lenient: BoolArray
    """[P]: the task leaves an outcome unseen, which its weight accounts for."""
    standard: I64Array
    """[P]: the length that a trace is compared with: see `_find_worlds`."""
    traces: U64Array
    """[P, W]: hashes of the traces so far."""
    drawn: U64Array
    """[P, DRAWN_WORLD + 1]: a free world, and the outcomes that were unseen when it was drawn."""


@compiled()
def _new_particles(state: U64Array, count: int, wanted: int, walled: bool) -> Particles:
    """Particles in random orders. Without `walled`, the worlds of every second one are bare."""
    orders, bare = np.empty((count, wanted), np.int64), np.zeros(count, np.bool_)
    for particle in range(count):
        bare[particle] = not walled and particle % 2 == 1
        for number in range(wanted):
            other = int(uniform(state) * (number + 1))
            orders[particle, number] = orders[particle, other]
            orders[particle, other] = number
    return Particles(
        orders,
        bare,
        np.zeros(count, np.int64),
        np.zeros(count, np.uint64),
        np.zeros(count, np.bool_),
        np.full(count, LONGEST_TRACE + 1),
        np.empty((count, wanted), np.uint64),
        np.empty((count, DRAWN_WORLD + 1), np.uint64),
    )


@compiled()
def _selected(particles: Particles, parents: I64Array) -> Particles:
    """The particles `parents` [P]."""
    orders, bare, tried, seen, lenient, standard, traces, drawn = particles
    return Particles(
        orders[parents], bare[parents], tried[parents], seen[parents], lenient[parents], standard[parents],
        traces[parents], drawn[parents],
    )  # fmt: skip


@compiled()
def _extend(
    state: U64Array,
    sampler: Sampler,
    logs: F64Array,
    code: U64Array,
    conditionals: int,
    given: GivenWorlds,
    unsteered: F64Array,
    found: int,
    particles: Particles,
    weights: F64Array,
    scratch: TryScratch,
) -> None:
    """Add the next world of their orders to all particles, after `found` others; updates their log weights [P].

    The generator's own tries are made. For a given world, the weight is the sum over the tries of the probability that
    it was drawn and accepted there; one of the tries is chosen in proportion. It is divided by the world's probability
    without steering, whose logarithm is `unsteered` [2, G], by `bare`. A free world is the first one accepted.
    """
    orders, bares, tried, seen, _, standard, traces, drawn = particles
    shares, times, worlds, cells, marked, counters = scratch
    counts, runs, tests = given.counts, given.runs, given.tests
    complete = _all_outcomes(conditionals)
    limit = PATIENCE * (found + 1) if found > 0 else FIRST_PATIENCE
    for particle in range(len(weights)):
        if weights[particle] == -np.inf:
            continue
        goal, past, bare = orders[particle, found], seen[particle], bares[particle]
        free = goal >= len(runs)
        goal_known, goal_new, goal_length = False, False, 0
        if not free:
            for number in range(found):
                goal_known |= traces[particle, number] == runs[goal, RUN_TRACE]
            goal_new = found > 0 and (runs[goal, RUN_SEEN] | past) != past
            goal_length = signed(runs[goal, RUN_LENGTH])
        tries, total_share, count, taken = tried[particle], 0.0, 0, False
        least = standard[particle]
        while tries < limit and not taken:
            tries += 1
            choosy = conditionals > 0 and 2 * tries < PATIENCE * (found + 1)
            if not free:
                share = _acceptance(sampler, goal_known, goal_length < least, choosy and not goal_new)
                shares[count], times[count] = share, tries
                total_share += share
                count += 1
            begin_world(state, sampler, bare, worlds, 0)
            outcome = run_world(sampler, code, counters, complete & ~past, worlds, cells, marked, 0)
            if outcome != GOOD:
                tries += TIRING if outcome == ENDLESS else 0
                continue
            length = signed(worlds[0, LENGTH])
            short = length < least
            least = length if least == LONGEST_TRACE + 1 else max(least, length)
            new = found > 0 and (worlds[0, SEEN] | past) != past
            known = False
            for number in range(found):
                known |= traces[particle, number] == worlds[0, TRACE]
            probability = _acceptance(sampler, known, short, choosy and not new)
            taken = probability == 1.0 or uniform(state) < probability
        if free:
            if not taken:
                weights[particle] = -np.inf
                continue
            if goal == len(runs):
                copy_row(worlds[0], drawn[particle])
                drawn[particle, DRAWN_WORLD] = complete & ~past
            tried[particle], standard[particle] = tries, signed(worlds[0, LENGTH])
            seen[particle], traces[particle, found] = past | worlds[0, SEEN], worlds[0, TRACE]
            continue
        if total_share == 0.0:
            weights[particle] = -np.inf
            continue
        point, chosen = uniform(state) * total_share, 0
        while chosen < count - 1 and point >= shares[chosen]:
            point -= shares[chosen]
            chosen += 1
        tried[particle], standard[particle] = times[chosen], goal_length
        seen[particle], traces[particle, found] = past | runs[goal, RUN_SEEN], runs[goal, RUN_TRACE]
        weights[particle] += np.log(total_share) - unsteered[1 if bare else 0, goal]
        weights[particle] += world_log_probability(
            sampler, logs, bare, complete & ~past, counts[goal], runs[goal], tests[goal]
        )


@compiled()
def _resample(state: U64Array, weights: F64Array, parents: I64Array) -> float:
    """Systematic resampling by log weights [P]: fills `parents` [P]; returns the log of the mean weight."""
    count, high = len(weights), weights.max()
    if high == -np.inf:
        return -np.inf
    mass = 0.0
    for particle in range(count):
        mass += np.exp(weights[particle] - high)
    point, reached, parent = uniform(state), np.exp(weights[0] - high) * count / mass, 0
    for particle in range(count):
        while point + particle >= reached and parent < count - 1:
            parent += 1
            reached += np.exp(weights[parent] - high) * count / mass
        parents[particle] = parent
    mean: float = high + np.log(mass / count)
    return mean


@compiled()
def log_likelihood(
    state: U64Array,
    sampler: Sampler,
    logs: F64Array,
    code: U64Array,
    conditionals: int,
    given: GivenWorlds,
    wanted: int,
    count: int,
    further: U64Array,
) -> float:
    """The logarithm of an unbiased estimate of the probability of a program's given worlds, in any order.

    Args:
        code: the program, compiled.
        conditionals: its number of conditions.
        given: the G given worlds, and the runs of the program in them.
        wanted: the number of worlds of the task; those beyond G are free.
        count: the number of particles, even; the standard error falls with its square root.
        further: [DRAWN_WORLD + 1] gets, if there are free worlds, one of them as drawn, and then the outcomes that were
            unseen when it was drawn.
    """
    counts, runs, tests = given.counts, given.runs, given.tests
    complete = _all_outcomes(conditionals)
    walled = (counts[:, WALL_CELLS] > 0).any()
    bare_probability = setting(sampler, SETTINGS_ROW, BARE) / ONE
    leniency = setting(sampler, SETTINGS_ROW, UNSEEN) / ONE
    # The worlds' probabilities without steering are common to all orders. They are taken out, so that particles that
    # begin with improbable worlds survive.
    unsteered = np.empty((2, len(runs)))
    for one in range(len(runs)):
        for bare in range(2):
            unsteered[bare, one] = world_log_probability(
                sampler, logs, bare == 1, _ZERO, counts[one], runs[one], tests[one]
            )
    common = unsteered[0].sum() if walled else max(unsteered[0].sum(), unsteered[1].sum())
    if common == -np.inf:
        return -np.inf
    particles = _new_particles(state, count, wanted, walled)
    weights, parents = np.empty(count), np.empty(count, np.int64)
    for particle in range(count):
        probability = bare_probability if particles.bare[particle] else 1 - bare_probability
        weights[particle] = np.log(probability if walled else 2 * probability)
        weights[particle] += unsteered[1 if particles.bare[particle] else 0].sum() - common
    scratch = TryScratch(
        np.empty(_MOST_TRIES), np.empty(_MOST_TRIES, np.int64), np.empty((1, DRAWN_WORLD), np.uint64),
        np.empty(CELLS, np.uint8), np.empty(CELLS, np.uint8), np.empty(len(code) + 1, np.uint64),
    )  # fmt: skip
    total = 0.0
    for found in range(wanted):
        _extend(state, sampler, logs, code, conditionals, given, unsteered, found, particles, weights, scratch)
        seen, lenient, traces = particles.seen, particles.lenient, particles.traces
        for particle in range(count):
            if 2 * (found + 1) >= wanted and seen[particle] != complete and not lenient[particle]:
                lenient[particle] = True
                weights[particle] += np.log(leniency) if leniency > 0 else -np.inf
            if found == wanted - 1 and conditionals > 0:
                distinct = min(_distinct(traces[particle]), MOST_DISTINCT)
                weights[particle] += np.log(setting(sampler, KEEP_DISTINCT_ROW, distinct) / ONE)
        mean = _resample(state, weights, parents)
        if mean == -np.inf:
            return -np.inf
        total += mean
        if found < wanted - 1:
            particles = _selected(particles, parents)
            weights[:] = 0.0
    if wanted > len(runs):
        copy_row(particles.drawn[parents[int(uniform(state) * count)]], further)
    estimate: float = total + common
    return estimate
