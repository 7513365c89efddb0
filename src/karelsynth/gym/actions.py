"""Karel action by action, in one world or in thousands at once.

    environment = KarelVectorEnv("Harvester", num_envs=4096)
    worlds, info = environment.reset(seed=1)                        # uint8 [4096, 8, 8] cell codes
    worlds, rewards, terminated, truncated, info = environment.step(actions)

Actions are move, turnLeft, turnRight, pickMarker and putMarker. Observations are cell codes, the hero included
(`karelsynth.karel.formats.codes`; `CODE_PLANES[worlds]` are planes for a network). `info["action_mask"]` has the
actions that are possible. For "Example", observations are two worlds, [N, 2, 18, 18]: the one now and the one to reach.
There a cell holds up to 101 markers during an episode, as in the language; observations show more than ten as ten.

An episode that has ended restarts at the next step, whose action is ignored (Gymnasium's `NEXT_STEP`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from karelsynth.errors import KarelsynthError, checked_int
from karelsynth.gym.tasks import (
    EXAMPLE,
    HOUSE,
    MAX_ACTIONS,
    Bump,
    KarelTask,
    house_plan,
    new_worlds,
    rules_of,
    task_named,
)
from karelsynth.karel.formats.codes import CODES, FRAME, HERO, SIDE, WALL
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.world import MOST_MARKERS
from karelsynth.tasks.batch import EXAMPLES, TaskBatch
from karelsynth.tasks.generate import generate
from karelsynth.tasks.sets import Scoring, load_tasks, scoring_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PIXELS: Final = 16
"""The side of a cell in pictures."""
MOST_BITS: Final = 62
"""The bits of the random numbers that seed worlds and tasks."""
_AHEAD: Final = 256
"""Tasks that are generated at a time."""
_ACTIONS: Final = 5
_COST: Final = 8
"""As many actions take as long as one run of a program, the unit of `parallel_for`."""


class KarelVectorEnv(VectorEnv[Any, Any, Any]):
    """See the module's docstring.

    Args:
        task: one of `karelsynth.gym.TASKS`, or "Example": one pair of worlds of a generated task.
        num_envs: N.
        bump: what an impossible action does, see `tasks.BUMPS`; by default `turn`, and `crash` for "Example".
        max_actions: an episode is truncated after this many actions.
        house: the plan of CleanHouse.
        tasks: for "Example", the tasks to take pairs of worlds from: a batch, the name of a set, or what else
            `load_tasks` reads. By default the endless stream.
        threads: how many threads share the work; by default one for each core.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        *,
        bump: Bump | None = None,
        max_actions: int = MAX_ACTIONS,
        house: str = HOUSE,
        tasks: TaskBatch | str | Path | None = None,
        threads: int | None = None,
        render_mode: None = None,
    ) -> None:
        self.num_envs = checked_int("num_envs", num_envs, 1)
        self.task: KarelTask = EXAMPLE if task == EXAMPLE.name else task_named(task)
        self._is_example = self.task is EXAMPLE
        if tasks is not None and not self._is_example:
            raise KarelsynthError('`tasks` is for the task "Example" only')
        self._rules = rules_of(self.task, bump or ("crash" if self._is_example else "turn"))
        self._plan, self._threads = house_plan(house), threads
        self._tasks = EpisodeTasks(tasks, threads)
        self._max_actions = checked_int("max_actions", max_actions, 1)
        shape = (2,) * self._is_example + (self.task.height, self.task.width)
        self.single_observation_space = spaces.Box(0, CODES - 1, shape, np.uint8)
        self.single_action_space = spaces.Discrete(_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._worlds = new_worlds(self.task, num_envs)
        self._actions = np.zeros(num_envs, np.int64)
        """The number of actions of each episode so far."""
        self._ended = np.ones(num_envs, np.bool_)
        """Which episodes have ended."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Restart all episodes. The same seed gives the same worlds."""
        super().reset(seed=seed)
        self._worlds.random[:, 0] = self.np_random.integers(0, 1 << MOST_BITS, self.num_envs, np.uint64)
        self._tasks.restart(int(self.np_random.integers(0, 1 << MOST_BITS)))
        self._begin(np.ones(self.num_envs, np.bool_))
        return self._observation(), self._info()

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One action [N] in each world; where the last step ended the episode, a new one begins instead."""
        from karelsynth.gym.task_kernel import act_range

        chosen = np.ascontiguousarray(actions, np.int64)
        if chosen.shape != (self.num_envs,) or chosen.min(initial=0) < 0 or chosen.max(initial=0) >= _ACTIONS:
            raise KarelsynthError(f"actions are {self.num_envs} whole numbers from 0 to {_ACTIONS - 1}")
        active = ~self._ended
        rewards, terminated = np.empty(self.num_envs), np.empty(self.num_envs, np.bool_)
        threads = self._threads if self.num_envs >= _COST * 256 else 1
        parallel_for(
            act_range, self.num_envs, 1, threads,
            self._worlds, self._rules, active, chosen, rewards, terminated,
        )  # fmt: skip
        if not active.all():
            self._begin(~active)
        self._actions += active
        truncated = active & ~terminated & (self._actions >= self._max_actions)
        self._ended = terminated | truncated
        return self._observation(), rewards, terminated, truncated, self._info()

    def _begin(self, which: NDArray[np.bool_]) -> None:
        """New episodes in some worlds [N]."""
        from karelsynth.gym.task_kernel import make_range

        self._ended[which], self._actions[which] = False, 0
        if self._is_example:
            self._begin_examples(np.flatnonzero(which))
            return
        parallel_for(make_range, self.num_envs, 1, self._threads, self._worlds, self._rules, which, self._plan)

    def _begin_examples(self, which: NDArray[np.int64]) -> None:
        """Pairs of worlds: all those of a task, then those of the next."""
        count, worlds = len(which), self._worlds
        pairs = self._tasks.next(-(-count // self._tasks.examples))
        before, after = (part.reshape(-1, SIDE * SIDE)[:count] for part in pairs)
        place = before.argmax(1)  # the hero's code is the largest
        rows = np.arange(count)
        worlds.place[which, 0], worlds.place[which, 1] = place, before[rows, place] // HERO - 1
        worlds.cells[which], worlds.before[which], worlds.progress[which] = before % HERO, after, 0.0

    def _observation(self) -> NDArray[np.uint8]:
        """Cell codes of all worlds, the heroes included."""
        worlds, shape = self._worlds, (self.num_envs, self.task.height, self.task.width)
        codes = worlds.cells.copy()
        if self._is_example:
            codes[codes >= HERO] = MOST_MARKERS
        at, heading = worlds.place.T
        codes[np.arange(self.num_envs), at] += (HERO * (heading + 1)).astype(np.uint8)
        if not self._is_example:
            return codes.reshape(shape)
        return np.stack((codes.reshape(shape), worlds.before.reshape(shape)), 1)

    def _info(self) -> dict[str, Any]:
        """`action_mask`, int8 [N, 5]: which actions are possible."""
        worlds, rows = self._worlds, np.arange(self.num_envs)
        at, heading = worlds.place.T
        here = worlds.cells[rows, at]
        ahead = worlds.cells[rows, at + np.array((self.task.width, 1, -self.task.width, -1))[heading]]
        mask = np.ones((self.num_envs, _ACTIONS), np.int8)
        mask[:, 0] = (ahead < WALL) | (ahead >= HERO)
        mask[:, 3], mask[:, 4] = here > 0, here < self._rules.most
        return {"action_mask": mask}


class EpisodeTasks:
    """Tasks one after the other, from a random one on: the given ones round and round, or the endless stream.

    Args:
        tasks: a batch, the name of a set, or what else `load_tasks` reads; None for the stream.
        threads: how many threads generate tasks.
    """

    def __init__(self, tasks: TaskBatch | str | Path | None, threads: int | None) -> None:
        self.scoring = scoring_of(tasks) if isinstance(tasks, str | Path) else Scoring()
        self.given = load_tasks(tasks) if isinstance(tasks, str | Path) else tasks
        if self.given is not None and not len(self.given):
            raise KarelsynthError("`tasks` has no task")
        self.examples = EXAMPLES if self.given is None else self.given.inputs.shape[1]
        """K, the pairs of worlds of each task."""
        self.threads = threads
        self.restart(0)

    def restart(self, source: int) -> None:
        """Begin again: at the given task of that number, or with the stream of that number."""
        self.source, self.number = source, 0
        self.waiting = [np.empty((0, self.examples, SIDE, SIDE), np.uint8)] * 2

    def next(self, count: int) -> list[NDArray[np.uint8]]:
        """The worlds before and after of the next tasks, each uint8 [count, K, 18, 18]."""
        if self.given is not None:
            batch = self.given[(self.source + self.number + np.arange(count)) % len(self.given)]
            self.number += count
            return [batch.inputs, batch.outputs]
        if len(self.waiting[0]) < count:
            batch = generate(self.source, self.number, max(count, _AHEAD), threads=self.threads)
            self.number += len(batch)
            new = (batch.inputs, batch.outputs)
            self.waiting = [np.concatenate(pair) for pair in zip(self.waiting, new, strict=True)]
        found = [worlds[:count] for worlds in self.waiting]
        self.waiting = [worlds[count:] for worlds in self.waiting]
        return found


class SingleEnv(gymnasium.Env[Any, Any]):
    """One episode of a vector environment. It does not restart by itself."""

    def __init__(self, many: VectorEnv[Any, Any, Any], render_mode: str | None) -> None:
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise KarelsynthError(f"`render_mode` is {' or '.join(modes)}, not {render_mode}")
        self._many: Any = many
        self.render_mode = render_mode
        self.observation_space, self.action_space = many.single_observation_space, many.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        seen, info = self._many.reset(seed=int(self.np_random.integers(0, 1 << MOST_BITS)))
        return _first(seen), _first(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen, rewards, terminated, truncated, info = self._many.step(np.array([action]))
        return _first(seen), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), _first(info)


def _first(values: Any) -> Any:
    """The first environment's part of an array, or of a dict of arrays."""
    return {name: value[0] for name, value in values.items()} if isinstance(values, dict) else values[0]


class KarelEnv(SingleEnv):
    """One world of `KarelVectorEnv`, with the same arguments.

    `render` returns a drawing as text (`ansi`) or pixels (`rgb_array`).
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 8}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, task: str, *, render_mode: str | None = None, **options: Any) -> None:
        super().__init__(KarelVectorEnv(task, 1, threads=1, **options), render_mode)

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        codes = self._many._observation()[0]
        if codes.ndim == 3:
            codes = codes[0]
        return _text(codes) if self.render_mode == "ansi" else _pixels(codes)


def _text(codes: NDArray[np.uint8]) -> str:
    """A drawing of cell codes [H, W]: the hero as an arrow, markers as numbers, walls as `#`."""
    lines = []
    for row in codes[::-1]:
        drawn = []
        for code in row.tolist():
            content, hero = code % HERO, code // HERO
            plain = "." if content == 0 else str(content) if content < WALL else "#" if content <= FRAME else " "
            drawn.append("^>v<"[hero - 1] if hero else plain)
        lines.append(" ".join(drawn).rstrip())
    return "\n".join(lines) + "\n"


def _pixels(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A picture of cell codes [H, W], uint8 [16 H, 16 W, 3]."""
    height, width = codes.shape
    content, hero = codes[::-1] % HERO, codes[::-1] // HERO
    colours = np.full((height, width, 3), 244, np.uint8)
    colours[content >= WALL] = (30, 41, 59)
    picture = colours.repeat(_PIXELS, 0).repeat(_PIXELS, 1)
    down, across = np.mgrid[:_PIXELS, :_PIXELS] - (_PIXELS - 1) / 2
    disc = down**2 + across**2
    for row, col in np.argwhere((content > 0) & (content < WALL)):
        inside = disc <= 4.0 * (2 + min(int(content[row, col]), 4))
        _cell(picture, row, col)[inside] = (217, 119, 6)
    for row, col in np.argwhere(hero > 0):
        along, side = ((-down, across), (across, down), (down, across), (-across, down))[hero[row, col] - 1]
        _cell(picture, row, col)[(along > -5) & (along < 6) & (np.abs(side) < (6 - along) / 2)] = (37, 99, 235)
    return picture


def _cell(picture: NDArray[np.uint8], row: int, col: int) -> NDArray[np.uint8]:
    return picture[row * _PIXELS : (row + 1) * _PIXELS, col * _PIXELS : (col + 1) * _PIXELS]
