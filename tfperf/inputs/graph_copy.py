"""Copies of a tf.data.Dataset that are cut or changed, while the dataset itself stays as it is.

A dataset becomes a graph and a graph a dataset by public operations of TensorFlow. A copy calls the same Python
functions. Its variables, shuffles and caches are its own: variables begin with the values that they had when the
graph was read, shuffles do not advance the numbers that the user's dataset draws, no cache of his is filled or written.
"""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import op_def_registry

from tfperf.errors import UserError
from tfperf.inputs.graph_nodes import index_nodes, name_inputs, read_constant

IGNORE_STATE = 1  # neither refuse a dataset that has a state, nor warn: ExternalStatePolicy.IGNORE
TYPES = ("output_types", "Toutput_types")
# that hold something shared, with what holds its own; fewer inputs: the last ones are left out
ISOLATED = {"ShuffleDatasetV3": "ShuffleDataset", "CacheDatasetV2": "CacheDataset", "RandomDatasetV2": "RandomDataset"}


# whose states a graph has copies of: what the user's program does to them later is not seen there
STATES = {
    "VarHandleOp": "variables", "HashTable": "lookup tables", "MutableHashTable": "lookup tables",
    "MutableDenseHashTable": "lookup tables",
}  # fmt: skip


class GraphCopy:
    """The graph of a dataset, that can be changed and built; a changed graph is another copy."""

    def __init__(self, owner: tf.data.Dataset, graph: Any) -> None:
        """owner: the dataset; held, since functions of Python live as long as it does."""
        self.owner, self.graph = owner, graph
        self.nodes = index_nodes(graph.node)
        self.library = {one.signature.name: one for one in graph.library.function}

    @property
    def held(self) -> list[str]:
        """What its functions hold and a graph copies, in words."""
        bare = {node.op.removesuffix("V2") for node in self.nodes.values()}
        return sorted({STATES[op] for op in bare & STATES.keys()})

    @property
    def output(self) -> str:
        """The node whose elements the copy gives."""
        return str(self._get_end().input[0])

    def cut(self, name: str) -> "GraphCopy":
        """The dataset that ends with a stage."""
        changed = self.duplicate()
        changed.set_input(changed._get_end(), 0, name)
        return changed

    def duplicate(self) -> "GraphCopy":
        """One that may be changed."""
        graph = graph_pb2.GraphDef()
        graph.CopyFrom(self.graph)
        return GraphCopy(self.owner, graph)

    def build(self, *options: tf.data.Options) -> tf.data.Dataset:
        """A dataset of this graph, with the user's options and then these. Its elements are flat: a tuple of tensors.

        Keep the copy as long as the dataset is used.
        """
        dataset = self.make_dataset(make_flat_spec(self.nodes[self.output]))
        for one in (self.owner.options(), *options):
            dataset = dataset.with_options(one)
        return dataset

    def build_alike(self) -> tf.data.Dataset:
        """A dataset of this graph whose elements have the structure of the owner's, and which keeps the owner alive."""
        dataset = self.make_dataset(self.owner.element_spec)
        dataset.tfperf_copy = self
        return dataset.with_options(self.owner.options())

    def set_input(self, node: Any, place: int, name: str) -> None:
        """Let a node of this copy read another one."""
        node.input[place] = name

    def add_constant(self, value: int) -> str:
        """A new node with a whole number; returns its name."""
        name = f"tfperf_constant_{len(self.nodes)}"
        node = self.add_node(name, "Const")
        node.attr["dtype"].type = tf.int64.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int64))
        return name

    def add_node(self, name: str, op: str) -> Any:
        """A new node without inputs and attributes."""
        node = self.graph.node.add(name=name, op=op)
        self.nodes[name] = node
        return node

    def leave_out_stage(self, name: str) -> None:
        """Let all that read a dataset read the one that it reads."""
        source = self.nodes[name].input[0]
        for node in self.graph.node:
            for place, read in enumerate(node.input):
                if read == name:
                    self.set_input(node, place, source)

    def make_dataset(self, spec: Any) -> tf.data.Dataset:
        """A dataset of this graph whose elements nest as said, without options. Raises: UserError as `copy_graph`."""
        try:
            variant = tf.raw_ops.DatasetFromGraph(graph_def=self.graph.SerializeToString())
        except (tf.errors.OpError, ValueError) as error:
            raise UserError(_describe_fault("copied", error)) from error
        return tf.data.experimental.from_variant(variant, spec)

    def _get_end(self) -> Any:
        return next(node for node in self.graph.node if node.op == "_Retval")


def copy_graph(dataset: tf.data.Dataset) -> GraphCopy:
    """The graph of a dataset as it is, but for what it would share with the copy.

    Caches in files are left out of copies, which would write them. Raises: UserError where the dataset has no graph:
    arrays that it holds are larger than a graph may be (2 GB), or a state cannot be written down.
    """
    copy = read_graph(dataset)
    for node in list(copy.graph.node):
        if node.op in ("CacheDataset", "CacheDatasetV2") and read_constant(node, "filename", copy.nodes):
            copy.leave_out_stage(node.name)
        if node.op in ISOLATED:
            replace_operation(node, ISOLATED[node.op], leave_out=("seed_generator", "cache"))
    return copy


def read_graph(dataset: tf.data.Dataset) -> GraphCopy:
    """The same, sharing with the dataset what its shuffles draw and its caches hold: to go on in its place.

    Raises: UserError as `copy_graph`.
    """
    try:
        text = tf.raw_ops.DatasetToGraphV2(
            input_dataset=tf.data.experimental.to_variant(dataset), external_state_policy=IGNORE_STATE
        )
        graph = graph_pb2.GraphDef.FromString(text.numpy())
    except (tf.errors.OpError, ValueError) as error:
        raise UserError(_describe_fault("read", error)) from error
    if not graph.node:  # as TensorFlow leaves it where it would be too large
        raise UserError(
            "data: the stages of this dataset cannot be read: the arrays that it holds are larger than 2 GB"
        )
    return GraphCopy(dataset, graph)


def _describe_fault(what: str, error: Exception) -> str:
    return f"data: the stages of this dataset cannot be {what}: {' '.join(str(error).split())[:300]}"


def replace_operation(node: Any, op: str, leave_out: Iterable[str] = ()) -> None:
    """Make another operation of a node, with the attributes that it knows, without some arguments."""
    left_out = set(leave_out)
    kept = [name for argument, names in name_inputs(node).items() if argument not in left_out for name in names]
    control = [name for name in node.input if name.startswith("^")]
    node.op = op
    node.input[:] = [*kept, *control]
    known = {one.name for one in op_def_registry.get(op).attr}
    for name in [name for name in node.attr if name not in known]:
        del node.attr[name]


def make_flat_spec(node: Any) -> tuple[tf.TensorSpec, ...]:
    """What a dataset's elements are, from the attributes of its node; readers of records have none, and give text."""
    types = next((list(node.attr[name].list.type) for name in TYPES if name in node.attr), [tf.string.as_datatype_enum])
    shapes = list(node.attr["output_shapes"].list.shape) or [tf.TensorShape([]).as_proto()] * len(types)
    return tuple(
        tf.TensorSpec(tf.TensorShape(shape), tf.as_dtype(one)) for shape, one in zip(shapes, types, strict=True)
    )
