"""The networks: sizes, teacher forcing against steps, precision, and models as folders."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from karelsynth.errors import KarelsynthError
from karelsynth.karel.formats.codes import codes_to_tensor
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.tokens import ID, PAD, START, TOKENS, VOCABULARY_SIZE
from karelsynth.model import ModelSettings, Synthesizer, pack_programs
from karelsynth.model.lstm import PrefixLSTM
from karelsynth.model.settings import SYNTAX_MODES
from karelsynth.model.syntax import handwritten_syntax
from karelsynth.train.recipe import load_recipe
from tests.models import TINY, lstm_of, random_grids, random_programs, tiny_model


def parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_sizes_are_the_papers() -> None:
    model = Synthesizer(ModelSettings())
    convolutions = 2 * (16 * 32 * 9 + 32) + 6 * (64 * 64 * 9 + 64)
    assert parameters(model.encoder) == convolutions + 20736 * 512 + 512
    lstm = 4 * 256 * (768 + 256 + 2) + 4 * 256 * (256 + 256 + 2)
    assert parameters(model.decoder) == lstm + 2 * 2 * 256 + 52 * 256 + 52
    assert parameters(model.embedding) == 52 * 256
    assert model.embedding.weight.abs().max() <= 0.1
    decoder = lstm_of(model)
    assert isinstance(decoder.recurrent, PrefixLSTM)
    assert decoder.recurrent.initial.abs().max() <= 0.1
    assert not decoder.output.bias.any()


def test_large_has_as_many_parameters_as_learned() -> None:
    large, learned = load_recipe("mle_large").model, load_recipe("mle_learned").model
    assert (large.syntax, large.hidden_size) == ("none", 360)
    of_large, of_learned = parameters(Synthesizer(large)), parameters(Synthesizer(learned))
    assert abs(of_large / of_learned - 1) < 0.003
    narrower = replace(large, hidden_size=large.hidden_size - 8)
    assert parameters(Synthesizer(narrower)) < of_learned < of_large


@pytest.mark.parametrize("patch", [1, 2, 3])
def test_encoder_is_what_the_paper_draws(patch: int) -> None:
    """The joined convolution and the order of memory change nothing: plain convolutions on plain tensors agree.

    With patches, whose cells are one after the other in the planes, as well.
    """
    model = tiny_model(patch=patch)
    encoder = model.encoder
    inputs, outputs = random_grids(1, 4)

    def planes(grids: Tensor) -> Tensor:
        of_cells = torch.from_numpy(codes_to_tensor(grids.numpy()))  # [N, 16, 18, 18]
        corners = [of_cells[:, :, row::patch, col::patch] for row in range(patch) for col in range(patch)]
        return torch.cat(corners, dim=1)

    before = functional.relu(encoder.input_grid(planes(inputs)))
    after = functional.relu(encoder.output_grid(planes(outputs)))
    grids = torch.cat([before, after], dim=1)
    block: Any = encoder.blocks[0]
    hidden = block.third(functional.relu(block.second(functional.relu(block.first(grids)))))
    expected = encoder.linear(functional.relu(hidden + grids).permute(0, 2, 3, 1).flatten(1))
    torch.testing.assert_close(encoder(inputs, outputs), expected)


def in_plain_torch(model: Synthesizer, grids: tuple[Tensor, Tensor], tokens: Tensor) -> Tensor:
    """Scores [L, 52] of one task's program by what docs/training.md says of the weights, planes first (C, H, W)."""
    own: dict[str, Tensor] = dict(model.state_dict())
    planes = [torch.from_numpy(codes_to_tensor(side[0].numpy())) for side in grids]

    def convolved(name: str, grid: Tensor) -> Tensor:
        return functional.conv2d(grid, own[f"{name}.weight"], own[f"{name}.bias"], padding=1)

    def run(name: str, inputs: Tensor) -> Tensor:
        """An LSTM's upper h for inputs [L, K, …], [L, K, hidden_size]."""
        lstm = torch.nn.LSTM(inputs.shape[2], own[f"{name}.initial"].shape[2], 2)
        lstm.load_state_dict({key: own[f"{name}.lstm.{key}"] for key in lstm.state_dict()})
        h, c = own[f"{name}.initial"][:, :, None].expand(-1, -1, inputs.shape[1], -1)
        return lstm(inputs, (h.contiguous(), c.contiguous()))[0]  # type: ignore[no-any-return]

    both = [
        convolved(name, grid) for name, grid in zip(("encoder.input_grid", "encoder.output_grid"), planes, strict=True)
    ]
    cells = functional.relu(torch.cat(both, dim=1))
    hidden = functional.relu(convolved("encoder.blocks.0.first", cells))
    hidden = functional.relu(convolved("encoder.blocks.0.second", hidden))
    cells = functional.relu(convolved("encoder.blocks.0.third", hidden) + cells)
    codes = functional.linear(cells.flatten(1), own["encoder.linear.weight"], own["encoder.linear.bias"])
    read = own["embedding.weight"][torch.cat([torch.tensor([ID["<s>"]]), tokens[:-1]])]
    inputs = torch.cat([read[:, None].expand(-1, len(codes), -1), codes.expand(len(read), -1, -1)], dim=2)
    best = run("decoder.recurrent", inputs).amax(1)
    scores = functional.linear(best, own["decoder.output.weight"], own["decoder.output.bias"])
    of_syntax = run("syntax.recurrent", read[:, None])[:, 0]
    return scores - functional.linear(of_syntax, own["syntax.output.weight"], own["syntax.output.bias"]).exp()


