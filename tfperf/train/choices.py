"""What is measured before the first step: the form of the losses, XLA or graph, and the steps per call."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import tensorflow as tf

from tfperf.runcard.config import Card
from tfperf.train.ensemble import Ensemble
from tfperf.train.forms import Form, Name
from tfperf.train.loop import Loop

TRIAL_SECONDS = 0.3  # of steps, for each candidate and repeat
REPEATS = 3
CALL_SECONDS = 1.0  # aimed at with `steps_per_call: auto`
LONGEST_CALL_SECONDS = 2.0  # signals wait for the end of a call
MOST_STEPS = 1000


@dataclass(frozen=True)
class Trial:
    """One candidate as measured."""

    form: Name
    xla: bool
    compile_seconds: float
    ms_per_step: float


@dataclass(frozen=True)
class Choices:
    """What was decided; all of it is read back when the run is resumed."""

    form: Name
    xla: bool
    steps_per_call: int
    threads: int
    tried: tuple[Trial, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for run.json."""
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Choices":
        """The choices of run.json."""
        return Choices(**{**values, "tried": tuple(Trial(**t) for t in values["tried"])})


def round_down(steps: float) -> int:
    """The largest of 1, 2, 5, 10, 20, 50, ... that is not above `steps`, at least 1."""
    best = scale = 1
    while scale <= steps:
        best = max(m * scale for m in (1, 2, 5) if m * scale <= steps)
        scale *= 10
    return best


def try_out(loop: Loop, xla: bool, form: Name = "shared") -> Trial:
    """Compile and time one candidate, a loop of that form; its state is put back."""
    before = loop.snapshot()
    start = time.perf_counter()
    loop.run(1, xla)
    int(loop.step)
    compiled = time.perf_counter() - start
    count = 4
    rates: list[float] = []
    while len(rates) < REPEATS:
        loop.restore(before)
        start = time.perf_counter()
        loop.run(count, xla)
        taken = int(loop.step) - int(before["step"])
        seconds = time.perf_counter() - start
        if seconds < TRIAL_SECONDS / 2 and taken == count and count < MOST_STEPS:
            count = min(MOST_STEPS, max(2 * count, int(count * TRIAL_SECONDS / max(seconds, 1e-4))))
        else:
            rates.append(seconds / max(taken, 1))
    loop.restore(before)
    return Trial(form, xla, compiled, 1e3 * median(rates))


def _tried(ensemble: Ensemble, xla: bool, others: bool) -> Trial | None:
    """The trial; None where XLA cannot compile the step, unless there is no other candidate."""
    loop = ensemble.stack
    before = loop.snapshot()
    try:
        return try_out(loop, xla, ensemble.form.name)
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.InternalError):
        if not (xla and others):
            raise
        loop.restore(before)
        return None


def choose(card: Card, ensemble: Ensemble, forms: Sequence[Form], threads: int) -> Choices:
    """Measure what the card leaves open; the ensemble then has the form that was chosen.

    Forms are compared with XLA where that is allowed, XLA and graph for the fastest of them. A fixed `steps_per_call`
    is shortened where a call would take over 2 s.
    """
    first, *second = (True, False) if card.engine.xla == "auto" else (card.engine.xla,)
    tried: list[Trial] = []
    for form in forms:
        if form != ensemble.form:
            ensemble.use(form)
        tried += _present(_tried(ensemble, first, bool(second)))
    best = min(tried, key=lambda t: t.ms_per_step, default=None)
    chosen = next((f for f in forms if best and f.name == best.form), forms[0])
    if chosen != ensemble.form:
        ensemble.use(chosen)
    for xla in second:
        tried += _present(_tried(ensemble, xla, best is not None))
    best = min((t for t in tried if t.form == chosen.name), key=lambda t: t.ms_per_step)
    wanted = card.train.steps_per_call
    aim = CALL_SECONDS if wanted == "auto" else LONGEST_CALL_SECONDS
    most = min(MOST_STEPS, card.train.steps) if wanted == "auto" else wanted
    affordable = aim * 1e3 / best.ms_per_step
    steps = int(most) if most <= affordable else round_down(affordable)
    return Choices(chosen.name, best.xla, steps if wanted != "auto" else round_down(steps), threads, tuple(tried))


def _present(trial: Trial | None) -> list[Trial]:
    return [] if trial is None else [trial]
