"""Programs from examples, token by token, for one task or thousands at once.

    environment = SynthesisVectorEnv(num_envs=1024)
    seen, info = environment.reset(seed=1)
    seen, rewards, terminated, truncated, info = environment.step(tokens)          # token ids [1024]

An observation has the K given examples (`inputs`, `outputs`: uint8 [K, 18, 18] cell codes), the `tokens` so far,
padded, their number `length`, and `mask`: the tokens that some program of at most `max_length` tokens continues with.
`info["action_mask"]` is the same mask. The episode ends with the program's last token; then the program is run on all
examples. A token outside the mask ends it with no reward. An episode that has ended restarts, with another task, at
the next step, whose token is ignored (Gymnasium's `NEXT_STEP`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from karelsynth.errors import KarelsynthError, checked_int, listed
from karelsynth.gym.actions import MOST_BITS, EpisodeTasks, SingleEnv
from karelsynth.karel.formats.codes import CODES, SIDE
from karelsynth.karel.grammar import KAREL, Grammar
from karelsynth.karel.interpreter import MOST_TICKS
from karelsynth.karel.machine import run_batch
from karelsynth.karel.tokens import PAD, TOKENS, VOCABULARY_SIZE

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from karelsynth.tasks.batch import TaskBatch

Reward = Literal["generalization", "consistent", "share"]


class SynthesisVectorEnv(VectorEnv[Any, Any, Any]):
    """See the module's docstring.

    Args:
        num_envs: N.
        tasks: the tasks, in their order from a random one on: a batch, the name of a set, or what else `load_tasks`
            reads. By default the endless stream.
        reward: `generalization`: 1 for a program that is right on all examples, the held-out ones too, as in the paper;
            `consistent`: on the given ones; `share`: the share of all examples that it is right on.
        max_length: the most tokens of a program.
        grammar: which programs may be written.
        append_forced: whether tokens that are the only ones possible are written without a step of their own.
        given: K, the number of examples that are shown. By default what the named set says, or 5.
        max_ticks: the most ticks of a run. By default what the named set says, or 200.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        num_envs: int = 1,
        *,
        tasks: TaskBatch | str | Path | None = None,
        reward: Reward = "generalization",
        max_length: int = 72,
        grammar: Grammar = KAREL,
        append_forced: bool = False,
        given: int | None = None,
        max_ticks: int | None = None,
        threads: int | None = None,
        render_mode: None = None,
    ) -> None:
        from karelsynth.karel.syntax import syntax_machine  # imports Numba

        self.num_envs = checked_int("num_envs", num_envs, 1)
        if reward not in get_args(Reward):
            raise KarelsynthError(f"`reward` is {listed(get_args(Reward))}, not `{reward}`")
        self._machine = syntax_machine(grammar, checked_int("max_length", max_length, 8))
        self._tasks = EpisodeTasks(tasks, threads)
        scoring = self._tasks.scoring
        self._given = checked_int("given", scoring.given if given is None else given, 1, self._tasks.examples)
        self._max_ticks = checked_int("max_ticks", scoring.max_ticks if max_ticks is None else max_ticks, 0, MOST_TICKS)
        self._reward, self._threads = reward, threads
        self._append_forced = append_forced
        grids = spaces.Box(0, CODES - 1, (self._given, SIDE, SIDE), np.uint8)
        self.single_observation_space = spaces.Dict(
            inputs=grids,
            outputs=grids,
            tokens=spaces.Box(0, VOCABULARY_SIZE - 1, (max_length,), np.uint8),
            length=spaces.Box(0, max_length, (1,), np.int64),
            mask=spaces.MultiBinary(VOCABULARY_SIZE),
        )
        self.single_action_space = spaces.Discrete(VOCABULARY_SIZE)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._tokens = np.zeros((num_envs, max_length), np.uint8)
        self._lengths = np.zeros(num_envs, np.int64)
        self._states = self._machine.initial(num_envs)
        self._ended = np.ones(num_envs, np.bool_)
        self._inputs, self._outputs = self._tasks.next(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Restart all episodes. The same seed gives the same tasks."""
        super().reset(seed=seed)
        self._tasks.restart(int(self.np_random.integers(0, 1 << MOST_BITS)))
        self._inputs, self._outputs = self._tasks.next(self.num_envs)
        self._begin(np.ones(self.num_envs, np.bool_))
        return self._observation()

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One token [N] for each program; where the last step ended the episode, a new one begins instead."""
        chosen = np.ascontiguousarray(actions, np.int64)
        if chosen.shape != (self.num_envs,):
            raise KarelsynthError(f"actions are {self.num_envs} token ids, not an array {list(chosen.shape)}")
        if not len(self._inputs):
            raise ResetNeeded("call `reset` before the first `step`")
        begins, active = self._ended.copy(), ~self._ended
        allowed = (chosen >= 0) & (chosen < VOCABULARY_SIZE)
        allowed &= self._machine.mask(self._states)[np.arange(self.num_envs), chosen * allowed]
        writes = active & allowed
        self._machine.append_tokens(
            self._states, self._tokens, self._lengths, chosen, writes, append_forced=self._append_forced
        )
        finished = writes & self._machine.accepts(self._states)
        self._ended = finished | (active & ~allowed)
        rewards = np.zeros(self.num_envs)
        if finished.any():
            rewards[finished] = self._rewards(np.flatnonzero(finished))
        terminated = self._ended.copy()
        if begins.any():
            rows = np.flatnonzero(begins)
            self._inputs[rows], self._outputs[rows] = self._tasks.next(len(rows))
            self._begin(begins)
        seen, info = self._observation()
        return seen, rewards, terminated, np.zeros(self.num_envs, np.bool_), info

    def _begin(self, which: NDArray[np.bool_]) -> None:
        self._ended[which] = False
        self._tokens[which], self._lengths[which] = PAD, 0
        self._states[which] = self._machine.initial(1)
        if self._append_forced:
            nothing = np.full(self.num_envs, -1, np.int64)
            self._machine.append_tokens(self._states, self._tokens, self._lengths, nothing, which, append_forced=True)

    def _rewards(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The rewards of finished programs."""
        inputs, outputs = self._inputs[rows], self._outputs[rows]
        if self._reward == "consistent":
            inputs, outputs = inputs[:, : self._given], outputs[:, : self._given]
        run = run_batch(
            self._tokens[rows],
            inputs,
            expected=outputs,
            keep_worlds=False,
            max_ticks=self._max_ticks,
            threads=self._threads,
        )
        assert run.correct is not None
        right: NDArray[np.float64] = run.correct.mean(1)
        return right if self._reward == "share" else np.floor(right)

    def _observation(self) -> tuple[dict[str, Any], dict[str, Any]]:
        mask = self._machine.mask(self._states).astype(np.int8)
        mask[self._ended] = 0
        seen = {
            "inputs": self._inputs[:, : self._given].copy(),
            "outputs": self._outputs[:, : self._given].copy(),
            "tokens": self._tokens.copy(),
            "length": self._lengths[:, None].copy(),
            "mask": mask,
        }
        return seen, {"action_mask": mask}


class SynthesisEnv(SingleEnv):
    """One episode of `SynthesisVectorEnv`, with the same arguments.

    `render` returns the program so far as text.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 8}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, *, render_mode: str | None = None, **options: Any) -> None:
        super().__init__(SynthesisVectorEnv(1, threads=1, **options), render_mode)

    def action_masks(self) -> NDArray[np.bool_]:
        """The mask, under the name that sb3-contrib's MaskablePPO expects."""
        mask: NDArray[np.bool_] = self._many._machine.mask(self._many._states)[0]
        return mask

    def render(self) -> str | None:
        tokens = self._many._tokens[0, : self._many._lengths[0]].tolist()
        return None if self.render_mode is None else " ".join(TOKENS[token] for token in tokens)
