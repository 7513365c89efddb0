"""The Gymnasium environments: Gymnasium's own checks, the rules of the ten tasks, and programs that solve them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError
from karelsynth.gym import TASKS, KarelEnv, KarelVectorEnv, SynthesisEnv, SynthesisVectorEnv, program_returns
from karelsynth.gym.tasks import house_plan
from karelsynth.karel.formats.codes import HERO, worlds_to_codes
from karelsynth.karel.machine import run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import ID
from karelsynth.karel.world import World
from karelsynth.tasks.generate import generate
from karelsynth.tasks.named import named_tasks

ACTIONS = ("move", "turnLeft", "turnRight", "pickMarker", "putMarker")


@pytest.mark.parametrize("name", [*TASKS, "Example"])
@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_gymnasiums_checker_passes_action_by_action(name: str, mode: str) -> None:
    check_env(gymnasium.make(f"karelsynth/{name}-v0", render_mode=mode).unwrapped)


@pytest.mark.parametrize(
    "options",
    [{}, {"append_forced": True, "reward": "share", "max_length": 20}, {"tasks": "classroom", "given": 3}],
    ids=str,
)
def test_gymnasiums_checker_passes_token_by_token(options: dict[str, Any]) -> None:
    check_env(gymnasium.make("karelsynth/Synthesis-v0", render_mode="ansi", **options).unwrapped)


# Token by token


@pytest.mark.parametrize("append_forced", [False, True])
def test_reference_programs_are_rewarded(append_forced: bool) -> None:
    tasks = generate(4, 0, 9)
    environment = SynthesisVectorEnv(9, tasks=tasks, append_forced=append_forced)
    seen, _ = environment.reset(seed=2)
    numbers = [int(np.flatnonzero((tasks.inputs[:, :5] == one).all((1, 2, 3)))[0]) for one in seen["inputs"]]
    assert sorted(numbers) == list(range(9))
    assert np.array_equal(seen["outputs"], tasks.outputs[numbers, :5])
    total, active = np.zeros(9), np.ones(9, np.bool_)
    for _ in range(72):
        at = np.minimum(seen["length"][:, 0], tasks.tokens.shape[1] - 1)
        seen, rewards, terminated, truncated, info = environment.step(tasks.tokens[numbers, at])
        assert not truncated.any()
        assert np.array_equal(seen["mask"], info["action_mask"])
        total += rewards * active
        active &= ~terminated
        if not active.any():
            break
    assert total.tolist() == [1.0] * 9


@pytest.mark.parametrize(("name", "given"), [("examples_2", 2), ("classroom", 5)])
def test_named_sets_are_shown_and_scored_as_they_say(name: str, given: int) -> None:
    """References earn the reward, also those that take more than the paper's ticks."""
    tasks = named_tasks(name)
    environment = SynthesisVectorEnv(50, tasks=name)
    seen, _ = environment.reset(seed=1)
    assert seen["inputs"].shape == (50, given, 18, 18)
    rows = [int(np.flatnonzero((tasks.inputs[:, :given] == one).all((1, 2, 3)))[0]) for one in seen["inputs"]]
    total, active = np.zeros(50), np.ones(50, np.bool_)
    for _ in range(tasks.tokens.shape[1]):
        at = np.minimum(seen["length"][:, 0], tasks.tokens.shape[1] - 1)
        seen, rewards, ended, _, _ = environment.step(tasks.tokens[rows, at])
        total += rewards * active
        active &= ~ended
    assert not active.any()
    assert total.tolist() == [1.0] * 50


