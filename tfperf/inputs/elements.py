"""How many elements of one stage make an element of the next."""

from collections.abc import Mapping

from tfperf.inputs.pipeline import Pipeline
from tfperf.inputs.tuning import StageTuning

# that give as many as they take, but for what buffers hold and ends cut off
EVEN = frozenset((
    "assert_cardinality", "cache", "enumerate", "map", "prefetch", "rebatch", "repeat", "scan", "shuffle",
    "shuffle_and_repeat", "skip", "take", "zip",
))  # fmt: skip
BATCHING = frozenset(("batch", "map_and_batch", "padded_batch", "ragged_batch"))


def count_inputs(pipeline: Pipeline, position: int, tuning: Mapping[int, StageTuning]) -> dict[int, float | None]:
    """Elements of each input for an element of a stage; None: not known.

    tuning: what was counted while the dataset ran to this stage, for those that are known by running alone: filters,
    datasets of datasets, windows, what is put together from several.
    """
    stage = pipeline.stages[position]
    if stage.kind in EVEN:
        return dict.fromkeys(stage.inputs, 1.0)
    if stage.kind in BATCHING and stage.size:
        return dict.fromkeys(stage.inputs, float(stage.size))
    return {source: _count_ratio(tuning.get(source), tuning.get(position)) for source in stage.inputs}


def count_per_output(pipeline: Pipeline, inputs: Mapping[int, Mapping[int, float | None]]) -> list[float | None]:
    """Elements of each stage for one of the last, in the first pass; inputs: as `count_inputs` gives them."""
    counts: list[float | None] = [None] * len(pipeline.stages)
    counts[-1] = 1.0
    for position in reversed(range(len(pipeline.stages))):
        for source, ratio in inputs[position].items():
            mine = counts[position]
            counts[source] = None if mine is None or ratio is None else mine * ratio
    return counts


def _count_ratio(source: StageTuning | None, stage: StageTuning | None) -> float | None:
    if source is None or stage is None or not stage.elements:
        return None
    return source.elements / stage.elements
