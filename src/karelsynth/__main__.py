"""`python -m karelsynth` and the `karelsynth` command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from karelsynth.errors import KarelsynthError


def main() -> None:
    """Run the command line; what is wrong with the input is said in one message, without a traceback."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - there is none after `>&-`
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    try:
        from karelsynth.cli import app

        app(prog_name="karelsynth")
    except KarelsynthError as error:
        from karelsynth.cli.show import error_console

        error_console().print(f"error: {error}", style="red", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:  # while all that was loaded: later it is `Commands` that says so
        sys.stderr.write("stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
