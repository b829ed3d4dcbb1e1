"""Nodes of TensorFlow's graphs: their kinds, sources and sizes."""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfperf.place.shapes import PROFILED, TensorType

SENDS, RECEIVES = frozenset(["_Send", "_HostSend"]), frozenset(["_Recv", "_HostRecv"])
COLLECTIVE = ("Collective", "Nccl", "_Nccl")
ARGUMENTS, ITERATOR = frozenset(["_Arg", "_DeviceArg"]), "IteratorGetNext"
BLOCK_LSTM, BLOCK_LSTM_GRADIENT = "BlockLSTMV2", "BlockLSTMGradV2"
# also those that oneDNN and fusions put in their place
CONVOLUTIONS = re.compile(r"\w*(Conv[23]D|DepthwiseConv2d)\w*")
PRODUCTS = re.compile(rf"\w*MatMul(V\d)?|Einsum|{BLOCK_LSTM}|{BLOCK_LSTM_GRADIENT}|{CONVOLUTIONS.pattern}")
PYTHON = frozenset(["PyFunc", "PyFuncStateless", "EagerPyFunc"])
XLA = frozenset(["XlaLaunch", "XlaLaunchV2", "_XlaCompile", "_XlaRun"])
CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])
COMPILED, XLA_TEXT = "_XlaMustCompile", "XLA's code"
# kinds that give on what they get, as it is
CARRIERS = frozenset(["Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration"])
# kinds that read a variable, and those that ask only what it is; whatever else is given one may change it
READS, ASKS = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd"]), frozenset(["VariableShape"])
SMALL = 4096  # bytes that nobody asks about
RESOURCE = 20  # TensorFlow's number of the type
UNSIZED = frozenset([7, RESOURCE, 21])  # and text, variants


def list_input_values(node: Any) -> Iterator[tuple[str, int]]:
    """Whose outputs a node is given: names, and numbers of the outputs."""
    for text in node.input:
        if not text.startswith("^"):
            name, _, port = text.partition(":")
            yield name, int(port or 0)


def get_rendezvous_key(node: Any) -> tuple[bytes, bytes, bytes]:
    """What a send and its receiver have in common."""
    return node.attr["tensor_name"].s, node.attr["send_device"].s, node.attr["recv_device"].s


def count_tensor_bytes(kind: int, shape: Any) -> int | None:
    """Bytes of a tensor by type and shape; None: they are not fixed."""
    import tensorflow as tf

    sizes = [dimension.size for dimension in shape.dim]
    if shape.unknown_rank or any(size < 0 for size in sizes):
        return None
    width: int = tf.dtypes.as_dtype(kind).size
    size: int = width * math.prod(sizes)
    return size


def make_tensor_type(kind: int, shape: Any) -> TensorType | None:
    """What a graph tells of a tensor, UNKNOWN where an axis is not fixed; None: not even how many it has."""
    import tensorflow as tf

    if shape.unknown_rank:
        return None
    name = tf.dtypes.as_dtype(kind).name
    return TensorType(PROFILED.get(name, name), tuple(dimension.size for dimension in shape.dim))


def count_constant_bytes(node: Any) -> int:
    """Bytes of a constant whose entries are not all the same."""
    import tensorflow as tf

    proto = node.attr["value"].tensor
    size = 0 if proto.dtype in UNSIZED else count_tensor_bytes(proto.dtype, proto.tensor_shape) or 0
    if not size or proto.ByteSize() < size / 8:  # what repeats is left out
        return 0
    array = tf.make_ndarray(proto)
    return 0 if np.all(array == array.flat[0]) else size


def digest_constant(node: Any) -> str:
    """Of a constant: equal ones, of whatever shape, have the same."""
    import tensorflow as tf

    array = tf.make_ndarray(node.attr["value"].tensor)
    return hashlib.sha256(f"{array.dtype} ".encode() + array.tobytes()).hexdigest()


def find_hidden_work(node: Any) -> str:
    """What a node runs that no graph shows."""
    if node.op in PYTHON:
        return "Python"
    if node.op in XLA or (node.op in CALLS and node.attr[COMPILED].b):
        return XLA_TEXT
    functions = (value for value in node.attr.values() if value.HasField("func") or value.list.func)
    return "a function" if next(functions, None) is not None else ""


def count_flops(node: Any, inputs: Sequence[TensorType | None], gives: TensorType | None = None) -> float:
    """FLOPs of the products of one run, which gives a tensor; 0: what it takes is not known."""
    if node.op in (BLOCK_LSTM, BLOCK_LSTM_GRADIENT):
        return _count_block_flops(node.op, inputs)
    if CONVOLUTIONS.fullmatch(node.op):
        return _count_convolution_flops(node.op, inputs, gives)
    if len(inputs) < 2 or inputs[0] is None or inputs[1] is None:
        return 0.0
    first, second = inputs[0].dimensions, inputs[1].dimensions
    if node.op == "Einsum":
        sides = node.attr["equation"].s.decode().partition("->")[0].split(",")
        sizes = dict(zip("".join(sides), (*first, *second), strict=False))
        return 2.0 * math.prod(sizes.values())
    turned = node.attr["transpose_a"].b or node.attr["adj_x"].b
    inner = first[-2 if turned else -1]
    batch = max(math.prod(first[:-2]), math.prod(second[:-2]))
    rows, columns = math.prod(first[-2:]) / inner, math.prod(second[-2:]) / inner
    return 2.0 * batch * rows * inner * columns


def _count_convolution_flops(kind: str, inputs: Sequence[TensorType | None], gives: TensorType | None) -> float:
    """Each number of a convolution's output (N, ..., O) is a product with its filter (..., I, O) but for the last axis.

    Gradients are given that of the output as their third, and give a filter's or are given a filter as their second.
    In a depthwise filter (..., I, M) each channel of the output has one of I alone.
    """
    _, second, third = (*inputs, None, None, None)[:3]
    kernel, output = (gives if "BackpropFilter" in kind else second), (third if "Backprop" in kind else gives)
    if kernel is None or output is None:
        return 0.0
    inner = kernel.dimensions[: -2 if "Depthwise" in kind else -1]
    return 2.0 * math.prod(output.dimensions) * math.prod(inner)


def _count_block_flops(kind: str, inputs: Sequence[TensorType | None]) -> float:
    """Those of a recurrent layer of four gates over steps (T, B, I), kernel (I + U, 4 U); its gradients take two."""
    steps, kernel = (inputs[i] if i < len(inputs) else None for i in (1, 4))
    if steps is None or kernel is None:
        return 0.0
    product = 2.0 * math.prod(steps.dimensions[:2]) * math.prod(kernel.dimensions)
    return product if kind == BLOCK_LSTM else 2 * product
