"""The two programs that can take a card's steps, and how their steps are timed. R replicas."""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from tfperf.measure.timing import Sample, TimingRule, TraceCounter, time_steps
from tfperf.runcard.faults import Fault
from tfperf.runcard.places import make_unfit_error
from tfperf.train.cores import Cores
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.operators.problem import Problem

if TYPE_CHECKING:  # which loads TensorFlow
    from tfperf.workloads.pdf.stack import PDFStack

FEWEST, SAMPLES = 5, 20  # samples at least; as many as are aimed at
CALL_SECONDS = 2.0  # a call of many steps is made shorter than that, as in a fit
Record = dict[str, Any]


class Runner(Protocol):
    """What can take steps of a card's training."""

    def measure_calls(self, calls: int) -> tuple[int, float]:
        """Steps taken in so many calls (0: none is left), and seconds."""


class EnsembleRunner:
    """The engine as a fit uses it: call after call, a look at the losses after each."""

    def __init__(self, card: Card, problem: Problem, cores: Cores) -> None:
        """A card that leaves nothing open; cores: its stacks on a CPU, and how many take steps at the same time."""
        from tfperf.workloads.pdf.forms import Candidates
        from tfperf.workloads.pdf.stack import build_ensemble

        self.ensemble = build_ensemble(card, problem, Candidates(card, problem).first, cores)
        self.steps, self.xla = card.train.steps, card.engine.xla is True
        self.per_call = 1
        self.most_per_call = int(card.train.steps_per_call)
        self.initial_states = [loop.snapshot() for loop in self.ensemble.build_loops()]

    def _restart(self) -> None:
        for loop, state in zip(self.ensemble.build_loops(), self.initial_states, strict=True):
            loop.restore(state)

    def warm_up(self) -> None:
        """Compile everything; the calls get the length that a fit would give them."""
        self.measure_calls(1)
        _, seconds = self.measure_calls(1)
        self.per_call = min(self.most_per_call, max(1, int(CALL_SECONDS / seconds)))

    def measure_calls(self, calls: int) -> tuple[int, float]:
        """From the first step on, so that all samples are of the same steps."""
        self._restart()
        start = time.perf_counter()
        for _ in range(calls):
            if self.ensemble.is_done():
                break
            self.ensemble.run(min(self.per_call, self.steps - self.ensemble.step), self.xla)
            self.ensemble.evaluate(self.xla)
        return self.ensemble.step, time.perf_counter() - start

    def evaluate_first_step(self) -> Record:
        """After one step from the beginning (R each)."""
        self._restart()
        self.ensemble.run(1, self.xla)
        parts = [cast("PDFStack", loop.stack).evaluate_terms()._asdict() for loop in self.ensemble.build_loops()]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class NaiveRunner:
    """The naive training; its steps come one by one whatever the card says."""

    def __init__(self, card: Card, problem: Problem) -> None:
        from tfperf.workloads.pdf.naive import NaiveTraining, make_initial_weights

        self.naive = NaiveTraining(card, problem, make_initial_weights(card, problem))
        self.steps = card.train.steps

    def warm_up(self) -> None:
        """Compile everything."""
        self.measure_calls(2)

    def measure_calls(self, calls: int) -> tuple[int, float]:
        """The next steps of the training; a sample has at least one `fit` of its own."""
        before, start = self.naive.step, time.perf_counter()
        self.naive.run(min(calls, self.steps - before))
        return self.naive.step - before, time.perf_counter() - start

    def evaluate_first_step(self) -> Record:
        """After one step from the beginning (R each), on a runner that has taken none."""
        self.naive.run(1)
        return self.naive.evaluate_losses()


def refuse_untimable(card: Card, study: str) -> None:
    """UnfitCardError for what no study of single steps can do."""
    faults = []
    if card.data.t0 == "fit":
        faults.append(Fault("data.t0", "fit", f"it trains first; allowed in {study}: pack, none, a run folder"))
    if card.engine.threads == "measure":
        text = f"allowed in {study}, whose forms share them: auto, a number"
        faults.append(Fault("engine.threads", "measure", text))
    if faults:
        raise make_unfit_error(card, faults)


def measure_speed(build: Callable[[], EnsembleRunner | NaiveRunner], seconds: float) -> Record:
    """Milliseconds per step: median and quartiles of samples of several steps; building and compiling apart."""
    start = time.perf_counter()
    runner = build()
    built = time.perf_counter()
    runner.warm_up()
    compiled = time.perf_counter()
    samples, steps = measure_samples(runner, seconds)
    q1, median, q3 = np.percentile(samples, [25, 50, 75]).tolist() if samples else [None] * 3
    return {
        "ms_per_step": {"median": median, "q1": q1, "q3": q3}, "samples": len(samples), "steps": steps,
        "steps_per_call": runner.per_call if isinstance(runner, EnsembleRunner) else 1,
        "seconds": {"build": built - start, "first_steps": compiled - built},
    }  # fmt: skip


def measure_by_rule(build: Callable[[], EnsembleRunner], warmup: int, steps: int, most: float, began: float) -> Record:
    """The same by the rule of measure.timing, after `warmup` steps, in at most so many seconds; `samples_ms`: by call.

    steps: that are timed at least, in whole calls and FEWEST of them; began: when the trial did.
    """
    start = time.perf_counter()
    runner = build()
    built = time.perf_counter()
    runner.warm_up()
    compiled = time.perf_counter()
    if warmup:
        runner.measure_calls(math.ceil(warmup / runner.per_call))
    starting = time.perf_counter() - began
    rule = TimingRule(max(FEWEST, math.ceil(steps / runner.per_call)), starting, most)
    timing = time_steps(make_sampler(runner, TraceCounter()), rule, most)
    return timing.make_record(starting) | {
        "steps": timing.steps, "steps_per_call": runner.per_call,
        "seconds": {"build": built - start, "first_steps": compiled - built},
    }  # fmt: skip


def make_sampler(runner: Runner, traces: TraceCounter) -> Callable[[], Sample]:
    """A function that takes one call of a runner."""

    def take_sample() -> Sample:
        traces.mark()
        steps, seconds = runner.measure_calls(1)
        return Sample(steps, seconds, traces.is_unchanged())

    return take_sample


def measure_samples(runner: Runner, seconds: float) -> tuple[list[float], int]:
    """Milliseconds per step of each sample, and the steps taken."""
    _, once = runner.measure_calls(1)
    calls = max(1, round(seconds / SAMPLES / once))
    samples: list[float] = []
    total, start = 0, time.perf_counter()
    while len(samples) < FEWEST or time.perf_counter() - start < seconds:
        steps, spent = runner.measure_calls(calls)
        if not steps:
            break
        samples.append(1e3 * spent / steps)
        total += steps
    return samples, total
