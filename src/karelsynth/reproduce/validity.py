"""How much of the syntax the decoder has left to the learned syntax: the paper's table of valid programs.

The same weights write programs twice, once as they are and once with the syntax LSTM taken away, and the share of
those that parse is counted among the k likeliest of every task.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from karelsynth.errors import KarelsynthError
from karelsynth.evaluate import RANKS, Judged, evaluate, interval, percent
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.batch import TaskBatch

BEAM: Final = max(RANKS)
"""As many candidates as the lowest rank asks for."""


def validity(model: Synthesizer, tasks: TaskBatch) -> dict[str, Any]:
    """The share of valid programs, with its interval, by rank: {"joint": …, "without": …}, in percent."""
    return {
        name: shares(evaluate(written_by, tasks, beam=BEAM).judged)
        for name, written_by in (("joint", model), ("without", without_syntax(model)))
    }


def without_syntax(model: Synthesizer) -> Synthesizer:
    """The same weights, less the syntax LSTM."""
    if model.syntax is None:
        raise KarelsynthError("this model has no learned syntax to remove")
    bare = Synthesizer(replace(model.settings, syntax="none"))
    bare.load_state_dict({name: value for name, value in model.state_dict().items() if not name.startswith("syntax.")})
    return bare.to(model.device).eval()


def shares(judged: Judged) -> dict[str, Any]:
    """By rank {"share", "confidence_95", "programs"}: valid ones among all that were written.

    A task's candidates are much alike, so the interval takes each task for one observation, not each program: no
    share of a task's candidates varies more than that, so it is on the wide side.
    """
    tasks = len(judged.filled)
    found = {}
    for rank in RANKS:
        valid, written = (int(part[:, :rank].sum()) for part in (judged.syntax, judged.filled))
        share = valid / max(1, written)
        found[str(rank)] = {
            "share": percent(valid, max(1, written)),
            "confidence_95": interval(round(share * tasks), tasks),
            "programs": written,
        }
    return found
