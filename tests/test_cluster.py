"""Work on a Ray cluster: the same results as here, also if a node dies. Needs the extra `ray`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from karelsynth.cluster import Cluster
from karelsynth.errors import KarelsynthError, missing_extra
from karelsynth.evaluate import evaluate
from karelsynth.tasks.generate import generate
from karelsynth.tasks.sets import write_set

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NODES = 3


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of three node processes on this machine, one core each; the first has no work to do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster as Nodes

        made = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(NODES - 1):
            made.add_node(num_cpus=1)
    yield made
    ray.shutdown()
    made.shutdown()


def marked(folder: str, piece: int) -> tuple[int, str]:
    """Note the attempt in a file; the piece and the node that it ran on."""
    with (Path(folder) / str(piece)).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return piece, ray.get_runtime_context().get_node_id()


def refuse(piece: int) -> int:
    raise KarelsynthError(f"piece {piece} is bad")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_results_are_the_same_and_in_order_and_a_dead_node_loses_nothing(nodes: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"seed": 5, "count": 9_000, "shard_size": 6_000}
    write_set(tmp_path / "here", **settings)
    tasks = generate(5, 0, 200)
    answers = [[" ".join(tasks.program(number).tokens), "nonsense"] for number in range(len(tasks))]
    expected = evaluate(answers, tasks, batch_size=16)
    (tmp_path / "attempts").mkdir()
    victim = next(iter(nodes.worker_nodes))
    with Cluster(nodes.address) as cluster:
        found, ran_on = [], set()
        for number, (piece, node) in enumerate(cluster.map(partial(marked, str(tmp_path / "attempts")), range(40))):
            found.append(piece)
            ran_on.add(node)
            if number == 20:
                nodes.remove_node(victim, allow_graceful=False)
        assert found == list(range(40))
        assert len(ran_on) == 2
        write_set(tmp_path / "there", **settings, mapper=cluster.map)
        report = evaluate(answers, tasks, batch_size=16, mapper=cluster.map)
        with pytest.raises(KarelsynthError, match="piece 3 is bad"):
            list(cluster.map(refuse, [3]))
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert report.by_task() == expected.by_task()


def test_a_node_without_the_package_is_one_message(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "RuntimeError: The remote function failed to import on the worker.\n\nModuleNotFoundError: No module named 'x'"
    )
    lost = ray.exceptions.RayTaskError("run", said, RuntimeError(said))

    def get(reference: Any) -> None:
        raise lost

    with Cluster(nodes.address) as cluster:
        monkeypatch.setattr(ray, "get", get)
        with pytest.raises(KarelsynthError, match="No module named 'x'\\): install it there"):
            list(cluster.map(abs, [1]))
        monkeypatch.undo()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", ":6379", "127.0.0.1:x", "127.0.0.1:99999"])
def test_an_address_without_a_cluster_is_an_error(address: str) -> None:
    with pytest.raises(KarelsynthError, match=f"no Ray cluster answers at {address} "), Cluster(address):
        pass


def test_the_extra_is_named() -> None:
    error = missing_extra(ImportError(name="ray"))
    assert error is not None
    assert "karelsynth[ray]" in str(error)
