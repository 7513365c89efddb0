"""The chance that the generator finds a task's worlds for a program (Numba).

The generator tries worlds until it has enough good ones. Which of them it takes depends on the ones it has: it is
choosy about known and short traces, steers conditions to outcomes that are still to be shown, and gives up if it takes
too long; in the end the worlds are shuffled. The chance of that has no closed form. `worlds_chance` estimates it by a
particle filter, without bias: a particle is an order of the worlds, for each of which the generator's own tries are
made, and at every try the chance is noted that the wanted world had been drawn and taken.

That no two inputs of a task are equal is not minded: worlds of more than a few cells hardly ever are.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.posterior.world_kernel import LENGTH, SEEN, TRACE, WALLS_IN, world_chance
from karelsynth.tasks.batch import EXAMPLES
from karelsynth.tasks.generator_kernel import FIRST_PATIENCE, PATIENCE, TIRING
from karelsynth.tasks.kernel_layout import (
    ALIKE,
    BARE,
    KEEP_DISTINCT_ROW,
    ONE,
    SETTINGS_ROW,
    SHORT,
    UNSEEN,
    Sampler,
)
from karelsynth.tasks.program_kernel import draw, setting, signed
from karelsynth.tasks.world_kernel import DESCRIPTION, ENDLESS, GOOD, LONGEST_TRACE, begin_world, run_world
from karelsynth.tasks.world_kernel import LENGTH as FOUND_LENGTH
from karelsynth.tasks.world_kernel import SEEN as FOUND_SEEN
from karelsynth.tasks.world_kernel import TRACE as FOUND_TRACE

_ZERO, _ONE, _S11 = np.uint64(0), np.uint64(1), np.uint64(11)
_MOST_TRIES: Final = PATIENCE * 21 + TIRING + 2
_UNIT: Final = 2.0**-53


@compiled()
def even(state: NDArray[np.uint64]) -> float:  # pragma: no cover - compiled
    """A random number from 0 to 1, but never 1."""
    return np.float64(draw(state) >> _S11) * _UNIT


@compiled()
def _tolerance(sampler: Sampler, known: bool, short: bool, choosy: bool) -> float:  # pragma: no cover - compiled
    """The chance that a good world is taken."""
    chance = 1.0
    if choosy:
        if known:
            chance *= 1 - setting(sampler, SETTINGS_ROW, ALIKE) / ONE
        if short:
            chance *= 1 - setting(sampler, SETTINGS_ROW, SHORT) / ONE
    return chance


@compiled()
def _distinct(traces: NDArray[np.uint64]) -> int:  # pragma: no cover - compiled
    """How many different numbers there are."""
    distinct = 0
    for one in range(len(traces)):
        new = True
        for other in range(one):
            new &= traces[other] != traces[one]
        distinct += new
    return distinct


@compiled()
def worlds_chance(
    state: NDArray[np.uint64],
    sampler: Sampler,
    logs: NDArray[np.float64],
    code: NDArray[np.uint64],
    conditionals: int,
    counts: NDArray[np.int64],
    runs: NDArray[np.uint64],
    looks: NDArray[np.int64],
    wanted: int,
    particles: int,
    further: NDArray[np.uint64],
) -> float:  # pragma: no cover - compiled
    """The logarithm of an unbiased estimate of the chance of a program's worlds, in any order, and to be kept.

    Args:
        code: the program, compiled.
        counts, runs, looks: of the G worlds that are known, [G, ·], by `world_kernel.count_world` and `replay`.
        wanted: how many worlds the task has; those beyond G may be any.
        particles: how many, an even number; the error shrinks by their square root.
        further: [DESCRIPTION + 1]: if there are worlds beyond G, gets one of these as it was drawn, and the outcomes
            that were unseen then.
    """
    given = len(runs)
    complete = (_ONE << np.uint64(2 * conditionals)) - _ONE
    walled = False
    for one in range(given):
        walled |= counts[one, WALLS_IN] > 0
    chance_bare = setting(sampler, SETTINGS_ROW, BARE) / ONE
    strictness = 1 - setting(sampler, SETTINGS_ROW, UNSEEN) / ONE
    # What is the same for all orders is taken out, so that particles that happen to begin with unlikely worlds stay.
    usual = np.empty((2, given))
    for one in range(given):
        for bare in range(2):
            usual[bare, one] = world_chance(sampler, logs, bare == 1, _ZERO, counts[one], runs[one], looks[one])
    common = usual[0].sum() if walled else max(usual[0].sum(), usual[1].sum())
    if common == -np.inf:
        return -np.inf
    orders, bares = np.empty((particles, wanted), np.int64), np.empty(particles, np.bool_)
    tried, seen, strict = np.zeros(particles, np.int64), np.zeros(particles, np.uint64), np.ones(particles)
    standard, traces = np.empty(particles, np.int64), np.empty((particles, wanted), np.uint64)
    drawn = np.empty((particles, DESCRIPTION + 1), np.uint64)
    weights = np.zeros(particles)
    for particle in range(particles):
        bare = not walled and particle % 2 == 1
        bares[particle] = bare
        share = 1.0 if walled else 2.0
        weights[particle] = np.log(share * (chance_bare if bare else 1 - chance_bare))
        weights[particle] += usual[1 if bare else 0].sum() - common
        standard[particle] = LONGEST_TRACE + 1
        for number in range(wanted):
            other = int(even(state) * (number + 1))
            orders[particle, number] = orders[particle, other]
            orders[particle, other] = number
    worlds, cells, marked = np.empty((1, DESCRIPTION), np.uint64), np.empty(CELLS, np.uint8), np.empty(CELLS, np.uint8)
    counters = np.empty(len(code) + 1, np.uint64)
    shares, times = np.empty(_MOST_TRIES), np.empty(_MOST_TRIES, np.int64)
    parents = np.empty(particles, np.int64)
    total = 0.0
    for found in range(wanted):
        limit = PATIENCE * (found + 1) if found > 0 else FIRST_PATIENCE
        for particle in range(particles):
            if weights[particle] == -np.inf:
                continue
            goal = orders[particle, found]
            free = goal >= given
            past, bare = seen[particle], bares[particle]
            goal_known, goal_new, goal_length = False, False, 0
            if not free:
                for number in range(found):
                    goal_known |= traces[particle, number] == runs[goal, TRACE]
                goal_new = found > 0 and (runs[goal, SEEN] | past) != past
                goal_length = signed(runs[goal, LENGTH])
            tries, sum_of, count, taken = tried[particle], 0.0, 0, False
            least = standard[particle]
            while tries < limit and not taken:
                tries += 1
                choosy = conditionals > 0 and 2 * tries < PATIENCE * (found + 1)
                if not free:
                    share = _tolerance(sampler, goal_known, goal_length < least, choosy and not goal_new)
                    shares[count], times[count] = share, tries
                    sum_of += share
                    count += 1
                begin_world(state, sampler, bare, worlds, 0)
                outcome = run_world(sampler, code, counters, complete & ~past, worlds, cells, marked, 0)
                if outcome != GOOD:
                    tries += TIRING if outcome == ENDLESS else 0
                    continue
                length = signed(worlds[0, FOUND_LENGTH])
                short = length < least
                least = length if least == LONGEST_TRACE + 1 else max(least, length)
                new = found > 0 and (worlds[0, FOUND_SEEN] | past) != past
                known = False
                for number in range(found):
                    known |= traces[particle, number] == worlds[0, FOUND_TRACE]
                chance = _tolerance(sampler, known, short, choosy and not new)
                taken = chance == 1.0 or even(state) < chance
            if free:
                if not taken:
                    weights[particle] = -np.inf
                    continue
                if goal == given:
                    drawn[particle, :DESCRIPTION], drawn[particle, DESCRIPTION] = worlds[0], complete & ~past
                tried[particle], standard[particle] = tries, signed(worlds[0, FOUND_LENGTH])
                seen[particle], traces[particle, found] = past | worlds[0, FOUND_SEEN], worlds[0, FOUND_TRACE]
            else:
                if sum_of == 0.0:
                    weights[particle] = -np.inf
                    continue
                point, chosen = even(state) * sum_of, 0
                while chosen < count - 1 and point >= shares[chosen]:
                    point -= shares[chosen]
                    chosen += 1
                tried[particle], standard[particle] = times[chosen], goal_length
                weights[particle] += np.log(sum_of) - usual[1 if bare else 0, goal]
                weights[particle] += world_chance(
                    sampler, logs, bare, complete & ~past, counts[goal], runs[goal], looks[goal]
                )
                seen[particle], traces[particle, found] = past | runs[goal, SEEN], runs[goal, TRACE]
            if seen[particle] != complete and 2 * (found + 1) >= wanted and strict[particle] == 1.0:
                strict[particle] = 1 - strictness
                weights[particle] += np.log(1 - strictness) if strictness < 1 else -np.inf
            if found == wanted - 1 and conditionals > 0:
                distinct = _distinct(traces[particle])
                weights[particle] += np.log(setting(sampler, KEEP_DISTINCT_ROW, min(distinct, EXAMPLES)) / ONE)
        # Particles with more weight go on more often.
        high = weights.max()
        if high == -np.inf:
            return -np.inf
        mass = 0.0
        for particle in range(particles):
            mass += np.exp(weights[particle] - high)
        total += high + np.log(mass / particles)
        point, sum_of, parent = even(state), np.exp(weights[0] - high) * particles / mass, 0
        for particle in range(particles):
            while point + particle >= sum_of and parent < particles - 1:
                parent += 1
                sum_of += np.exp(weights[parent] - high) * particles / mass
            parents[particle] = parent
        if found == wanted - 1:
            break
        orders, bares, tried, seen = orders[parents], bares[parents], tried[parents], seen[parents]
        strict, standard, traces, drawn = strict[parents], standard[parents], traces[parents], drawn[parents]
        weights[:] = 0.0
    if wanted > given:
        further[:] = drawn[parents[int(even(state) * particles)]]
    log_chance: float = total + common
    return log_chance