def test_weights_are_what_the_docs_say() -> None:
    """A network in plain PyTorch with planes first has our scores once the columns are in the documented order."""
    text = (Path(__file__).parents[1] / "docs" / "training.md").read_text()
    (line,) = re.findall(r"^weight = weight.view.*$", text, re.MULTILINE)
    model, grids = tiny_model(scale=1.5, syntax="learned"), random_grids(4, 1, 3)
    tokens, lengths = random_programs(5, 1, 30)
    program = torch.from_numpy(tokens[0, : lengths[0]].astype(np.int64))
    with torch.no_grad():
        expected = in_plain_torch(model, grids, program)
        packed = model.pack(tokens, lengths)
        assert (model.score(model.encode(*grids), packed).logits - expected).abs().max() > 0.01
        names = {"weight": model.encoder.linear.weight.data.clone()}
        exec(line, names)
        model.encoder.linear.weight.copy_(names["weight"])
        torch.testing.assert_close(model.score(model.encode(*grids), packed).logits, expected, atol=1e-4, rtol=1e-4)


def test_the_docs_have_the_shapes_of_the_papers_network() -> None:
    text = (Path(__file__).parents[1] / "docs" / "training.md").read_text()
    with torch.device("meta"):
        tensors = dict(Synthesizer(ModelSettings(syntax="learned")).named_parameters())
    for name in ("encoder.input_grid.weight", "encoder.blocks.1.third.weight", "encoder.linear.weight",
                 "embedding.weight", "decoder.recurrent.initial", "decoder.output.weight"):  # fmt: skip
        documented = " × ".join(map(str, tensors[name].shape))
        begin = re.sub(r"\.\d.*|\.weight$", "", name) if name != "embedding.weight" else name
        assert re.search(rf"^\| `{begin}.*\| {documented} \|", text, re.MULTILINE), name


def test_packing_lists_every_token_once_by_step() -> None:
    tokens, lengths = random_programs(2, 9, 40)
    packed = pack_programs(tokens, lengths)
    unforced = pack_programs(tokens, lengths, skip_forced_tokens=True)
    for number, (row, length) in enumerate(zip(tokens, lengths, strict=True)):
        short = [int(token) for token in row[:length] if TOKENS[token] not in KAREL.forced_tokens()]
        rows = unforced.programs == number
        assert unforced.targets[rows].tolist() == short
        assert unforced.tokens[rows].tolist() == [START, *short[:-1]]
    assert sum(packed.sizes) == lengths.sum() == len(packed.targets)
    assert list(packed.sizes) == [(lengths > step).sum() for step in range(lengths.max())]
    for number, (row, length) in enumerate(zip(tokens, lengths, strict=True)):
        of_program = packed.programs == number
        assert packed.targets[of_program].tolist() == row[:length].tolist()
        assert packed.tokens[of_program].tolist() == [START, *row[: length - 1].tolist()]
    uniform = packed.program_logprobs(torch.zeros(len(packed.targets), VOCABULARY_SIZE))
    torch.testing.assert_close(uniform, -torch.from_numpy(lengths) * math.log(VOCABULARY_SIZE), check_dtype=False)
    with pytest.raises(ValueError, match="1 to"):
        pack_programs(tokens, np.zeros_like(lengths))


