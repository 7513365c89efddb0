"""Programs packed for teacher forcing: no step is spent on padding.

The tokens of N programs are laid out by time step, and within a step by program, the longest first (the layout of
PyTorch's packed sequences):

    step 0: tokens of all N programs; step 1: of all that have a second token; …

P is the sum of their lengths. For models with `skip_forced_tokens`, forced tokens are left out as if programs had none.
With K examples a program's K rows are adjacent. A packed array [P · K, …] is then a view [P, K, …], and pooling over
examples needs no index. The layout is computed on the host, so that the loop over steps knows their sizes without
synchronising with the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from karelsynth.errors import KarelsynthError
from karelsynth.karel.syntax_kernel import masks_along
from karelsynth.karel.tokens import token_bytes, token_name
from karelsynth.model.packing_kernel import ALL_TOKENS, UNFORCED, Layout, lay_out
from karelsynth.model.transfer import to_device

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.prefix_runner import PrefixRunner


@dataclass(frozen=True)
class PackedPrograms:
    """N programs of P tokens in all; see the module's docstring."""

    count: int
    """N."""
    inputs: Tensor
    """int64 [P]: the packed token before, `<s>` at the beginning."""
    targets: Tensor
    """int64 [P]: the token itself."""
    programs: Tensor
    """int64 [P]: the number of the program it belongs to, in the order given."""
    step_sizes: Tensor
    """int64 [T] on the host: how many programs have a token at each step."""
    admitted: Tensor | None
    """bool [P, 52]: tokens that the handwritten syntax admits there; None without it."""
    features: Tensor | None = None
    """uint8 [P, K, 114]: where the tokens before have led the examples; None for models without `execution`."""

    def sum_by_program(self, values: Tensor) -> Tensor:
        """Sums of values [P] over each program's tokens, [N]."""
        return values.new_zeros(self.count).index_add(0, self.programs, values)


def pack_programs(
    tokens: NDArray[np.integer],
    lengths: NDArray[np.integer],
    *,
    machine: SyntaxMachine | None = None,
    device: torch.device | str = "cpu",
    runner: PrefixRunner | None = None,
    which: NDArray[np.integer] | None = None,
    threads: int | None = None,
    skip_forced_tokens: bool = False,
) -> PackedPrograms:
    """Pack programs [N, L] of 1 … L tokens [N].

    Args:
        machine: a syntax; the tokens that it admits are found too.
        device: where to.
        runner: runs the programs on their examples, for models with `execution`.
        which: [N, K], the examples that each program runs on, as indices into all of them.
        threads: how many threads run them; by default one for each core.
        skip_forced_tokens: leave out forced tokens.
    """
    if not len(tokens) or lengths.min() < 1 or lengths.max() > tokens.shape[1]:
        raise ValueError(f"there must be at least one program, and each must have 1 to {tokens.shape[1]} tokens")
    ids, long = token_bytes(tokens), lengths.astype(np.int64)
    layout = lay_out(ids, long, UNFORCED if skip_forced_tokens else ALL_TOKENS)
    if not layout.columns.size:
        raise ValueError("all tokens of these programs are forced: there is nothing to score")
    ordered, sizes = ids[layout.order], long[layout.order]
    masks = None if machine is None else _masks(ordered, sizes, layout, machine)
    features = None
    if runner is not None and which is not None:
        features = runner.features_along(ordered, sizes, layout, which[layout.order], threads)
        if features.device.type != torch.device(device).type:
            features = to_device(features.numpy(), device)

    numbers = to_device(layout.columns[:3], device).long()
    return PackedPrograms(
        len(tokens),
        numbers[0],
        numbers[1],
        numbers[2],
        torch.from_numpy(layout.step_sizes),
        None if masks is None else to_device(masks, device),
        features,
    )


def _masks(
    ordered: NDArray[np.uint8], sizes: NDArray[np.int64], layout: Layout, machine: SyntaxMachine
) -> NDArray[np.bool_]:
    """bool [P, 52]: what the machine admits before each token."""
    masks, refused = masks_along(machine, ordered, sizes, layout.rows)
    if refused is not None:
        program, token = refused
        raise no_program(ordered[program, : sizes[program]], token, machine)
    return masks


def no_program(tokens: NDArray[np.integer], at: int, machine: SyntaxMachine) -> KarelsynthError:
    """The error for tokens that a machine refuses, from number `at` on."""
    return KarelsynthError(
        f"`{' '.join(map(token_name, tokens))}` is not a program of at most {machine.max_length} tokens: "
        f"token {at + 1} is not allowed there; leave it out, or raise `max_length`"
    )
