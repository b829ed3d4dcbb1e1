"""Measures what is left open before the first step: a candidate is tried only where the steps to come pay for it."""

import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from tfperf.console.stages import Tell, silent
from tfperf.train.choices import MOST_STEPS, Choices, Trial
from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.train.forms import Form, Forms
from tfperf.train.loop import Loop
from tfperf.train.settings import Settings

TRIAL_SECONDS = 0.3  # of steps, for each candidate and repeat
REPEATS = 3
COMPILE_SECONDS = 4.0  # that XLA takes for the steps of a stack at least; without it a first step takes a tenth
# what a candidate may save at most, of the seconds of all steps: it is tried where that is more than a trial took
FORM_GAIN, LAYOUT_GAIN = 0.5, 0.1
BEHIND = 1.5  # a form that takes so many times longer without XLA is not compiled with it
GLANCE_SECONDS = 0.05  # of steps, once, where there is nothing to choose but the steps per call
BUDGET_SECONDS = 30.0  # for all trials: a candidate that may go beyond is not tried
CALL_SECONDS = 1.0  # aimed at with `steps_per_call: auto`
LONGEST_CALL_SECONDS = 2.0  # signals wait for the end of a call


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
    """Compile and time one candidate, a loop of that form, by the fastest of `repeats`; its state is put back."""
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
    return Trial(form.name, form.products, xla, compiled, 1e3 * min(rates))


class _Trials:
    """Candidates tried on the largest stack of an ensemble, one after the other; the fastest one's loop is kept."""

    def __init__(self, ensemble: Ensemble, single: bool, tell: Callable[[int], None]) -> None:
        """single: there is nothing to choose from; tell: called with the number of each candidate that is tried."""
        self.ensemble, self.single, self.tell = ensemble, single, tell
        self.found: list[Trial] = []
        self.best: tuple[Trial, Form] | None = None
        self.began = time.perf_counter()
        self.dearest = 0.0  # seconds of a candidate
        self._aside: Loop | None = None  # of the best form, while another one is tried

    def pays(self, gain: float) -> bool:
        """Whether another candidate is worth its trial, if it saves that share of the best one's time at most."""
        if self.best is None:
            return True
        within = time.perf_counter() - self.began + self.dearest <= BUDGET_SECONDS
        return within and gain * self.seconds > self.dearest

    @property
    def seconds(self) -> float:
        """That all steps take with the best candidate."""
        assert self.best is not None
        return self.ensemble.settings.steps * self.ensemble.layout.rounds * self.best[0].ms_per_step / 1e3

    def add(self, form: Form, xla: bool, others: bool) -> None:
        """Try a candidate; `others`: it may fail, for there are more."""
        start = time.perf_counter()
        self.tell(len(self.found) + 1)
        if form != self.ensemble.form:
            self._turn_to(form)
        loop = self.ensemble.stack
        before = loop.snapshot()
        measure = (GLANCE_SECONDS, 1) if self.single else (TRIAL_SECONDS, REPEATS)
        try:
            trial = try_out(loop, xla, form, *measure)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.InternalError):
            # XLA cannot compile every step
            if not (xla and others):
                raise
            loop.restore(before)
        else:
            self.found.append(trial)
            if self.best is None or trial.ms_per_step < self.best[0].ms_per_step:
                self.best = trial, form
        self.dearest = max(self.dearest, time.perf_counter() - start)

    def _turn_to(self, form: Form) -> None:
        """Give the ensemble that form; of the loops that are not needed now, the best form's is kept."""
        best = None if self.best is None else self.best[1]
        keep, self._aside = (self._aside, None) if form == best else (None, self._aside)
        left = self.ensemble.exchange(form, keep)
        if left is not None:
            before, loop = left
            if before == best:
                self._aside = loop
            else:
                loop.close()

    def end(self) -> tuple[Trial, Form]:
        """Give the ensemble the best candidate; which that is."""
        assert self.best is not None
        if self.best[1] != self.ensemble.form:
            self._turn_to(self.best[1])
        if self._aside is not None:
            self._aside.close()
            self._aside = None
        return self.best


def choose(ensemble: Ensemble, forms: Forms, cores: Cores, tell: Tell = silent) -> Choices:
    """Measure what the settings leave open; the ensemble, of the first form, then has the one that was chosen.

    Forms are compared without XLA first, where it is open: those that are far behind are not compiled. Then, for the
    fastest, the layouts of its products. All for 30 s at most, and each only where the training is long enough for it
    to pay. A fixed `steps_per_call` is shortened where a call would take over 2 s.
    """
    settings = ensemble.settings
    single = len(forms.names) == len(forms.layouts) == 1
    nothing_open = single and settings.xla != "auto" and settings.steps_per_call != "auto"
    most = len(forms.names) * (2 if settings.xla == "auto" else 1) + len(forms.layouts) - 1
    trials = _Trials(ensemble, nothing_open, lambda number: tell("measuring what is fastest", number, most))
    if settings.xla != "auto":
        _try_forms(trials, forms, forms.names, settings.xla)
    else:
        _try_forms(trials, forms, forms.names, False)
        if trials.seconds > COMPILE_SECONDS:
            ms = {t.form: t.ms_per_step for t in trials.found}
            least = min(ms.values())
            near = [name for name in sorted(ms, key=ms.__getitem__) if ms[name] <= BEHIND * least]
            trials.dearest = 0.0  # of those without XLA
            _try_forms(trials, forms, near, True)
    fastest, form = trials.end()
    for layout in forms.layouts[1:]:
        if trials.pays(LAYOUT_GAIN):
            trials.add(forms.make(form.name, layout), fastest.xla, others=True)
    best, form = trials.end()
    steps = _steps_per_call(settings, ensemble.layout.rounds * best.ms_per_step)
    losses_xla = best.xla and _pays_to_compile_losses(ensemble, best, steps)
    return Choices(
        form.name, form.products, best.xla, losses_xla, steps, cores.threads, cores.stacks, tuple(trials.found)
    )


def _try_forms(trials: _Trials, forms: Forms, names: Sequence[str], xla: bool) -> None:
    """The forms of these names, the second and later ones where they can pay."""
    for number, name in enumerate(names):
        if number == 0 or trials.pays(FORM_GAIN):
            trials.add(forms.make(name, forms.layouts[0]), xla, others=bool(trials.found) or number + 1 < len(names))


def _pays_to_compile_losses(ensemble: Ensemble, best: Trial, steps_per_call: int) -> bool:
    """Whether the losses after all calls take longer without XLA than it takes to compile them."""
    loop = ensemble.stack
    loop.evaluate(False)
    start = time.perf_counter()
    loop.evaluate(False)
    seconds = ensemble.layout.rounds * (time.perf_counter() - start)
    return seconds * ensemble.settings.steps / steps_per_call > best.compile_seconds


def _steps_per_call(settings: Settings, ms_per_step: float) -> int:
    wanted = settings.steps_per_call
    aim = CALL_SECONDS if wanted == "auto" else LONGEST_CALL_SECONDS
    most = min(MOST_STEPS, settings.steps) if wanted == "auto" else wanted
    affordable = aim * 1e3 / ms_per_step
    steps = int(most) if most <= affordable else round_down(affordable)
    return steps if wanted != "auto" else round_down(steps)
