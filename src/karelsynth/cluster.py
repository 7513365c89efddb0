"""Work on a Ray cluster (the extra `ray`): the same results in the same order as `map`, on many machines.

    with Cluster("auto") as cluster:
        for result in cluster.map(work, pieces):      # as `map(work, pieces)` here
            ...

Commands divide their tasks into pieces of fixed size, so that results do not depend on the number of nodes. A piece
runs on one core. Pieces of a node that dies run again elsewhere. Every node needs the same version of karelsynth. Ray
moves work and results by pickle: whoever can reach a cluster can run programs on it, and on the machine that uses it.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Self

from karelsynth._version import __version__
from karelsynth.errors import KarelsynthError

Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""`map`, or `Cluster.map`: applies a function to pieces of work and gives the results in order."""
_AHEAD: Final = 4
"""Pieces for each core that are sent ahead, so that no core waits for the slowest piece."""
_PATIENCE: Final = 10.0
"""Seconds to wait for an answer at an address."""
_loaded: dict[str, Callable[[Any], Any]] = {}
"""In a worker process: the work that it did last, by its key. Loading a model for every piece would take too long."""


class Cluster:
    """A connection to a Ray cluster that runs already; `address` is `auto` on one of its nodes, or HOST:PORT."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._works = 0

    def __enter__(self) -> Self:
        import ray

        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # as Ray's later versions do; silences it
        try:
            self._check_address()
            ray.init(self._address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
        except (ray.exceptions.RayError, ValueError, RuntimeError, OSError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise KarelsynthError(
                f"no Ray cluster answers at {self._address} ({reason}): start one with `ray start --head` and name "
                "its HOST:PORT, or `auto` on one of its nodes"
            ) from None
        return self

    def _check_address(self) -> None:
        """Raise an error if nobody listens at HOST:PORT, or if it is no address: Ray itself would try for minutes."""
        if self._address == "auto" or "://" in self._address:
            return
        host, colon, port = self._address.rpartition(":")
        if not (colon and host and port.isdecimal()):
            raise ValueError("it is neither `auto` nor HOST:PORT")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()

    def __exit__(self, *error: object) -> None:
        import ray

        ray.shutdown()

    def map(self, work: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
        """work(piece) for each piece, in order. `work` and pieces must be picklable; errors are raised here.

        `work` is sent to each process once. Pieces are taken as results are read, some ahead.
        """
        import ray

        self._works += 1
        key, sent = f"{os.getpid()}-{id(self)}-{self._works}", ray.put(work)
        run = ray.remote(num_cpus=1, max_retries=-1)(_run)
        waiting: deque[Any] = deque()
        for piece in pieces:
            waiting.append(run.remote(__version__, key, [sent], piece))
            while len(waiting) >= _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1))):
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())


def _run(version: str, key: str, sent: list[Any], piece: Any) -> Any:
    """In a worker process: do the work for a piece. A list hides `sent` from Ray, which would load it every time."""
    import ray

    if version != __version__:
        raise KarelsynthError(f"a node has karelsynth {__version__}, and here it is {version}: install the same one")
    os.environ["KARELSYNTH_THREADS"] = "1"
    if key not in _loaded:
        _loaded.clear()
        _loaded[key] = ray.get(sent[0])
    return _loaded[key](piece)


def _result(reference: Any) -> Any:
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, KarelsynthError | ImportError):
            raise error.cause from None
        if "failed to import" in str(error):  # Ray could not load our function
            reason = str(error).strip().splitlines()[-1]
            raise KarelsynthError(f"a node cannot load karelsynth {__version__} ({reason}): install it there") from None
        raise
