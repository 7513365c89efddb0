"""The syntax machine is exact: it admits a token if and only if some valid program continues with it."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError, ProgramSyntaxError
from karelsynth.karel.grammar import KAREL, NORMAL_FORM, Grammar
from karelsynth.karel.program import Action, Block, Condition, If, IfElse, Not, Program, Repeat, Sensor, While
from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.karel.syntax_compiler import DEAD, NONE
from karelsynth.karel.tokens import ID, PAD, TOKENS, VOCABULARY_SIZE
from karelsynth.model.prefix_trie import pack_programs
from karelsynth.model.syntax import handwritten_syntax
from tests.plain import expansions, narrowed
from tests.strategies import programs

# The plain definition of the two languages, written without the syntax machine.


def in_normal_form(program: Program) -> bool:
    """The data's normal form, rule by rule."""
    actions = {statement for _, statement in program.walk() if isinstance(statement, Action)}
    has_move = Action.MOVE in actions
    has_marker = bool(actions & {Action.PICK_MARKER, Action.PUT_MARKER})
    return has_move and has_marker and normal_block(program.body)


def normal_block(block: Block) -> bool:
    left, right = Action.TURN_LEFT, Action.TURN_RIGHT
    pick, put = Action.PICK_MARKER, Action.PUT_MARKER
    bad = {(left, right), (right, left), (right, right), (pick, put), (put, pick)}
    bad |= {(turn, marker) for turn in (left, right) for marker in (pick, put)}
    for one, two in pairwise(block):
        if (one, two) in bad:
            return False
    for one, two, three in zip(block, block[1:], block[2:], strict=False):
        if isinstance(one, Action) and one == two == three:
            return False
    for statement in block:
        match statement:
            case Repeat(times, body):
                good = 2 <= times <= 10 and normal_block(body)
            case While(condition, body) | If(condition, body):
                good = normal_condition(condition) and normal_block(body)
            case IfElse(condition, then, otherwise):
                good = normal_condition(condition) and normal_block(then) and normal_block(otherwise)
            case _:
                good = True
        if not good:
            return False
    return True


def normal_condition(condition: Condition) -> bool:
    clear = (Sensor.FRONT_IS_CLEAR, Sensor.LEFT_IS_CLEAR, Sensor.RIGHT_IS_CLEAR)
    return not isinstance(condition, Not) or condition.condition in clear


FULL = ("move turnLeft turnRight pickMarker putMarker", " ".join(sensor.value for sensor in Sensor), "R=0 R=2 R=10")


@pytest.mark.parametrize(
    ("base", "actions", "sensors", "counts", "length"),
    [
        (KAREL, *FULL, 9),
        (KAREL, "move", "frontIsClear markersPresent", "R=3", 18),
        (KAREL, "move putMarker", "frontIsClear", "R=3", 16),
        (NORMAL_FORM, *FULL, 9),
        (NORMAL_FORM, "move putMarker", "frontIsClear markersPresent", "R=3", 17),
        (NORMAL_FORM, "move turnRight pickMarker putMarker", "leftIsClear", "R=2", 12),
        (NORMAL_FORM, "move turnLeft putMarker", "noMarkersPresent", "R=2", 14),
    ],
)
def test_masks_are_exact_for_every_prefix(base: Grammar, actions: str, sensors: str, counts: str, length: int) -> None:
    """List all programs up to a length; the masks along them are exactly their prefixes' next tokens."""
    grammar = narrowed(base, actions, sensors, counts)
    everything = set(expansions(grammar, ("program",), length))
    if base is NORMAL_FORM:
        everything = {words for words in everything if in_normal_form(Program.from_tokens(words))}
    assert len(everything) > 200
    for limit in (length, length - 1, length - 3):
        machine = SyntaxMachine(grammar, max_length=limit)
        nexts: dict[tuple[str, ...], set[int]] = {}
        for words in everything:
            if len(words) <= limit:
                for at, word in enumerate(words):
                    nexts.setdefault(words[:at], set()).add(ID[word])
        prefixes: list[tuple[str, ...]] = [()]
        states = machine.initial(1)
        while prefixes:
            masks = machine.mask(states)
            for prefix, mask in zip(prefixes, masks, strict=True):
                assert set(np.flatnonzero(mask)) == nexts[prefix], prefix
            steps = [(row, token) for row, prefix in enumerate(prefixes) for token in sorted(nexts[prefix])]
            rows, tokens = np.array(steps).T
            states = machine.advance(states[rows], tokens)
            prefixes = [(*prefixes[row], TOKENS[token]) for row, token in steps]
            accepted = machine.accepts(states)
            whole = np.array([prefix in everything for prefix in prefixes])
            assert np.array_equal(accepted, whole)
            states = states[~accepted]
            prefixes = [prefix for prefix, done in zip(prefixes, accepted, strict=True) if not done]


