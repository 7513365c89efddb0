"""`python -m karelsynth` and the `karelsynth` command."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from karelsynth.errors import KarelsynthError


def main() -> None:
    """Run the command line. Bad input ends it with one message and no traceback."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - a closed stream (`>&-`) is None
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    try:
        from karelsynth.cli import app

        app(prog_name="karelsynth")
    except SystemExit:
        from karelsynth.cli.common import leave_at_once

        with suppress(OSError, ValueError):  # output that cannot be written is an error of the ordinary exit
            leave_at_once()
        raise
    except KarelsynthError as error:
        from karelsynth.cli.common import print_err

        print_err(f"error: {error}", "red")
        sys.exit(1)
    except KeyboardInterrupt:  # during the imports; later `cli.CommandGroup` handles it
        sys.stderr.write("stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