def stepwise(model: Synthesizer, grids: tuple[Tensor, Tensor], tokens: NDArray[Any], present: Tensor | None) -> Tensor:
    """Logits float32 [N, L, 52] for programs of N tasks, one token at a time."""
    weights = model.step_model(torch.float32)
    tasks = model.step_tasks(weights, model.encode(*grids, present))
    rows = torch.arange(len(tokens))
    state, last, logits = weights.start(tasks), torch.full_like(rows, START), []
    syntax = handwritten_syntax(model.machine, torch.device("cpu")) if model.machine else None
    syntax_states = syntax.initial(len(rows)) if syntax else torch.empty(0)
    for column in torch.from_numpy(tokens.astype(np.int64)).T:
        scores, state = weights.step(tasks, state, rows, rows, last)
        if syntax is not None:
            scores = scores.masked_fill(~syntax.mask(syntax_states), -torch.inf)
            syntax_states = syntax.advance(syntax_states, column)
        logits.append(scores)
        last = column
    return torch.stack(logits, dim=1)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("syntax", SYNTAX_MODES)
def test_steps_equal_teacher_forcing(syntax: str, masked: bool) -> None:
    model = tiny_model(syntax=syntax)
    grids = random_grids(3, 6, 3)
    tokens, lengths = random_programs(4, 6, 40)
    present = torch.tensor([[True, k % 2 == 0, k > 2] for k in range(6)]) if masked else None
    packed = model.pack(tokens, lengths)
    forced = model(*grids, packed, present=present)
    with torch.no_grad():
        by_step = stepwise(model, grids, tokens, present)
    for number, length in enumerate(lengths):
        torch.testing.assert_close(forced.logits[packed.programs == number], by_step[number, :length])
    # The sum over a program's tokens is its log-probability.
    logprobs = by_step.log_softmax(2).gather(2, torch.from_numpy(tokens.astype(np.int64))[:, :, None])[:, :, 0]
    expected = torch.stack([row[:length].sum() for row, length in zip(logprobs, lengths, strict=True)])
    encoded = model.encode(*grids, present)
    torch.testing.assert_close(model.program_logprobs(encoded, packed), expected)


def test_absent_examples_are_as_if_not_given_and_order_does_not_matter() -> None:
    model = tiny_model()
    inputs, outputs = random_grids(5, 2, 4)
    packed = model.pack(*random_programs(6, 2, 30))
    present = torch.tensor([[False, True, True, False]] * 2)
    masked = model(inputs, outputs, packed, present=present).logits
    torch.testing.assert_close(masked, model(inputs[:, [2, 1]], outputs[:, [2, 1]], packed).logits)


def test_programs_may_share_tasks() -> None:
    model = tiny_model(syntax="learned")
    encoded = model.encode(*random_grids(7, 2, 3))
    tokens, lengths = random_programs(8, 5, 30)
    tasks = np.array([1, 0, 1, 1, 0])
    logprobs = model.program_logprobs(encoded, model.pack(tokens, lengths, tasks=tasks))
    for number, task in enumerate(tasks.tolist()):
        alone = model.pack(tokens[number : number + 1], lengths[number : number + 1], tasks=np.array([task]))
        expected = model.program_logprobs(encoded, alone)
        torch.testing.assert_close(logprobs[number : number + 1], expected)


