"""Beam search over a batch of tasks, all on the device.

Each task has S open hypotheses. A step extends each of them by every token. Those that end in `m)` compete for the S
places of the task's pool of finished programs; the S likeliest others are the next open ones. So a finished program
leaves the beam and frees its place. There is no length normalisation: a hypothesis' score is its log-probability, which
only falls as it grows. So an open hypothesis that is no better than the S-th best finished program is dropped, and a
task is done when it has no open hypothesis left. Hypotheses that are unfinished at `max_length` are dropped.

A step is one token. For models with `skip_forced_tokens` it is one token that is a choice, followed by all tokens that
it forces. Hypotheses then differ in length but have made equally many choices, which makes them easier to compare.

Hypotheses are rows of fixed-shape arrays; nothing loops over tasks or hypotheses. The host is needed for two things
only. Every few steps, it removes tasks that are done from the batch. With `skip_forced_tokens`, it checks whether more
forced tokens follow. Most places are empty in the first steps, when a valid program has few prefixes, and in the last
ones. So the network runs for open hypotheses only where synchronising costs less than it saves: on a CPU, and on a GPU
for models that run prefixes. There, other tasks also take the places of those that are done.

With `Pruning`, twice as many continuations as there are places are run on the examples. Those that cannot be part of a
correct program are dropped, and the likeliest of the rest get the places. Finished programs are then ranked by the
number of examples they are correct on, and by likelihood among equals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor

from karelsynth.karel.syntax_compiler import NONE
from karelsynth.karel.tokens import ACTIONS, END, ID, START, VOCABULARY_SIZE
from karelsynth.model.decoder import StepModel, StepTasks
from karelsynth.model.devices import (
    decoding_dtype,
    floating_dtype,
    shared_steps,
    single_threaded,
    tensor_threads,
    to_device,
)
from karelsynth.model.lstm import LSTMSteps
from karelsynth.model.syntax import HandwrittenSyntax, handwritten_syntax, put_tokens
from karelsynth.search.candidates import Candidates
from karelsynth.search.replay import ReplayedSteps, can_replay, rebuilt, replayed_steps, tensors_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.prefix_runner import PrefixRunner
    from karelsynth.model.synthesizer import Encoded, Synthesizer
    from karelsynth.search.pruning import Pruning

CHECK_EVERY: Final = 4
"""Steps between two checks which tasks are done, on a GPU."""
_NARROW_STEPS: Final = 4
"""First steps, all followed by a check: a valid program has few short prefixes."""

_RUN_PER_PLACE: Final = 2
"""With pruning: continuations that are run on the examples, for each place of the beam."""
_ENDS_STATEMENT: Final = torch.zeros(VOCABULARY_SIZE, dtype=torch.bool)
"""bool [52]: actions and the ends of blocks. A prefix is run again after these tokens only."""
_ENDS_STATEMENT[[ID[name] for name in (*ACTIONS, "w)", "r)", "i)", "e)")]] = True
_PER_CORRECT_EXAMPLE: Final = 1000.0
"""What a correct example adds to a finished program's rank: more than any difference of log-probabilities."""
_MOST_OPEN: Final = 1024 * 64
"""The most open hypotheses of all tasks at a time on a GPU."""
_BYTES_PER_HYPOTHESIS: Final = 2**18
"""About what a step of the shipped model takes for a hypothesis with five examples."""
_REFILL: Final = 8
"""Other tasks enter the search when one of so many places for tasks is free."""
TASKS_PER_THREAD: Final = 4
"""On a CPU, each thread searches alone if there are this many tasks for it; otherwise threads share each step."""
_ENCODED_ALONE: Final = 16
"""The most tasks that one thread encodes alone on a CPU."""


