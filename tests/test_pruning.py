"""Pruning by execution never loses an answer: what it drops is no part of one, or has a likelier twin that stays."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.interpreter import Status
from karelsynth.karel.machine import run_batch
from karelsynth.karel.syntax import syntax_machine
from karelsynth.karel.tokens import ID
from karelsynth.karel.world import World
from karelsynth.search.beam import beam_search
from karelsynth.search.candidates import check
from karelsynth.search.pruning import Pruning
from tests.models import tiny_model
from tests.strategies import random_program, random_world

ROWS = 600


def encode(prefix: tuple[str, ...]) -> list[int]:
    return [ID[token] for token in prefix]


def random_prefixes(rng: random.Random, length: int) -> list[tuple[int, ...]]:
    """Valid beginnings of programs with `length` tokens, made by the syntax machine from random choices."""
    machine = syntax_machine(max_length=60)
    found: list[tuple[int, ...]] = []
    actions = encode(("move", "turnLeft", "turnRight", "pickMarker", "putMarker"))
    closers = encode(("w)", "r)", "i)", "e)"))
    while len(found) < ROWS:
        state, tokens = machine.initial(1)[0], []
        for _ in range(length):
            admitted = np.flatnonzero(machine.mask(state)).tolist()
            # Mostly actions and closers, so that many prefixes lead to the same place.
            liked = [token for token in admitted if token in actions or token in closers]
            token = rng.choice(liked if liked and rng.random() < 0.75 else admitted)
            if token == ID["m)"]:
                break
            state = machine.advance(state, token)
            tokens.append(token)
        if len(tokens) == length:
            found.append(tuple(tokens))
    return list(dict.fromkeys(found))


def endings(rng: random.Random, tokens: tuple[int, ...], count: int) -> list[list[int]]:
    """Random texts that finish a prefix."""
    machine = syntax_machine(max_length=60)
    found = []
    for _ in range(count):
        state, text = machine.read(tokens), []
        while not machine.accepts(state):
            admitted = np.flatnonzero(machine.mask(state)).tolist()
            closers = [token for token in admitted if token in encode(("w)", "r)", "i)", "e)", "m)"))]
            token = rng.choice(closers if closers and rng.random() < 0.4 else admitted)
            state = machine.advance(state, token)
            text.append(token)
        found.append(text)
    return found


def finish(rows: list[list[int]]) -> NDArray[np.uint8]:
    tokens = np.zeros((len(rows), max(map(len, rows))), np.uint8)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = row
    return tokens


@pytest.mark.parametrize("length", [6, 9, 12, 22])
def test_what_is_dropped_is_no_loss(length: int) -> None:
    rng = random.Random(length)
    worlds = worlds_to_codes([random_world(rng, markers=0.4, walls=0.05) for _ in range(3)])[None]
    prefixes = random_prefixes(rng, length)
    tokens = np.array(prefixes, np.uint8)
    tasks = np.zeros(len(tokens), np.int64)
    alive, _ = Pruning(worlds, worlds, merging=False).judge(tokens, tasks)
    merged, _ = Pruning(worlds, worlds).judge(tokens, tasks)
    assert not (merged & ~alive).any()
    for row in np.flatnonzero(~alive)[:60]:
        whole = finish([[*prefixes[row], *text] for text in endings(rng, prefixes[row], 5)])
        assert not run_batch(whole, worlds).ok.all(1).any(), "it must fail however it goes on"
    dropped = np.flatnonzero(alive & ~merged)
    assert len(dropped) > 3 or length > 12
    for row in dropped[:20]:
        # Some likelier one that stayed must be able to end in the same way, with the same result.
        texts = endings(rng, prefixes[row], 8)
        mine = run_batch(finish([[*prefixes[row], *text] for text in texts]), worlds)
        assert mine.worlds is not None
        twins = 0
        for other in np.flatnonzero(merged[:row]):
            whole = finish([[*prefixes[other], *text] for text in texts])
            theirs = run_batch(whole, worlds)
            assert theirs.worlds is not None
            twins += bool(
                (~mine.ok | (theirs.ok & (theirs.worlds == mine.worlds).all((2, 3)))).all()
                and not (theirs.status == Status.INVALID_PROGRAM).any()
            )
        assert twins


def test_loops_keep_prefixes_apart() -> None:
    """Inside an open loop equal states are not equal futures; behind it, and inside an open IF, they are."""
    worlds = worlds_to_codes([random_world(random.Random(1), walls=0.0, markers=0.0)])[None]

    def judge(*texts: str) -> list[bool]:
        tokens = np.array([encode(tuple(f"DEF run m( {text}".split())) for text in texts], np.uint8)
        verdict = Pruning(worlds, worlds).judge(tokens, np.zeros(len(tokens), np.int64))
        return [bool(alive) for alive in verdict.alive]

    there_and_back = ("turnLeft turnRight", "turnRight turnLeft")
    assert judge(*there_and_back) == [True, False]
    loop = "REPEAT R=2 r("
    assert judge(*(f"{loop} {text}" for text in there_and_back)) == [True, True]
    assert judge(*(f"{loop} {text} r)" for text in there_and_back)) == [True, False]
    branch = "IF c( noMarkersPresent c) i("
    assert judge(*(f"{branch} {text}" for text in there_and_back)) == [True, False]
    # The same worlds, but one has an IFELSE open: what may follow is not the same.
    assert judge(f"{branch} turnLeft", "IFELSE c( noMarkersPresent c) i( turnLeft") == [True, True]
    # The same worlds, but one of them stands outside the branch.
    assert judge("IF c( markersPresent c) i( turnLeft", "IF c( noMarkersPresent c) i( turnLeft") == [True, True]
    # Both end in `i)`, with the IFELSE past its first part; but one has still to write ELSE.
    head = "IFELSE c( markersPresent c) i( turnLeft"
    inner = "ELSE e( IF c( markersPresent c) i( move i)"
    assert judge(f"{head} {'turnLeft ' * len(inner.split())} i)", f"{head} i) {inner}") == [True, True]
    assert judge("IFELSE c( noMarkersPresent c) i( turnLeft i)", "IFELSE c( noMarkersPresent c) i( turnLeft i)") == [
        True,
        False,
    ]


def test_the_longer_run_does_not_replace_the_shorter() -> None:
    """Seven tokens each and three turns left in all; but one takes 16 ticks and would be the first to run out."""
    worlds = worlds_to_codes([random_world(random.Random(1), walls=0.0, markers=0.0)])[None]
    long = encode(tuple("DEF run m( REPEAT R=7 r( turnLeft r) turnLeft turnRight".split()))
    short = encode(tuple("DEF run m( turnLeft turnRight turnLeft turnRight turnLeft turnLeft turnLeft".split()))
    ends = run_batch(np.array([long, short], np.uint8), worlds, prefixes=True)
    assert ends.ticks[0, 0] > ends.ticks[1, 0]
    for first, second, expected in ((short, long, [True, False]), (long, short, [True, True])):
        tokens = np.array([first, second], np.uint8)
        assert Pruning(worlds, worlds).judge(tokens, np.zeros(2, np.int64)).alive.tolist() == expected


def test_tasks_do_not_mix() -> None:
    rng = random.Random(5)
    worlds = worlds_to_codes([random_world(rng) for _ in range(4)]).reshape(2, 2, 18, 18)
    prefixes = np.array(random_prefixes(rng, 8), np.uint8)
    alone = [Pruning(worlds[task : task + 1], worlds[task : task + 1]) for task in range(2)]
    one_by_one = [pruning.judge(prefixes, np.zeros(len(prefixes), np.int64)) for pruning in alone]
    together = Pruning(worlds, worlds).judge(np.concatenate([prefixes] * 2), np.repeat(np.arange(2), len(prefixes)))
    for field in range(2):
        assert np.array_equal(together[field], np.concatenate([verdict[field] for verdict in one_by_one]))


@given(st.integers(0, 10_000))
def test_right_is_what_ending_would_give(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(rng, depth=2)
    inputs = [random_world(rng) for _ in range(2)]
    outputs = [program.run(world).world for world in inputs]
    codes, wanted = worlds_to_codes(inputs)[None], worlds_to_codes(outputs)[None]
    tokens = np.array([program.token_ids[:-1]], np.uint8)
    _, right = Pruning(codes, wanted).judge(tokens, np.zeros(1, np.int64))
    assert right[0] == sum(program.run(world).ok for world in inputs)


def test_of_equivalent_prefixes_the_shorter_one_is_kept() -> None:
    """Although the longer one is likelier and has used fewer ticks: what follows may be too long for it."""
    longer = "DEF run m( IF c( not c( markersPresent c) c) i( move i)".split()
    shorter = "DEF run m( turnLeft turnRight turnLeft turnRight move".split()
    tokens = np.zeros((2, len(longer)), np.uint8)
    for row, words in enumerate((longer, shorter)):
        tokens[row, : len(words)] = [ID[word] for word in words]
    codes = worlds_to_codes([World.parse(". . .\n> . .")])[None]
    runs = Pruning(codes, codes)
    none = np.zeros(2, np.int64)
    assert runs.judge(tokens, none).alive.tolist() == [True, True]
    few = np.zeros((2, 8), np.uint8)  # of two that are as long, the likelier stays alone
    for row, text in enumerate(("DEF run m( move turnLeft turnRight", "DEF run m( turnLeft turnRight move")):
        few[row, : len(text.split())] = [ID[word] for word in text.split()]
    assert runs.judge(few, none).alive.tolist() == [True, False]


@pytest.mark.parametrize(("seed", "skip_forced_tokens"), [(0, False), (1, False), (2, False), (3, True)])
def test_a_pruned_search_finds_an_answer_where_an_exhaustive_one_does(seed: int, skip_forced_tokens: bool) -> None:
    """All programs of at most 9 tokens: 3,905 of actions alone, and loops of one action."""
    rng = random.Random(seed)
    model = tiny_model(seed, syntax="handwritten", max_length=9, skip_forced_tokens=skip_forced_tokens).eval()
    inputs: list[NDArray[np.uint8]] = []
    outputs: list[NDArray[np.uint8]] = []
    while len(inputs) < 12:
        program = random_program(rng, depth=rng.randint(0, 1))
        pair = [random_world(rng, walls=0.0, markers=0.5) for _ in range(2)]
        runs = [program.run(world) for world in pair]
        if program.size <= 11 and all(run.ok for run in runs):
            inputs.append(worlds_to_codes(pair))
            outputs.append(worlds_to_codes([run.world for run in runs]))
    before, after = np.stack(inputs), np.stack(outputs)
    with torch.no_grad():
        encoded = model.encode(torch.from_numpy(before), torch.from_numpy(after))
    plain = beam_search(model, encoded, beam=5000, dtype=torch.float32)
    pruned = beam_search(model, encoded, beam=5000, dtype=torch.float32, pruning=Pruning(before, after))
    everything = check(plain, before, after, given=2).consistent
    found = check(pruned, before, after, given=2).consistent
    assert np.array_equal(everything.any(1), found.any(1))
    assert everything.any(1).any()
    assert (found.sum(1) <= everything.sum(1)).all()
    for task in np.flatnonzero(found.any(1)):
        assert found[task, 0], "answers come first"
        known = {tuple(row.tolist()) for row in plain.tokens[task][torch.from_numpy(everything[task])]}
        mine = {tuple(row.tolist()) for row in pruned.tokens[task][torch.from_numpy(found[task])]}
        assert mine <= known
    # Without merging the likeliest answer itself is found, at the same log-probability.
    exact = beam_search(
        model, encoded, beam=5000, dtype=torch.float32, pruning=Pruning(before, after, merging=False), slack=0.0
    )
    for task in np.flatnonzero(everything.any(1)):
        best = int(everything[task].argmax())
        assert torch.equal(exact.tokens[task, 0], plain.tokens[task, best])
        assert exact.logprobs[task, 0] == pytest.approx(float(plain.logprobs[task, best]), abs=1e-4)
    # An answer that is known already bounds the search. Likelier ones are found; nothing beats a certain one.
    solved = torch.from_numpy(everything.any(1))
    found_before = torch.where(solved, exact.logprobs[:, 0] - 0.5, -torch.inf)
    pruning = Pruning(before, after, merging=False)
    again, none = (
        beam_search(model, encoded, beam=5000, dtype=torch.float32, pruning=pruning, slack=0.0, best_known=best_known)
        for best_known in (found_before, torch.zeros_like(found_before))
    )
    assert torch.equal(again.tokens[solved, 0], exact.tokens[solved, 0])
    assert not none.lengths.any()


def test_a_search_can_be_stopped() -> None:
    model = tiny_model(syntax="handwritten", max_length=20).eval()
    worlds = worlds_to_codes([random_world(random.Random(3), walls=0.0)])[None]
    with torch.no_grad():
        encoded = model.encode(torch.from_numpy(worlds), torch.from_numpy(worlds))
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    found = beam_search(model, encoded, beam=8, stop=stop)
    assert asked == 6
    assert found.tokens.shape[0] == 1
    assert int(found.lengths.max()) <= 6


def test_threads_that_search_for_tasks_of_their_own_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(9)
    model = tiny_model(syntax="handwritten", max_length=12).eval()
    before = worlds_to_codes([random_world(rng, walls=0.0) for _ in range(10)]).reshape(5, 2, 18, 18)
    after = np.roll(before, 1, axis=0)
    with torch.no_grad():
        encoded = model.encode(torch.from_numpy(before), torch.from_numpy(after))
    pruning = Pruning(before, after)
    expected = beam_search(model, encoded, beam=6, dtype=torch.float32, pruning=pruning)
    threads = torch.get_num_threads()
    monkeypatch.setattr("karelsynth.search.beam.TASKS_PER_THREAD", 1)
    try:
        torch.set_num_threads(2)
        found = beam_search(model, encoded, beam=6, dtype=torch.float32, pruning=pruning)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found.tokens, expected.tokens)
    torch.testing.assert_close(found.logprobs, expected.logprobs)
