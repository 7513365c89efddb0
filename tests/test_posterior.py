"""The posterior of programs: log-probabilities against frequencies, MCMC against enumeration."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError
from karelsynth.generator.program_kernel import BLOCK_TOKENS, SCRATCH_TOKENS, SURVEYED, draw_program, log_priors
from karelsynth.generator.sampler import (
    LEVELS,
    GeneratorTables,
    Sampler,
    build,
    fitted_sampler,
    fitted_tables,
    read_weights,
    tables_of,
)
from karelsynth.generator.task_kernel import log_likelihood
from karelsynth.generator.world_kernel import (
    DRAWN_WORLD,
    RUN_LENGTH,
    START,
    START_HEADING,
    given_worlds,
    replay,
)
from karelsynth.karel.formats.codes import BEYOND, FRAME, HERO, WALL
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.machine_kernel import CELLS, code_buffers, compile_program
from karelsynth.karel.program import Program
from karelsynth.karel.structure_kernel import Statements, find_statements, new_statements
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.tokens import ID
from karelsynth.karel.world import Hero, World
from karelsynth.posterior import MarkovChain, PosteriorSamples
from karelsynth.posterior.proposal_kernel import propose
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate
from karelsynth.tasks.task import Example, Task

TESTS = [ID[name] for name in ("WHILE", "IF", "IFELSE")]


@cache
def small() -> Sampler:
    """A generator of few programs in worlds of four cells, so that frequencies can be counted."""
    weights = read_weights()
    weights["rows"] = weights["cols"] = [1] + 14 * [0]
    weights["headings"] = [0, 1, 0, 0]
    weights["piles"] = [1] + 8 * [0]
    weights["settings"]["corner"] = 65536
    weights["bodies"] = [[1, 4, 2] + 8 * [0]] + 5 * [[1] + 10 * [0]]
    weights["deeper"] = [65536, 6000, 0, 0, 0, 0]
    weights["counts"] = [1, 1] + 7 * [0]
    weights["conditions"] = [3, 0, 0, 0, 4, 0, 1, 0]
    weights["keep_length"] = [60000 + 50 * length for length in range(66)]
    weights["keep_controls"] = [40000, *15 * [65536]]
    return build(weights)


@cache
def drawn(tries: int) -> list[bytes]:
    """The programs that many tries of the small generator give; those that are thrown away are empty."""
    state, sampler = np.array([5], np.uint64), small().ravel()
    tokens, blocks = np.zeros(SCRATCH_TOKENS, np.uint8), np.empty(4 * LEVELS, np.int64)
    return [tokens[: draw_program(state, sampler, tokens, blocks)].tobytes() for _ in range(tries)]


def padded(programs: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    lengths = np.array([len(program) for program in programs], np.int64)
    tokens = np.zeros((len(programs), BLOCK_TOKENS), np.uint8)
    for row, program in enumerate(programs):
        tokens[row, : len(program)] = np.frombuffer(program, np.uint8)
    return tokens, lengths


def log_priors_of(programs: list[bytes], tables: GeneratorTables) -> NDArray[np.float64]:
    priors = np.empty(len(programs))
    log_priors(*padded(programs), tables.logs, tables.sampler, priors)
    return priors


def test_priors_of_programs_are_their_frequencies() -> None:
    tries = 1_000_000
    found = Counter(drawn(tries))
    thrown = found.pop(b"")
    programs = list(found)
    expected = tries * np.exp(log_priors_of(programs, tables_of(small())))
    seen = np.array([found[program] for program in programs])
    often = expected >= 20
    assert often.sum() > 100
    deviations = (seen[often] - expected[often]) / np.sqrt(expected[often])
    assert abs(deviations.mean()) < 0.3
    assert deviations.std() == pytest.approx(1, abs=0.2)
    assert expected.sum() <= tries - thrown + 4 * np.sqrt(tries)
    assert expected[often].sum() == pytest.approx(seen[often].sum(), rel=0.03)


def test_every_generated_program_has_a_positive_prior_and_others_have_none() -> None:
    batch = generate(4, 0, 2000, reserved=True)
    tables = fitted_tables()
    programs = [bytes(row[:length]) for row, length in zip(batch.tokens, batch.lengths, strict=True)]
    assert (log_priors_of(programs, tables) > -np.inf).all()
    never = [
        "DEF run m( move m)",  # nothing is picked or put
        "DEF run m( pickMarker m)",
        "DEF run m( turnLeft turnRight move putMarker m)",
        "DEF run m( move move move putMarker m)",
        "DEF run m( REPEAT R=1 r( move r) putMarker m)",
        "DEF run m( REPEAT R=19 r( move r) putMarker m)",
        "DEF run m( WHILE c( not c( markersPresent c) c) w( move w) putMarker m)",
    ]
    texts = [bytes(encode_programs([Program.parse(text)])[0].tolist()) for text in never]
    assert (log_priors_of(texts, tables) == -np.inf).all()


class Posed:
    """A program and worlds, as the likelihood wants them."""

    def __init__(self, program: bytes, grids: NDArray[np.uint8]) -> None:
        tokens, size = np.frombuffer(program, np.uint8), len(program)
        self.code, origin, stack, opened, counters = code_buffers(size)
        compile_program(tokens, compile_grammar(KAREL).parser, self.code, origin, stack, opened)
        self.given = given_worlds(np.ascontiguousarray(grids).reshape(-1, CELLS))
        self.after, known = np.empty((len(grids), CELLS), np.uint8), np.empty(CELLS, np.uint8)
        self.good = []
        for before, counts, run, tests, after in zip(*self.given, self.after, strict=True):
            start, heading = counts[START], counts[START_HEADING]
            self.good.append(replay(self.code, counters, before, start, heading, after, known, run, tests))
        self.conditionals = sum(token in TESTS for token in program)

    def log_likelihood(self, tables: GeneratorTables, wanted: int, particles: int, seed: int = 1) -> float:
        estimate: float = log_likelihood(
            np.array([seed], np.uint64), tables.sampler, tables.logs, self.code.view(np.uint64), self.conditionals,
            self.given, wanted, particles, np.empty(DRAWN_WORLD + 1, np.uint64),
        )  # fmt: skip
        return estimate


def test_replaying_is_running() -> None:
    batch = generate(6, 0, 300, reserved=True)
    for tokens, length, inputs, outputs in zip(batch.tokens, batch.lengths, batch.inputs, batch.outputs, strict=True):
        posed = Posed(bytes(tokens[:length]), inputs)
        assert all(posed.good)
        np.testing.assert_array_equal(posed.after, outputs.reshape(-1, CELLS))
        runs = run_batch(tokens[None, :length], inputs, traces=True)
        assert runs.trace_lengths is not None
        np.testing.assert_array_equal(posed.given.runs[:, RUN_LENGTH], runs.trace_lengths[0])


def test_inputs_on_which_the_program_fails_are_no_good_examples() -> None:
    batch = generate(6, 0, 40, reserved=True)
    rows = np.arange(len(batch))
    for tokens, length in zip(batch.tokens, batch.lengths, strict=True):
        inputs = batch.inputs[rows, 0]
        runs = run_batch(tokens[None, :length], inputs)
        for good, ok in zip(Posed(bytes(tokens[:length]), inputs).good, runs.ok[0], strict=True):
            assert ok or not good


@cache
def pairs_of_small_worlds() -> tuple[TaskBatch, Counter[bytes]]:
    """Tasks of two examples, and how often each comes: its program and the four cells of both inputs."""
    batch = generate(7, 0, 1_000_000, examples=2, reserved=True, sampler=small())
    cells = batch.inputs.reshape(len(batch), 2, CELLS)[:, :, [19, 20, 37, 38]].reshape(len(batch), 8)
    return batch, Counter(map(bytes, np.concatenate([batch.tokens[:, :40], cells], 1)))


def small_world(cells: bytes) -> NDArray[np.uint8]:
    grid = np.full((18, 18), BEYOND, np.uint8)
    grid[:4, :4] = FRAME
    grid.ravel()[[19, 20, 37, 38]] = np.frombuffer(cells, np.uint8)
    return grid


def test_likelihoods_of_tasks_are_their_frequencies() -> None:
    _, found = pairs_of_small_worlds()
    tables = tables_of(small())
    testing = {key for key in found if any(token in TESTS for token in key[:40])}
    often = [key for key, count in found.most_common() if count >= 30 and key[39] == 0]
    plain, tested = ([key for key in often if (key in testing) == wanted][:250] for wanted in (False, True))
    assert min(len(plain), len(tested)) > 60
    posed = [
        Posed(key[:40].rstrip(b"\0"), np.stack([small_world(key[40:44]), small_world(key[44:])]))
        for key in (*plain, *tested)
    ]
    logs = log_priors_of([key[:40].rstrip(b"\0") for key in (*plain, *tested)], tables)
    logs = logs + np.array([each.log_likelihood(tables, 2, 4000) for each in posed])
    seen = np.array([float(found[key]) for key in (*plain, *tested)])
    expected = np.exp(logs) * seen[: len(plain)].sum() / np.exp(logs[: len(plain)]).sum()
    deviations = (seen - expected) / np.sqrt(expected)
    assert deviations.std() == pytest.approx(1, abs=0.3)
    assert seen[len(plain) :].sum() == pytest.approx(expected[len(plain) :].sum(), rel=0.05)


def test_worlds_that_may_be_any_are_summed_over() -> None:
    """The probability of one given world is the sum over all values of the other world."""
    tables = tables_of(small())
    every = [bytes([under, *rest]) for under in (2 * HERO, 2 * HERO + 1) for rest in product((0, 1, WALL), repeat=3)]
    texts = [
        "DEF run m( putMarker move m)",
        "DEF run m( IF c( markersPresent c) i( pickMarker i) move m)",
        "DEF run m( WHILE c( frontIsClear c) w( move w) putMarker m)",
        "DEF run m( IFELSE c( frontIsClear c) i( move i) ELSE e( turnLeft e) move putMarker m)",
    ]
    for text, seed in product(texts, range(3)):
        program = bytes(encode_programs([Program.parse(text)])[0].tolist())
        good = [cells for cells in every if Posed(program, small_world(cells)[None]).good[0]]
        known = good[seed * 7 % len(good)]
        alone = Posed(program, small_world(known)[None]).log_likelihood(tables, 2, 20_000)
        both = [
            Posed(program, np.stack([small_world(known), small_world(other)])).log_likelihood(tables, 2, 2000)
            for other in good
        ]
        assert np.exp(np.array(both)).sum() == pytest.approx(np.exp(alone), rel=0.06), (text, known)


def test_a_chain_weighs_programs_and_stays_with_them_as_likely_as_they_are() -> None:
    """Against all programs that many draws have met: nearly all that there are, weighed one by one."""
    batch, _ = pairs_of_small_worlds()
    tables = tables_of(small())
    every = sorted(set(drawn(1_000_000)) - {b""})
    tokens, _ = padded(every)
    checked = 0
    for task in range(3):
        given = batch.inputs[task, :1], batch.outputs[task, :1]
        correct = run_batch(tokens, given[0], expected=given[1], keep_worlds=False).correct
        assert correct is not None
        fitting = [program for program, right in zip(every, correct[:, 0], strict=True) if right]
        posed = [Posed(program, given[0]) for program in fitting]
        logs = log_priors_of(fitting, tables)
        logs = logs + np.array([each.log_likelihood(tables, 6, 300) if each.good[0] else -np.inf for each in posed])
        expected = np.exp(logs - logs.max())
        expected /= expected.sum()
        chain = MarkovChain(*given, tokens[correct[:, 0]][:5], tables=tables, seed=task, particles=64)
        if not chain.started:
            continue
        chain.run(200_000)
        samples = chain.samples
        assert samples.visits.sum() == 200_000
        for weights in (samples.visits / samples.visits.sum(), samples.weights):
            noted: Counter[bytes] = Counter()
            for row, weight in zip(samples.programs, weights, strict=True):
                noted[bytes(row[row > 0])] += weight
            shares = np.array([noted[program] for program in fitting])
            assert shares.sum() > 0.95, "the chain is mostly with programs that draws have met"
            assert 0.5 * np.abs(shares - expected).sum() < 0.12
        checked += 1
    assert checked >= 2


def test_samples_are_examples_of_their_programs() -> None:
    batch = generate(8, 0, 6, reserved=True)
    for inputs, outputs, tokens in zip(batch.inputs, batch.outputs, batch.tokens, strict=True):
        chain = MarkovChain(inputs[:5], outputs[:5], tokens[None], seed=3)
        assert chain.started
        chain.run(3000)
        samples = chain.samples
        assert samples.visits.sum() == 3000
        assert (samples.visits > 0).sum() < len(samples), "what the chain does not come to is noted too"
        right = samples.agreement(samples.programs)
        assert right.diagonal().all()
        given = run_batch(samples.programs, inputs[:5], expected=outputs[:5], keep_worlds=False).correct
        assert given is not None
        assert given.all()
        again = MarkovChain(inputs[:5], outputs[:5], tokens[None], seed=3)
        again.run(1000)
        begun = again.samples
        again.run(2000)
        for name in (each.name for each in fields(PosteriorSamples)):
            whole, part = getattr(samples, name), getattr(begun, name)
            np.testing.assert_array_equal(getattr(again.samples, name), whole)
            if name != "visits":
                np.testing.assert_array_equal(part, whole[: len(part)])
        assert begun.visits.sum() == 1000


def test_a_chain_may_begin_with_what_it_does_not_jump_to() -> None:
    batch = generate(8, 0, 2, reserved=True)
    inputs, outputs = batch.inputs[0, :5], batch.outputs[0, :5]
    for others in (batch.tokens[:0], batch.tokens[:1]):
        chain = MarkovChain(inputs, outputs, others, start=batch.tokens[0])
        assert chain.started
        assert len(chain.samples) == 1
        np.testing.assert_array_equal(
            chain.samples.programs[0, : batch.lengths[0]], batch.tokens[0, : batch.lengths[0]]
        )
    assert not MarkovChain(inputs, outputs, batch.tokens[:1], start=batch.tokens[1]).started, "it does not fit"


def test_chances_are_shares_of_weight_and_of_time() -> None:
    batch = generate(8, 6, 1, reserved=True)
    chain = MarkovChain(batch.inputs[0, :5], batch.outputs[0, :5], batch.tokens[:1])
    chain.run(2000)
    samples = PosteriorSamples.join([chain.samples, chain.samples])
    assert samples.weights.sum() == pytest.approx(1)
    both = (samples.weights + samples.visits / samples.visits.sum()) / 2
    others = np.unique(samples.programs, axis=0)[:20]
    np.testing.assert_allclose(samples.probabilities(others), samples.agreement(others) @ both, atol=1e-3)
    np.testing.assert_allclose(chain.samples.probabilities(others), samples.probabilities(others), atol=1e-3)


def test_estimates_of_one_program_are_averaged() -> None:
    programs = np.zeros((3, BLOCK_TOKENS), np.uint8)
    programs[2, 0] = 1
    grids = np.zeros((3, 18, 18), np.uint8)
    ones = np.ones(3, np.int64)
    samples = PosteriorSamples(programs, ones, np.log([0.1, 0.3, 0.2]), ones, grids, grids)
    np.testing.assert_allclose(samples.weights, [0.125, 0.375, 0.5])


def test_piles_of_ten_are_as_good_as_others() -> None:
    """The generator never lets one come about; people and other sets do."""
    program = Program.parse("DEF run m( putMarker move m)")
    worlds = [World(3, 4, Hero(0, column, "east"), markers={(0, column): 9}) for column in range(3)]
    given = Task(tuple(Example(world, program.run(world).world) for world in worlds)).codes()
    chain = MarkovChain(*given, encode_programs([program]))
    assert chain.started
    chain.run(100)
    assert chain.samples.probabilities(encode_programs([program]))[0] > 0.5


def test_chains_of_different_seeds_go_different_ways() -> None:
    batch = generate(99, 0, 4, reserved=True)
    for inputs, outputs, tokens in zip(batch.inputs, batch.outputs, batch.tokens, strict=True):
        chains = [MarkovChain(inputs[:5], outputs[:5], tokens[None], seed=seed) for seed in (1, 2)]
        for chain in chains:
            chain.run(6000)
        one, other = (set(map(bytes, chain.samples.inputs[len(chain.samples) // 2 :])) for chain in chains)
        assert len(one & other) < 0.1 * len(one), "they have become one"


def test_changes_of_deep_programs_are_programs() -> None:
    text = (
        "DEF run m( REPEAT R=2 r( IF c( frontIsClear c) i( REPEAT R=2 r( IF c( rightIsClear c) i( IFELSE c( "
        "markersPresent c) i( pickMarker move i) ELSE e( putMarker e) i) r) i) r) m)"
    )
    tables, state = fitted_tables(), np.array([11], np.uint64)
    first, length = padded([bytes(Program.parse(text).token_ids)])
    changed = new_statements(BLOCK_TOKENS + 1)
    places, gaps = np.empty((BLOCK_TOKENS, SURVEYED), np.int64), np.empty((2 * BLOCK_TOKENS, SURVEYED), np.int64)
    seen = 0
    for _ in range(2000):
        tokens, size = first[0].copy(), int(length[0])
        for _ in range(4):
            out, own = np.zeros(BLOCK_TOKENS, np.uint8), own_statements(tokens, size)
            size, ratio = propose(state, tables.sampler, tables.logs, tokens, size, own, places, gaps, out, changed)
            if size == 0:
                break
            program = Program.from_tokens(out[:size].tolist())
            assert size <= 64
            assert depth_of(program.body) <= LEVELS
            assert ratio < np.inf
            for part, expected in zip(changed, own_statements(out, size), strict=True):
                np.testing.assert_array_equal(part[:size], expected[:size])
            tokens = out
            seen += 1
    assert seen > 1000


def own_statements(tokens: NDArray[np.uint8], size: int) -> Statements:
    found: Statements = new_statements(BLOCK_TOKENS + 1)
    find_statements(tokens, size, found)
    return found


def depth_of(body: tuple[Any, ...]) -> int:
    blocks = [getattr(statement, name, ()) for statement in body for name in ("body", "then", "otherwise")]
    return 1 + max((depth_of(block) for block in blocks if block), default=0)


def test_what_is_no_world_is_refused() -> None:
    batch = generate(8, 0, 1, reserved=True)
    inputs = batch.inputs[0, :5] % HERO  # without heroes
    with pytest.raises(KarelsynthError):
        MarkovChain(inputs, batch.outputs[0, :5], batch.tokens[:1])
    with pytest.raises(ValueError, match="even number"):
        MarkovChain(batch.inputs[0, :5], batch.outputs[0, :5], batch.tokens[:1], particles=3)


def test_what_the_generator_never_makes_has_no_chain() -> None:
    batch = generate(8, 0, 1, reserved=True)
    inputs, outputs = batch.inputs[0, :5], batch.outputs[0, :5]
    wrong = encode_programs([Program.parse("DEF run m( putMarker move m)")])
    never = encode_programs([Program.parse("DEF run m( turnLeft m)")])
    for programs in (wrong, never, np.zeros((0, 4), np.uint8)):
        chain = MarkovChain(inputs, outputs, programs)
        assert not chain.started
        chain.run(100)
        assert len(chain.samples) == 0
        assert chain.samples.probabilities(batch.tokens[:1]).tolist() == [0]
    assert not MarkovChain(inputs[:0], outputs[:0], batch.tokens[:1]).started
    many = generate(8, 0, 1, examples=20, reserved=True)
    assert not MarkovChain(many.inputs[0], many.outputs[0], many.tokens[:1]).started
    assert MarkovChain(many.inputs[0, :19], many.outputs[0, :19], many.tokens[:1]).started


def test_the_reference_is_probably_correct() -> None:
    """Of fresh tasks, chains that begin with the reference find it right on about nine further examples of ten."""
    batch = generate(9, 0, 40, reserved=True)
    shares = []
    for inputs, outputs, tokens in zip(batch.inputs, batch.outputs, batch.tokens, strict=True):
        chain = MarkovChain(inputs[:5], outputs[:5], tokens[None])
        chain.run(4000)
        shares.append(chain.samples.probabilities(tokens[None])[0])
    assert 0.75 < np.mean(shares) < 0.99
    assert fitted_tables().sampler.size == fitted_sampler().size
