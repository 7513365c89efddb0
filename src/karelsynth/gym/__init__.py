"""Gymnasium environments. `pip install 'karelsynth[gym]'`; importing this package registers them.

import gymnasium, karelsynth.gym
environment = gymnasium.make("karelsynth/Synthesis-v0")                  # write a program, token by token
environment = gymnasium.make("karelsynth/Maze-v0")                       # walk, action by action; one of ten tasks
many = gymnasium.make_vec("karelsynth/Maze-v0", num_envs=4096)           # all steps in compiled code

tasks.py           the ten tasks of LEAPS and HPRL, and the returns of programs on them; needs no Gymnasium
task_kernel.py     their rules, compiled
actions.py         action by action: the ten tasks, and examples of generated tasks
synthesis.py       token by token
"""

from __future__ import annotations

from karelsynth.errors import naming_extras

with naming_extras():
    import gymnasium

from karelsynth.gym.actions import KarelEnv, KarelVectorEnv
from karelsynth.gym.synthesis import SynthesisEnv, SynthesisVectorEnv
from karelsynth.gym.tasks import EXAMPLE, TASKS, program_returns

__all__ = ["TASKS", "KarelEnv", "KarelVectorEnv", "SynthesisEnv", "SynthesisVectorEnv", "program_returns"]

for _name in (*TASKS, EXAMPLE.name):
    gymnasium.register(
        f"karelsynth/{_name}-v0",
        entry_point="karelsynth.gym.actions:KarelEnv",
        vector_entry_point="karelsynth.gym.actions:KarelVectorEnv",
        kwargs={"task": _name},
    )
gymnasium.register(
    "karelsynth/Synthesis-v0",
    entry_point="karelsynth.gym.synthesis:SynthesisEnv",
    vector_entry_point="karelsynth.gym.synthesis:SynthesisVectorEnv",
)
