"""Search: against brute force, against a plain beam search, and what running candidates shows."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given as given_any
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from karelsynth.karel.grammar import KAREL
from karelsynth.karel.interpreter import PAPER_TICKS, Status, run
from karelsynth.karel.machine import encode_programs
from karelsynth.karel.program import Program
from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.karel.tokens import END, ID, PAD, TOKENS, VOCABULARY_SIZE
from karelsynth.karel.world import World
from karelsynth.model import Encoded, Synthesizer
from karelsynth.model.devices import shared_steps, single_threaded
from karelsynth.model.lstm import LSTMSteps
from karelsynth.model.prefix_trie import PrefixTrie
from karelsynth.model.settings import SYNTAX_MODES
from karelsynth.model.syntax import handwritten_syntax
from karelsynth.search import BackgroundChecks, Candidates, beam_search, check, rescore, sample_rollouts, with_reference
from karelsynth.search.beam import BeamSearch
from karelsynth.search.pruning import Pruning
from tests.models import execution_model, lstm_of, random_grids, random_programs, tiny_model
from tests.plain import expansions, narrowed
from tests.strategies import random_program, random_world

FULL = torch.float32
EVERY_TOKEN = np.ones(VOCABULARY_SIZE, np.bool_)


def listing(candidates: Candidates, task: int) -> list[tuple[tuple[int, ...], float]]:
    """The candidates of a task as token ids and log-probabilities, without empty slots."""
    rows = zip(candidates.tokens[task], candidates.lengths[task], candidates.logprobs[task], strict=True)
    listed = []
    for tokens, length, logprob in rows:
        assert not tokens[length:].any()
        assert bool(length > 0) == bool(logprob > -torch.inf)
        if length:
            listed.append((tuple(tokens[:length].tolist()), float(logprob)))
    return listed


@pytest.mark.parametrize("settings", [{}, {"syntax": "learned"}, {"syntax": "handwritten", "skip_forced_tokens": True}])
def test_a_wide_beam_finds_what_brute_force_finds(settings: dict[str, Any]) -> None:
    """Score every program of a small language; a beam that is wide enough gives the same list in the same order."""
    length = 13
    machine = SyntaxMachine(narrowed(KAREL, "move putMarker", "frontIsClear", "R=3"), length)
    programs = [[ID[token] for token in words] for words in expansions(machine.grammar, ("program",), length)]
    tokens = np.array([row + [PAD] * (length - len(row)) for row in programs])
    lengths = (tokens != PAD).sum(1)
    model = tiny_model(**settings)
    with torch.no_grad():
        encoded = model.encode(*random_grids(1, 2, 3))
        candidates = beam_search(model, encoded, beam=len(programs) + 10, machine=machine, dtype=FULL)
        for task in range(2):
            packed = model.pack(tokens, lengths, machine, tasks=np.full(len(programs), task))
            logprobs = model.program_logprobs(encoded, packed)
            order = logprobs.argsort(descending=True, stable=True).tolist()
            found = listing(candidates, task)
            assert len(found) == len(programs) > 500
            assert [score for _, score in found] == pytest.approx(logprobs[order].tolist(), abs=1e-4)
            assert dict(found) == pytest.approx(
                {tuple(row): float(score) for row, score in zip(programs, logprobs, strict=True)}, abs=1e-4
            )
            assert sum(np.exp(score) for _, score in found) == pytest.approx(1, abs=1e-4)


def plain_beam_search(
    model: Synthesizer,
    encoded: Encoded,
    task: int,
    beam: int,
    limit: int,
    machine: SyntaxMachine | None,
    window: float = math.inf,
    floor: float = -math.inf,
) -> list[tuple[tuple[int, ...], float]]:
    """Beam search of one task with lists, scoring prefixes from their beginning."""

    def settled(prefix: tuple[int, ...]) -> tuple[int, ...]:
        """With all that must follow, if a step is a choice."""
        while (
            model.settings.skip_forced_tokens
            and machine
            and (token := int(machine.forced_token(machine.read(prefix)))) >= 0
        ):
            prefix = (*prefix, token)
        return prefix

    open_now: list[tuple[tuple[int, ...], float]] = [(settled(()), 0.0)]
    finished: list[tuple[tuple[int, ...], float]] = []
    for _ in range(limit):
        longer = []
        masks = [machine.mask(machine.read(prefix)) if machine else EVERY_TOKEN for prefix, _ in open_now]
        # The logits after a prefix are those of any token that follows it.
        whole = [(*prefix, np.flatnonzero(mask)[0]) for (prefix, _), mask in zip(open_now, masks, strict=True)]
        lengths = np.array([len(row) for row in whole])
        programs = np.array([(*row, *[PAD] * (lengths.max() - len(row))) for row in whole])
        packed = model.pack(programs, lengths, machine, tasks=np.full(len(programs), task))
        logits = model.score(encoded, packed).logits[-len(programs) :]
        for (prefix, score), mask, logprobs in zip(open_now, masks, logits.log_softmax(1).tolist(), strict=True):
            longer += [(settled((*prefix, token)), score + logprobs[token]) for token in np.flatnonzero(mask).tolist()]
        longer.sort(key=lambda pair: -pair[1])
        finished += [pair for pair in longer if pair[0][-1] == END]
        finished = sorted(finished, key=lambda pair: -pair[1])[:beam]
        open_now = [pair for pair in longer if pair[0][-1] != END and pair[1] > floor][:beam]
        open_now = [pair for pair in open_now if pair[1] >= open_now[0][1] - window]
        if not open_now or (len(finished) == beam and finished[-1][1] >= open_now[0][1]):
            break
    return finished


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    ("syntax", "limit", "skip_forced_tokens"),
    [("none", 6, False), ("learned", 6, False), ("handwritten", 16, False), ("handwritten", 20, True)],
)
def test_equals_a_plain_beam_search(
    syntax: str, limit: int, skip_forced_tokens: bool, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`dense` is how it runs on a GPU: all places at every step, and a look at what is done every few steps."""
    if dense:
        monkeypatch.setattr("karelsynth.search.beam.BeamSearch", as_on_a_gpu)
    model = tiny_model(seed=3, syntax=syntax, max_length=limit, skip_forced_tokens=skip_forced_tokens)
    with torch.no_grad():
        # A sharper model: some tasks are done long before others.
        lstm_of(model).output.weight.mul_(2)
        encoded = model.encode(*random_grids(2, 4, 3))
        none, fewer = -math.inf, 0
        for beam, window, floor in (
            (1, math.inf, none), (3, math.inf, none), (7, math.inf, none), (60, math.inf, none),
            (7, 0.5, none), (7, 0.0, none), (7, math.inf, -1.0), (7, 1.0, -6.0),
        ):  # fmt: skip
            candidates = beam_search(model, encoded, beam=beam, dtype=FULL, window=window, floor=floor)
            assert candidates.tokens.shape == (4, beam, limit)
            for task in range(4 if beam < 60 else 1):
                expected = plain_beam_search(model, encoded, task, beam, limit, model.machine, window, floor)
                found = listing(candidates, task)
                fewer += floor > none and len(found) < beam
                assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-4)
                assert dict(found) == pytest.approx(dict(expected), abs=1e-4)
        assert fewer > 0