def test_handwritten_syntax_leaves_only_valid_programs() -> None:
    """The probabilities of all 30 programs of at most six tokens add up to 1."""
    model = tiny_model(syntax="handwritten", max_length=6)
    actions = ("move", "turnLeft", "turnRight", "pickMarker", "putMarker")
    bodies = [(one,) for one in actions] + [(one, two) for one in actions for two in actions]
    rows = [[ID[token] for token in ("DEF", "run", "m(", *body, "m)")] for body in bodies]
    tokens = np.array([row + [PAD] * (6 - len(row)) for row in rows])
    encoded = model.encode(*random_grids(9, 1, 2))
    packed = model.pack(tokens, (tokens != PAD).sum(1), tasks=np.zeros(30, np.int64))
    logprobs = model.program_logprobs(encoded, packed)
    torch.testing.assert_close(logprobs.exp().sum(), torch.tensor(1.0))
    with pytest.raises(KarelsynthError, match=r"`DEF DEF .* is not a program .*: token 2 is not allowed"):
        model.pack(tokens[:, [0, 0, 2, 3, 4, 5]], np.array([6] * 30))
    with pytest.raises(KarelsynthError, match="at most 6 tokens"):
        model.pack(*random_programs(10, 5, 40))


@pytest.mark.parametrize("syntax", SYNTAX_MODES)
def test_bfloat16_is_near_and_every_parameter_gets_a_gradient(syntax: str) -> None:
    model = tiny_model(syntax=syntax)
    grids, (tokens, lengths) = random_grids(11, 4, 3), random_programs(12, 4, 40)
    packed = model.pack(tokens, lengths)
    exact = model.program_logprobs(model.encode(*grids), packed)
    parameters = dict(model.named_parameters())
    expected = torch.autograd.grad(exact.sum(), list(parameters.values()))
    with torch.autocast("cpu", torch.bfloat16):
        near = model.program_logprobs(model.encode(*grids), packed)
    assert near.dtype == torch.float32
    torch.testing.assert_close(near, exact, rtol=0.05, atol=0.05)
    gradients = torch.autograd.grad(near.sum(), list(parameters.values()))
    for name, one, other in zip(parameters, gradients, expected, strict=True):
        assert torch.cosine_similarity(one.flatten(), other.flatten(), dim=0) > 0.9, name


# Models as folders.


@pytest.mark.parametrize("syntax", SYNTAX_MODES)
def test_saved_and_loaded_is_the_same(syntax: str, tmp_path: Path) -> None:
    model, grids = tiny_model(syntax=syntax), random_grids(14, 2, 3)
    packed = model.pack(*random_programs(15, 2, 40))
    model.save_pretrained(tmp_path / "a" / "b")
    loaded = Synthesizer.from_pretrained(tmp_path / "a" / "b")
    assert loaded.settings == model.settings
    assert torch.equal(loaded(*grids, packed).logits, model(*grids, packed).logits)
    names = [path.name for path in sorted((tmp_path / "a" / "b").iterdir())]
    assert names == ["SHA256SUMS", "config.json", "model.safetensors"]
    assert json.loads((tmp_path / "a" / "b" / "config.json").read_text()).items() >= asdict(model.settings).items()


def test_saved_in_bfloat16_is_half_as_large(tmp_path: Path) -> None:
    model = tiny_model()
    model.save_pretrained(tmp_path / "full")
    model.save_pretrained(tmp_path / "half", dtype=torch.bfloat16)
    full, half = (sum(p.stat().st_size for p in (tmp_path / name).glob("*.safetensors")) for name in ("full", "half"))
    assert half < 0.6 * full
    loaded = Synthesizer.from_pretrained(tmp_path / "half").embedding.weight
    assert torch.equal(loaded, model.embedding.weight.bfloat16().float())


