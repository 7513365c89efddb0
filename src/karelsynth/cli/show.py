"""Consoles and reading of arguments, shared by the commands."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from karelsynth.errors import KarelsynthError, ProgramSyntaxError
from karelsynth.files import STDIN, read_text, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from rich.console import Console

    from karelsynth.karel.program import Program


@cache
def console() -> Console:
    """For what a command was asked to say."""
    from rich.console import Console

    return Console(highlight=False)


@cache
def error_console() -> Console:
    """For everything else."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def read_program(path: str, dialect: str | None = None) -> tuple[str, Program]:
    """A program file's text and program; `-` is standard input."""
    from karelsynth.karel.program import Program

    text = read_text(path)
    try:
        return text, Program.parse(text, dialect)
    except ProgramSyntaxError as error:
        name = "standard input" if path == STDIN else path
        raise KarelsynthError(f"{name}, {error}") from None


def chosen_device(name: str | None) -> torch.device:
    """The device of that name, by default a GPU if there is one; raises KarelsynthError if it cannot be had."""
    import torch

    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        known = "cpu" if not torch.cuda.is_available() else "cpu or cuda"
        raise KarelsynthError(f"there is no device `{name}` here; this machine has {known}") from None
    return device


def write_text(text: str, path: Path | None) -> None:
    """Write a text to a file, or to standard output."""
    text = text.rstrip("\n") + "\n"
    if path is None:
        sys.stdout.write(text)
    else:
        write_whole(path, text.encode())