def parser_takes(words: list[str]) -> bool:
    """Whether the parser finds nothing wrong with a prefix but that it ends too early."""
    try:
        Program.from_tokens(words)
    except ProgramSyntaxError as error:
        return "ends too early" in error.reason
    return True


def fewest_to_finish(words: list[str]) -> int:
    """The least number of tokens that finish a valid prefix, counted by hand."""
    closing = {"m(": "m)", "c(": "c)", "r(": "r)", "w(": "w)", "i(": "i)", "e(": "e)"}
    heads, opened = [], []
    for word in words:
        if word in ("WHILE", "IF", "IFELSE", "REPEAT"):
            heads.append(word)
        if word in closing:
            opened.append(word)
        elif word in closing.values():
            opened.pop()
            if word in ("w)", "r)", "e)") or (word == "i)" and heads[-1] == "IF"):
                heads.pop()
    need = len(opened)
    last = words[-1] if words else "<s>"
    # What must still stand between the last token and the next closing bracket.
    need += {"<s>": 5, "DEF": 4, "run": 3, "WHILE": 6, "IF": 6, "IFELSE": 6, "REPEAT": 4, "not": 3, "ELSE": 3}.get(
        last, 0
    )
    if last in ("m(", "r(", "w(", "i(", "e(", "c("):
        need += 1
    if last.startswith("R="):
        need += 3
    if last == "c)" and opened[-1] != "c(":
        need += 3  # the block after a condition
    if last in ("c(",) or (last in {sensor.value for sensor in Sensor}) or (last == "c)" and opened[-1] == "c("):
        need += 3  # … which is also still to come inside one
    if last == "not":
        need += 3
    # An IFELSE whose else is still to come: ELSE e( statement e)
    need += 4 * heads.count("IFELSE")
    for at, word in enumerate(words):
        if word == "ELSE" and not _is_closed(words, at):
            need -= 4
    return need


def _is_closed(words: list[str], at: int) -> bool:
    depth = 0
    for word in words[at + 1 :]:
        depth += word in ("e(", "i(", "w(", "r(", "c(")
        depth -= word in ("e)", "i)", "w)", "r)", "c)")
        if depth == 0 and word == "e)":
            return True
    return False


@pytest.mark.parametrize("limit", [24, 60, 120])
def test_masks_along_random_long_programs(limit: int) -> None:
    """Random walks: the mask is the parser's opinion and the length that is left, and every walk ends in time."""
    rng = random.Random(limit)
    machine = SyntaxMachine(KAREL, max_length=limit)
    for _ in range(25):
        words: list[str] = []
        state = machine.initial(1)
        while not machine.accepts(state)[0]:
            assert machine.max_length - len(words) - state[0, 1] == fewest_to_finish(words), words
            mask = machine.mask(state)[0]
            if rng.random() < 0.3:
                for token, word in enumerate(TOKENS):
                    fits = parser_takes([*words, word]) and word != TOKENS[PAD]
                    if fits:
                        fits = len(words) + 1 + (word != "m)" and fewest_to_finish([*words, word])) <= limit
                    assert mask[token] == fits, (words, word)
            choices = np.flatnonzero(mask)
            closers = [token for token in choices if TOKENS[token] in ("m)", "r)", "w)", "i)", "e)", "c)")]
            choice = rng.choice(closers) if closers and rng.random() < 0.15 else rng.choice(list(choices))
            words.append(TOKENS[choice])
            state = machine.advance(state, np.array([choice]))
        assert len(words) <= limit
        assert list(Program.from_tokens(words).tokens) == words