def spoil_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: spoil_config(folder, hiden_size=3), "config.json: .*`hiden_size`.*did you mean `hidden_size`"),
        (lambda folder: spoil_config(folder, model_type="bert"), "belongs to another kind of model"),
        (lambda folder: spoil_config(folder, hidden_size=11), "is .*the config.json beside it expects"),
        (lambda folder: spoil_config(folder, blocks=2), "has no `encoder.blocks.1"),
        (lambda folder: spoil_config(folder, syntax="none"), "`syntax.*does not describe"),
        (lambda folder: spoil_config(folder, layers="two"), "`layers` is a whole number from 1, not 'two'"),
        (lambda folder: spoil_config(folder, syntax="learnt"), "`syntax` is `none`, `handwritten` or `learned`"),
        (lambda folder: (folder / "config.json").write_text("{"), "not valid JSON"),
        (lambda folder: (folder / "config.json").unlink(), "config.json: there is no such file"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors: there is no such file"),
        (cut, "not a complete safetensors file"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"PK\3\4 something else"), "not a complete"),
    ],
)
def test_what_cannot_be_loaded_is_explained(spoil: Any, message: str, tmp_path: Path) -> None:
    tiny_model(syntax="learned").save_pretrained(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()  # a model of an older version; otherwise the checksum is what is wrong
    spoil(tmp_path)
    with pytest.raises(KarelsynthError, match=message):
        Synthesizer.from_pretrained(tmp_path)


def test_what_is_no_folder_is_explained(tmp_path: Path) -> None:
    with pytest.raises(KarelsynthError, match="there is no such folder"):
        Synthesizer.from_pretrained(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(KarelsynthError, match="is a file"):
        Synthesizer.from_pretrained(tmp_path / "file")
    with pytest.raises(KarelsynthError, match="cannot be made"):
        tiny_model().save_pretrained(tmp_path / "file" / "model")


@dataclass(frozen=True)
class MoreSettings(ModelSettings):
    """As someone would add them."""

    pooling: str = "max"
    dropout: float = 0.0
    bottleneck: int = 4
    skip: bool = False


def test_settings_of_other_kinds_can_be_added() -> None:
    """They are checked by the kind of their default, not all as sizes."""
    assert MoreSettings().dropout == 0.0
    assert MoreSettings(pooling="mean", dropout=0.5, bottleneck=1, skip=True).pooling == "mean"
    assert MoreSettings(dropout=1).dropout == 1
    wrong: dict[str, tuple[Any, str]] = {
        "pooling": (3, "a string, not 3"),
        "dropout": (math.nan, "a finite number, not nan"),
        "bottleneck": (0.5, "a whole number from 1, not 0.5"),
        "skip": (1, "true or false, not 1"),
        "channels": ("many", "a whole number from 1, not 'many'"),
    }
    for name, (value, message) in wrong.items():
        with pytest.raises(KarelsynthError, match=f"model setting `{name}` is {message}"):
            MoreSettings(**{name: value})
    for value in (True, "0.5"):
        with pytest.raises(KarelsynthError, match="`dropout` is a finite number"):
            MoreSettings(dropout=value)  # type: ignore[arg-type]


def test_settings_of_older_files_are_read() -> None:
    older = {"choices": True, "hero_frame": True, "code_stride": 1, "syntax": "handwritten"}
    expected = ModelSettings(syntax="handwritten", skip_forced_tokens=True, egocentric=True)
    assert ModelSettings.from_dict(older) == expected


def test_settings_are_checked() -> None:
    for wrong in ({"channels": 0}, {"layers": True}, {"max_length": 4}, {"syntax": "both"}):
        with pytest.raises(KarelsynthError, match=next(iter(wrong))):
            ModelSettings.from_dict(wrong)
    with pytest.raises(KarelsynthError, match="`skip_forced_tokens` needs the handwritten syntax"):
        ModelSettings.from_dict({"skip_forced_tokens": True, "syntax": "learned"})
    assert ModelSettings.from_dict({"code_stride": 1}) == ModelSettings()  # of older files: it made no difference
    with pytest.raises(KarelsynthError, match="there is no model setting `code_stride`"):
        ModelSettings.from_dict({"code_stride": 2})
    for patch in (4, 36):
        with pytest.raises(KarelsynthError, match=f"`patch` must divide 18, the grid's side; {patch} does not"):
            ModelSettings.from_dict({"patch": patch})
    with pytest.raises(KarelsynthError, match="`patch` is a whole number from 1, not 0"):
        ModelSettings.from_dict({"patch": 0})
    with pytest.raises(KarelsynthError, match="there are `syntax`"):
        ModelSettings.from_dict({"zzz": 1})
    assert ModelSettings.from_dict(asdict(TINY)) == TINY
    assert VOCABULARY_SIZE == 52
