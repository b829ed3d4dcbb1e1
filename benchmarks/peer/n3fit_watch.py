"""Times the peer's fit from inside, through the peer's own callback interface. Runs in the peer's environment."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from n3fit.backends import MetaModel, callbacks

from tfperf.measure.environment import measure_peak_rss_bytes


class Watch(callbacks.CallbackStep):
    """To be the first callback: notes when steps begin and end, and ends the fit after some steps or seconds.

    A step lasts from its beginning to the next one's, so that it holds everything a user waits for: training, logs on
    the host, validation, stopping. `on_start` is called with the training model before the first step.
    """

    def __init__(self, steps: int, warmup: int, max_seconds: float, on_start: Callable[[Any], None]) -> None:
        super().__init__()
        self.steps, self.warmup, self.max_seconds, self.on_start = steps, warmup, max_seconds, on_start
        self.record: dict[str, Any] = {}
        self.loss: list[float] = []
        self._begin: list[float] = []
        self._end: list[float] = []
        self._cpu: list[float] = []  # seconds of the process at the beginning of each step, and at the end of all
        self._start = self._cpu_start = 0.0

    def on_train_begin(self, logs: Any = None) -> None:
        """The graph of the model is there; nothing is traced yet."""
        variables = self.model.trainable_variables
        self.record["jit"] = str(self.model.jit_compile)
        self.record["trainable_variables"] = len(variables)
        self.record["parameters"] = int(sum(np.prod(v.shape) for v in variables))
        self.on_start(self.model)
        self._start, self._cpu_start = time.perf_counter(), time.process_time()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Note a step's beginning."""
        self._begin.append(time.perf_counter())
        self._cpu.append(time.process_time())

    def on_step_end(self, step: int, logs: Any = None) -> None:
        """Note the end of a step's training part; the callbacks behind this one come after it."""
        self._end.append(time.perf_counter())
        if step == 0:
            self.record["first_step_s"] = round(self._end[0] - self._start, 3)
            self.record["first_step_cpu_s"] = round(time.process_time() - self._cpu_start, 3)
        self.loss.append(float(self.correct_logs(dict(logs))["loss"]))
        if len(self._end) >= self.steps or self._end[-1] - self._end[0] > self.max_seconds:
            self.model.stop_training = True

    def on_train_end(self, logs: Any = None) -> None:
        """Sum up: medians with the 10 and 90 percent points, without the warm-up steps."""
        begin, end, cpu = np.array(self._begin), np.array(self._end), [*self._cpu, time.process_time()]
        warm = min(self.warmup, max(len(begin) - 3, 0))
        cpu_seconds = cpu[-1] - cpu[warm]
        self.record |= {
            "n_steps": len(end),
            "ms_step": compute_percentiles(np.diff(begin)[warm:]),
            "ms_training": compute_percentiles((end - begin)[warm:]),
            "cpu_ms_step": round(cpu_seconds / (len(begin) - warm) * 1e3, 2),
            "cores_used": round(cpu_seconds / (time.perf_counter() - begin[warm]), 2),
            "loss_first": self.loss[0],
            "loss_last": self.loss[-1],
            "peak_rss_mb": round(measure_peak_rss_bytes() / 2**20, 1),
        }


def measure_validations() -> list[float]:
    """Seconds of each of the peer's validation passes, copy to the host included; the list grows as the fit goes."""
    seconds: list[float] = []
    original = MetaModel.compute_losses

    def measure_losses(model: Any) -> Any:
        start = time.perf_counter()
        losses = original(model)
        seconds.append(time.perf_counter() - start)
        return losses

    MetaModel.compute_losses = measure_losses
    return seconds


def compute_percentiles(seconds: Any) -> list[float] | None:
    """Median, 10 and 90 percent points in ms; None where there is nothing to take them of."""
    return [round(float(v), 3) for v in np.percentile(seconds, [50, 10, 90]) * 1e3] if len(seconds) else None
