"""`python -m karelsynth` and the `karelsynth` command."""

from __future__ import annotations

import os
import sys

# Python has loaded these two already. All else is imported in `_run`, so that Ctrl-C while it loads says `stopped`.


def main() -> None:
    """Run the command line. Bad input ends it with one message and no traceback."""
    try:
        _run()
    except BaseException as error:
        if not _is_interrupt(error):
            raise
        if sys.stderr is not None:
            sys.stderr.write("stopped\n")
        sys.exit(130)


def _is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C was the cause, during the imports; later `cli.CommandGroup` handles it.

    Python may wrap it: a KeyboardInterrupt while a class is made becomes a RuntimeError.
    """
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)


def interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Ctrl-C while C code calls Python, as when compiled code is loaded: Python would print it and go on.

    A hook for `sys.unraisablehook`. The interrupt comes again a moment later, outside of it.
    """
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    import signal
    from threading import Timer, main_thread

    if hasattr(signal, "pthread_kill"):  # not on Windows
        Timer(0.01, signal.pthread_kill, (main_thread().ident, signal.SIGINT)).start()


def _run() -> None:
    sys.unraisablehook = interrupt_again
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - a closed stream (`>&-`) is None
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for name in ("COLUMNS", "LINES"):
        if os.environ.get(name, "").strip("0") == "":  # a terminal without columns would show nothing, not even errors
            os.environ.pop(name, None)
    os.environ.pop("NUMBA_DISABLE_JIT", None)  # our code runs only compiled: see `karel/compiled.py`
    os.environ.pop("NUMBA_NUM_THREADS", None)  # our threads are not Numba's, and it cannot be imported with 0
    from contextlib import suppress

    from karelsynth.errors import KarelsynthError

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


if __name__ == "__main__":
    main()
