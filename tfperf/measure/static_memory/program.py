"""The graph that TensorFlow makes of a traced function before it runs: optimised, without calls and loops as such."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

from tfperf.measure.static_memory.heap import Shape

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"  # optimisations look at it
POOLS = {"MaxPoolGrad": 1}  # the input that comes from a pooling, which keeps a byte for each of its results


# where loops are taken apart before the optimiser runs, as TensorFlow does, none of these waits for all inputs
GATES = re.compile(r"/(input_control_node|LoopControlInputs)(/|$)")

BFLOAT16 = 14  # as TensorFlow numbers types
CONVOLUTION = ("T", "strides", "padding", "explicit_paddings", "data_format", "dilations", "use_cudnn_on_gpu")


@dataclass(eq=False, slots=True)
class Node:
    """An operation. inputs: (node, port); edges: (port, node, slot) of those that take its results; controls: nodes
    that wait for it; waits: how many it waits for without a tensor."""

    index: int
    name: str
    op: str
    attr: Mapping[str, Any]
    inputs: list[tuple[int, int]] = field(default_factory=list)
    edges: list[tuple[int, int, int]] = field(default_factory=list)
    controls: list[int] = field(default_factory=list)
    waits: int = 0
    shapes: Sequence[Shape | None] = ()  # of its results; None: not known before it runs
    static: Sequence[Shape] | None = None  # the same where all are known
    widths: Sequence[int] = ()  # bytes of an element of each result; 0: of no tensor


@dataclass(frozen=True)
class GivenTensor:
    """What a function captures: its own name if it is a variable, shape (None: not known), bytes of an element."""

    name: str
    shape: Shape | None
    width: int


@dataclass(frozen=True)
class OptimizedGraph:
    """Nodes, and what the function is given: variables and tensors by the name of their node."""

    nodes: Sequence[Node]
    variables: Mapping[str, GivenTensor]  # captured resources, also those that hold no tensor
    captured: Mapping[str, GivenTensor]  # captured tensors
    wanted: frozenset[tuple[int, int]]  # results of the function


def make_program(concrete: Any) -> OptimizedGraph:
    """Of a ConcreteFunction, as this machine's TensorFlow would run it."""
    import tensorflow as tf

    graph = concrete.graph
    resources: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    for outer, inner in graph.captures:
        (resources if outer.dtype == tf.resource else tensors)[inner.op.name] = outer
    definition = _place(graph.as_graph_def(), resources)
    wanted = [tensor.name for tensor in graph.outputs]
    optimised = _optimize(definition, [*wanted, *(one.name for one in graph.control_outputs)])
    nodes = _make_nodes(optimised)
    index = {node.name: node.index for node in nodes}
    outputs = frozenset((index[name], int(port)) for name, _, port in (one.partition(":") for one in wanted))
    variables = {name: _describe_variable(concrete, outer) for name, outer in resources.items()}
    captured = {name: _describe_tensor(outer.shape.as_proto(), outer.dtype, "") for name, outer in tensors.items()}
    return OptimizedGraph(nodes, variables, captured, outputs)


def _describe_variable(concrete: Any, handle: Any) -> GivenTensor:
    """What a captured resource holds; shape None: no tensor, or one that is not known."""
    names = (one.name for one in concrete.graph.variables if one.handle is handle)
    name = str(next(names, "")).partition(":")[0]
    known = getattr(handle, "_handle_data", None)  # not public
    if known is None or not known.is_set or len(known.shape_and_type) != 1:
        return GivenTensor(name, None, 0)
    return _describe_tensor(known.shape_and_type[0].shape, known.shape_and_type[0].dtype, name)


def _describe_tensor(shape: Any, kind: Any, name: str) -> GivenTensor:
    import tensorflow as tf

    known = not shape.unknown_rank and all(one.size >= 0 for one in shape.dim)
    return GivenTensor(name, tuple(one.size for one in shape.dim) if known else None, tf.as_dtype(kind).size or 0)


def _place(definition: Any, resources: Mapping[str, Any]) -> Any:
    """All on one device; variables that are captured become nodes whose shapes are known."""
    import tensorflow as tf

    for node in definition.node:
        node.device = DEVICE
        outer = resources.get(node.name)
        known = getattr(outer, "_handle_data", None)  # not public
        if known is None or not known.is_set or len(known.shape_and_type) != 1:
            continue
        node.op = "VarHandleOp"
        for key in list(node.attr):
            del node.attr[key]
        node.attr["dtype"].type = known.shape_and_type[0].dtype
        node.attr["shape"].shape.CopyFrom(known.shape_and_type[0].shape)
        node.attr["container"].s, node.attr["shared_name"].s = b"", tf.compat.as_bytes(node.name)
    return definition