def test_masked_writing_always_ends_in_a_program_and_another_task_follows() -> None:
    environment = SynthesisVectorEnv(6, reward="share", max_length=16)
    seen, info = environment.reset(seed=5)
    rng, before = np.random.default_rng(0), seen["inputs"]
    finished = 0
    for _ in range(60):
        begins = np.flatnonzero(seen["mask"].sum(1) == 0)
        choices = [int(rng.choice(np.flatnonzero(row))) if row.any() else 0 for row in info["action_mask"]]
        seen, rewards, ended, _, info = environment.step(np.array(choices))
        assert (seen["length"][begins] == 0).all()
        assert all((seen["inputs"][row] != before[row]).any() for row in begins)
        for row in np.flatnonzero(ended):
            finished += 1
            ids = seen["tokens"][row, : seen["length"][row, 0]].tolist()
            worlds, expected = environment._inputs[row], environment._outputs[row]
            run = run_batch([Program.from_tokens(ids)], worlds, expected=expected)
            assert run.correct is not None
            assert rewards[row] == run.correct.mean()
        assert (rewards[~ended] == 0).all()
        before = seen["inputs"]
    assert finished > 20


def test_a_token_outside_the_mask_ends_the_episode_without_reward() -> None:
    environment = SynthesisEnv(render_mode="ansi")
    environment.reset(seed=1)
    assert environment.action_masks().sum() == 1
    seen, reward, ended, _, _ = environment.step(ID["DEF"])
    assert (environment.render(), ended) == ("DEF", False)
    seen, reward, ended, _, _ = environment.step(ID["move"])
    assert (reward, ended, seen["mask"].sum()) == (0.0, True, 0)


# Action by action


