"""What is measured before the first step: the form of the losses and their products, XLA or graph, steps per call."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Annotated, Any, ClassVar

import tensorflow as tf
from pydantic import ConfigDict, Field, TypeAdapter

from tfperf.operators.observables import Layout
from tfperf.runcard.config import Card
from tfperf.runcard.types import STRICT, Step
from tfperf.train.ensemble import Ensemble
from tfperf.train.forms import Form, Name
from tfperf.train.loop import Loop

TRIAL_SECONDS = 0.3  # of steps, for each candidate and repeat
REPEATS = 3
GLANCE_SECONDS = 0.05  # of steps, once, where there is nothing to choose but the steps per call
BUDGET_SECONDS = 30.0  # for all trials: a candidate that may go beyond is not tried
CALL_SECONDS = 1.0  # aimed at with `steps_per_call: auto`
LONGEST_CALL_SECONDS = 2.0  # signals wait for the end of a call
MOST_STEPS = 1000
MOST_THREADS = 10_000
MOST_TRIALS = 1000
Time = Annotated[float, Field(ge=0)]
Threads = Annotated[int, Field(ge=1, le=MOST_THREADS)]
ThreadsTried = Annotated[tuple[tuple[Threads, Time], ...], Field(max_length=MOST_TRIALS)]


@dataclass(frozen=True)
class Trial:
    """One candidate as measured."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    form: Name
    products: Layout
    xla: bool
    compile_seconds: Time
    ms_per_step: Time


@dataclass(frozen=True)
class Choices:
    """What was decided; all of it is read back when the run is resumed."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    form: Name
    products: Layout
    xla: bool
    steps_per_call: Step
    threads: Threads
    tried: Annotated[tuple[Trial, ...], Field(max_length=MOST_TRIALS)]
    threads_tried: ThreadsTried = ()  # numbers of threads, and their ms per step
    cached: bool = False  # found by an earlier run

    @property
    def taken(self) -> list[Trial]:
        """The trial of what was chosen; empty where it was not measured."""
        mine = (self.form, self.products, self.xla)
        return [t for t in self.tried if (t.form, t.products, t.xla) == mine]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for run.json."""
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Choices":
        """The choices of run.json. Raises: ValueError for values of another type, or out of range."""
        try:
            return TypeAdapter(Choices).validate_json(json.dumps(values))
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no choices: {error}") from None


def round_down(steps: float) -> int:
    """The largest of 1, 2, 5, 10, 20, 50, ... that is not above `steps`, at least 1."""
    best = scale = 1
    while scale <= steps:
        best = max(m * scale for m in (1, 2, 5) if m * scale <= steps)
        scale *= 10
    return best


def try_out(
    loop: Loop, xla: bool, form: Form, seconds_of_steps: float = TRIAL_SECONDS, repeats: int = REPEATS
) -> Trial:
    """Compile and time one candidate, a loop of that form; its state is put back."""
    before = loop.snapshot()
    start = time.perf_counter()
    loop.run(1, xla)
    int(loop.step)
    compiled = time.perf_counter() - start
    count = 4
    rates: list[float] = []
    while len(rates) < repeats:
        loop.restore(before)
        start = time.perf_counter()
        loop.run(count, xla)
        taken = int(loop.step) - int(before["step"])
        seconds = time.perf_counter() - start
        if seconds < seconds_of_steps / 2 and taken == count and count < MOST_STEPS:
            count = min(MOST_STEPS, max(2 * count, int(count * seconds_of_steps / max(seconds, 1e-4))))
        else:
            rates.append(seconds / max(taken, 1))
    loop.restore(before)
    return Trial(form.name, form.products, xla, compiled, 1e3 * median(rates))


@dataclass
class _Trials:
    """Candidates tried on one ensemble, one after the other."""

    ensemble: Ensemble
    forms: Sequence[Form]
    single: bool  # nothing to choose from
    found: list[Trial] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    dearest: float = 0.0  # seconds of a candidate

    @property
    def best(self) -> Form:
        """The fastest form so far; the first where none was measured."""
        best = min(self.found, key=lambda t: t.ms_per_step, default=None)
        return next((f for f in self.forms if best and _is(best, f)), self.forms[0])

    def add(self, form: Form, xla: bool, others: bool) -> None:
        """Try a candidate, unless there is no time for it; `others`: it may fail, for there are more."""
        start = time.perf_counter()
        if self.found and start - self.began + self.dearest > BUDGET_SECONDS:
            return
        self.use(form)
        loop = self.ensemble.stack
        before = loop.snapshot()
        measure = (GLANCE_SECONDS, 1) if self.single else (TRIAL_SECONDS, REPEATS)
        try:
            self.found.append(try_out(loop, xla, form, *measure))
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.InternalError):
            # XLA cannot compile every step
            if not (xla and others):
                raise
            loop.restore(before)
        self.dearest = max(self.dearest, time.perf_counter() - start)

    def use(self, form: Form) -> None:
        """Give the ensemble that form."""
        if form != self.ensemble.form:
            self.ensemble.use(form)


def choose(card: Card, ensemble: Ensemble, forms: Sequence[Form], threads: int) -> Choices:
    """Measure what the card leaves open; the ensemble then has the form that was chosen.

    forms: of each name, those of each layout of the products. Names are compared with the first layout, and with XLA
    where that is allowed; then, for the fastest, the layouts; then XLA and graph; for 30 s at most. A fixed
    `steps_per_call` is shortened where a call would take over 2 s; of a card that fixes all, a few steps are timed.
    """
    first, *second = (True, False) if card.engine.xla == "auto" else (card.engine.xla,)
    trials = _Trials(ensemble, forms, single=len(forms) == 1 and not second and card.train.steps_per_call != "auto")
    for form in (f for f in forms if f.products == forms[0].products):
        trials.add(form, first, bool(second))
    for form in (f for f in forms if f.name == trials.best.name and f.products != forms[0].products):
        trials.add(form, first, bool(second))
    chosen = trials.best
    for xla in second:
        trials.add(chosen, xla, bool(trials.found))
    trials.use(chosen)
    best = min((t for t in trials.found if _is(t, chosen)), key=lambda t: t.ms_per_step)
    steps = _steps_per_call(card, best.ms_per_step)
    return Choices(chosen.name, chosen.products, best.xla, steps, threads, tuple(trials.found))


def _is(trial: Trial, form: Form) -> bool:
    return (trial.form, trial.products) == (form.name, form.products)


def _steps_per_call(card: Card, ms_per_step: float) -> int:
    wanted = card.train.steps_per_call
    aim = CALL_SECONDS if wanted == "auto" else LONGEST_CALL_SECONDS
    most = min(MOST_STEPS, card.train.steps) if wanted == "auto" else wanted
    affordable = aim * 1e3 / ms_per_step
    steps = int(most) if most <= affordable else round_down(affordable)
    return steps if wanted != "auto" else round_down(steps)
