"""Measures what is left open before the first step: a candidate is tried only where the steps to come pay for it."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import tensorflow as tf

from tfperf.console.stages import ShowStage, show_nothing
from tfperf.train.choices import MOST_STEPS, CandidateTiming, Choices
from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.train.forms import Forms, LossForm
from tfperf.train.loop import Loop
from tfperf.train.settings import Settings
from tfperf.train.shards import run_parallel

LOGGER = logging.getLogger(__name__)
TIMING_SECONDS = 0.3  # of steps, for each candidate and repeat
REPEATS = 3
COMPILE_SECONDS = 4.0  # that XLA takes for the steps of a stack at least, and as many times the first step without it:
COMPILE_RATIO = 2.0
# what a candidate may save at most, of the seconds of all steps: it is tried where that is more than a timing took
FORM_GAIN, LAYOUT_GAIN, XLA_GAIN = 0.5, 0.1, 0.75
BEHIND = 1.5  # a form that takes so many times longer without XLA is not compiled with it
GLANCE_SECONDS = 0.05  # of steps, once, where there is nothing to choose but the steps per call
BUDGET_SECONDS = 30.0  # for all timings: a candidate that may go beyond is not tried
CALL_SECONDS = 1.0  # aimed at with `steps_per_call: auto`
LONGEST_CALL_SECONDS = 2.0  # signals wait for the end of a call


def round_down(steps: float) -> int:
    """The largest of 1, 2, 5, 10, 20, 50, ... that is not above `steps`, at least 1."""
    best = scale = 1
    while scale <= steps:
        best = max(m * scale for m in (1, 2, 5) if m * scale <= steps)
        scale *= 10
    return best


def measure_candidate(
    loop: Loop, xla: bool, form: LossForm, seconds_of_steps: float = TIMING_SECONDS, repeats: int = REPEATS,
    beside: Sequence[Loop] = (),
) -> CandidateTiming:  # fmt: skip
    """Compile and time one candidate, a loop of that form, by the fastest of `repeats`; its state is put back.

    beside: loops that take the same steps at the same time. A call of one step tells what a call takes beside its
    steps: of a hundred loops that is more than their steps take.
    """
    loops = [loop, *beside]
    states = [one.snapshot() for one in loops]
    before = states[0]

    def run(count: int) -> None:
        run_parallel([partial(one.run, count, xla) for one in loops])

    def restore() -> None:
        for one, state in zip(loops, states, strict=True):
            one.restore(state)

    start = time.perf_counter()
    run(1)
    int(loop.step)
    compile_seconds = time.perf_counter() - start
    calls: list[float] = []
    while len(calls) < repeats:
        restore()
        start = time.perf_counter()
        run(1)
        int(loop.step)
        calls.append(time.perf_counter() - start)
    count = 4
    rates: list[float] = []
    while len(rates) < repeats:
        restore()
        start = time.perf_counter()
        run(count)
        steps = int(loop.step) - int(before["step"])
        seconds = time.perf_counter() - start
        if seconds < seconds_of_steps / 2 and steps == count and count < MOST_STEPS:
            count = min(MOST_STEPS, max(2 * count, int(count * seconds_of_steps / max(seconds, 1e-4))))
        else:
            rates.append(seconds / max(steps, 1))
    restore()
    call_ms = 1e3 * max(0.0, min(calls) - min(rates))
    return CandidateTiming(form.name, form.products, xla, compile_seconds, 1e3 * min(rates), call_ms)


class _CandidateSearch:
    """Candidates tried on the largest stack of an ensemble, one after the other; the fastest one's loop is kept."""

    def __init__(self, ensemble: Ensemble, single: bool, show_number: Callable[[int], None]) -> None:
        """single: there is nothing to choose from; show_number: called with each candidate's number."""
        self.ensemble, self.single, self.show_number = ensemble, single, show_number
        self.found: list[CandidateTiming] = []
        self.best: tuple[CandidateTiming, LossForm] | None = None
        self.began = time.perf_counter()
        self.dearest = 0.0  # seconds of a candidate
        self._aside: Loop | None = None  # of the best form, while another one is tried

    def can_pay(self, gain: float) -> bool:
        """Whether another candidate is worth its timing, if it saves that share of the best one's time at most."""
        if self.best is None:
            return True
        affordable = time.perf_counter() - self.began + self.dearest <= BUDGET_SECONDS
        return affordable and gain * self.seconds > self.dearest

    def can_pay_compilation(self) -> bool:
        """Whether XLA is worth compiling the best candidate for, by what its graph took to be made."""
        assert self.best is not None
        expected = max(COMPILE_SECONDS, COMPILE_RATIO * self.best[0].compile_seconds)
        return XLA_GAIN * self.seconds > expected

    @property
    def seconds(self) -> float:
        """That all steps take with the best candidate."""
        assert self.best is not None
        return self.ensemble.settings.steps * self.best[0].ms_of_all / 1e3

    def try_form(self, form: LossForm, xla: bool, may_fail: bool) -> None:
        """Try a candidate; `may_fail`: there are more."""
        start = time.perf_counter()
        self.show_number(len(self.found) + 1)
        if form != self.ensemble.form:
            self._switch_form(form)
        loop = self.ensemble.largest_loop
        before = loop.snapshot()
        limits = (GLANCE_SECONDS, 1) if self.single else (TIMING_SECONDS, REPEATS)
        try:
            beside = self._build_beside(form, loop)
            timing = measure_candidate(loop, xla, form, *limits, beside)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.InternalError):
            # XLA cannot compile every step
            if not (xla and may_fail):
                raise
            loop.restore(before)
            LOGGER.info("form %s, products %s: XLA cannot compile it", form.name, form.products)
        else:
            rounds, settings = self.ensemble.layout.rounds, self.ensemble.settings
            steps = _compute_steps_per_call(settings, rounds * timing.ms_per_step)
            timing = replace(timing, ms_of_all=rounds * (timing.ms_per_step + timing.call_ms / steps))
            self.found.append(timing)
            LOGGER.info("tried: %s", timing)
            if self.best is None or timing.ms_of_all < self.best[0].ms_of_all:
                self.best = timing, form
        self.dearest = max(self.dearest, time.perf_counter() - start)

    def _build_beside(self, form: LossForm, loop: Loop) -> list[Loop]:
        """Loops that run beside the largest, where forms cut the replicas in different ways: they share the cores."""
        if getattr(form, "stacks", None) is None:
            return []
        return [one for one in self.ensemble.build_side_loops() if one is not loop]

    def _switch_form(self, form: LossForm) -> None:
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

    def apply_best(self) -> tuple[CandidateTiming, LossForm]:
        """Give the ensemble the best candidate; which that is."""
        assert self.best is not None
        if self.best[1] != self.ensemble.form:
            self._switch_form(self.best[1])
        if self._aside is not None:
            self._aside.close()
            self._aside = None
        return self.best


