"""karelsynth: programs from examples.

    from karelsynth import Program, Solver, World

    world = World.parse('''
        . . .
        > 1 #
    ''')
    program = Program.parse("def run():\\n  while(frontIsClear):\\n    move()\\n  pickMarker()")
    after = program.run(world).world
    print(after)
    print(Solver.load().solve([(world, after)]).program)

Names are loaded when first used, so that importing the package stays fast: Numba comes with `run_batch`,
torch with `Synthesizer` and `Solver`. The language, the machine, the generator and the syntax need no torch.
`evaluate`, `score`, `solve` and `train` are modules that can be called as the functions of their names
(`callable_module`).
"""

from __future__ import annotations

from karelsynth._version import __version__

TYPE_CHECKING = False  # as type checkers know it; `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from karelsynth.errors import KarelsynthError, ProgramSyntaxError, TaskFileError, WorldError
    from karelsynth.evaluate import Report, evaluate
    from karelsynth.karel.grammar import KAREL, NORMAL_FORM, Grammar
    from karelsynth.karel.interpreter import Run, Status
    from karelsynth.karel.machine import BatchRun, encode_programs, run_batch
    from karelsynth.karel.program import Action, If, IfElse, Not, Program, Repeat, Sensor, While
    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.karel.tokens import TOKENS
    from karelsynth.karel.world import Hero, World
    from karelsynth.model.settings import ModelSettings
    from karelsynth.model.synthesizer import Synthesizer
    from karelsynth.score import score
    from karelsynth.search.beam import beam_search
    from karelsynth.search.scoring import rescore
    from karelsynth.solve.solution import Solution
    from karelsynth.solve.solver import Solver, solve
    from karelsynth.tasks.batch import GivenExamples, TaskBatch
    from karelsynth.tasks.generate import generate
    from karelsynth.tasks.named import named_tasks
    from karelsynth.tasks.prompts import programs_from_answer, prompt_of
    from karelsynth.tasks.sets import load_tasks
    from karelsynth.tasks.task import Example, Task
    from karelsynth.train.loop import train
    from karelsynth.train.recipe import load_recipe

_HOME = {
    "errors": ("KarelsynthError", "ProgramSyntaxError", "TaskFileError", "WorldError"),
    "evaluate": ("Report",),
    "karel.grammar": ("KAREL", "NORMAL_FORM", "Grammar"),
    "karel.interpreter": ("Run", "Status"),
    "karel.machine": ("BatchRun", "encode_programs", "run_batch"),
    "karel.program": ("Action", "If", "IfElse", "Not", "Program", "Repeat", "Sensor", "While"),
    "karel.syntax": ("SyntaxMachine",),
    "karel.tokens": ("TOKENS",),
    "karel.world": ("Hero", "World"),
    "model.settings": ("ModelSettings",),
    "model.synthesizer": ("Synthesizer",),
    "search.beam": ("beam_search",),
    "search.scoring": ("rescore",),
    "solve.solution": ("Solution",),
    "solve.solver": ("Solver",),
    "tasks.batch": ("GivenExamples", "TaskBatch"),
    "tasks.generate": ("generate",),
    "tasks.named": ("named_tasks",),
    "tasks.prompts": ("programs_from_answer", "prompt_of"),
    "tasks.sets": ("load_tasks",),
    "tasks.task": ("Example", "Task"),
    "train.recipe": ("load_recipe",),
}
_CALLABLE = ("evaluate", "score", "solve", "train")
_MODULE = {name: f"karelsynth.{module}" for module, names in _HOME.items() for name in names}

__all__ = [
    "KAREL",
    "NORMAL_FORM",
    "TOKENS",
    "Action",
    "BatchRun",
    "Example",
    "GivenExamples",
    "Grammar",
    "Hero",
    "If",
    "IfElse",
    "KarelsynthError",
    "ModelSettings",
    "Not",
    "Program",
    "ProgramSyntaxError",
    "Repeat",
    "Report",
    "Run",
    "Sensor",
    "Solution",
    "Solver",
    "Status",
    "SyntaxMachine",
    "Synthesizer",
    "Task",
    "TaskBatch",
    "TaskFileError",
    "While",
    "World",
    "WorldError",
    "__version__",
    "beam_search",
    "encode_programs",
    "evaluate",
    "generate",
    "load_recipe",
    "load_tasks",
    "named_tasks",
    "programs_from_answer",
    "prompt_of",
    "rescore",
    "run_batch",
    "score",
    "solve",
    "train",
]


if not TYPE_CHECKING:  # type checkers would take any name for one of ours

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _CALLABLE:
            return import_module(f"karelsynth.{name}")
        if name not in _MODULE:
            raise AttributeError(f"module 'karelsynth' has no attribute {name!r}")
        from karelsynth.errors import naming_extras

        with naming_extras():
            value = getattr(import_module(_MODULE[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