def test_random_walks_in_normal_form_end_in_normal_form() -> None:
    rng = np.random.default_rng(0)
    machine = SyntaxMachine(NORMAL_FORM, max_length=40)
    for tightness in (40, 17, 9, 7):
        machine = SyntaxMachine(NORMAL_FORM, max_length=tightness)
        state = machine.initial(500)
        tokens = np.zeros((500, tightness), np.int64)
        for at in range(tightness):
            mask = machine.mask(state)
            done = machine.accepts(state)
            assert (mask.any(axis=1) | done).all()
            noise = rng.random(mask.shape) * mask
            noise[done, PAD] = 1
            tokens[:, at] = noise.argmax(axis=1)
            state = machine.advance(state, tokens[:, at])
        assert machine.accepts(state).all()
        assert all(in_normal_form(Program.from_tokens(row.tolist())) for row in tokens)


def accepted(machine: SyntaxMachine, ids: list[int]) -> bool:
    return bool(machine.accepts(machine.read(ids)))


@settings(deadline=None, max_examples=60)
@given(programs(depth=2))
def test_accepts_what_the_parser_accepts(program: Program) -> None:
    ids = program.token_ids
    assert accepted(SyntaxMachine(KAREL, max_length=max(len(ids), 5)), ids)
    assert accepted(SyntaxMachine(NORMAL_FORM, max_length=max(len(ids), 6)), ids) == in_normal_form(program)
    assert KAREL.admits(program.tokens)
    assert NORMAL_FORM.admits(program.tokens) == in_normal_form(program)
    if len(ids) > 5:
        assert not accepted(SyntaxMachine(KAREL, max_length=len(ids) - 1), ids)


def test_refused_tokens_lead_to_a_dead_end_that_stays() -> None:
    machine = SyntaxMachine()
    state = machine.read([ID["DEF"], ID["move"]])
    assert not machine.mask(state).any()
    for token in range(len(TOKENS)):
        after = machine.advance(state[None], np.array([token]))
        assert not machine.mask(after).any()
        assert not machine.accepts(after).any()


NO_TOKENS = st.one_of(st.integers(-2 * VOCABULARY_SIZE, -1), st.integers(VOCABULARY_SIZE, 700))


@settings(deadline=None)
@given(programs(), st.data())
def test_numbers_that_are_no_token_lead_to_the_dead_end_on_every_path(program: Program, data: st.DataObject) -> None:
    """Neither −1, which is the last token to a list, nor 259, which is a `DEF` once cut to a byte."""
    ids = program.token_ids
    machine = SyntaxMachine(max_length=len(ids) + 4)
    number, at = data.draw(NO_TOKENS), data.draw(st.integers(0, len(ids)))
    before = machine.read(ids[:at])
    dead = [DEAD, -1, *before[2:]]
    assert machine.advance(before, number).tolist() == dead
    assert machine.advance(before[None], np.array([number]))[0].tolist() == dead
    syntax = handwritten_syntax(machine, torch.device("cpu"))
    assert syntax.advance(torch.from_numpy(before)[None], torch.tensor([number]))[0].tolist() == dead
    changed = [*ids[:at], number, *ids[at:]]
    assert not machine.mask(machine.read(changed)).any()
    assert not machine.admits(changed)
    tokens, lengths = np.array([changed]), np.array([len(changed)])
    assert machine.masks_along(tokens, lengths, np.full(tokens.shape, -1))[1] == (0, at)
    if number >= 0:  # below 0, nothing is written
        states, text = before[None].copy(), np.zeros((1, at + 1), np.uint8)
        machine.append_tokens(states, text, np.array([at]), np.array([number]), np.array([True]), append_forced=False)
        assert states[0].tolist() == dead
    with pytest.raises(KarelsynthError, match=f"token {at + 1} is not allowed there"):
        pack_programs(tokens, lengths, machine=machine)


def test_padding_after_the_end_changes_nothing() -> None:
    machine = SyntaxMachine()
    end = machine.read(Program.from_tokens("DEF run m( move m)".split()).token_ids)[None]
    assert machine.accepts(end)[0]
    assert not machine.mask(end).any()
    assert machine.accepts(machine.advance(end, np.array([PAD])))[0]
    assert not machine.accepts(machine.advance(end, np.array([ID["move"]])))[0]


def test_states_are_rows_that_can_be_reordered_and_shaped() -> None:
    machine = SyntaxMachine(max_length=300)
    deep = "DEF run m(".split() + "REPEAT R=2 r(".split() * 60
    state = machine.read([ID[word] for word in deep])
    many = np.broadcast_to(state, (2, 3, machine.width))
    assert machine.mask(many).shape == (2, 3, 52)
    after = machine.advance(many, np.full((2, 3), ID["move"]))
    assert np.array_equal(after[1, 2], machine.read([ID[word] for word in [*deep, "move"]]))
    closing = ["move"] + ["r)"] * 60 + ["m)"]
    assert accepted(machine, [ID[word] for word in deep + closing])
    assert not accepted(machine, [ID[word] for word in deep + closing[:-2] + closing[-1:]])