@torch.no_grad()
def encode_for_search(model: Synthesizer, inputs: NDArray[np.uint8], outputs: NDArray[np.uint8]) -> Encoded:
    """Encode examples, cell codes [B, K, 18, 18] on the host, in the fastest precision.

    One thread encodes few tasks on a CPU. The threads of tensor operations wait for each other in busy loops, also for
    a while after the last operation. That costs more than they gain, and much more where other programs use the cores.
    """
    device = model.device
    alone = device.type == "cpu" and len(inputs) <= _ENCODED_ALONE
    with (
        torch.autocast(device.type, torch.bfloat16, enabled=floating_dtype(device) == torch.bfloat16),
        tensor_threads(1) if alone else nullcontext(),
    ):
        return model.encode(
            *(torch.from_numpy(np.ascontiguousarray(part)).to(device, non_blocking=True) for part in (inputs, outputs))
        )


@torch.no_grad()
def beam_search(
    model: Synthesizer,
    encoded: Encoded,
    *,
    beam: int = 64,
    max_length: int | None = None,
    machine: SyntaxMachine | None = None,
    dtype: torch.dtype | None = None,
    weights: StepModel | None = None,
    pruning: Pruning | None = None,
    slack: float = math.inf,
    window: float = math.inf,
    floor: float = -math.inf,
    best_known: Tensor | None = None,
    stop: Callable[[], bool] | None = None,
    threads: int | None = None,
    left_open: Callable[[Tensor, Tensor, Tensor], None] | None = None,
    finished: Callable[[Tensor, Candidates], None] | None = None,
    replay: bool | None = None,
    compact: bool | None = None,
    at_once: int | None = None,
) -> Candidates:
    """The likeliest programs for each task, best first: `beam` of them, or as many as were found.

    Args:
        encoded: the tasks' examples, by `model.encode`.
        beam: S.
        max_length: the largest number of tokens; by default the machine's or the model's. It also applies to the
            model's own handwritten syntax.
        machine: a syntax that constrains decoding instead of the model's own. Its inadmissible tokens are masked before
            the softmax, which changes p: `rescore` and `score_programs` of the candidates need the same machine. Its
            `max_length` must be the given one.
        dtype: of the network's states and products, by default `decoding_dtype`. Log-probabilities add up in float32.
        weights: the model's `step_model`, if it exists already: making it takes longer than some searches.
        pruning: runs prefixes on the tasks' examples. Programs that are correct on more examples then come first.
        slack: with pruning, once a task has a program that is correct on all examples, hypotheses are dropped that are
            less likely than it by more than this, in nats. At 0 the first in the result is the likeliest correct one
            that this beam can find, and the search ends as soon as that is certain.
        window: hypotheses are dropped that are less likely than the likeliest of their task by more than this, in nats.
        floor: hypotheses are dropped unless their log-probability is higher than this. Finished programs are not.
        best_known: with pruning, the log-probability of the best correct program that each task has already, float32
            [B], −∞ where there is none. The slack then also counts from it.
        stop: called before every step, by every thread. When it returns True, the search ends with what it has.
        threads: how many to use on a CPU; by default as many as torch does.
        left_open: called after every step with the open hypotheses: their tasks int64 [B], their tokens uint8
            [B, S, L], padded, and their scores float32 [B, S], −∞ where there is none. Every thread calls it for its
            own tasks.
        finished: called when tasks are done, with their numbers int64 [B'], on the host, and their candidates, on the
            device, so that these can be used while the search continues. Every task is reported once.
        replay: whether steps are replayed as CUDA graphs (`search.replay`), for models and tasks that allow it; by
            default on a GPU. The result is the same.
        compact: whether the network runs for open hypotheses only, which synchronises with the device at every step; by
            default on a CPU, and on a GPU for models that run prefixes.
        at_once: how many tasks are searched at a time, if not all. When some are done, others take their places. Only
            for LSTM decoders with a handwritten syntax; on a GPU that is the default for those that run prefixes.
    """
    machine = model.machine_for(machine, max_length)
    limit = machine.max_length if machine else max_length or model.settings.max_length
    device = encoded.codes.device
    on_cpu = device.type == "cpu"
    runner = encoded.prefix_runner()
    if compact is None:
        compact = on_cpu or runner is not None
    with torch.autocast(device.type, enabled=False):  # the precision is chosen here
        weights = weights or model.step_model(dtype or decoding_dtype(device))
        syntax = handwritten_syntax(machine, device) if machine else None
        if machine is None or not isinstance(weights.decoder, LSTMSteps):
            at_once = None  # other states and prefixes may depend on the number of the step
        elif at_once is None and runner is not None and not on_cpu:
            at_once = _tasks_at_once(device, beam)
        search = BeamSearch(
            weights,
            syntax,
            beam,
            every=1 if compact else CHECK_EVERY,
            dense=not compact,
            skip_forced_tokens=model.settings.skip_forced_tokens,
            runner=runner,
            pruning=pruning,
            slack=slack,
            window=window,
            floor=floor,
            best_known=None if best_known is None else best_known.to(device),
            stop=stop,
            left_open=left_open,
            finished=finished,
            replay=not on_cpu if replay is None else replay,
            at_once=at_once,
        )
        threads = (threads or torch.get_num_threads()) if on_cpu else 1
        if threads > 1 and len(encoded.codes) >= TASKS_PER_THREAD * threads:
            return _run_on_threads(search, model.step_tasks(weights, encoded), limit, threads)
        with shared_steps(threads):
            return search.run(model.step_tasks(weights, encoded), limit)


