"""`python -m karelsynth` and the `karelsynth` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; what is wrong with the input is said in one message, without a traceback."""
    from karelsynth.cli import app
    from karelsynth.cli.show import error_console
    from karelsynth.errors import KarelsynthError

    try:
        app(prog_name="karelsynth")
    except KarelsynthError as error:
        error_console().print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        error_console().print("stopped")
        sys.exit(130)
    except BrokenPipeError:  # the reader, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
