"""Work of the operations in the graphs of a running program, by their static shapes.

Looks at TensorFlow's own objects; imports it.
"""

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfperf.measure.environment import count_cores
from tfperf.trace.graph_work import CONVOLUTION, TensorSize, count_operation
from tfperf.trace.live_graphs import list_graphs, read_handle
from tfperf.trace.operations import GRAPH
from tfperf.trace.phases import list_tails, strip_kind
from tfperf.trace.work import OperationWork

MOST = 5000  # operations that are noted
# what TensorFlow fuses with the product before it: the last one's name is the name of all
FUSED = frozenset(["Add", "AddV2", "BiasAdd", "Elu", "LeakyRelu", "Relu", "Relu6", "Sigmoid", "Tanh"])
DEEPEST = 3
ADAPTERS = "keras.src.trainers.data_adapters.data_adapter"
Key = tuple[str, str]  # name, kind
Shapes = Callable[[Any], tuple[int, ...] | None]


def count_threads() -> int:
    """Threads that TensorFlow's operations share."""
    import tensorflow as tf

    return int(tf.config.threading.get_intra_op_parallelism_threads()) or count_cores()


def find_noted_work(spaces: Iterable[Any], graphs: Iterable[Any] | None = None) -> list[dict[str, Any]]:
    """Work of the operations that a profile's messages have events of: rows of Notes.work, MOST at most.

    graphs: by default those of all functions. An operation whose shapes are not known is left out, and so is one whose
    name and type stand for different work in several functions.
    """
    graphs = list_graphs() if graphs is None else graphs
    ran = list_ran({m.name for space in spaces for plane in space.planes for m in plane.event_metadata.values()})
    found: dict[Key, OperationWork | None] = {}
    batch = find_batch_size()
    for graph in graphs:
        for key, work in _count_graph(graph, ran, batch):
            found[key] = work if found.get(key, work) == work else None
    rows = [
        {"name": name, "kind": kind, **vars(work)} for (name, kind), work in sorted(found.items()) if work is not None
    ]
    return sorted(rows, key=lambda row: -float(row["bytes"]))[:MOST]


def find_batch_size() -> int | None:
    """Samples in a batch, where all datasets that are alive have as many; None: not known."""
    sizes = find_batch_sizes()
    return min(sizes) if len(sizes) == 1 else None


def find_batch_sizes() -> set[int]:
    """Samples in batches of the datasets that are alive; empty also where that of one is not known."""
    from tensorflow.python.data.ops.batch_op import _BatchDataset, _ParallelBatchDataset
    from tensorflow.python.data.ops.padded_batch_op import _PaddedBatchDataset
    from tensorflow.python.framework.tensor_util import constant_value

    keras = sys.modules.get(ADAPTERS)  # a program without it has none
    adapters = () if keras is None else (keras.DataAdapter,)
    sizes = set[int]()
    for one in gc.get_objects():
        if issubclass(type(one), (_BatchDataset, _ParallelBatchDataset, _PaddedBatchDataset)):
            size = constant_value(one._batch_size)  # None: an argument of a function that makes the dataset
            if size is None:
                return set()
            sizes.add(int(size))
        elif adapters and issubclass(type(one), adapters) and one.batch_size is not None:
            sizes.add(int(one.batch_size))
    return sizes


def list_ran(events: Iterable[str]) -> set[Key]:
    """Name and type of the operations in graphs that a profile has events of; names also without what calls add."""
    found = (GRAPH.fullmatch(event) for event in events)
    return {(tail, strip_kind(one["kind"])) for one in found if one for tail in list_tails(one["name"])}


def _count_graph(graph: Any, ran: set[Key], batch: int | None) -> Iterator[tuple[Key, OperationWork]]:
    """Work of those operations of a graph that ran."""
    mine = [
        (one, kind) for one in graph.get_operations()
        for kind in (one.type, *_list_fused_kinds(one)) if (one.name, kind) in ran
    ]  # fmt: skip
    unknown = any(tensor.shape.rank and None in tensor.shape.as_list() for one, _ in mine for tensor in one.outputs)
    inferred = complete_shapes(graph, batch) if unknown and batch else {}

    def get_shape(tensor: Any) -> tuple[int, ...] | None:
        shape = _get_static_shape(tensor)
        return tuple(shape.as_list()) if shape.is_fully_defined() else inferred.get(tensor.name)

    for one, kind in mine:
        work = _count_one(one, kind, get_shape)
        if work is not None:
            yield (one.name, kind), work


def _list_fused_kinds(operation: Any) -> list[str]:
    """The type under which an operation runs once TensorFlow has fused it with what feeds it."""
    product = _find_product(operation)
    return [] if product is None else [f"Fused{product.type}"]