def choose(ensemble: Ensemble, forms: Forms, cores: Cores, show_stage: ShowStage = show_nothing) -> Choices:
    """Measure what the settings leave open; the ensemble, of the first form, then has the one that was chosen.

    Forms are compared without XLA first, where it is open: those that are far behind are not compiled. Then, for the
    fastest, the layouts of its products. All for 30 s at most, and each only where the training is long enough for it
    to pay. A fixed `steps_per_call` is shortened where a call would take over 2 s.
    """
    settings = ensemble.settings
    single = len(forms.names) == len(forms.layouts) == 1
    nothing_open = single and settings.xla != "auto" and settings.steps_per_call != "auto"
    most = len(forms.names) * (2 if settings.xla == "auto" else 1) + len(forms.layouts) - 1
    search = _CandidateSearch(ensemble, nothing_open, lambda n: show_stage("measuring what is fastest", n, most))
    if settings.xla != "auto":
        _try_forms(search, forms, forms.names, settings.xla)
    else:
        _try_forms(search, forms, forms.names, False)
        if search.can_pay_compilation():
            ms = {t.form: t.ms_of_all for t in search.found}
            least = min(ms.values())
            near = [name for name in sorted(ms, key=ms.__getitem__) if ms[name] <= BEHIND * least]
            search.dearest = 0.0  # of those without XLA
            _try_forms(search, forms, near, True)
    fastest, form = search.apply_best()
    for layout in forms.layouts[1:]:
        other = forms.make(form.name, layout)
        if other != form and search.can_pay(LAYOUT_GAIN):
            search.try_form(other, fastest.xla, may_fail=True)
    best, form = search.apply_best()
    steps = _compute_steps_per_call(settings, ensemble.layout.rounds * best.ms_per_step)
    losses_xla = best.xla and not ensemble.epoch and _needs_compiled_losses(ensemble, best, steps)
    return Choices(
        form=form.name, products=form.products, xla=best.xla, losses_xla=losses_xla, steps_per_call=steps,
        threads=cores.threads, cpu_stacks=cores.stacks, tried=tuple(search.found),
    )  # fmt: skip


def _try_forms(search: _CandidateSearch, forms: Forms, names: Sequence[str], xla: bool) -> None:
    """The forms of these names, the second and later ones where they can pay."""
    for number, name in enumerate(names):
        if number == 0 or search.can_pay(FORM_GAIN):
            search.try_form(forms.make(name, forms.layouts[0]), xla, may_fail=bool(search.found) or name != names[-1])


def _needs_compiled_losses(ensemble: Ensemble, best: CandidateTiming, steps_per_call: int) -> bool:
    """Whether the losses after all calls take longer without XLA than it takes to compile them."""
    loop = ensemble.largest_loop
    loop.evaluate(False)
    start = time.perf_counter()
    loop.evaluate(False)
    seconds = ensemble.layout.rounds * (time.perf_counter() - start)
    return seconds * ensemble.settings.steps / steps_per_call > best.compile_seconds


def _compute_steps_per_call(settings: Settings, ms_per_step: float) -> int:
    wanted = settings.steps_per_call
    aim = CALL_SECONDS if wanted == "auto" else LONGEST_CALL_SECONDS
    most = min(MOST_STEPS, settings.steps) if wanted == "auto" else wanted
    affordable = aim * 1e3 / ms_per_step
    steps = int(most) if most <= affordable else round_down(affordable)
    return steps if wanted != "auto" else round_down(steps)
