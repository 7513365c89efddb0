"""The child's end of a run in a process of its own; see `processes.py`.

    python -m karelsynth.reproduce.child NAME

Not for people: its input and output are pickles. The name is for who looks at the list of processes.
"""

from __future__ import annotations

import _thread
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karelsynth.reproduce.processes import Ended, Message, Order


def main() -> None:
    """Follow the order on standard input, and end when that closes."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # some shells have it ignored
    try:
        order = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
        # Before anything heavy is imported, which pickle does: a child may be stopped as soon as it is begun.
        threading.Thread(target=_end_with_input, daemon=True).start()
        tell = _to_parent()
        tell(_follow(pickle.loads(order), tell))
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)


def _end_with_input() -> None:
    while os.read(0, 1):
        pass
    _thread.interrupt_main()


def _to_parent() -> Callable[[Message], None]:
    """A function that sends messages. What libraries print goes to standard error instead."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def tell(message: Message) -> None:
        pickle.dump(message, output)
        output.flush()

    return tell


def _follow(order: Order, tell: Callable[[Message], None]) -> Ended:
    import torch

    from karelsynth.errors import KarelsynthError
    from karelsynth.reproduce.memory import NoRoom
    from karelsynth.reproduce.processes import LOG, Ended, Said
    from karelsynth.reproduce.running import Runner
    from karelsynth.train.loop import Diverged

    device = torch.device(order.device)
    try:
        if device.type == "cuda":  # what this process has no use for it must not keep from the others
            torch.cuda.set_per_process_memory_fraction(1 / order.at_once, device.index)  # None: the current one
        runner = Runner(
            order.places,
            device=device,
            at_once=order.at_once,
            commit=order.commit,
            say=lambda line: tell(Said(line)),
            on_progress=tell,
        )
        return Ended("done" if runner.train_and_measure(order.job, order.deadline, result=order.result) else "left")
    except Diverged as error:
        return Ended("diverged", str(error))
    except NoRoom as error:
        traceback.print_exc()
        return Ended("crowded", str(error))
    except KarelsynthError as error:
        return Ended("failed", str(error))
    except BrokenPipeError:
        raise
    except Exception as error:  # a fault of ours or of the machine
        traceback.print_exc()
        first = str(error).partition("\n")[0]
        log = order.places.runs / order.job.name / LOG
        return Ended("failed", f"{type(error).__name__}: {first} (all of it is in {log})")


if __name__ == "__main__":
    main()
