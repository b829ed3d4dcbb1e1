"""Half precision on a processor, which may be slower at it than at float32: in which operations, and by how much.

Looks at TensorFlow's own objects; imports it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median
from typing import Any

from tfperf.trace.live_graphs import PASSED_ON, list_graphs
from tfperf.trace.noted_work import complete_graph, find_batch_size, list_ran

HALF = ("float16", "bfloat16")
MOST, REPEATS, SECONDS = 24, 4, 2.0  # operations that are timed; how often; seconds after which no more is
LARGEST = 2**26  # elements of an operation that is run again: its inputs and outputs are there twice more


def find_half_operations(spaces: Iterable[Any], graphs: Iterable[Any] | None = None) -> list[dict[str, Any]]:
    """Rows of Notes.half: operations of half precision that ran on a processor, by a profile's messages.

    graphs: by default those of all functions. The largest are run again by themselves, in half precision and in
    float32, for what share of their time float32 takes. A name that is something else in another function is left out;
    so are all where there is an accelerator.
    """
    import tensorflow as tf

    if any(one.device_type != "CPU" for one in tf.config.list_physical_devices()):
        return []
    graphs = list_graphs() if graphs is None else graphs
    names = {m.name for space in spaces for plane in space.planes for m in plane.event_metadata.values()}
    ran = {name for name, _ in list_ran(names)}
    found: dict[str, Any] = {}
    others: set[str] = set()
    batch = find_batch_size()
    for graph in graphs:
        half, rest = _split_operations(graph, ran, batch)
        found |= half
        others |= rest
    return list(_measure_largest({name: one for name, one in found.items() if name not in others}))


def _split_operations(graph: Any, ran: set[str], batch: int | None) -> tuple[dict[str, Any], set[str]]:
    """Operations of a graph that ran and compute in half precision, by name; names of the others that ran."""
    mine = [one for one in graph.get_operations() if one.name in ran and one.type not in PASSED_ON]
    half = {one.name: one for one in mine if _find_type(one)}
    if half and batch:
        complete = complete_graph(graph, batch)
        if complete is not None:
            half = {name: complete.get_operation_by_name(name) for name in half}
    return half, {one.name for one in mine} - set(half)


def _find_type(operation: Any) -> str:
    """The half precision among the types of its inputs and outputs; empty: none is."""
    types = (one.dtype.name for one in (*operation.inputs, *operation.outputs))
    return next((name for name in types if name in HALF), "")


def _measure_largest(operations: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    start = time.perf_counter()
    largest = sorted(operations, key=lambda name: -_count_elements(operations[name]))
    for number, name in enumerate(largest):
        operation = operations[name]
        floats = all(one.dtype.is_floating for one in (*operation.inputs, *operation.outputs))
        share = 0.0 if operation.type == "Cast" and floats else None  # which float32 does without
        fits = number < MOST and _count_elements(operation) <= LARGEST
        if share is None and fits and time.perf_counter() - start < SECONDS:
            share = measure_single_share(operation)
        yield {"name": name, "kind": _find_type(operation), "single_share": share}


def _count_elements(operation: Any) -> int:
    sizes = (one.shape.num_elements() for one in (*operation.inputs, *operation.outputs))
    return sum(size or 0 for size in sizes)


def measure_single_share(operation: Any) -> float | None:
    """Time that an operation takes in float32 over that in half precision, medians in turn; None: it cannot be run."""
    is_python = operation.type.startswith("PyFunc")
    if operation.op_def.is_stateful or is_python or not all(_is_known(one) for one in operation.inputs):
        return None
    start, times = time.perf_counter(), list[tuple[float, float]]()
    try:
        half, single = (_build_call(operation, is_single) for is_single in (False, True))
        for _ in range(REPEATS + 1):
            times.append((_time(half), _time(single)))
            if time.perf_counter() - start > SECONDS:
                break
    except Exception:  # whatever TensorFlow says of an operation that is torn out of its graph
        return None
    times = times[1:] or times  # the first compile
    return median(one for _, one in times) / median(one for one, _ in times)


def _is_known(tensor: Any) -> bool:
    return tensor.shape.is_fully_defined() and tensor.dtype.name not in ("resource", "variant", "string")


def _build_call(operation: Any, is_single: bool) -> Callable[[], Any]:
    """The operation alone on the processor, with inputs of its shapes."""
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef()
    fed: dict[str, Any] = {}
    for number, tensor in enumerate(operation.inputs):
        value, dtype = _find_value(tensor), _convert_type(tensor.dtype, is_single)
        node = definition.node.add(name=f"input{number}", op="Placeholder")
        if value is not None and not dtype.is_floating:  # sizes and axes
            node.op = "Const"
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, tensor.shape))
        elif dtype.is_floating:
            fed[node.name] = tf.cast(tf.random.stateless_uniform(tensor.shape, [1, number]), dtype)
        else:
            fed[node.name] = tf.zeros(tensor.shape, dtype)
        node.attr["dtype"].type = dtype.as_datatype_enum
    one = definition.node.add()
    one.CopyFrom(operation.node_def)
    one.name, one.device = "operation", ""
    del one.input[:]
    one.input.extend(f"input{number}" for number in range(len(operation.inputs)))
    for key in [key for key in one.attr if key.startswith("_")]:
        del one.attr[key]
    for value in one.attr.values():
        if value.WhichOneof("value") == "type":
            value.type = _convert_type(tf.as_dtype(value.type), is_single).as_datatype_enum

    def build(*inputs: Any) -> Any:
        given = dict(zip(fed, inputs, strict=True))
        return tf.graph_util.import_graph_def(definition, input_map=given, return_elements=["operation:0"])

    with tf.device("/CPU:0"):
        wrapped = tf.compat.v1.wrap_function(build, [tf.TensorSpec(one.shape, one.dtype) for one in fed.values()])
    return lambda: wrapped(*fed.values())


def _find_value(tensor: Any) -> Any:
    """What a tensor is whatever the data; None: not known."""
    import tensorflow as tf

    if tensor.op.type in ("Shape", "ShapeN"):  # of ShapeN TensorFlow does not tell
        return tensor.op.inputs[tensor.value_index].shape.as_list()
    return tf.get_static_value(tensor)


def _convert_type(dtype: Any, is_single: bool) -> Any:
    import tensorflow as tf

    return tf.float32 if is_single and dtype.name in HALF else dtype


def _time(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()  # on a processor it has ended then
    return time.perf_counter() - start
