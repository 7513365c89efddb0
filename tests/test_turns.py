"""Searches that take turns: how many run, whose turn is next, and clocks that stand still."""

from __future__ import annotations

import threading
import time

from karelsynth.solve.turns import SLICE, Turn, Turns
from tests.web_client import PATIENCE


def work(turn: Turn, seconds: float) -> float:
    """Run for so many seconds of the turn's clock; the seconds that went by."""
    began, start = time.perf_counter(), turn.now()
    while turn.now() - start < seconds:
        time.sleep(0.005)
        turn.poll()
    return time.perf_counter() - began


def test_every_search_gets_its_time_and_only_one_runs() -> None:
    turns = Turns(at_once=1)
    running, most, took = 0, 0, []

    def search() -> None:
        nonlocal running, most
        with turns.turn() as turn:
            running += 1
            most = max(most, running)
            running -= 1
            took.append(work(turn, 0.4))

    began = time.perf_counter()
    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert most == 1
    assert time.perf_counter() - began >= 3 * 0.4
    assert max(took) > 0.4 + SLICE  # it waited for others, and that did not count


def test_the_lowest_priority_is_next_and_comes_between_the_slices_of_others() -> None:
    turns = Turns(at_once=1)
    order: list[str] = []
    holding = threading.Event()

    def search(name: str, priority: float, seconds: float) -> None:
        with turns.turn(lambda: priority) as turn:
            order.append(name)
            holding.set()
            work(turn, seconds)
            order.append(f"{name} ends")

    threads = [threading.Thread(target=search, args=("long", 5.0, 3 * SLICE))]
    threads[0].start()
    assert holding.wait(PATIENCE)
    for name, priority in (("last", 9.0), ("first", 1.0)):
        threads.append(threading.Thread(target=search, args=(name, priority, 0.0)))
        threads[-1].start()
        time.sleep(0.02)
    for thread in threads:
        thread.join(PATIENCE)
    assert order == ["long", "first", "first ends", "long ends", "last", "last ends"]


def test_a_search_within_a_callback_of_another_does_not_wait_for_itself() -> None:
    turns = Turns(at_once=1, threads=3)
    with turns.turn() as outer:
        with turns.turn(threads=2) as inner:
            inner.poll()
            assert (outer.threads, inner.threads) == (3, 2)
        outer.poll()
    with turns.turn() as turn:
        assert work(turn, 0.01) < PATIENCE
