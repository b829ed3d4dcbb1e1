"""The graphs that a compiled call runs, one for each device, as TensorFlow cut, inlined and rewrote them."""

from collections.abc import Callable
from typing import Any

from tfperf.place.function_graphs import record_graphs
from tfperf.trace.graphs import Graph, GraphNode, join_nodes


def record_largest_graph(call: Callable[[], Any]) -> Graph:
    """The largest of the functions that a call runs, which has run before, with the partitions of all devices.

    Kernels are made anew for it, and with them what TensorFlow has learned of their costs: time steps before.
    """
    functions = [[node for partition in partitions for node in partition.node] for partitions in record_graphs(call)]
    largest: list[Any] = max(functions, key=len, default=[])
    return join_nodes(map(convert_node, largest))


def convert_node(node: Any) -> GraphNode:
    """Of a NodeDef, whose inputs are written `name`, `name:1` for another of its values, or `^name` for its end."""
    inputs = tuple(dict.fromkeys(name.removeprefix("^").partition(":")[0] for name in node.input))
    pair = ""
    if "tensor_name" in node.attr and "send_device" in node.attr:
        names = (node.attr[key].s.decode() for key in ("send_device", "recv_device", "tensor_name"))
        pair = ";".join(names)
    frame = node.attr["frame_name"].s.decode() if "frame_name" in node.attr else ""
    compiled = "_XlaMustCompile" in node.attr and node.attr["_XlaMustCompile"].b
    return GraphNode(node.name, node.op, node.device, inputs, pair, frame, compiled)
