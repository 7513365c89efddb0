"""Calls of the command line within the test's process."""

from __future__ import annotations

import typer
from typer.testing import CliRunner, Result

from karelsynth.cli import app as karelsynth_app


def attempt(*arguments: object, app: typer.Typer = karelsynth_app) -> Result:
    """The result of a command; an exception is part of it."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def call(*arguments: object, app: typer.Typer = karelsynth_app) -> Result:
    """The result of a command, which may have any exit code; raises what the command raises."""
    result = attempt(*arguments, app=app)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
