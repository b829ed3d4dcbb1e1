"""What preparing the data ahead would give: after how many epochs it has paid."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfperf.inputs.bound import estimate_step_seconds
from tfperf.inputs.break_even import find_break_even
from tfperf.inputs.expected_rates import compute_most_rate
from tfperf.report.input_rates import list_before
from tfperf.report.input_stages import StageRow, get_free_cores

WORTH = 0.1  # of the input's time, which storing has to save


@dataclass(frozen=True)
class StoreGain:
    """Storing what comes out of a stage."""

    stage: str  # the last one that is run once
    before: str  # the one after it
    elements: float  # that are stored
    stored_bytes: float
    preparation_seconds: float
    epoch_seconds: float  # now; an epoch is the training's, which may be a part of a pass of the data
    stored_epoch_seconds: float
    epochs: float | None  # until it has paid; None: never
    python: tuple[str, ...] = ()  # stages that are run once and call Python

    def list_course(self, epochs: int, is_stored: bool) -> list[float]:
        """Seconds since the beginning after 0, 1, ... epochs."""
        first, each = (self.preparation_seconds, self.stored_epoch_seconds) if is_stored else (0.0, self.epoch_seconds)
        return [first + number * each for number in range(epochs + 1)]


def find_store_gain(report: Mapping[str, Any], rows: Sequence[StageRow], threads: float) -> StoreGain | None:
    """The gain of storing at the point that the record names; None where it names none, or where nothing costly is
    before it.

    A batch takes as long as the slowest of its step, its input, and the CPU time of both on the free cores. The input
    without the stages before the point is slower or faster than now by what their times say; reading what is stored was
    timed at its size.
    """
    found, source = report["as_it_is"], report["as_it_is"]["source"]
    point = source.get("ahead")
    if point is None:
        return None
    place = point["position"]
    each = source["times"]["stages"][place]["per_output"]
    elements, rate = rows[place].cardinality, source["times"]["stages"][place]["prefix"]["rate"]["value"]
    if not each or elements is None:
        return None
    steps = source.get("steps_per_epoch") or elements / each
    before = list_before(source["pipeline"]["stages"], place)
    elements = _count_once(rows, before, elements)
    kept = {row.position for row in rows} - before
    cores = get_free_cores(report)
    loads = [one.make_load(threads) for one in rows]
    saved = sum(one.seconds for position, one in enumerate(loads) if position not in kept)
    read = each * point["read_seconds"]
    if saved - read < WORTH * sum(one.seconds for one in loads):
        return None
    stored = [
        one if position in kept else replace(one, cpu_seconds=0.0, wait_seconds=0.0)
        for position, one in enumerate(loads)
    ]
    stored[place] = replace(stored[place], cpu_seconds=read, calls=None, is_ahead=True)
    batch = 1 / found["both"]["rate"]["value"]
    faster = compute_most_rate(loads, cores, threads) / compute_most_rate(stored, cores, threads)
    cpu = (
        found["both"]["processor_seconds"] - sum(one.cpu_seconds for one in loads) + sum(o.cpu_seconds for o in stored)
    )
    after = max(estimate_step_seconds(found, cores), faster / found["data"]["rate"]["value"], cpu / cores)
    preparation = elements / rate
    now, then = steps * batch, steps * min(after, batch)
    following = next((one.name for one in rows if place in one.inputs), "the end")
    epochs = find_break_even(preparation, now, then)
    python = tuple(row.name for row in rows if row.position in before and row.has_python)
    return StoreGain(
        rows[place].name, following, elements, elements * point["element_bytes"], preparation, now, then, epochs, python
    )


def _count_once(rows: Sequence[StageRow], before: Iterable[int], elements: float) -> float:
    """Elements at a place without what those before it that repeat make of them."""
    for one in (rows[position] for position in before if rows[position].kind == "repeat"):
        once = rows[one.inputs[0]].cardinality
        if once and one.cardinality:
            elements *= once / one.cardinality
    return elements