def _optimize(definition: Any, wanted: Sequence[str]) -> Any:
    import tensorflow as tf
    from tensorflow.python.grappler import tf_optimizer  # not public

    exported = tf.compat.v1.MetaGraphDef()
    exported.graph_def.CopyFrom(definition)
    exported.collection_def["train_op"].node_list.value.extend(wanted)
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1  # however few nodes it has
    for name, chosen in tf.config.optimizer.get_experimental_options().items():
        if name == "arithmetic_optimization" and not chosen:
            config.graph_options.rewrite_options.arithmetic_optimization = 2  # off
    return tf_optimizer.OptimizeGraph(config, exported)


def _make_nodes(definition: Any) -> list[Node]:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(_make_registered(definition), name="")
    nodes = [Node(index, node.name, node.op, node.attr) for index, node in enumerate(definition.node)]
    index = {node.name: node.index for node in nodes}
    for node, source in zip(nodes, definition.node, strict=True):
        _link(node, source.input, nodes, index)
        results = graph.get_operation_by_name(node.name).outputs
        node.shapes = [tuple(one.shape) if one.shape.is_fully_defined() else None for one in results]
        node.widths = [0 if one.dtype in (tf.resource, tf.variant) else one.dtype.size for one in results]
    for node in nodes:
        if node.op in POOLS:
            _keep_workspace(node, nodes)
        if node.op == "NoOp" and GATES.search(node.name):
            _open_gate(node, nodes)
    for node in nodes:
        known = [shape for shape in node.shapes if shape is not None]
        node.static = known if len(known) == len(node.shapes) else None
    return nodes


def _make_registered(definition: Any) -> Any:
    """With the plain operation, which gives the same shapes, where a fused one has a type that oneDNN's alone takes."""
    fused = [node for node in definition.node if node.op == "_FusedConv2D" and node.attr["T"].type == BFLOAT16]
    if not fused:
        return definition
    names = {node.name for node in fused}
    copy = type(definition)()
    copy.CopyFrom(definition)
    for node in copy.node:
        if node.name in names:
            node.op = "Conv2D"
            controls = [one for one in node.input if one.startswith("^")]
            node.input[:] = [*node.input[:2], *controls]
            for key in [key for key in node.attr if key not in CONVOLUTION]:
                del node.attr[key]
    return copy


def _link(node: Node, inputs: Sequence[str], nodes: Sequence[Node], index: Mapping[str, int]) -> None:
    for text in inputs:
        if text.startswith("^"):
            nodes[index[text[1:]]].controls.append(node.index)
            node.waits += 1
        else:
            name, _, port = text.partition(":")
            source = nodes[index[name]]
            source.edges.append((int(port or 0), node.index, len(node.inputs)))
            node.inputs.append((source.index, int(port or 0)))


def _keep_workspace(node: Node, nodes: Sequence[Node]) -> None:
    """oneDNN's pooling gives a second result to its gradient: where each maximum was."""
    source = nodes[node.inputs[POOLS[node.op]][0]]
    if source.op != "MaxPool":
        return
    if len(source.widths) == 1:
        source.widths, source.shapes = [*source.widths, 1], [*source.shapes, source.shapes[0]]
    source.edges.append((1, node.index, len(node.inputs)))
    node.inputs.append((source.index, 1))


def _open_gate(node: Node, nodes: Sequence[Node]) -> None:
    """Let it wait for its smallest input alone, which tells the iteration, and whether a branch is taken."""
    sources = [one for one in nodes if node.index in one.controls]
    if len(sources) < 2:
        return
    kept = min(sources, key=lambda one: (one.op == "Enter", _count_numbers(one)))
    for one in sources:
        one.controls = [target for target in one.controls if target != node.index]
    kept.controls.append(node.index)
    node.waits = 1


def _count_numbers(node: Node) -> float:
    """Of its first result; those of unknown shape are large."""
    return prod(node.shapes[0]) if node.shapes and node.shapes[0] is not None and node.widths[0] else inf
