"""Copies of arrays (Numba): loops, since `target[:] = source` takes a second to compile with its error messages."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled


@compiled()
def copy_row(source: NDArray[Any], target: NDArray[Any]) -> None:  # pragma: no cover - compiled
    """Copy a row into another, which is as long or longer."""
    for place in range(len(source)):
        target[place] = source[place]


@compiled()
def copy_rows(source: NDArray[Any], target: NDArray[Any]) -> None:  # pragma: no cover - compiled
    """Copy a matrix into another of the same size."""
    for row in range(source.shape[0]):
        for place in range(source.shape[1]):
            target[row, place] = source[row, place]