@pytest.mark.parametrize("limit", [1_028, 1_029, 5_000, 32_000])
def test_masks_with_much_room_are_masks_all_the_same(limit: int) -> None:
    """As with less room, as long as there is enough of it."""
    large, small = SyntaxMachine(max_length=limit), SyntaxMachine(max_length=200)
    states = [machine.initial(1) for machine in (large, small)]
    for token in "DEF run m( WHILE c( not c( frontIsClear c) c) w( move".split():
        masks = [machine.mask(state) for machine, state in zip((large, small), states, strict=True)]
        assert (masks[0] == masks[1]).all()
        states = [
            machine.advance(state, np.array([ID[token]])) for machine, state in zip((large, small), states, strict=True)
        ]
    dead = large.advance(large.initial(1), np.array([ID["move"]]))
    assert not large.mask(dead).any()
    tokens = np.array([[ID["move"], ID["move"]]], np.uint8)
    assert large.masks_along(tokens, np.array([2]), np.array([[0, 1]]))[1] == (0, 0)
    with pytest.raises(ValueError, match="max_length goes to 32,7"):
        SyntaxMachine(max_length=40_000)


def test_too_short_a_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="shortest program has 6 tokens"):
        SyntaxMachine(NORMAL_FORM, max_length=5)


@pytest.mark.parametrize("grammar", [KAREL, NORMAL_FORM], ids=lambda grammar: grammar.name)
def test_compiled_masks_along_programs_are_the_machine_s(grammar: Grammar) -> None:
    rng = np.random.default_rng(4)
    machine = SyntaxMachine(grammar, max_length=40)
    state = machine.initial(300)
    tokens = np.zeros((300, 40), np.int64)
    masks = np.zeros((300, 40, len(TOKENS)), bool)
    for at in range(40):
        masks[:, at] = machine.mask(state)
        noise = rng.random((300, len(TOKENS))) * masks[:, at]
        noise[machine.accepts(state), PAD] = 1
        tokens[:, at] = noise.argmax(axis=1)
        state = machine.advance(state, tokens[:, at])
    lengths = (tokens > 0).sum(axis=1)
    wanted = (np.arange(40) < lengths[:, None]) & (rng.random(tokens.shape) < 0.7)
    rows = np.full(tokens.shape, -1)
    rows[wanted] = rng.permutation(wanted.sum())
    found, wrong = machine.masks_along(tokens.astype(np.uint8), lengths, rows)
    assert wrong is None
    assert len(found) == wanted.sum()
    assert np.array_equal(found[rows[wanted]], masks[wanted])
    tokens[7, 3] = ID["ELSE"]
    assert machine.masks_along(tokens.astype(np.uint8), lengths, rows)[1] == (7, 3)


@pytest.mark.gpu
def test_a_gpu_writes_the_same() -> None:
    """Forced tokens too, in one launch; some rows stand still, some are full."""
    rng = np.random.default_rng(5)
    machine = SyntaxMachine(KAREL, max_length=40)
    host, device = (handwritten_syntax(machine, torch.device(name)) for name in ("cpu", "cuda"))
    states, lengths = host.initial(500), torch.zeros(500, dtype=torch.int64)
    tokens = torch.zeros(500, 40, dtype=torch.uint8)
    own = [part.cuda() for part in (states, tokens, lengths)]
    chosen = torch.full((500,), NONE)
    for _ in range(40):
        active = torch.from_numpy(rng.random(500) < 0.9)
        states, lengths = host.write(states, tokens, lengths, chosen, active, forced_tokens=True)
        new, longer = device.write(own[0], own[1], own[2], chosen.cuda(), active.cuda(), forced_tokens=True)
        own = [new, own[1], longer]
        for one, other in zip(own, (states, tokens, lengths), strict=True):
            assert torch.equal(one.cpu(), other)
        noise = rng.random((500, len(TOKENS))) * host.mask(states).numpy()
        chosen = torch.from_numpy(np.where(noise.any(1), noise.argmax(1), NONE))


