"""Ctrl-C during training: the step that is under way is finished and saved first.

    with Interrupt() as interrupt:
        …                             # look at `interrupt.stop_requested` after every step

A second Ctrl-C does what it does elsewhere: it raises KeyboardInterrupt at once.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """See the module's docstring. Only the main thread hears of signals; in others, nothing is ever asked."""

    def __init__(self) -> None:
        self.stop_requested = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        # One that is ignored, as in a script's background, or handled outside of Python, stays so.
        ours = signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None)
        if ours and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._request_stop)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._restore()

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop_requested = True
        self._restore()

    def _restore(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
