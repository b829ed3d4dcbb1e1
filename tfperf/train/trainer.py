"""Calls of the compiled loop until all replicas are done, with retirement, history, checkpoints and signals."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tfperf.arrays import Float32Array, Float64Array, Int64Array
from tfperf.errors import RunDirectoryError
from tfperf.signals import Signals
from tfperf.train.checkpoint import Checkpoints
from tfperf.train.companion import PREFIX, Companion, Companions
from tfperf.train.ensemble import Ensemble
from tfperf.train.retirement import Retirement
from tfperf.train.tolerance import ToleranceCheck
from tfperf.train.window import Recorder, record_call

LOGGER = logging.getLogger(__name__)
HISTORY, CHECKS = "history/", "tolerance/checks"


@dataclass(frozen=True)
class EnsembleProgress:
    """What the host learns after each call."""

    step: int
    steps: int
    running: int
    steps_per_second: float
    latest: Float64Array  # (R) what is shown of each replica, of one that stopped what was last seen
    quarantined: int = 0

    @property
    def over(self) -> bool:
        """Whether no further step will be taken."""
        return self.step >= self.steps or not self.running


@dataclass(frozen=True)
class MetricHistory:
    """What was kept at the end of each compiled call."""

    step: Int64Array  # (H) steps taken at the end of each of H calls
    metrics: Mapping[str, Float64Array]  # (H, R) each; nan once a replica has stopped


class Trainer:
    """Trains an ensemble to its end; the history and the ensemble's state make up a checkpoint."""

    def __init__(
        self, ensemble: Ensemble, xla: bool, steps_per_call: int, retirement: Retirement, checkpoints: Checkpoints,
        check: ToleranceCheck | None = None, recorder: Recorder | None = None, losses_xla: bool = False,
        companions: Mapping[str, Companion] | None = None,
    ) -> None:  # fmt: skip
        """xla: of the steps; losses_xla: of the losses between calls; check: None where the losses are exact."""
        self.companions = Companions(companions or {})
        self.ensemble, self.xla, self.steps_per_call, self.checkpoints = ensemble, xla, steps_per_call, checkpoints
        self.losses_xla = losses_xla
        self.retirement, self.check, self.recorder = retirement, check or ToleranceCheck(), recorder
        self.metrics: dict[str, list[Float32Array]] = {name: [] for name in ensemble.factory.metrics}
        self.steps: list[int] = []
        self.seconds_of_steps = 0.0  # of this process
        self.seconds_per_step: dict[int, list[float]] = {}  # of each call, by the slots of the stacks that took steps
        self._latest: Float64Array | None = None
        self._quarantined = 0  # when that was last looked at

    def resume(self) -> tuple[int, list[str]]:
        """Take up the newest checkpoint; returns its step (0: there is none) and warnings.

        Those are of damaged checkpoints, and of another number of devices.
        """
        arrays, warnings = self.checkpoints.load()
        if not arrays:
            return 0, warnings
        try:
            own = (HISTORY, CHECKS, PREFIX)
            moved = self.ensemble.restore({k: v for k, v in arrays.items() if not k.startswith(own)})
            self.steps = arrays[HISTORY + "step"].tolist()
            self.metrics = {name: list(arrays[HISTORY + name].astype(np.float32)) for name in self.metrics}
            self.check.found = [(int(step), int(rank), float(worst)) for step, rank, worst in arrays[CHECKS]]
            self.companions.restore(arrays)
        except (ValueError, LookupError, TypeError, OverflowError) as error:
            folder = self.checkpoints.folder
            raise RunDirectoryError(f"{folder}: checkpoint of another program version: {error}") from None
        return self.ensemble.step, warnings + ([moved] if moved else [])

    def train(self, signals: Signals, report: Callable[[EnsembleProgress], None]) -> None:
        """Call after call to the end, with a last checkpoint; Interrupted after a checkpoint when a signal came."""
        every = self.ensemble.settings.checkpoint_every
        saved = self.ensemble.step
        while not self.ensemble.is_done():
            self._retire()
            with signals.defer():
                before = self.ensemble.step
                seconds = self._call(before)
                step = self.ensemble.step
                self._check_tolerance(step)
                report(self._make_progress(step, (step - before) / seconds))
                if step // every > saved // every or signals.received is not None:
                    self.save()
                    saved = step
            signals.stop_if_asked(step)
        self.companions.finish(self.ensemble.step)
        self.ensemble.keep_best(self.losses_xla)
        self.save()

    def _call(self, before: int) -> float:
        """Take the steps of one call, from step `before` on, and record their losses; seconds of the steps."""
        busy = self.ensemble.busy
        due = self.check.find_next_step(self.ensemble.form, before)
        ready = self.companions.prepare(before, self.ensemble.settings.steps)
        with record_call(self.recorder, self.steps_per_call) as most:
            start = time.perf_counter()
            until = min(before + most, before + ready, self.retirement.find_next_step(before), due)
            self.ensemble.run(until - before, self.xla)
            step = self.ensemble.step
            seconds = time.perf_counter() - start
            found = self._record()
            self.companions.end_call(before, step, found)
        self.seconds_of_steps += seconds
        self.seconds_per_step.setdefault(busy, []).append(seconds / max(step - before, 1))
        return seconds

    def save(self) -> Path:
        """Write a checkpoint of now."""
        arrays = {**self.ensemble.snapshot(), **self.companions.snapshot()}
        arrays[HISTORY + "step"] = np.array(self.steps, np.int64)
        arrays[CHECKS] = np.array(self.check.found, np.float64).reshape(-1, 3)
        count = self.ensemble.replicas
        for name, kept in self.metrics.items():
            arrays[HISTORY + name] = np.array(kept, np.float32).reshape(len(kept), count)
        return self.checkpoints.save(self.ensemble.step, arrays)

    def make_history(self) -> MetricHistory:
        """What was kept of all calls so far."""
        stacked = {n: np.array(r, np.float64).reshape(len(r), self.ensemble.replicas) for n, r in self.metrics.items()}
        return MetricHistory(np.array(self.steps, np.int64), stacked)

    def _retire(self) -> None:
        """Go on with fewer or smaller stacks where the plan says so; compiled here: the calls' times are of steps.

        Each device's stacks shrink by themselves, as they would alone: a replica that moved would get other bits.
        """
        ensemble, sizes = self.ensemble, []
        for one, running in zip(
            ensemble.device_stacks, ensemble.count_running_each(ensemble.device_stacks), strict=True
        ):
            retirement = replace(self.retirement, layout=one.layout)
            # a device whose replicas have all stopped takes no steps that could be saved
            sizes.append(retirement.choose_size(ensemble.step, one.size, running) if running else one.size)
        if sum(sizes) < ensemble.size:
            LOGGER.info(
                "step %d: %d replicas run; the stacks retire from %d slots to %d",
                ensemble.step, ensemble.count_running(), ensemble.size, sum(sizes),
            )  # fmt: skip
            ensemble.shrink(*sizes)
            ensemble.warm_up(self.xla, self.losses_xla)

    def _check_tolerance(self, step: int) -> None:
        """Check the tolerance where that is due; a form with more directions is compiled here."""
        before = self.ensemble.form
        if self.check.is_due(before, step) and self.ensemble.count_running():
            self.check.check_ensemble(self.ensemble, {name: kept[-1] for name, kept in self.metrics.items()})
            if self.ensemble.form != before:
                self.ensemble.warm_up(self.xla, self.losses_xla)

    def _record(self) -> Mapping[str, Sequence[Float32Array]]:
        """Rows of the history since the last call."""
        steps, found = self.ensemble.take_rows(self.losses_xla)
        self.steps += steps
        for name, kept in self.metrics.items():
            kept += found[name]
        return found

    def _make_progress(self, step: int, rate: float) -> EnsembleProgress:
        ensemble, steps = self.ensemble, self.ensemble.settings.steps
        rows = self.metrics[ensemble.factory.progress_metric]
        found = rows[-1].astype(np.float64) if rows else np.full(ensemble.replicas, np.nan)
        self._latest = latest = found if self._latest is None else np.where(np.isfinite(found), found, self._latest)
        quarantined, before = ensemble.count_quarantined(), self._quarantined
        if quarantined != before:
            self._quarantined = quarantined
            LOGGER.warning("step %d: %d replicas are quarantined, %d before", step, quarantined, before)
        return EnsembleProgress(step, steps, ensemble.count_running(), rate, latest, quarantined)