def as_on_a_gpu(*arguments: object, **settings: object) -> BeamSearch:
    return BeamSearch(*arguments, **{**settings, "every": 4, "dense": True})  # type: ignore[arg-type]


@pytest.mark.parametrize("skip_forced_tokens", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_program_was_open_before_it_ended(threads: int, skip_forced_tokens: bool) -> None:
    """`left_open` tells of each task's own hypotheses, also where threads share the tasks out."""
    model = tiny_model(syntax="handwritten", max_length=12, skip_forced_tokens=skip_forced_tokens)
    encoded = model.encode(*random_grids(5, 9, 2)).detach()
    told: dict[int, set[bytes]] = {}

    def note(number: torch.Tensor, tokens: torch.Tensor, scores: torch.Tensor) -> None:
        for task, rows, there in zip(number.tolist(), tokens, scores > -torch.inf, strict=True):
            told.setdefault(task, set()).update(bytes(row.tolist()).rstrip(b"\0") for row in rows[there])

    found = beam_search(model, encoded, beam=6, dtype=torch.float32, threads=threads, left_open=note)
    plain = beam_search(model, encoded, beam=6, dtype=torch.float32)
    assert torch.equal(found.tokens, plain.tokens)
    assert told.keys() == set(range(9))
    for task, (rows, lengths) in enumerate(zip(found.tokens, found.lengths.tolist(), strict=True)):
        for row, length in zip(rows, lengths, strict=True):
            assert length == 0 or bytes(row[: length - 1].tolist()) in told[task]


def test_tasks_do_not_see_each_other() -> None:
    model = tiny_model(syntax="handwritten")
    encoded = model.encode(*random_grids(4, 5, 3)).detach()
    together = beam_search(model, encoded, beam=4, dtype=FULL)
    for task in range(5):
        alone = beam_search(model, Encoded(encoded.codes[task : task + 1], None), beam=4, dtype=FULL)
        assert torch.equal(alone.tokens[0], together.tokens[task])
        torch.testing.assert_close(alone.logprobs[0], together.logprobs[task])


@pytest.mark.parametrize("syntax", SYNTAX_MODES)
def test_steps_in_fixed_arrays_find_the_same(syntax: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU replays as a recording, run operation by operation: the same programs, each reported once."""
    monkeypatch.setattr("karelsynth.search.replay.COUNTS", (2, 3, 5, 8))
    model = tiny_model(syntax=syntax, max_length=18)
    for seed, tasks in ((3, 7), (4, 8), (5, 7)):  # the arrays are used again, by other weights
        with torch.no_grad():
            lstm_of(model).output.bias += torch.nn.functional.one_hot(torch.tensor(END), VOCABULARY_SIZE)
        encoded = model.encode(*random_grids(seed, tasks, 3))
        plain = beam_search(model, encoded, beam=5, dtype=FULL, threads=1)
        told: dict[int, Candidates] = {}

        def note(numbers: torch.Tensor, some: Candidates, told: dict[int, Candidates] = told) -> None:
            for row, number in enumerate(numbers.tolist()):
                assert number not in told
                told[number] = Candidates(*(part[row : row + 1] for part in (some.tokens, some.lengths, some.logprobs)))

        mask = handwritten_syntax(model.machine, torch.device("cpu")) if model.machine else None
        search = BeamSearch(
            model.step_model(FULL), mask, 5, every=4, dense=True, skip_forced_tokens=False, runner=None, pruning=None,
            slack=math.inf, window=math.inf, floor=-math.inf, best_known=None, stop=None, left_open=None, finished=note,
            replay=True,
        )  # fmt: skip
        found = search.run(model.step_tasks(search.weights, encoded), 18)
        assert sorted(told) == list(range(tasks))
        for task in range(tasks):
            alone = listing(plain, task)
            for some, row in ((found, task), (told[task], 0)):
                listed = listing(some, row)
                assert [tokens for tokens, _ in listed] == [tokens for tokens, _ in alone]
                assert [score for _, score in listed] == pytest.approx([score for _, score in alone], abs=1e-4)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("compact", [False, True])
def test_tasks_that_take_the_places_of_others_find_the_same(compact: bool, device: str) -> None:
    """Some at a time or all at once, with empty places or without, with pruning or without."""
    inputs, outputs = random_grids(31, 11, 3)
    outputs[:4] = inputs[:4]
    kinds: tuple[tuple[Callable[..., Synthesizer], bool, bool], ...] = (
        (tiny_model, False, False), (execution_model, True, False), (execution_model, True, True),
    )  # fmt: skip
    for make, forced, pruned in kinds:
        model = make(syntax="handwritten", max_length=14, skip_forced_tokens=forced).to(device)
        pruning = Pruning(inputs.numpy(), outputs.numpy(), max_ticks=PAPER_TICKS) if pruned else None
        encoded = model.encode(inputs.to(device), outputs.to(device)).detach()
        search = partial(beam_search, model, encoded, beam=5, dtype=FULL, pruning=pruning, replay=False, threads=1)
        expected = search(compact=device == "cpu", at_once=11).cpu()
        for at_once in (1, 2, 7, 11):
            told: list[tuple[int, list[int]]] = []

            def note(numbers: torch.Tensor, candidates: Candidates, told: list[tuple[int, list[int]]] = told) -> None:
                told.extend(zip(numbers.tolist(), candidates.lengths.tolist(), strict=True))

            found = search(compact=compact, at_once=at_once, finished=note).cpu()
            assert sorted(told) == list(enumerate(expected.lengths.tolist()))
            assert torch.equal(found.lengths, expected.lengths)
            assert torch.equal(found.tokens, expected.tokens)
            torch.testing.assert_close(found.logprobs, expected.logprobs, rtol=1e-4, atol=1e-4)


def test_a_search_that_is_stopped_tells_of_tasks_that_have_not_begun() -> None:
    inputs, outputs = random_grids(31, 5, 2)
    model = tiny_model(syntax="handwritten", max_length=14)
    encoded = model.encode(inputs, outputs).detach()
    told: list[int] = []
    steps = iter(range(3))
    found = beam_search(
        model, encoded, beam=4, at_once=2, threads=1, stop=lambda: next(steps, None) is None,
        finished=lambda numbers, _: told.extend(numbers.tolist()),
    )  # fmt: skip
    assert sorted(told) == list(range(5))
    assert not found.lengths[2:].any()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_checks_in_the_background_are_those_of_all_at_once(device: str) -> None:
    """Parts of the tasks, in any order, with the reference added or not."""
    tokens, lengths = random_programs(5, 6 * 4, 40)
    inputs, outputs = (part.numpy() for part in random_grids(6, 6, 6))
    candidates = Candidates(
        torch.from_numpy(tokens.reshape(6, 4, -1)), torch.from_numpy(lengths.reshape(6, 4)), -torch.rand(6, 4)
    )
    reference = candidates.tokens[:, 1].clone(), candidates.lengths[:, 1].clone()
    reference[0][::2], reference[1][::2] = (part.roll(1, 0)[::2] for part in reference)
    for adds in (True, False):
        checks = BackgroundChecks(
            lambda numbers: (inputs[numbers], outputs[numbers]), given=5, reference=reference, add_reference=adds
        )
        for numbers in (torch.tensor([4, 1]), torch.tensor([0, 5, 3]), torch.tensor([2])):
            parts = (candidates.tokens, candidates.lengths, candidates.logprobs)
            checks.submit(numbers, Candidates(*(part[numbers].to(device) for part in parts)))
        found, outcomes = checks.results()
        known = with_reference(candidates, *reference) if adds else candidates
        for name in ("tokens", "lengths", "logprobs"):
            torch.testing.assert_close(getattr(found, name), getattr(known, name), equal_nan=True)
        expected = check(known, inputs, outputs, reference=reference[0].numpy())
        for name, values in vars(expected).items():
            np.testing.assert_array_equal(getattr(outcomes, name), values)


@pytest.mark.parametrize("syntax", SYNTAX_MODES)
def test_found_log_probabilities_are_the_models(syntax: str) -> None:
    model = tiny_model(syntax=syntax)
    present = torch.tensor([[True, True, False], [True, True, True], [False, True, False]])
    encoded = model.encode(*random_grids(5, 3, 3), present)
    for candidates in (
        beam_search(model, encoded, beam=10, dtype=FULL),
        sample_rollouts(model, encoded, rollouts=10, dtype=FULL),
    ):
        torch.testing.assert_close(rescore(model, encoded, candidates), candidates.logprobs, atol=1e-4, rtol=1e-4)


def test_bfloat16_finds_nearly_the_same() -> None:
    model = tiny_model(syntax="handwritten", max_length=12)
    encoded = model.encode(*random_grids(6, 4, 3)).detach()
    exact, near = (beam_search(model, encoded, beam=8, dtype=dtype) for dtype in (FULL, torch.bfloat16))
    torch.testing.assert_close(near.logprobs, exact.logprobs, atol=0.2, rtol=0.05)


@pytest.mark.parametrize("syntax", SYNTAX_MODES)
def test_autocast_around_a_search_changes_nothing(syntax: str) -> None:
    model = tiny_model(syntax=syntax, max_length=12)
    encoded = model.encode(*random_grids(6, 2, 3)).detach()
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            drawn = sample_rollouts(model, encoded, rollouts=5, dtype=FULL, generator=torch.Generator().manual_seed(0))
            found.append((beam_search(model, encoded, beam=4, dtype=FULL), drawn))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(one.logprobs, other.logprobs)


@pytest.mark.parametrize("skip_forced_tokens", [False, True])
def test_rollouts_come_as_often_as_they_are_likely(skip_forced_tokens: bool) -> None:
    model = tiny_model(
        syntax="handwritten", max_length=6, skip_forced_tokens=skip_forced_tokens
    )  # a language of 30 programs
    encoded = model.encode(*random_grids(7, 2, 2)).detach()
    number = 10_000
    rollouts = sample_rollouts(model, encoded, rollouts=number, dtype=FULL, generator=torch.Generator().manual_seed(0))
    every = beam_search(model, encoded, beam=30, dtype=FULL)
    for task in range(2):
        probabilities = {tokens: np.exp(score) for tokens, score in listing(every, task)}
        assert len(probabilities) == 30
        drawn = Counter(tokens for tokens, _ in listing(rollouts, task))
        for tokens, p in probabilities.items():
            assert abs(drawn[tokens] - number * p) < 5 * np.sqrt(number * p * (1 - p)) + 1, tokens
        assert set(drawn) <= set(probabilities)


def test_rollouts_that_do_not_end_are_cut() -> None:
    model = tiny_model(max_length=7)
    with torch.no_grad():
        lstm_of(model).output.bias[END] = -100
    rollouts = sample_rollouts(model, model.encode(*random_grids(8, 1, 2)), rollouts=5)
    assert rollouts.lengths.tolist() == [[7] * 5]


@dataclass(frozen=True)
class Given:
    """Tasks made of random programs on random worlds, and candidates for them."""

    candidates: Candidates
    programs: list[list[Program]]
    inputs: list[list[World]]
    outputs: list[list[World]]


@pytest.fixture(scope="module")
def given() -> Given:
    rng = random.Random(9)
    tasks, slots, examples = 12, 5, 6
    references = [random_program(rng, depth=1) for _ in range(tasks)]
    inputs = [[random_world(rng, walls=0.05) for _ in range(examples)] for _ in range(tasks)]
    outputs = [[run(program, w).world for w in row] for program, row in zip(references, inputs, strict=True)]
    programs = [[random_program(rng, depth=1) for _ in range(slots - 1)] + [reference] for reference in references]
    tokens = encode_programs([program for row in programs for program in row]).reshape(tasks, slots, -1)
    lengths = torch.from_numpy((tokens != PAD).sum(2))
    return Given(Candidates(torch.from_numpy(tokens), lengths, torch.zeros(tasks, slots)), programs, inputs, outputs)


def test_outcomes_are_the_interpreters(given: Given) -> None:
    codes = [np.stack([[w.to_codes() for w in row] for row in worlds]) for worlds in (given.inputs, given.outputs)]
    outcomes = check(given.candidates, *codes)
    assert outcomes.syntax.all()
    for task, programs in enumerate(given.programs):
        for slot, program in enumerate(programs):
            runs = [run(program, w, max_ticks=PAPER_TICKS) for w in given.inputs[task]]
            right = [r.ok and r.world == w for r, w in zip(runs, given.outputs[task], strict=True)]
            assert outcomes.correct[task, slot].tolist() == right
            assert outcomes.status[task, slot].tolist() == [r.status for r in runs]
            assert outcomes.lengths[task, slot] == len(program.token_ids)
            assert outcomes.consistent[task, slot] == all(right[:5])
            assert outcomes.generalizes[task, slot] == all(right)
            assert outcomes.ticks[task, slot] == pytest.approx(np.mean([r.ticks for r in runs]))
    assert outcomes.generalizes.any()
    assert 0 < outcomes.correct.mean() < 1
    assert len(np.unique(outcomes.status)) > 2
    assert (outcomes.consistent >= outcomes.generalizes).all()
    fewer = check(given.candidates, *codes, given=2)
    assert (fewer.consistent >= outcomes.consistent).all()


def test_what_is_no_program_is_seen() -> None:
    rows = [["DEF", "run", "m(", "move", "m)"], ["DEF", "run", "m(", "m)", "<pad>"], ["<pad>"] * 5]
    tokens = torch.tensor([[[TOKENS.index(token) for token in row] for row in rows]], dtype=torch.uint8)
    candidates = Candidates(tokens, (tokens != PAD).sum(2), torch.zeros(1, 3))
    grids = random_grids(10, 1, 6)
    outcomes = check(candidates, *(codes.numpy() for codes in grids))
    assert outcomes.syntax.tolist() == [[True, False, False]]
    assert not outcomes.consistent[:, 1:].any()
    assert not outcomes.correct[:, 1:].any()
    assert (outcomes.status[:, 1:] == Status.INVALID_PROGRAM).all()
    assert outcomes.lengths.tolist() == [[5, 4, 0]]


def test_the_reference_is_added_where_it_is_missing(given: Given) -> None:
    references = [programs[-1] for programs in given.programs]
    tokens = torch.from_numpy(encode_programs(references))
    lengths = (tokens != PAD).sum(1)
    candidates = Candidates(*(getattr(given.candidates, name)[:, :5] for name in ("tokens", "lengths", "logprobs")))
    candidates.tokens[::2, 4] = candidates.tokens[::2, 0]  # every second task loses its reference
    candidates.lengths[::2, 4] = candidates.lengths[::2, 0]
    for one, other in ((candidates, tokens), (candidates, torch.nn.functional.pad(tokens, (0, 30)))):
        more = with_reference(one, other, lengths)
        for task, program in enumerate(references):
            added = tuple(more.tokens[task, 5][: more.lengths[task, 5]].tolist())
            assert added == (tuple(program.token_ids) if task % 2 == 0 else ())
            assert more.logprobs[task, 5].isnan() if task % 2 == 0 else more.logprobs[task, 5] == -torch.inf
    model = tiny_model(max_length=80)
    encoded = model.encode(*random_grids(11, len(references), 2))
    scored = rescore(model, encoded, more)
    assert not scored.isnan().any()
    assert torch.equal(scored == -torch.inf, more.lengths == 0)


def test_scoring_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(syntax="learned")
    grids = random_grids(12, 3, 2)
    tokens, lengths = random_programs(13, 12, 40)
    lengths[[2, 7]] = 0
    tokens[[2, 7]] = PAD
    candidates = Candidates(
        torch.from_numpy(tokens).view(3, 4, -1), torch.from_numpy(lengths).view(3, 4), torch.zeros(3, 4)
    )
    sizes: list[int] = []
    score = model.program_logprobs

    def noted(encoded: Encoded, trie: PrefixTrie) -> torch.Tensor:
        sizes.append(len(trie.targets))
        return score(encoded, trie)

    monkeypatch.setattr(model, "program_logprobs", noted)
    total_size, gradients = int(lengths.sum()), []
    for at_once, passes in ((10**6, 1), (60, 2), (1, 2)):  # one pass, or once more in the backward pass
        sizes.clear()
        logprobs = rescore(model, model.encode(*grids), candidates, at_once=at_once)
        assert torch.equal(logprobs == -torch.inf, candidates.lengths == 0)
        total = (logprobs.masked_fill(candidates.lengths == 0, 0) * torch.arange(12.0).view(3, 4)).sum()
        gradients.append(torch.autograd.grad(total, list(model.parameters())))
        assert sum(sizes) == passes * total_size
        assert max(sizes) < at_once + lengths.reshape(3, 4).sum(1).max()
    for other in gradients[1:]:
        torch.testing.assert_close(gradients[0], other, rtol=1e-4, atol=1e-4)
    nothing = Candidates(candidates.tokens * 0, candidates.lengths * 0, candidates.logprobs)
    assert (rescore(model, model.encode(*grids), nothing) == -torch.inf).all()


@pytest.mark.parametrize("max_length", [40, 72])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_syntax_on_tensors_is_the_machines(device: str, max_length: int) -> None:
    """For programs, and for tokens that leave the syntax now and then."""
    machine, rng = SyntaxMachine(max_length=max_length), np.random.default_rng(14)
    syntax = handwritten_syntax(machine, torch.device(device))
    tokens, _ = random_programs(14, 60, max_length)
    tokens = np.where(rng.random(tokens.shape) < 0.98, tokens, rng.integers(0, VOCABULARY_SIZE, tokens.shape))
    states, plain = syntax.initial(60), machine.initial(60)
    for column in tokens.T.astype(np.int64):
        assert np.array_equal(syntax.mask(states).cpu().numpy(), machine.mask(plain))
        states, plain = syntax.advance(states, torch.from_numpy(column).to(device)), machine.advance(plain, column)
        assert np.array_equal(states.cpu().numpy(), plain)


@given_any(
    syntax=st.sampled_from(SYNTAX_MODES),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 40), st.integers(1, 40)),
    some_missing=st.booleans(),
    scale=st.sampled_from([1.0, 30.0]),
    seed=st.integers(0, 99),
)
@hypothesis_settings(deadline=None, max_examples=40)
def test_the_compiled_cell_is_the_plain_one(
    syntax: str, sizes: tuple[int, int, int, int], some_missing: bool, scale: float, seed: int
) -> None:
    """A step on a CPU against what a GPU runs, for parents and tasks in any order, steep gates too."""
    count, examples, hidden, width = sizes
    model = tiny_model(seed, scale, syntax=syntax, hidden_size=hidden, syntax_size=width)
    present = torch.rand(count, examples) < 0.7 if some_missing else None
    if present is not None:
        present[:, 0] = True
    encoded = Encoded(torch.randn(count, examples, model.settings.code_size), present)
    for dtype, tolerance in ((FULL, 1e-5), (torch.bfloat16, 0.05)):
        weights = model.step_model(dtype)
        tasks = model.step_tasks(weights, encoded)
        state, old = weights.start(tasks), count
        for rows in (7, 12):
            chosen = [torch.randint(0, top, (rows,)) for top in (old, count, VOCABULARY_SIZE)]
            compiled = weights.step(tasks, state, *chosen)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("karelsynth.model.lstm._COMPILED_FOR", ())
                plain = weights.step(tasks, state, *chosen)
            assert isinstance(weights.decoder, LSTMSteps)
            (new, others) = ([*state[0], *(state[1] or ())] for state in (compiled[1], plain[1]))
            largest = max(1.0, *(float(part.abs().max()) for part in (weights.decoder.output.layers[0][0], *others)))
            for one, other in zip(new, others, strict=True):
                assert one.dtype == other.dtype == dtype
                torch.testing.assert_close(one, other, atol=tolerance * largest, rtol=tolerance)
            if syntax != "learned":  # whose penalty is an exponential: it would blow up any difference
                bound = tolerance * largest * hidden
                torch.testing.assert_close(compiled[0], plain[0], atol=bound, rtol=tolerance)
            state, old = compiled[1], rows


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those that share each step nor those that search for tasks of their own."""
    monkeypatch.setattr("karelsynth.model.lstm._SMALLEST_PIECE", 1)
    model = tiny_model(syntax="learned", max_length=9)
    encoded = model.encode(*random_grids(16, 7, 2)).detach()
    before = torch.get_num_threads()
    expected = beam_search(model, encoded, beam=6, dtype=FULL)
    try:
        for threads in (2, 3):
            torch.set_num_threads(threads)
            # A step that finds itself among such threads must not wait for another of them.
            assert list(single_threaded(threads).map(lambda _: torch.get_num_threads(), range(9))) == [1] * 9
            assert torch.get_num_threads() == threads
            for tasks_per_thread in (1, 100):
                monkeypatch.setattr("karelsynth.search.beam.TASKS_PER_THREAD", tasks_per_thread)
                with torch.inference_mode(threads == 3):
                    found = beam_search(model, encoded, beam=6, dtype=FULL)
                assert torch.equal(found.tokens, expected.tokens)
                assert torch.equal(found.lengths, expected.lengths)
                torch.testing.assert_close(found.logprobs, expected.logprobs)
    finally:
        torch.set_num_threads(before)


def test_threads_of_others_keep_theirs() -> None:
    """A search holds PyTorch to one thread: its own thread only, not those that happen to begin meanwhile."""
    before, pools, numbers = torch.get_num_threads(), [], []

    def look() -> None:
        numbers.append(torch.get_num_threads())
        pools.append(single_threaded(2))

    try:
        torch.set_num_threads(3)
        with shared_steps(2):
            own = single_threaded(2)
            assert torch.get_num_threads() == 1
            thread = Thread(target=look)
            thread.start()
            thread.join()
        assert numbers == [3]
        assert pools[0] is not own  # searches side by side do not wait for each other
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_searches_that_begin_together_leave_the_number_of_threads_alone() -> None:
    before, numbers = torch.get_num_threads(), []

    def search() -> None:
        with shared_steps(3):
            pass

    try:
        torch.set_num_threads(4)
        for _ in range(40):
            together = [Thread(target=search) for _ in range(2)]
            for thread in together:
                thread.start()
            for thread in together:
                thread.join()
            later = Thread(target=lambda: numbers.append(torch.get_num_threads()))
            later.start()
            later.join()
    finally:
        torch.set_num_threads(before)
    assert numbers == [4] * 40