@pytest.mark.parametrize("append_forced", [False, True])
@pytest.mark.parametrize("limit", [12, 40, 128])
def test_compiled_writing_is_the_machine_s(limit: int, append_forced: bool) -> None:
    """Token by token until nothing goes on, some rows standing still, by the machine, by tensors and compiled."""
    rng = np.random.default_rng(limit)
    machine = SyntaxMachine(KAREL, max_length=limit)
    syntax = handwritten_syntax(machine, torch.device("cpu"))
    texts: list[list[int]] = [[] for _ in range(60)]
    count = len(texts)
    states, tokens, lengths = machine.initial(count), np.zeros((count, limit), np.uint8), np.zeros(count, np.int64)
    by_tensors = (torch.from_numpy(states.copy()), torch.from_numpy(tokens.copy()), torch.from_numpy(lengths.copy()))
    chosen = np.full(count, NONE)
    for _ in range(limit):
        active = np.array([not machine.admits(text) for text in texts]) & (rng.random(count) < 0.9)
        for row in np.flatnonzero(active):
            if chosen[row] != NONE:
                texts[row].append(int(chosen[row]))
            while append_forced and machine.forced_token(machine.read(texts[row])) != NONE:
                texts[row].append(int(machine.forced_token(machine.read(texts[row]))))
        given = (torch.from_numpy(chosen), torch.from_numpy(active))
        new, longer = syntax.write_by_tensors(*by_tensors, *given, forced_tokens=append_forced)
        by_tensors = (new, by_tensors[1], longer)
        machine.append_tokens(states, tokens, lengths, chosen, active, append_forced=append_forced)
        for text, own, length, state in zip(texts, tokens, lengths, states, strict=True):
            assert own[:length].tolist() == text
            assert np.array_equal(state, machine.read(text))
        assert np.array_equal(by_tensors[0], states)
        assert np.array_equal(by_tensors[1], tokens)
        assert np.array_equal(by_tensors[2], lengths)
        noise = rng.random((count, len(TOKENS))) * machine.mask(states)
        chosen = np.where(noise.any(1), noise.argmax(1), NONE)
    assert max(map(len, texts)) > 0.7 * limit


@pytest.mark.parametrize("grammar", [KAREL, NORMAL_FORM], ids=lambda grammar: grammar.name)
def test_scaffolding_is_what_leaves_no_choice(grammar: Grammar) -> None:
    """With tokens to spare, the machine admits one token exactly where a token is forced, in random programs."""
    rng = np.random.default_rng(5)
    machine, forced_ids = SyntaxMachine(grammar, max_length=60), {ID[token] for token in grammar.forced_tokens()}
    state, seen = machine.initial(300), 0
    for _ in range(40):
        mask, forced, active = machine.mask(state), machine.forced_token(state), ~machine.accepts(state)
        roomy = active & (state[:, 1] > 20)
        assert np.array_equal(mask[roomy].sum(1) == 1, forced[roomy] >= 0)
        is_forced = active & (forced >= 0)
        assert np.array_equal(mask[is_forced].argmax(1), forced[is_forced])
        assert (mask[is_forced].sum(1) == 1).all()
        assert forced_ids.issuperset(forced[is_forced].tolist())
        assert not mask[active & ~is_forced][:, sorted(forced_ids)].any()
        seen += int(is_forced.sum())
        noise = rng.random(mask.shape) * mask
        noise[~active, PAD] = 1
        state = machine.advance(state, noise.argmax(1))
    assert seen > 1000


@given(programs(), st.data())
def test_one_sequence_is_judged_as_states_are(program: Program, data: st.DataObject) -> None:
    """`admits` reads the grammar without the automaton; whatever the tokens are, both come to the same."""
    ids = list(program.token_ids)
    for _ in range(data.draw(st.integers(0, 2))):
        ids[data.draw(st.integers(0, len(ids) - 1))] = data.draw(
            st.one_of(st.integers(1, VOCABULARY_SIZE - 1), NO_TOKENS)
        )
    for grammar in (KAREL, NORMAL_FORM):
        machine = SyntaxMachine(grammar, max_length=max(6, len(ids) - data.draw(st.integers(0, 1))))
        assert machine.admits(ids) == accepted(machine, ids)
        if all(0 < token < VOCABULARY_SIZE for token in ids):
            wide = SyntaxMachine(grammar, max_length=max(6, len(ids)))
            assert grammar.admits([TOKENS[token] for token in ids]) == accepted(wide, ids)