def test_the_actions_of_a_reference_program_lead_to_the_examples_output() -> None:
    tasks = generate(4, 0, 5)
    environment = KarelVectorEnv("Example", 30, tasks=tasks)
    worlds, _ = environment.reset(seed=3)
    number = int(np.flatnonzero((tasks.inputs[:, 0] == worlds[0, 0]).all((1, 2)))[0])
    for row in range(30):
        task, pair = (number + row // 6) % 5, row % 6
        assert np.array_equal(worlds[row, 0], tasks.inputs[task, pair])
        assert np.array_equal(worlds[row, 1], tasks.outputs[task, pair])
    run = run_batch(tasks.tokens, tasks.inputs, traces=True)
    assert run.traces is not None
    order = (number + np.arange(5)) % 5
    traces = run.traces[order].reshape(30, -1).astype(np.int64) - ID["move"]
    reached = np.zeros(30, np.bool_)
    for step in range(traces.shape[1]):
        if (traces[:, step] < 0).all():
            break
        _, rewards, ended, _, _ = environment.step(np.maximum(traces[:, step], 0))
        reached |= (rewards == 1) & ended
    assert reached.all()


def test_a_pile_may_pass_ten_in_an_example() -> None:
    """Up to 101 markers, seen as ten; one more fails. A pile that stays too high is not the output."""
    start = World.parse(". . .\n. > .")
    end = Program.parse("def run():\n  repeat(7):\n    putMarker()\n  turnRight()").run(start).world
    inputs, outputs = (worlds_to_codes([world] * 3)[None] for world in (start, end))
    environment = KarelVectorEnv("Example", 2, tasks=replace(generate(4, 0, 1), inputs=inputs, outputs=outputs))
    environment.reset(seed=1)
    right, pick, put = (ACTIONS.index(name) for name in ("turnRight", "pickMarker", "putMarker"))
    for pile in range(1, 102):
        worlds, rewards, ended, _, info = environment.step(np.array([put, put]))
        assert (worlds[:, 0].max(axis=(1, 2)) % HERO).tolist() == [min(pile, 10)] * 2
        assert not rewards.any()
        assert not ended.any()
        assert info["action_mask"][:, put].tolist() == [pile < 101] * 2
    _, rewards, ended, _, _ = environment.step(np.array([put, pick]))
    assert (rewards.tolist(), ended.tolist()) == ([0, 0], [True, False])
    for _ in range(93):
        environment.step(np.array([put, pick]))
    _, rewards, ended, _, _ = environment.step(np.array([put, right]))
    assert (rewards[1], ended[1]) == (1, True)


@settings(deadline=None, max_examples=30)
@given(
    name=st.sampled_from(sorted(TASKS)),
    actions=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    seed=st.integers(0, 2**62),
    bump=st.sampled_from(["stay", "turn", "crash"]),
)
def test_programs_earn_what_their_actions_earn(name: str, actions: list[int], seed: int, bump: Any) -> None:
    environment = KarelVectorEnv(name, 2, bump=bump)
    environment.reset(seed=0)
    environment._worlds.random[:] = seed
    environment._begin(np.ones(2, np.bool_))
    before = environment._observation()
    assert np.array_equal(before[0], before[1])
    total = 0.0
    for action in actions:
        mask = environment._info()["action_mask"][0]
        worlds, rewards, ended, _, _ = environment.step(np.full(2, action))
        assert rewards[0] == rewards[1]
        assert (worlds[0] >= 16).sum() == 1
        if not mask[action] and name not in ("Snake", "OneStroke"):  # an impossible action changes no marker
            assert np.array_equal(worlds[0] % 16, before[0] % 16)
        before = worlds
        total += float(rewards[0])
        if ended[0]:
            break
    program = ["DEF", "run", "m(", *(ACTIONS[action] for action in actions), "m)"]
    found = program_returns(name, [[ID[token] for token in program]], [seed], bump=bump)
    assert found[0, 0] == pytest.approx(total)
    assert -1 <= found[0, 0] <= 1


_SWEEP = """
    repeat(2): turnLeft()
    while(frontIsClear): move()
    turnLeft()
    while(frontIsClear): move()
    turnLeft()
    turnLeft()
    repeat(3):
        {act}()
        while(frontIsClear):
            move()
            {act}()
        turnRight()
        move()
        turnRight()
        {act}()
        while(frontIsClear):
            move()
            {act}()
        turnLeft()
        if(frontIsClear): move()
        turnLeft()
"""
SOLUTIONS = {
    "StairClimber": "while(noMarkersPresent):\n turnLeft()\n move()\n turnRight()\n move()",
    "FourCorner": "repeat(4):\n while(frontIsClear): move()\n putMarker()\n turnLeft()",
    "TopOff": "while(frontIsClear):\n if(markersPresent): putMarker()\n move()\nif(markersPresent): putMarker()",
    "Maze": "while(noMarkersPresent):\n if(rightIsClear): turnRight()\n else:\n  while(not(frontIsClear)): turnLeft()\n"
    " move()",
    "Harvester": _SWEEP.format(act="pickMarker"),
    "Seeder": _SWEEP.format(act="putMarker"),
}


def program_of(text: str) -> Program:
    lines = [line for line in text.split("\n") if line.strip()]
    least = min(len(line) - len(line.lstrip()) for line in lines)
    return Program.parse("def run():\n" + "\n".join("  " + line[least:] for line in lines))


@pytest.mark.parametrize("name", SOLUTIONS)
def test_programs_that_solve_the_tasks_return_one(name: str) -> None:
    program = program_of(SOLUTIONS[name])
    assert program_returns(name, [program, Program.parse("def run(): turnLeft()")]).mean(1)[0] == pytest.approx(1.0)


def test_what_is_wrong_in_the_tasks() -> None:
    def returns(name: str, text: str) -> float:
        return float(program_returns(name, [program_of(text)], range(8))[0].mean())

    assert returns("StairClimber", "turnLeft()\nmove()\nmove()") < -0.5
    assert returns("FourCorner", "while(frontIsClear): move()\nputMarker()") == 0.25
    assert returns("FourCorner", "while(frontIsClear): move()\nputMarker()\nturnLeft()\nmove()\nputMarker()") == 0
    assert returns("Seeder", "putMarker()\nputMarker()\nmove()\nputMarker()") == 0
    assert returns("TopOff", "turnLeft()") == pytest.approx(1 / 11)
    assert np.isnan(program_returns("Maze", [[ID["move"]]], [1])).all()


def test_the_door_opens_when_the_key_is_taken() -> None:
    environment = KarelVectorEnv("DoorKey", 64)
    environment.reset(seed=1)
    at, memory, cells = environment._worlds.place, environment._worlds.memory, environment._worlds.cells
    walls = (cells >= 11).sum(1)
    at[:, 0] = memory[:, 1]  # on the key
    _, rewards, ended, _, _ = environment.step(np.full(64, 3))
    assert (rewards == 0.5).all()
    assert ((cells >= 11).sum(1) == walls - 2).all()
    at[:, 0] = memory[:, 0]  # on the marker behind the door
    _, rewards, ended, _, _ = environment.step(np.full(64, 4))
    assert (rewards == 0.5).all()
    assert ended.all()


def test_the_snake_grows_and_bites_itself() -> None:
    environment = KarelVectorEnv("Snake", 1)
    environment.reset(seed=1)
    worlds = environment._worlds
    worlds.cells[0, worlds.cells[0] == 1] = 0
    worlds.place[0] = (8 + 1, 1)
    worlds.cells[0, 8 + 2] = 1
    _, rewards, *_ = environment.step(np.array([0]))
    assert rewards[0] == pytest.approx(1 / 20)
    for action in (0, 0, 1, 0, 1, 0, 1):  # around a square of four cells
        assert not environment.step(np.array([action]))[2][0]
    assert (worlds.cells[0] == 2).sum() == 3
    assert environment.step(np.array([0]))[2][0]


def test_one_stroke_ends_at_a_wall_or_where_it_has_been() -> None:
    environment = KarelVectorEnv("OneStroke", 1)
    environment.reset(seed=1)
    total = 0.0
    for action in (0, 1, 1, 0):
        _, rewards, ended, _, _ = environment.step(np.array([action]))
        total += float(rewards[0])
    assert ended[0]
    assert total == pytest.approx(1 / 35)


def test_episodes_are_truncated_and_restart() -> None:
    environment = KarelVectorEnv("Maze", 8, max_actions=3)
    worlds, _ = environment.reset(seed=1)
    for step in range(8):
        later, rewards, _, truncated, _ = environment.step(np.full(8, 1))
        assert truncated.all() == (step in (2, 6))
        assert (rewards == 0).all()
        if step == 3:
            assert (later != worlds).any()
    again, _ = environment.reset(seed=1)
    assert np.array_equal(again, worlds)


def test_many_worlds_are_the_same_on_any_number_of_threads() -> None:
    found = []
    for threads in (1, 2):
        environment = KarelVectorEnv("Snake", 3000, threads=threads)
        environment.reset(seed=7)
        rng = np.random.default_rng(0)
        found.append([environment.step(rng.integers(0, 5, 3000))[1].sum() for _ in range(30)])
    assert found[0] == found[1]


def test_wrong_arguments_say_what_is_wrong() -> None:
    for wrong, message in (
        (lambda: KarelEnv("Mase"), "there is no Karel task called `Mase`; did you mean `Maze`"),
        (lambda: KarelEnv("Maze", bump="hop"), "`bump` is `stay`, `turn` or `crash`, not `hop`"),
        (lambda: KarelEnv("Maze", render_mode="human"), "`render_mode` is ansi or rgb_array, not human"),
        (lambda: KarelEnv("Maze", tasks=generate(1, 0, 1)), '`tasks` is for the task "Example" only'),
        (lambda: KarelEnv("Example", tasks="tset"), "there is no set called `tset`; did you mean `test`"),
        (lambda: SynthesisEnv(tasks="tset"), "there is no set called `tset`; did you mean `test`"),
        (lambda: SynthesisEnv(tasks=generate(1, 0, 0)), "`tasks` has no task"),
        (lambda: SynthesisEnv(given=7), "given is a whole number from 1 to 6, not 7"),
        (lambda: SynthesisEnv(reward="speed"), "`reward` is `generalization`, `consistent` or `share`"),
        (lambda: KarelVectorEnv("Maze", 2).step(np.array([5, 0])), "actions are 2 whole numbers from 0 to 4"),
        (lambda: house_plan("#"), "the plan of a house has 12 lines of 20 characters"),
        (lambda: house_plan("\n".join(["." * 20] * 12)), "the plan of a house has one Karel"),
    ):
        with pytest.raises(KarelsynthError, match=message):
            wrong()
    with pytest.raises(ResetNeeded, match="call `reset` before the first `step`"):
        SynthesisEnv().step(0)
