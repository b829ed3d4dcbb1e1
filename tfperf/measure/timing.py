"""How long steps are timed: as long as starting took, or until their median is known well, within a budget."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfperf.errors import TrainingError
from tfperf.measure.confidence import ConfidenceInterval, estimate_median

CLOSE = 0.03  # share of the median within which its interval may end the timing
MOST_SAMPLES = 10_000
CHECK_FACTOR = 1.25  # the interval is looked at when there are so many times more samples than at the last look
ENDS = {
    "interval": f"the median's 95 % interval was within {CLOSE:.0%}",
    "starting": "the steps had been timed for as long as starting took",
    "budget": "sweep.seconds had passed",
    "samples": f"there were {MOST_SAMPLES} samples",
    "steps": "the training had no more steps",
    "told": "the first worker had enough, or a cluster of the user's cannot agree on more",
}

# samples [ms], seconds timed, seconds passed -> a key of ENDS; empty: not yet
StoppingRule = Callable[[list[float], float, float], str]


@dataclass(frozen=True)
class Sample:
    """Some steps, taken one after the other."""

    steps: int
    seconds: float
    clean: bool = True  # nothing was traced meanwhile
    processor_seconds: float = 0.0  # seconds of all threads of this process


@dataclass(frozen=True)
class Timing:
    """Milliseconds a step of each sample, and what ended the timing."""

    samples: list[float]
    steps: int
    seconds: float  # of the samples
    processor_seconds: float  # seconds, of the samples
    left_out: int  # samples in which something was traced
    ended: str  # a key of ENDS

    def make_record(self, starting_seconds: float) -> dict[str, Any]:
        """For a trial; `interval`: of the median sample, None where it is not known."""
        q1, middle, q3 = np.percentile(self.samples, [25, 50, 75]).tolist()
        known: ConfidenceInterval = estimate_median(self.samples)
        return {
            "ms_per_step": {"median": middle, "q1": q1, "q3": q3}, "samples_ms": self.samples,
            "samples": len(self.samples), "left_out": self.left_out,
            "processor_ms_per_step": 1e3 * self.processor_seconds / self.steps,
            "timing": {
                "seconds": self.seconds, "starting_seconds": starting_seconds, "ended": self.ended,
                "interval": {"of": "median of the samples of this trial", "low": known.low, "high": known.high},
            },
        }  # fmt: skip


class TimingRule:
    """The rule itself: enough at CLOSE, at `starting` seconds of timed steps, or when `most_seconds` have passed.

    max_samples: that there can be, those that are left out too.

    >>> rule = TimingRule(least=3, starting_seconds=10.0, most_seconds=60.0)
    >>> rule([5.1], 0.1, 0.1), rule([5.1, 5.0, 5.2], 12.0, 13.0), rule([5.1], 0.1, 61.0)
    ('', 'starting', 'budget')
    """

    def __init__(self, least: int, starting_seconds: float, most_seconds: float, max_samples: float = math.inf) -> None:
        self.least, self.starting, self.most, self._next = least, starting_seconds, most_seconds, 1
        self._left = max_samples

    def __call__(self, samples: list[float], timed_seconds: float, passed_seconds: float) -> str:
        """Why there are enough samples; empty: there are not."""
        count = len(samples)
        self._left -= 1
        if self._left < 1 and count:
            return "steps"
        if not count:
            return ""
        if passed_seconds >= self.most:
            return "budget"
        if count < self.least:
            return ""
        if timed_seconds >= self.starting:
            return "starting"
        if count >= MOST_SAMPLES:
            return "samples"
        if count < self._next:
            return ""
        self._next = max(count + 1, int(CHECK_FACTOR * count))
        return "interval" if estimate_median(samples).is_within(CLOSE) else ""


def time_steps(take: Callable[[], Sample], rule: StoppingRule, most_seconds: float) -> Timing:
    """Samples until there are enough. Those in which something was traced are left out and counted.

    Raises: TrainingError where nothing but such came in `most` seconds.
    """
    samples: list[float] = []
    steps, timed, processor, left_out, ended, start = 0, 0.0, 0.0, 0, "", time.perf_counter()
    while not ended:
        one = take()
        passed = time.perf_counter() - start
        if one.clean:
            samples.append(1e3 * one.seconds / one.steps)
            steps, timed, processor = steps + one.steps, timed + one.seconds, processor + one.processor_seconds
        else:
            left_out += 1
            if passed >= most_seconds and not samples:
                raise TrainingError(f"in all {left_out} samples of {passed:.0f} s something was traced or compiled")
        ended = rule(samples, timed, passed)
    return Timing(samples, steps, timed, processor, left_out, ended)


class TraceCounter:
    """How often functions were traced in this process."""

    def __init__(self) -> None:
        # not public: TensorFlow's own count of the microseconds that it spends in making graphs
        from tensorflow.python.eager.polymorphic_function.tracing_compilation import _graph_building_time_counter

        self._cell = _graph_building_time_counter.get_cell()
        self.mark()

    def mark(self) -> None:
        """Count from here on."""
        self._seen = int(self._cell.value())

    def is_unchanged(self) -> bool:
        """Whether nothing was traced since the last mark."""
        return self._seen == int(self._cell.value())
