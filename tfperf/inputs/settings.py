"""Settings put on any tf.data.Dataset, without touching the code that makes it: options, and stages made parallel."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfperf.errors import CardError
from tfperf.inputs.graph_copy import GraphCopy, read_graph, replace_operation
from tfperf.inputs.graph_nodes import find_place
from tfperf.inputs.pipeline import Pipeline, Stage
from tfperf.inputs.stages import AUTO, read_pipeline
from tfperf.runcard.input_settings import Calls, InputSettings

CALLS = "num_parallel_calls"
MAP, PARALLEL_MAP = "MapDataset", "ParallelMapDatasetV2"
CHANGEABLE = ("map", "interleave", "batch", "filter")  # kinds whose parallel calls are a number that can be another


def apply_settings(dataset: tf.data.Dataset, settings: InputSettings, key: str = "data.input") -> tf.data.Dataset:
    """The same elements in the same order, made in another way; key: of the card, for messages.

    A map becomes parallel, or takes another number of calls, in the dataset's graph. Its shuffles, caches and Python
    functions are those of the dataset itself, so use only one of both. All else is `tf.data.Options` and a prefetch at
    the end. Raises: CardError where a stage cannot be found or changed; UserError where the dataset has no graph.
    """
    if settings.parallel_calls is not None:
        dataset = _set_calls(dataset, settings.parallel_calls, f"{key}.parallel_calls")
    if settings.prefetch is not None:
        dataset = dataset.prefetch(AUTO if settings.prefetch == "auto" else settings.prefetch)
    options = tf.data.Options()
    if settings.threads is not None:
        options.threading.private_threadpool_size = settings.threads
    if settings.ordered is not None:
        options.deterministic = settings.ordered
    return dataset.with_options(options)


def is_safe_to_parallelise(stage: Stage) -> bool:
    """Whether a map gives the same whatever number of its calls run at once: it draws nothing and leaves nothing.

    Python may do either, so it is not. A map whose calls overlap already is its user's own wish; one call at a time is
    what a user has set who needs an order.
    """
    if stage.kind != "map":
        return False
    return stage.parallel not in (None, 1) or (stage.function is not None and not stage.function.stateful)


def _set_calls(dataset: tf.data.Dataset, wish: Calls | Mapping[str, Calls], key: str) -> tf.data.Dataset:
    copy = read_graph(dataset)
    if copy.held:
        what = ", ".join(copy.held)
        raise CardError(
            f"{key}: must be left out: the dataset's functions hold {what}, which a changed graph would copy"
        )
    pipeline = read_pipeline(copy)
    changed = copy.duplicate()
    for stage, calls in _list_changes(pipeline, wish, key):
        number, was_sequential = AUTO if calls == "auto" else calls, stage.parallel in (None, 1)
        _make_parallel(changed, changed.nodes[stage.node], number, was_sequential)
    return changed.build_alike()


def _list_changes(pipeline: Pipeline, wish: Calls | Mapping[str, Calls], key: str) -> list[tuple[Stage, Calls]]:
    """Stages with the calls that each is to have. Raises: CardError for a name that none has."""
    if not isinstance(wish, Mapping):
        return [(stage, wish) for stage in pipeline.stages if is_safe_to_parallelise(stage)]
    able = [stage for stage in pipeline.stages if _can_change(stage)]
    if unknown := [name for name in wish if name not in {stage.label for stage in able}]:
        names = ", ".join(dict.fromkeys(stage.label for stage in able)) or "none: no stage can be parallel"
        raise CardError(*(f"{key}: got '{name}'; allowed: {names}" for name in unknown))
    return [(stage, wish[stage.label]) for stage in able if stage.label in wish]


def _can_change(stage: Stage) -> bool:
    return stage.op == MAP or (stage.kind in CHANGEABLE and stage.parallel is not None)


def _make_parallel(copy: GraphCopy, node: Any, calls: int, was_sequential: bool) -> None:
    """Give a stage so many parallel calls; a sequential map of one call stays what it is.

    was_sequential: its elements came in order, whatever the options say, and still do.
    """
    if node.op != MAP:
        copy.set_input(node, find_place(node, CALLS), copy.add_constant(calls))
        if was_sequential and "deterministic" in node.attr:
            node.attr["deterministic"].s = b"true"
    elif calls != 1:
        replace_operation(node, PARALLEL_MAP)
        control = [name for name in node.input if name.startswith("^")]
        node.input[:] = [*(name for name in node.input if not name.startswith("^")), copy.add_constant(calls), *control]
        node.attr["deterministic"].s = b"true"
