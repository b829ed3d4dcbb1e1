"""The beginning of a dataset, up to each stage, as datasets that are only gone through to be timed."""

from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from tfperf.inputs.graph_copy import GraphCopy, replace_operation
from tfperf.inputs.graph_nodes import find_place, index_nodes, name_inputs, read_constant

MOST_SHUFFLED = 256  # elements: a shuffle costs the same for each, but a long buffer would have to be filled first
CACHED = 16  # elements that caches hold, so that what comes later passes is seen within a moment
SHUFFLES = ("ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDataset")
FUSIONS = (
    "filter_fusion", "map_and_batch_fusion", "map_and_filter_fusion", "map_fusion", "noop_elimination",
    "parallel_batch", "shuffle_and_repeat_fusion",
)  # fmt: skip
PARALLEL_CALLS = "num_parallel_calls"
# parallel stages, and what does the same one after the other, without these arguments
SEQUENTIAL = {
    "ParallelMapDataset": ("MapDataset", (PARALLEL_CALLS,)),
    "ParallelMapDatasetV2": ("MapDataset", (PARALLEL_CALLS,)),
    "ParallelFilterDataset": ("FilterDataset", (PARALLEL_CALLS,)),
    "ParallelBatchDataset": ("BatchDatasetV2", (PARALLEL_CALLS,)),
    **{
        f"ParallelInterleaveDataset{version}": (
            "InterleaveDataset", (PARALLEL_CALLS, "buffer_output_elements", "prefetch_input_elements")
        )
        for version in ("V2", "V3", "V4")
    },
}  # fmt: skip


class Prefixes:
    """Makes the beginnings of one dataset; what its caches would hold in later passes is put into them first."""

    def __init__(self, copy: GraphCopy) -> None:
        """Runs what is before the caches for a few elements. Raises: what functions of the dataset raise."""
        self._copy = copy.duplicate()
        self._donors: list[tf.data.Dataset] = []  # datasets that the caches belong to
        for node in list(self._copy.graph.node):  # inputs come before what reads them
            if node.op in SHUFFLES:
                self._shorten_shuffle(node)
            elif node.op == "CacheDataset":
                self._fill_cache(node)

    def make_tuned(self, name: str) -> tf.data.Dataset:
        """What comes out of a stage, without end, as the user's options have it, but each stage is one of its own.

        AUTOTUNE is on, also where the options turn it off: TensorFlow tells nothing of stages without it.
        """
        options = _keep_apart()
        options.autotune.enabled = True
        return self._copy.cut(name).build(options).repeat()

    def make_single(self, name: str) -> tf.data.Dataset:
        """The same as one thread makes it: no stage is parallel or ahead of the next, so that all times add up."""
        single = self._copy.cut(name)
        make_sequential(single)
        options = _keep_apart()
        options.autotune.enabled = False
        options.experimental_optimization.apply_default_optimizations = False
        options.experimental_optimization.inject_prefetch = False
        options.experimental_optimization.map_parallelization = False
        options.threading.private_threadpool_size = 1
        options.threading.max_intra_op_parallelism = 1
        return single.build(options).repeat()

    def _shorten_shuffle(self, node: Any) -> None:
        buffer = read_constant(node, "buffer_size", self._copy.nodes)
        if buffer is not None and (buffer < 0 or buffer > MOST_SHUFFLED):
            self._copy.set_input(node, find_place(node, "buffer_size"), self._copy.add_constant(MOST_SHUFFLED))

    def _fill_cache(self, node: Any) -> None:
        """Give it a cache that all prefixes share, with the first elements in it, again and again.

        A batch behind it may be of more of them.
        """
        few = self._copy.add_node(f"tfperf_take_{node.name}", "TakeDataset")
        few.input[:] = [node.input[0], self._copy.add_constant(CACHED)]
        for attribute in ("output_types", "output_shapes"):
            few.attr[attribute].CopyFrom(node.attr[attribute])
        donor = tf.data.Dataset.range(1).cache()
        self._donors.append(donor)
        handle = self._copy.add_node(f"tfperf_cache_{node.name}", "Const")
        handle.CopyFrom(_read_handle(donor, handle.name))
        node.op = "CacheDatasetV2"
        node.input[:] = [few.name, node.input[1], handle.name]
        for _ in self._copy.cut(node.name).build():
            pass
        readers = [
            (one, place) for one in self._copy.graph.node for place, name in enumerate(one.input) if name == node.name
        ]
        again = self._copy.add_node(f"tfperf_repeat_{node.name}", "RepeatDataset")
        again.input[:] = [node.name, self._copy.add_constant(-1)]
        for attribute in ("output_types", "output_shapes"):
            again.attr[attribute].CopyFrom(node.attr[attribute])
        for reader, place in readers:
            self._copy.set_input(reader, place, again.name)


def _read_handle(donor: tf.data.Dataset, name: str) -> Any:
    """The node that holds a dataset's cache, under another name."""
    text = tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.experimental.to_variant(donor), external_state_policy=1)
    nodes = index_nodes(graph_pb2.GraphDef.FromString(text.numpy()).node)
    cache = next(node for node in nodes.values() if node.op == "CacheDatasetV2")
    handle = nodes[name_inputs(cache)["cache"][0]]
    handle.name = name
    return handle


def _keep_apart() -> tf.data.Options:
    """Options without fusions."""
    options = tf.data.Options()
    for fusion in FUSIONS:
        setattr(options.experimental_optimization, fusion, False)
    return options


def make_sequential(copy: GraphCopy) -> None:
    """Let all stages of a copy run one after the other, none ahead of the next."""
    for node in list(copy.graph.node):
        if node.op in SEQUENTIAL:
            op, leave_out = SEQUENTIAL[node.op]
            replace_operation(node, op, leave_out)
            if op == "InterleaveDataset" and (read_constant(node, "cycle_length", copy.nodes) or 1) < 1:
                # a parallel one may leave this to TensorFlow, too
                copy.set_input(node, find_place(node, "cycle_length"), copy.add_constant(1))
        elif node.op == "PrefetchDataset":
            copy.leave_out_stage(node.name)