def _tasks_at_once(device: torch.device, beam: int) -> int:
    """How many tasks keep a GPU busy and fit into half of its memory."""
    most = _MOST_OPEN
    if device.type == "cuda":
        most = min(most, torch.cuda.get_device_properties(device).total_memory // (2 * _BYTES_PER_HYPOTHESIS))
    return max(1, most // beam)


@dataclass(frozen=True)
class BeamSearch:
    """The constants of a search, and its steps."""

    weights: StepModel
    syntax: HandwrittenSyntax | None
    beam: int
    every: int
    """Steps between two checks which tasks are done."""
    dense: bool
    """Whether to run the network for empty places too, which avoids synchronising with the device."""
    skip_forced_tokens: bool
    """Forced tokens are written without running the network."""
    runner: PrefixRunner | None
    """Runs hypotheses on the examples, for models that see the states these lead to."""
    pruning: Pruning | None
    slack: float
    window: float
    floor: float
    best_known: Tensor | None
    """float32 [B]."""
    stop: Callable[[], bool] | None
    left_open: Callable[[Tensor, Tensor, Tensor], None] | None
    finished: Callable[[Tensor, Candidates], None] | None
    replay: bool
    """Whether steps are replayed as CUDA graphs, where that is possible."""
    at_once: int | None = None
    """How many tasks are searched at a time; None for all."""

    @torch.no_grad()  # for every thread
    def run(self, tasks: StepTasks, limit: int) -> Candidates:
        with replayed_steps(self, tasks, limit) if self._can_replay(len(tasks)) else nullcontext() as replayed:
            return self._run(tasks, limit, replayed)

    def _can_replay(self, tasks: int) -> bool:
        """Whether every step has the same shapes and needs nothing from the host."""
        plain = self.runner is None and self.pruning is None and self.left_open is None and self.stop is None
        steps = isinstance(self.weights.decoder, LSTMSteps) and not self.skip_forced_tokens
        return self.replay and plain and steps and self.at_once is None and can_replay(tasks, self.beam)

    def _run(self, tasks: StepTasks, limit: int, replayed: ReplayedSteps | None) -> Candidates:
        places = min(self.at_once or len(tasks), len(tasks))
        begun, beams = places, self._start(tasks, 0, places, limit)
        shape, device = (len(tasks), self.beam), tasks.inputs.device
        found = Candidates(
            torch.zeros(*shape, limit, dtype=torch.uint8, device=device),
            torch.zeros(shape, dtype=torch.int64, device=device),
            torch.full(shape, -torch.inf, device=device),
        )
        at, left = 0, torch.arange(begun)  # on the host, as all that decides which tasks leave
        while at < limit:
            if self.stop is not None and self.stop():
                break
            narrow = at < _NARROW_STEPS
            if replayed is not None and not narrow and at + self.every <= limit and replayed.advance(beams):
                at += self.every
            else:
                self.expand(beams)
                at += 1
                replayed = replayed if narrow else None
            if self.left_open is not None:
                self.left_open(beams.number, beams.tokens, beams.scores)
            if (at % self.every == 0 or narrow) if at < limit else begun < len(tasks):
                active, width = beams.active()
                if replayed is not None and not narrow:
                    if not replayed.should_leave(len(beams.number), len(active)):
                        continue
                    width = self.beam
                if len(active) < len(left):
                    done = torch.ones_like(left, dtype=torch.bool).index_fill_(0, active, value=False)
                    self._record_done(beams, left[done], found)
                    left = left[active]
                beams.keep(active, width)
                free = places - len(active)
                if begun < len(tasks) and free * _REFILL >= places:
                    first, begun = begun, min(begun + free, len(tasks))
                    beams.join(self._start(tasks, first, begun, limit))
                    left = torch.cat([left, torch.arange(first, begun)])
                    at = 0  # the new tasks have all steps before them
                elif not len(active):
                    break
        self._record_done(beams, torch.cat([left, torch.arange(begun, len(tasks))]), found)
        return found

    def _record_done(self, beams: Beams, done: Tensor, found: Candidates) -> None:
        """Record what was found, and report the tasks that are done, int64 [B'], on the host."""
        beams.record(found)
        if self.finished is not None and len(done):
            rows = to_device(done.numpy(), found.lengths.device)
            parts = (part.index_select(0, rows) for part in (found.tokens, found.lengths, found.logprobs))
            self.finished(done, Candidates(*parts))

    def _start(self, tasks: StepTasks, first: int, last: int, limit: int) -> Beams:
        """One open hypothesis for each of tasks first … last − 1: the empty prefix."""
        count, device = last - first, tasks.inputs.device
        number = torch.arange(first, last, device=device)
        tasks = tasks.select(number) if count < len(tasks) else tasks
        scores = torch.full((count, self.beam), -torch.inf, device=device)
        blank = torch.zeros(count, self.beam, limit, dtype=torch.uint8, device=device)
        beams = Beams(
            number=number,
            tasks=tasks,
            scores=torch.zeros_like(scores[:, :1]),
            tokens=blank[:, :1].clone(),
            lengths=torch.zeros_like(number)[:, None],
            syntax=None if self.syntax is None else self.syntax.initial(count)[:, None],
            state=self.weights.start(tasks),
            row=number[:, None] - first,
            last=torch.full_like(number, START)[:, None],
            pool_scores=scores,
            pool_tokens=blank.clone(),
            pool_lengths=torch.zeros(count, self.beam, dtype=torch.int64, device=device),
            correct=None if self.pruning is None else torch.zeros_like(number)[:, None],
            pool_correct=None if self.pruning is None else torch.zeros_like(scores, dtype=torch.int64),
        )
        if self.skip_forced_tokens:
            self._write(beams, torch.full_like(beams.last, NONE))
        return beams

    def expand(self, beams: Beams) -> None:
        """Extend every hypothesis by one step."""
        totals, rows = self._totals(beams)
        beams.collect(totals[:, :, END])
        totals[:, :, END] = -torch.inf
        places = self.beam if self.pruning is None else _RUN_PER_PLACE * self.beam
        scores, chosen = totals.flatten(1).topk(min(places, totals[0].numel()))
        scores = scores.masked_fill(scores <= self._floor(beams), -torch.inf)
        if self.pruning is not None:
            scores, chosen = self._prune(self.pruning, beams, scores, chosen)
        scores = scores.masked_fill(scores < scores[:, :1] - self.window, -torch.inf)
        parent, token = chosen // VOCABULARY_SIZE, chosen % VOCABULARY_SIZE
        beams.scores = scores
        beams.tokens, beams.lengths = gathered(beams.tokens, parent), beams.lengths.gather(1, parent)
        beams.syntax = None if beams.syntax is None else gathered(beams.syntax, parent)
        self._write(beams, token)
        beams.row = rows.gather(1, parent)
        beams.last = token

    def _write(self, beams: Beams, token: Tensor) -> None:
        """Append a token int64 [B, S] to every hypothesis, and with `skip_forced_tokens` the tokens that it forces."""
        tokens, lengths, chosen = beams.tokens.flatten(0, 1), beams.lengths.flatten(), token.flatten()
        if self.syntax is None or beams.syntax is None:
            put_tokens(tokens, lengths, chosen)
            lengths = lengths + 1
        else:
            active = (beams.scores > -torch.inf).flatten()
            states, lengths = self.syntax.write(
                beams.syntax.flatten(0, 1), tokens, lengths, chosen, active, forced_tokens=self.skip_forced_tokens
            )
            beams.syntax = states.view_as(beams.syntax)
        beams.lengths = lengths.view_as(beams.lengths)

    def _floor(self, beams: Beams) -> Tensor:
        """The score that a hypothesis must exceed to stay open, [B, 1]: scores only fall.

        Without pruning that is the S-th best finished program; with it, the S-th best that is correct on all examples,
        or the best of those, or of those already known, minus the slack. It is never below the search's own floor.
        """
        if self.pruning is None or beams.pool_correct is None:
            return beams.pool_scores[:, -1:].clamp(min=self.floor)
        answers = beams.pool_scores.masked_fill(beams.pool_correct < self.pruning.examples, -torch.inf)
        best = answers[:, :1]
        if self.best_known is not None:
            best = torch.maximum(best, self.best_known.index_select(0, beams.number)[:, None])
        return torch.maximum(answers[:, -1:], best - self.slack).clamp(min=self.floor)

    def _prune(self, pruning: Pruning, beams: Beams, scores: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Run continuations [B, S'], best first, on the examples; the likeliest that pass, [B, S]."""
        device = scores.device
        parent, token = chosen // VOCABULARY_SIZE, chosen % VOCABULARY_SIZE
        places = ((scores > -torch.inf) & _ENDS_STATEMENT.to(device)[token]).flatten().nonzero()[:, 0]
        row = torch.div(places, scores.shape[1], rounding_mode="floor")
        before = row * beams.tokens.shape[1] + parent.flatten().index_select(0, places)
        ends = beams.lengths.flatten().index_select(0, before)
        longest = int(ends.max()) + 1 if len(ends) else 1
        prefixes = beams.tokens[:, :, :longest].flatten(0, 1).index_select(0, before)
        put_tokens(prefixes, ends, token.flatten().index_select(0, places))
        tasks = beams.number.index_select(0, row)
        alive, right = pruning.judge(np.ascontiguousarray(prefixes.cpu()), tasks.cpu().numpy())
        dead = places[torch.from_numpy(~alive).to(device)]
        scores = scores.flatten().index_fill(0, dead, -torch.inf).view(scores.shape)
        counts = torch.zeros_like(chosen).flatten().index_copy_(0, places, torch.from_numpy(right).to(device))
        scores, best = scores.topk(min(self.beam, scores.shape[1]))
        beams.correct = counts.view(chosen.shape).gather(1, best)
        return scores, chosen.gather(1, best)

    def _totals(self, beams: Beams) -> tuple[Tensor, Tensor]:
        """Scores of all continuations, float32 [B, S, 52], and the rows of the new state, int64 [B, S]."""
        count, width = beams.scores.shape
        places: Tensor | None = None
        if not self.dense:
            places = (beams.scores > -torch.inf).flatten().nonzero()[:, 0]
            if places.is_cpu:
                # Hypotheses that extend the same state are adjacent: the decoder then shares their products.
                places = places.index_select(0, beams.row.flatten().index_select(0, places).argsort())

        def of_places(values: Tensor) -> Tensor:
            """The values [B, S, …] of the places that the network is run for."""
            flat = values.flatten(0, 1)
            return flat if places is None else flat.index_select(0, places)

        rows, tokens, before = (of_places(values) for values in (beams.row, beams.last, beams.scores))
        task = of_places(torch.arange(count, device=rows.device)[:, None].expand(count, width))
        features = None
        if self.runner is not None:
            prefixes = (of_places(beams.tokens), of_places(beams.lengths))
            features = self.runner.features(*prefixes, beams.number.index_select(0, task))
        logits, beams.state = self.weights.step(beams.tasks, beams.state, rows, task, tokens, features)
        if self.syntax is not None and beams.syntax is not None:
            logits = logits.masked_fill(~self.syntax.mask(of_places(beams.syntax)), -torch.inf)
        # The scores of an empty place are undefined, even NaN: do not add to them.
        totals = torch.where(before[:, None] > -torch.inf, before[:, None] + logits.log_softmax(1), -torch.inf)
        new_rows = torch.arange(len(rows), device=rows.device)
        if places is not None:
            blank = totals.new_full((count * width, VOCABULARY_SIZE), -torch.inf)
            totals = blank.index_copy_(0, places, totals)
            new_rows = torch.zeros_like(beams.row).flatten().index_copy_(0, places, new_rows)
        return totals.view(count, width, VOCABULARY_SIZE), new_rows.view(count, width)


def _run_on_threads(search: BeamSearch, tasks: StepTasks, limit: int, threads: int) -> Candidates:
    """Every thread searches for its own tasks and never waits for another."""

    def run(some: Tensor) -> Candidates:
        pruning = None if search.pruning is None else search.pruning.select(some.numpy())
        runner = None if search.runner is None else search.runner.select(some)
        on_open, on_finished = search.left_open, search.finished
        left_open = None if on_open is None else lambda number, *hypotheses: on_open(some[number], *hypotheses)
        finished = None if on_finished is None else lambda number, found: on_finished(some[number], found)
        best_known = None if search.best_known is None else search.best_known.index_select(0, some)
        own = replace(
            search, pruning=pruning, runner=runner, best_known=best_known, left_open=left_open, finished=finished
        )
        return own.run(tasks.select(some), limit)

    found = list(single_threaded(threads).map(run, torch.arange(len(tasks)).tensor_split(threads)))
    names = ("tokens", "lengths", "logprobs")
    return Candidates(*(torch.cat([getattr(part, name) for part in found]) for name in names))


@dataclass
class Beams:
    """The hypotheses of B tasks, open and finished, as rows of fixed-shape arrays. Tasks that are done have left."""

    number: Tensor
    """int64 [B]: the index of each task in the search."""
    tasks: StepTasks
    scores: Tensor
    """float32 [B, S]: of open hypotheses, best first; −∞ where there is none."""
    tokens: Tensor
    """uint8 [B, S, L], padded."""
    lengths: Tensor
    """int64 [B, S]: their numbers of tokens."""
    syntax: Tensor | None
    """int64 [B, S, width]: states of the handwritten syntax."""
    state: Any
    """The decoder's state, with one row for each hypothesis of the last step."""
    row: Tensor
    """int64 [B, S]: the row of `state` that each open hypothesis extends."""
    last: Tensor
    """int64 [B, S]: the last token that the decoder has not read yet; never a forced one with `skip_forced_tokens`."""
    pool_scores: Tensor
    """float32 [B, S]: of finished programs, best first; −∞ where there is none."""
    pool_tokens: Tensor
    """uint8 [B, S, L]."""
    pool_lengths: Tensor
    """int64 [B, S]."""
    correct: Tensor | None
    """int64 [B, S], with pruning: the number of examples an open hypothesis would be correct on if it ended."""
    pool_correct: Tensor | None
    """int64 [B, S], with pruning: the number of examples that finished programs are correct on."""

    def active(self) -> tuple[Tensor, int]:
        """Tasks with open hypotheses, int64 [B'] on the host, and the largest number that one has.

        Synchronises with the device, once.
        """
        number = (self.scores > -torch.inf).sum(1).cpu()
        return number.nonzero()[:, 0], int(number.max())

    def keep(self, active: Tensor, width: int) -> None:
        """Keep some of the tasks, int64 [B'] on the host, and the first `width` places: the likeliest come first."""
        if len(active) < len(self.number):
            active = to_device(active.numpy(), self.number.device)
            own = ("number", "scores", "tokens", "lengths", "row", "last", "pool_scores", "pool_tokens", "pool_lengths")
            for name in own:
                setattr(self, name, getattr(self, name).index_select(0, active))
            self.tasks = self.tasks.select(active)
            for name in ("syntax", "correct", "pool_correct"):
                if getattr(self, name) is not None:
                    setattr(self, name, getattr(self, name).index_select(0, active))
        for name in ("scores", "tokens", "lengths", "row", "last"):
            setattr(self, name, getattr(self, name)[:, :width])
        self.syntax = None if self.syntax is None else self.syntax[:, :width]
        self.correct = None if self.correct is None else self.correct[:, :width]

    def join(self, other: Beams) -> None:
        """Add tasks of the same search whose numbers are larger."""
        width = max(self.scores.shape[1], other.scores.shape[1])
        moved = replace(other, row=other.row + len(tensors_of(self.state)[0]))
        states = zip(tensors_of(self.state), tensors_of(other.state), strict=True)
        self.state = rebuilt(self.state, (torch.cat(pair) for pair in states))
        present = None
        if self.tasks.present is not None and other.tasks.present is not None:
            present = torch.cat([self.tasks.present, other.tasks.present])
        self.tasks = StepTasks(torch.cat([self.tasks.inputs, other.tasks.inputs]), present)
        for name in ("number", "pool_scores", "pool_tokens", "pool_lengths", "pool_correct"):
            own = getattr(self, name)
            if own is not None:
                setattr(self, name, torch.cat([own, getattr(other, name)]))
        for name in ("scores", "tokens", "lengths", "row", "last", "syntax", "correct"):
            own = getattr(self, name)
            if own is not None:
                empty = -torch.inf if name == "scores" else 0
                both = (_widened(values, width, empty) for values in (own, getattr(moved, name)))
                setattr(self, name, torch.cat(list(both)))

    def collect(self, scores: Tensor) -> None:
        """Let the programs that end now, with scores [B, S], compete for the places in the pool."""
        ended = self.tokens.clone()
        put_tokens(ended.flatten(0, 1), self.lengths.flatten(), torch.full_like(self.last.flatten(), END))
        lengths = (self.lengths + 1).masked_fill(scores == -torch.inf, 0)
        scores = torch.cat([self.pool_scores, scores], dim=1)
        if self.correct is None or self.pool_correct is None:
            self.pool_scores, best = scores.topk(self.pool_scores.shape[1])
        else:
            right = torch.cat([self.pool_correct, self.correct], dim=1)
            best = (scores + _PER_CORRECT_EXAMPLE * right.double()).topk(self.pool_scores.shape[1]).indices
            self.pool_scores, self.pool_correct = scores.gather(1, best), right.gather(1, best)
        self.pool_tokens = gathered(torch.cat([self.pool_tokens, ended], dim=1), best)
        self.pool_lengths = torch.cat([self.pool_lengths, lengths], dim=1).gather(1, best)

    def record(self, found: Candidates) -> None:
        """Write the pools to their tasks' rows of the result; empty slots are blank."""
        empty = self.pool_lengths == 0
        found.tokens.index_copy_(0, self.number, self.pool_tokens.masked_fill(empty[:, :, None], 0))
        found.lengths.index_copy_(0, self.number, self.pool_lengths)
        found.logprobs.index_copy_(0, self.number, self.pool_scores)


def _widened(values: Tensor, width: int, empty: float) -> Tensor:
    """Values [B, S, …] with places added up to a width."""
    if values.shape[1] == width:
        return values
    added = values.new_full((len(values), width - values.shape[1], *values.shape[2:]), empty)
    return torch.cat([values, added], dim=1)


def gathered(values: Tensor, places: Tensor) -> Tensor:
    """Values [B, S, …] at places [B, S'] of each task, by one flat `index_select`."""
    count, width = values.shape[:2]
    first = torch.arange(0, count * width, width, device=values.device)[:, None]
    return values.flatten(0, 1).index_select(0, (first + places).flatten()).view(*places.shape, *values.shape[2:])
