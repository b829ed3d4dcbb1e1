"""Steps a second that a training is expected to take once its pipeline is changed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfperf.inputs.expected_rates import StageLoad, compute_most_rate, list_thread_seconds
from tfperf.report.input_stages import StageRow, get_free_cores, list_binding

WAITS = 0.5  # of a stage's time, from which on more threads than cores are of use
MOST_THREADS = 64
AIM = 0.95  # of the rate that cores and step allow
PARALLEL = ("sequential_map", "sequential_interleave", "few_parallel_calls")
CHEAPER = ("python_in_map", "batch_after_map")  # whose cost afterwards is not known, but smaller


class ExpectedRates:
    """Of one study of a tf.data pipeline."""

    def __init__(self, report: Mapping[str, Any], rows: Sequence[StageRow]) -> None:
        """rows: of the report's source."""
        self._found, self._rows, self._workers = report["as_it_is"], rows, report["workers"] or {}
        self._cores = get_free_cores(report)
        self._threads = float(self._found["source"]["pipeline"]["options"]["threads"] or report["cores"])
        self._loads = [one.make_load(self._threads) for one in rows]
        self._has_fixed = bool(list_binding(rows, self._found["data"]["rate"]["value"]))
        self._stages = self._found["source"]["pipeline"]["stages"]
        options = self._found["source"]["pipeline"]["options"]
        self._has_prefetch = options["autotune"] and options["inject_prefetch"]  # of TensorFlow's own, if need be

    @property
    def threads(self) -> int:
        """Of a pool with which stages that wait keep up with the step, or with the cores; at least as many as now.

        The knee where it is known, or as many as their times say, where a stage is not widened by threads as it is now,
        or more threads than were looked at give more.
        """
        rates = self._workers.get("with_step", ())
        if not self._has_fixed and rates and rates[-1]["cap"] != "workers":
            return int(max(self._threads, self._workers["knee_with_step"]))
        cpu, seconds = sum(one.cpu_seconds for one in self._loads), sum(one.seconds for one in self._loads)
        step = self._found["model"]["rate"]["value"]
        rate = min(step, self._cores / cpu) if cpu else step
        return int(max(self._threads, min(MOST_THREADS, math.ceil(AIM * rate * seconds))))

    def is_waiting(self, position: int) -> bool:
        """Whether a stage mostly waits."""
        one = self._loads[position]
        return one.wait_seconds >= WAITS * one.seconds > 0

    def predict(self, problems: Sequence[Mapping[str, Any]]) -> float:
        """Steps/s with these problems cured: the rate of the data that was measured, times what the times of the stages
        say of the change, but no more than the step, and the CPU time of both on the free cores, allow."""
        changed, threads, loose = [*self._loads], self._threads, 1.0
        for one in problems:
            changed = self._change(one, changed)
            if one["kind"] == "order_kept":
                loose = one["evidence"]["unordered_rate"] / one["evidence"]["rate"]
            if one["kind"] == "thread_pool_limits" or self._needs_threads(one):
                threads = float(self.threads)
        found, now = self._found, self._found["data"]["rate"]["value"]
        before = compute_most_rate(self._loads, self._cores, self._threads)
        after = compute_most_rate(changed, self._cores, threads)
        data = now * loose * after / before if math.isfinite(after) else math.inf
        chain = self._workers.get("with_step", ())
        if [one["kind"] for one in problems] == ["thread_pool_limits"] and self.threads <= len(chain):
            data = after = chain[self.threads - 1]["rate"]
        saved = sum(one.cpu_seconds for one in self._loads) - sum(one.cpu_seconds for one in changed)
        cpu = max(found["model"]["processor_seconds"], found["both"]["processor_seconds"] - saved)
        step = found["model"]["rate"]["value"]
        if not self._has_prefetch:  # what the thread that asks for a batch does for it comes before the step
            step = 1 / (1 / step + list_thread_seconds(changed)[0])
        return float(min(data, after * loose, step, self._cores / cpu if cpu else math.inf))

    def _needs_threads(self, problem: Mapping[str, Any]) -> bool:
        """Whether a cure comes with a pool of its own."""
        return problem["kind"] in PARALLEL and self.is_waiting(problem["positions"][0])

    def _change(self, problem: Mapping[str, Any], loads: list[StageLoad]) -> list[StageLoad]:
        kind, places = problem["kind"], problem["positions"]
        if kind == "no_prefetch":
            return [*loads, StageLoad(0.0, 0.0, None, True, (len(loads) - 1,))]
        if kind == "cache":
            places = [*list_before(self._stages, places[0])]
        if kind in (*CHEAPER, "cache"):
            return [_leave_idle(one) if place in places else one for place, one in enumerate(loads)]
        if kind == "python_generator":  # as many processes as cores
            return [replace(one, calls=self._threads) if place in places else one for place, one in enumerate(loads)]
        if kind in PARALLEL:
            calls = float(self.threads) if self._needs_threads(problem) else self._threads
            return [replace(one, calls=calls) if place in places else one for place, one in enumerate(loads)]
        if kind == "thread_pool_limits":
            return [one if one.calls is None else replace(one, calls=float(self.threads)) for one in loads]
        return loads


def list_before(stages: Sequence[Mapping[str, Any]], place: int) -> set[int]:
    """Positions of a stage and of all whose elements it is made of, by the stages of a record."""
    found, waiting = set[int](), [place]
    while waiting:
        one = waiting.pop()
        found.add(one)
        waiting += stages[one]["inputs"]
    return found


def _leave_idle(load: StageLoad) -> StageLoad:
    return replace(load, cpu_seconds=0.0, wait_seconds=0.0)
