"""The stages of a tf.data.Dataset, read from its graph without running it."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import dataset_metadata_pb2

from tfperf.inputs.graph_copy import GraphCopy, copy_graph
from tfperf.inputs.graph_nodes import (
    Nodes,
    index_nodes,
    is_dataset,
    iterate_function_nodes,
    list_dataset_inputs,
    list_functions,
    read_constant,
)  # fmt: skip
from tfperf.inputs.operations import PYTHON, find_file_reads, find_random, find_stateful
from tfperf.inputs.pipeline import Calls, Pipeline, Stage, StageFunction, StageOptions

AUTO = -1  # tf.data.AUTOTUNE
PARALLEL = ("num_parallel_calls", "num_parallel_batches", "num_threads")
SIZES = ("batch_size", "count", "cycle_length", "num_shards", "size")  # of batches, takes, repeats, interleaves, shards
OWN_NAMES = re.compile(r"\w+:\d+")  # that TensorFlow gives to stages without one


def read_stages(dataset: tf.data.Dataset) -> Pipeline:
    """Stages and options of a dataset. Raises: UserError where it has no graph that can be read.

    >>> numbers = tf.data.Dataset.range(10).shuffle(4, name="mix").batch(2)
    >>> [(one.label, one.buffer, one.size, one.cardinality) for one in read_stages(numbers).stages]
    [('range', None, None, 10.0), ('mix', 4, None, 10.0), ('batch', None, 2, 5.0)]
    """
    return read_pipeline(copy_graph(dataset))


def read_pipeline(copy: GraphCopy) -> Pipeline:
    """The same, of a copy."""
    stages = _read_nodes(copy.output, copy.nodes, copy.library, lambda name: _count_elements(copy, name))
    return Pipeline(tuple(stages), read_options(copy.owner.options()))


def read_options(options: tf.data.Options) -> StageOptions:
    """Options with their defaults: those of optimizations hold where the default ones are applied."""
    optimization = options.experimental_optimization
    default = optimization.apply_default_optimizations is not False

    def is_on(value: bool | None) -> bool:
        return default if value is None else value

    return StageOptions(
        options.autotune.enabled is not False,
        is_on(optimization.inject_prefetch),
        is_on(optimization.map_parallelization),
        options.deterministic is not False,
        options.threading.private_threadpool_size or None,
    )


def name_kind(op: str) -> str:
    """A word for an operation, the same for all versions of it, parallel or not.

    >>> name_kind("ParallelMapDatasetV2"), name_kind("MapAndBatchDataset"), name_kind("TensorSliceDataset")
    ('map', 'map_and_batch', 'tensor_slice')
    """
    bare = re.sub(r"^(Experimental|Legacy|Parallel)+|Dataset(V\d+)?$", "", op)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bare).lower()


def _read_nodes(output: str, nodes: Nodes, library: Mapping[str, Any], count: Any) -> list[Stage]:
    """Stages that one depends on, and it, those without its options; `count`: the elements of a node."""
    places: dict[str, int] = {}
    stages: list[Stage] = []
    for name, sources in _sort_nodes(output, nodes):
        if nodes[name].op == "OptionsDataset":
            places[name] = places[sources[0]]
            continue
        places[name] = len(stages)
        stages.append(_read_stage(nodes[name], tuple(places[one] for one in sources), nodes, library, count(name)))
    return stages


def _sort_nodes(output: str, nodes: Nodes) -> list[tuple[str, list[str]]]:
    """Names of datasets, each once and after those that it takes elements from, which stand beside it."""
    ordered: dict[str, list[str]] = {}
    waiting = [output]
    while waiting:
        name = waiting[-1]
        sources = list_dataset_inputs(nodes[name], nodes)
        missing = [one for one in sources if one not in ordered]
        if missing:
            waiting.append(missing[0])
        else:
            ordered.setdefault(waiting.pop(), sources)
    return list(ordered.items())


def _read_stage(
    node: Any, inputs: tuple[int, ...], nodes: Nodes, library: Mapping[str, Any], cardinality: float | None
) -> Stage:
    buffer = read_constant(node, "buffer_size", nodes) if inputs else None  # of readers of files it is in bytes
    sizes = (read_constant(node, argument, nodes) for argument in SIZES)
    return Stage(
        node.name, node.op, name_kind(node.op), read_name(node), inputs, _read_parallel(node, nodes),
        {b"true": True, b"false": False}.get(node.attr["deterministic"].s) if "deterministic" in node.attr else None,
        "auto" if buffer == AUTO else buffer, next((size for size in sizes if size is not None), None), cardinality,
        _read_function(node, library), _count_bytes(node),
    )  # fmt: skip


def _count_bytes(node: Any) -> int | None:
    """Of an element whose shapes are all known."""
    # sources have them by another name; what is not there must not be asked for, since that would make it
    named = {name: node.attr[name].list for name in ("output_types", "Toutput_types") if name in node.attr}
    types = [tf.dtypes.as_dtype(one) for found in named.values() for one in found.type]
    shapes = (
        [tf.TensorShape(one) for one in node.attr["output_shapes"].list.shape] if "output_shapes" in node.attr else []
    )
    if not shapes or len(types) != len(shapes) or not all(one.is_fully_defined() for one in shapes):
        return None
    if any(one in (tf.string, tf.variant, tf.resource) for one in types):
        return None
    return sum(int(shape.num_elements()) * int(one.size) for shape, one in zip(shapes, types, strict=True))


def _read_parallel(node: Any, nodes: Nodes) -> Calls | None:
    for argument in PARALLEL:
        calls = read_constant(node, argument, nodes)
        if calls is not None:
            return "auto" if calls == AUTO else int(calls)
    # those of before, as `num_parallel_reads` makes them, read all that they have open at once
    legacy = "ParallelInterleave" in node.op
    return read_constant(node, "cycle_length", nodes) if legacy else None


def read_name(node: Any) -> str | None:
    """The user's own name of a stage; None where he gave none."""
    if "metadata" not in node.attr:  # asking for what is not there would add it, without a value
        return None
    metadata = dataset_metadata_pb2.Metadata.FromString(node.attr["metadata"].s)
    name = str(metadata.name.decode())
    return None if not name or OWN_NAMES.fullmatch(name) else name


def _read_function(node: Any, library: Mapping[str, Any]) -> StageFunction | None:
    names = [name for name in list_functions(node) if name in library]
    if not names:
        return None
    kinds = frozenset(one.op for name in names for one in iterate_function_nodes(name, library))
    return StageFunction(
        kinds, tuple(sorted(kinds & PYTHON)), tuple(find_random(kinds)), tuple(find_stateful(kinds)),
        tuple(find_file_reads(kinds)), tuple(stage for name in names for stage in _read_inner(name, library)),
    )  # fmt: skip


def _read_inner(name: str, library: Mapping[str, Any]) -> Iterator[Stage]:
    """Stages of the dataset that a function returns; none where it makes none, or passes one on that it was given."""
    function = library[name]
    nodes = index_nodes(function.node_def)
    read = {
        source.lstrip("^").partition(":")[0] for node in nodes.values() if is_dataset(node.op) for source in node.input
    }
    for output in [node.name for node in nodes.values() if is_dataset(node.op) and node.name not in read]:
        yield from _read_nodes(output, nodes, library, lambda name: None)


def _count_elements(copy: GraphCopy, name: str) -> float | None:
    count = int(copy.cut(name).build().cardinality())
    return {tf.data.INFINITE_CARDINALITY: math.inf, tf.data.UNKNOWN_CARDINALITY: None}.get(count, float(count))
