"""What is measured besides scores: masks, validity, aliasing."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.evaluate import Judged
from karelsynth.karel.draw.scene import Text
from karelsynth.karel.program import Program
from karelsynth.karel.syntax import syntax_machine
from karelsynth.karel.tokens import ID, TOKENS
from karelsynth.reproduce.aliasing import (
    ELSEWHERE,
    PROGRAM_A,
    PROGRAM_B,
    aliasing_examples,
    aliasing_scene,
    both_right,
    score_aliases,
)
from karelsynth.reproduce.intervals import ratio_interval
from karelsynth.reproduce.learned_syntax import (
    MaskTable,
    differences,
    masks_chart,
    masks_of_program,
    masks_over,
    shares,
    without_syntax,
)
from karelsynth.search import Candidates
from tests.drawn import chart_description
from tests.models import tiny_model


def test_masks_along_a_program() -> None:
    model = tiny_model(syntax="learned")
    table = masks_of_program(model, PROGRAM_A)
    assert table.places == ("<s>", *PROGRAM_A.tokens[:-1])
    machine = syntax_machine()
    for at in range(PROGRAM_A.size):
        mask = machine.mask(machine.read(PROGRAM_A.token_ids[:at]))
        np.testing.assert_array_equal(table.handwritten[at], mask)
    bare, ids = without_syntax(model), np.array([PROGRAM_A.token_ids])
    codes = torch.from_numpy(np.stack([pair.input.to_codes() for pair in aliasing_examples()]))[None]
    with torch.no_grad():
        encoded = model.encode(codes, codes)
        packed = model.pack(ids, np.array([PROGRAM_A.size]))
        penalties = bare.score(encoded, packed).logits - model.score(encoded, packed).logits
    np.testing.assert_allclose(table.learned, np.exp(-penalties.numpy()), atol=1e-4)
    np.testing.assert_allclose(table.refused - table.passed, table.handwritten - table.learned, atol=1e-12)
    again = MaskTable.from_json(json.loads(json.dumps(table.to_json())))
    assert again.places == table.places
    np.testing.assert_allclose(again.learned, table.learned, atol=0.5 / 255)


def test_masks_over_programs_are_the_means_of_masks_along_them() -> None:
    model = tiny_model(syntax="learned")
    programs = [PROGRAM_A, PROGRAM_B, Program.parse("DEF run m( move turnLeft m)")]
    tokens = np.zeros((3, 40), np.uint8)
    for row, program in enumerate(programs):
        tokens[row, : program.size] = program.token_ids
    record = masks_over(model, tokens, np.array([program.size for program in programs]), batch_size=2)
    apart = [masks_of_program(model, program) for program in programs]
    table = MaskTable.from_json(record["table"])
    assert record["positions"] == sum(program.size for program in programs)
    move = table.places.index("move")
    mean = np.mean([each.learned[each.places.index("move")] for each in apart], axis=0)
    np.testing.assert_allclose(table.learned[move], mean, atol=0.51 / 255)
    valid = sum(each.handwritten.sum() for each in apart)
    assert record["valid_refused"] == pytest.approx(100 * sum(each.refused.sum() for each in apart) / valid, abs=1e-3)
    kept = [
        each.learned[at, token] for each, p in zip(apart, programs, strict=True) for at, token in enumerate(p.token_ids)
    ]
    assert record["reference_refused"] == pytest.approx(100 * (1 - np.mean(kept)), abs=1e-3)
    passed, invalid = sum(each.passed.sum() for each in apart), sum((1 - each.handwritten).sum() for each in apart)
    assert record["invalid_passed"] == pytest.approx(100 * passed / invalid, abs=1e-3)
    by_program = {
        "valid_refused": ([each.refused.sum() for each in apart], [each.handwritten.sum() for each in apart]),
        "invalid_passed": ([each.passed.sum() for each in apart], [(1 - each.handwritten).sum() for each in apart]),
    }
    for name, (parts, wholes) in by_program.items():
        found = ratio_interval(np.array(parts), np.array(wholes))
        assert record["confidence_95"][name] == pytest.approx([found.low, found.high], abs=1e-3)
    low, high = record["confidence_95"]["reference_refused"]
    assert 0 <= low < record["reference_refused"] < high <= 100


def test_the_interval_of_a_share_holds_what_other_programs_would_have_said() -> None:
    rng = np.random.default_rng(0)

    def programs(count: int) -> tuple[np.ndarray, np.ndarray]:
        sizes = rng.integers(4, 40, count).astype(np.float64)
        return sizes * rng.beta(2, 6, count), sizes  # a share of 25 %, alike within a program

    truth = ratio_interval(*programs(200_000)).middle
    assert truth == pytest.approx(25, abs=0.2)
    held = [low <= truth <= high for _, low, high in (ratio_interval(*programs(100)) for _ in range(1000))]
    assert 0.92 < np.mean(held) < 0.97
    assert ratio_interval(np.zeros(3), np.ones(3)) == (0, 0, 0)
    assert ratio_interval(np.ones(1), np.full(1, 4.0)) == (25, 0, 100)


def test_models_without_learned_syntax_have_no_masks() -> None:
    with pytest.raises(KarelsynthError, match="no learned syntax"):
        masks_of_program(tiny_model(), PROGRAM_A)
    with pytest.raises(KarelsynthError, match="no learned syntax"):
        without_syntax(tiny_model())


def test_the_picture_of_masks_paints_what_differs() -> None:
    valid = np.zeros((2, 52))
    valid[0, ID["DEF"]] = valid[1, ID["run"]] = 1
    learned = valid.copy()
    learned[1, ID["run"]], learned[1, ID["move"]] = 0, 1
    table = MaskTable(("<s>", "DEF"), valid, learned, valid * (1 - learned), (1 - valid) * learned)
    painted = differences(table)
    assert [(place, TOKENS[token]) for place, token in zip(*np.nonzero((painted < 1).any(2)), strict=True)] == [
        (1, "run"), (1, "move"),
    ]  # fmt: skip
    red, blue = painted[1, ID["run"]], painted[1, ID["move"]]
    assert red[0] > 0.7 > red[2]
    assert blue[2] > 0.7 > blue[0]
    svg = masks_chart(table, "title")
    assert chart_description(svg).startswith("Columns: the last token; rows: possible next tokens. Places: <s> DEF.")
    for text in ("handwritten", "learned", "difference", "valid, yet refused", "turnLeft"):
        assert text in svg


def test_validity_counts_programs() -> None:
    filled = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 0]], bool)
    syntax = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0]], bool)
    found = shares(Judged(syntax, syntax, syntax, syntax, filled))
    assert found["1"]["share"] == 66.67
    assert found["5"] == {"share": 50.0, "confidence_95": found["5"]["confidence_95"], "programs": 6}
    low, high = found["5"]["confidence_95"]
    assert low < 50 < high


def test_both_aliased_programs_are_right_and_differ_elsewhere() -> None:
    assert both_right()
    assert PROGRAM_A.run(ELSEWHERE).world != PROGRAM_B.run(ELSEWHERE).world
    captions = [shape.text for group in aliasing_scene().groups for shape in group.shapes if isinstance(shape, Text)]
    assert {"before", "after A, and after B", "after A", "after B"} < set(captions)


def test_scores_are_probabilities_and_ranks_in_the_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(seed=3, syntax="handwritten")
    lengths = torch.tensor([[5, PROGRAM_B.size, 0]])
    found = Candidates(torch.zeros(1, 3, 40, dtype=torch.uint8), lengths, torch.zeros(1, 3))
    found.tokens[0, 1, : PROGRAM_B.size] = torch.tensor(PROGRAM_B.token_ids)
    monkeypatch.setattr("karelsynth.search.beam_search", lambda *arguments, **options: found)
    first, second = score_aliases(model, beam=3)
    assert (first["rank"], second["rank"]) == (None, 2)
    given = aliasing_examples()[:5]
    inputs, outputs = (torch.from_numpy(np.stack([pair[side].to_codes() for pair in given]))[None] for side in (0, 1))
    tokens = np.array([PROGRAM_B.token_ids])
    with torch.no_grad():
        packed = model.pack(tokens, np.array([PROGRAM_B.size]))
        logprob = float(model.program_logprobs(model.encode(inputs, outputs), packed))
    assert second["logprob"] == pytest.approx(logprob, abs=1e-3)
    assert first["logprob"] != second["logprob"]