def _find_product(operation: Any) -> Any:
    """The product that feeds an operation, directly or through others of FUSED; None where there is none."""
    for _ in range(DEEPEST):
        if operation.type not in FUSED:
            return None
        operation = operation.inputs[0].op
        if operation.type in ("MatMul", "BatchMatMulV2") or CONVOLUTION.fullmatch(operation.type):
            return operation
    return None


def _count_one(operation: Any, kind: str, get_shape: Shapes) -> OperationWork | None:
    """Work of an operation, of one that is fused with that of all in front of it up to the product."""
    if kind == operation.type:
        return _count_alone(operation, get_shape)
    product, chain = _find_product(operation), [operation]
    while chain[-1].inputs[0].op is not product:
        chain.append(chain[-1].inputs[0].op)
    first, rest = _count_alone(product, get_shape), [_count_alone(one, get_shape) for one in chain]
    if first is None or first.flops is None or any(one is None for one in rest):
        return None
    made = get_shape(operation.outputs[0])
    itemsize = operation.outputs[0].dtype.size
    every = [one for one in rest if one is not None]
    # what goes from one to the next stays where it is: of each that is fused its other inputs count alone
    size = 0 if made is None else TensorSize(made, itemsize).bytes
    moved = first.bytes + sum(one.bytes - 2 * size for one in every)
    return OperationWork(
        first.flops + sum(one.flops or 0 for one in every), moved, sum(one.transcendental for one in every),
        first.precision,
    )  # fmt: skip


def _count_alone(operation: Any, get_shape: Shapes) -> OperationWork | None:
    tensors = [*operation.inputs, *operation.outputs]
    shapes = [get_shape(one) for one in tensors]
    if any(shape is None for shape in shapes):
        return None
    sizes = [
        TensorSize(shape, int(_get_type(one).size), _get_type(one).name == "float64")
        for one, shape in zip(tensors, shapes, strict=True) if shape is not None
    ]  # fmt: skip
    count = len(operation.inputs)
    try:
        return count_operation(operation.type, sizes[:count], sizes[count:], operation.get_attr)
    except (ValueError, LookupError):  # of another version of TensorFlow
        return None


def _get_static_shape(tensor: Any) -> Any:
    """The shape of a tensor, of a resource that of its variable."""
    import tensorflow as tf

    if tensor.dtype.name != "resource":
        return tensor.shape
    known = read_handle(tensor)
    return tf.TensorShape(known.shape if known else None)


def _get_type(tensor: Any) -> Any:
    """The type of a tensor's elements, of a resource that of its variable's."""
    import tensorflow as tf

    known = read_handle(tensor) if tensor.dtype.name == "resource" else None
    return tf.as_dtype(known.dtype) if known else tensor.dtype


def complete_shapes(graph: Any, batch: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors of a function's graph, by name, where its inputs are batches of that many samples.

    The leading dimension of what a function is given, or takes from an iterator, is taken for the batch where it alone
    is not known; of a graph for several replicas nothing is. What stays unknown is left out.
    """
    copy = complete_graph(graph, batch)
    tensors = (tensor for one in copy.get_operations() for tensor in one.outputs) if copy is not None else ()
    return {one.name: tuple(one.shape.as_list()) for one in tensors if one.shape.is_fully_defined()}


def complete_graph(graph: Any, batch: int) -> Any:
    """A copy of a function's graph with the shapes of `complete_shapes`; None of a graph for several replicas."""
    import tensorflow as tf

    if any(one.name.startswith("replica_1/") for one in graph.get_operations()):
        return None
    definition = graph.as_graph_def(add_shapes=True)
    for node in definition.node:
        _complete_node(node, batch)
    with tf.Graph().as_default() as copy:
        tf.graph_util.import_graph_def(definition, name="")
    return copy


def _complete_node(node: Any, batch: int) -> None:
    """Put the batch into a node that hands over batches; one that reads a variable becomes what has its shape."""
    shapes = node.attr["_output_shapes"].list.shape
    if node.op in ("IteratorGetNext", "OptionalGetValue"):
        for shape in node.attr["output_shapes"].list.shape:
            _complete_shape(shape, batch)
    elif node.op == "Placeholder" and len(shapes) == 1:
        _complete_shape(shapes[0], batch)
        node.attr["shape"].shape.CopyFrom(shapes[0])
    elif node.op == "ReadVariableOp" and len(shapes) == 1:  # a copy does not know its variable
        dtype = node.attr["dtype"].type
        node.op = "Placeholder"
        node.ClearField("input")
        known = type(shapes[0])()
        known.CopyFrom(shapes[0])
        node.ClearField("attr")
        node.attr["dtype"].type = dtype
        node.attr["shape"].shape.CopyFrom(known)
    node.attr.pop("_output_shapes", None)


def _complete_shape(shape: Any, batch: int) -> None:
    sizes = [dimension.size for dimension in shape.dim]
    if sizes and sizes[0] < 0 <= min(sizes[1:], default=0):
        shape.dim[0].size = batch
