"""Rules on what comes when: caches that freeze chance, shuffles that hardly mix, order that costs time."""

import math
from collections.abc import Iterator

from tfperf.inputs.case import HALF, Case, InputProblem

SMALL_SHUFFLE = 0.1  # of what is shuffled
GAIN = 1.05  # of the rate, from which on giving up order is worth a word


def find_frozen_chance(case: Case) -> Iterator[InputProblem]:
    """Caches after steps that draw: each pass has the draws of the first. A shuffle after the cache mixes anew."""
    stages = case.pipeline.stages
    for position, stage in enumerate(stages):
        if stage.kind != "cache":
            continue
        mixed = any(stages[one].kind.startswith("shuffle") for one in case.pipeline.list_children(position))
        before = case.pipeline.list_parents(position)
        drawn = [one for one in before if stages[one].draws]
        shuffled = [one for one in before if stages[one].kind.startswith("shuffle") and not mixed]
        if drawn or shuffled:
            yield InputProblem("cache_after_random", (*sorted((*drawn, *shuffled)), position))


def find_endless_caches(case: Case) -> Iterator[InputProblem]:
    """Caches of what has no end: they only grow."""
    for position, stage in enumerate(case.pipeline.stages):
        if stage.kind == "cache" and stage.inputs and case.pipeline.stages[stage.inputs[0]].cardinality == math.inf:
            yield InputProblem("cache_of_endless", (position,))


def find_small_shuffles(case: Case) -> Iterator[InputProblem]:
    """Shuffles whose buffer holds a small part of a pass, where nothing before them has mixed all of it."""
    stages = case.pipeline.stages
    for position, stage in enumerate(stages):
        length = _find_length(case, position)
        if not stage.kind.startswith("shuffle") or not isinstance(stage.buffer, int) or length is None:
            continue
        if 0 < stage.buffer < SMALL_SHUFFLE * length and not _is_mixed(case, position):
            yield InputProblem("small_shuffle", (position,), None, {"buffer": float(stage.buffer), "elements": length})


def find_costly_order(case: Case) -> Iterator[InputProblem]:
    """Order that is kept where a parallel stage waits for its slowest call, and the whole is faster without."""
    loose, rate = case.times.unordered_rate, case.times.rate
    if loose is None or not case.pipeline.options.keeps_order or None in (loose.low, rate.high):
        return
    waiting = [
        position for position, stage in enumerate(case.pipeline.stages)
        if case.is_parallel(position) and stage.keeps_order is None and case.get_wait_share(position) >= HALF
        and case.is_notable(position)
    ]  # fmt: skip
    beyond_chance = loose.low is not None and rate.high is not None and loose.low > rate.high
    if waiting and beyond_chance and loose.value >= GAIN * rate.value:
        figures: dict[str, float | str] = {"rate": rate.value, "unordered_rate": loose.value}
        yield InputProblem("order_kept", tuple(waiting), case.get_share(*waiting), figures)


ORDER_RULES = (find_frozen_chance, find_endless_caches, find_small_shuffles, find_costly_order)


def _find_length(case: Case, position: int) -> float | None:
    """Elements of a pass that come to a stage; those before a repeat, which makes many of one."""
    while case.pipeline.stages[position].inputs:
        position = case.pipeline.stages[position].inputs[0]
        length = case.pipeline.stages[position].cardinality
        if length is None or length < math.inf:
            return length
        if case.pipeline.stages[position].kind not in ("repeat", "shuffle_and_repeat", "map", "prefetch", "cache"):
            return None
    return None


def _is_mixed(case: Case, position: int) -> bool:
    """Whether a stage before has mixed a whole pass."""
    for before in case.pipeline.list_parents(position):
        stage, length = case.pipeline.stages[before], _find_length(case, before)
        buffer = stage.buffer if isinstance(stage.buffer, int) and stage.kind.startswith("shuffle") else None
        if buffer is not None and (buffer < 0 or (length is not None and buffer >= length)):
            return True
    return False
