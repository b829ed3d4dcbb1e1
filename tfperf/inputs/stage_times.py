"""What each stage of a tf.data.Dataset costs, from the times of the dataset cut after each of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import tensorflow as tf

from tfperf.inputs.consuming import ConsumedBlock, Consumption, LoopCost, measure_loop, take_elements
from tfperf.inputs.elements import count_inputs, count_per_output
from tfperf.inputs.graph_copy import GraphCopy, copy_graph
from tfperf.inputs.pipeline import Pipeline
from tfperf.inputs.prefixes import Prefixes
from tfperf.inputs.rates import estimate_ratio
from tfperf.inputs.stages import read_pipeline
from tfperf.inputs.tuning import StageTuning, read_tuning
from tfperf.measure.confidence import ConfidenceInterval

ROUNDS = 2  # each prefix is timed so often, so that what changes the machine's speed meanwhile is in the intervals
RUNS = 2  # by AUTOTUNE, and by one thread
WARM = 1.5  # of the time of a measurement, with what warms it up


@dataclass(frozen=True)
class PrefixTime:
    """The dataset up to a stage, for each element that comes out there."""

    rate: ConfidenceInterval  # elements/s with AUTOTUNE: the ceiling of all that follows
    cpu: ConfidenceInterval  # CPU-s of all threads, then, without what taking elements costs
    alone_cpu: ConfidenceInterval  # CPU-s where one thread makes all
    alone_wait: ConfidenceInterval  # s of that thread without a core, that it did not want either
    read_characters: float  # bytes, by reading calls
    read_bytes: float  # from the disk
    first_seconds: float  # until the first element came


@dataclass(frozen=True)
class StageTime:
    """A stage by itself: the difference between two prefixes, for each element of its own."""

    prefix: PrefixTime
    cpu: ConfidenceInterval  # CPU-s with AUTOTUNE
    wait: ConfidenceInterval  # s without a core
    read_characters: float
    read_bytes: float
    per_output: float | None  # elements of it for one of the dataset's, in the first pass
    tuning: StageTuning | None  # while the whole dataset ran


@dataclass(frozen=True)
class PipelineTimes:
    """Times of stages, each at its position."""

    stages: tuple[StageTime, ...]
    unordered_rate: ConfidenceInterval | None  # elements/s of the whole without order; None: no stage could give it up

    @property
    def rate(self) -> ConfidenceInterval:
        """Elements/s of the whole, with AUTOTUNE and without fusions."""
        return self.stages[-1].prefix.rate

    def get_seconds(self, position: int) -> float:
        """CPU and waiting time of a stage for an element of the dataset; 0 where it is not known or within noise."""
        one = self.stages[position]
        return max(0.0, one.cpu.value + one.wait.value) * (one.per_output or 0.0)

    def get_share(self, position: int) -> float:
        """Of the CPU and waiting time of all stages."""
        total = sum(map(self.get_seconds, range(len(self.stages))))
        return self.get_seconds(position) / total if total else 0.0


def measure_stages(dataset: tf.data.Dataset, seconds: float, rounds: int = ROUNDS) -> tuple[Pipeline, PipelineTimes]:
    """Read the stages of a dataset, and time each; the dataset itself is not run.

    seconds: of all measurements together; to make the programs takes some tenths of a second a stage beside it, and
    at least two elements are parts from each prefix, however long they need.
    Long shuffles are measured with a short buffer; caches as they are in later passes, so that a cache costs what
    reading from it does, and the stages before it what they cost while it is filled.
    Raises: UserError where the dataset has no graph, or no elements; what its functions raise.
    """
    copy = copy_graph(dataset)
    pipeline, prefixes = read_pipeline(copy), Prefixes(copy)
    has_order = any(one.parallel is not None and one.keeps_order is not False for one in pipeline.stages)
    each = seconds / WARM / rounds / (RUNS * len(pipeline.stages) + 1 + has_order)
    loop = measure_loop(each)
    runs = [_run(prefixes, pipeline, each) for _ in range(rounds)]
    loose = [take_elements(_give_up_order(prefixes, copy), each) for _ in range(rounds)] if has_order else []
    return pipeline, _conclude(pipeline, runs, loop, _estimate_rate(loose) if loose else None)


@dataclass(frozen=True)
class _PrefixRun:
    tuned: Consumption
    alone: Consumption
    tuning: Mapping[int, StageTuning]


def _run(prefixes: Prefixes, pipeline: Pipeline, seconds: float) -> list[_PrefixRun]:
    found = []
    for position, stage in enumerate(pipeline.stages):
        tuned = take_elements(prefixes.make_tuned(stage.node), seconds)
        tuning = read_tuning(tuned.iterator, pipeline, position)
        # its threads end with it, and leave the cores to the next one
        tuned = replace(tuned, iterator=None)
        alone = take_elements(prefixes.make_single(stage.node), seconds, is_alone=True)
        found.append(_PrefixRun(tuned, replace(alone, iterator=None), tuning))
    return found


def _give_up_order(prefixes: Prefixes, copy: GraphCopy) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = False
    return prefixes.make_tuned(copy.output).with_options(options)


def _conclude(
    pipeline: Pipeline, runs: list[list[_PrefixRun]], loop: LoopCost, unordered: ConfidenceInterval | None
) -> PipelineTimes:
    """runs: of each round, by position; loop: what taking elements costs."""
    last = runs[-1]
    inputs = {place: count_inputs(pipeline, place, one.tuning) for place, one in enumerate(last)}
    counts = count_per_output(pipeline, inputs)
    before = [_summarise_prefix([one[place] for one in runs], loop) for place in range(len(last))]
    stages = []
    for place, prefix in enumerate(before):
        # a full cache takes nothing from the stages before it
        sources = {} if pipeline.stages[place].kind == "cache" else inputs[place]
        parts = [(1.0 if ratio is None else ratio, before[source]) for source, ratio in sources.items()]
        stages.append(
            StageTime(
                prefix, subtract(prefix.cpu, [(ratio, one.cpu) for ratio, one in parts]),
                subtract(prefix.alone_wait, [(ratio, one.alone_wait) for ratio, one in parts]),
                prefix.read_characters - sum(ratio * one.read_characters for ratio, one in parts),
                prefix.read_bytes - sum(ratio * one.read_bytes for ratio, one in parts),
                counts[place],
                # what is before a cache that is full no longer runs with the whole
                last[-1].tuning.get(place) or last[place].tuning.get(place),
            )
        )  # fmt: skip
    return PipelineTimes(tuple(stages), unordered)


def subtract(whole: ConfidenceInterval, parts: list[tuple[float, ConfidenceInterval]]) -> ConfidenceInterval:
    """A figure without some multiples of others, all measured apart: half widths add up as errors do, by squares.

    >>> subtract(ConfidenceInterval(10.0, 7.0, 13.0), [(2.0, ConfidenceInterval(1.0, -1.0, 3.0))])
    ConfidenceInterval(value=8.0, low=3.0, high=13.0)
    """
    value = whole.value - sum(ratio * one.value for ratio, one in parts)
    halves = [whole.half, *(None if one.half is None else ratio * one.half for ratio, one in parts)]
    known = [half for half in halves if half is not None]
    if len(known) < len(halves):
        return ConfidenceInterval(value)
    half = math.hypot(*known)
    return ConfidenceInterval(value, value - half, value + half)


def _summarise_prefix(runs: list[_PrefixRun], loop: LoopCost) -> PrefixTime:
    """Of one stage, in all rounds."""
    tuned = [block for one in runs for block in one.tuned.blocks]
    alone = [block for one in runs for block in one.alone.blocks]
    elements = sum(one.elements for one in tuned)
    return PrefixTime(
        _estimate_rate([one.tuned for one in runs]),
        estimate_ratio([loop.leave_out(one) for one in tuned], [one.elements for one in tuned]),
        estimate_ratio([loop.leave_out(one) for one in alone], [one.elements for one in alone]),
        estimate_ratio([_compute_wait(one) for one in alone], [one.elements for one in alone]),
        sum(one.tuned.counts.read_characters for one in runs) / elements,
        sum(one.tuned.counts.read_bytes for one in runs) / elements,
        min(one.tuned.first_seconds for one in runs),
    )


def _estimate_rate(runs: list[Consumption]) -> ConfidenceInterval:
    blocks = [block for one in runs for block in one.blocks]
    return estimate_ratio([one.elements for one in blocks], [one.seconds for one in blocks])


def _compute_wait(block: ConsumedBlock) -> float:
    """Seconds; what a busy machine takes from the thread is no waiting of its own."""
    return max(0.0, block.seconds - block.cpu_seconds - block.ready_seconds)
