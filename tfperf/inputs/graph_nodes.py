"""Nodes of a dataset's graph by the names of their inputs, as the definitions of TensorFlow's operations have them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

Nodes = Mapping[str, Any]  # NodeDef by name


def index_nodes(nodes: Iterable[Any]) -> dict[str, Any]:
    """Nodes of a graph or of a function, by their names."""
    return {node.name: node for node in nodes}


def is_dataset(op: str) -> bool:
    """Whether an operation makes a dataset; some make one of another's elements, as `DatasetToSingleElement` does.

    >>> is_dataset("ParallelMapDatasetV2"), is_dataset("DatasetToSingleElement"), is_dataset("Const")
    (True, False, False)
    """
    definition = op_def_registry.get(op)
    outputs = [] if definition is None else [one.type for one in definition.output_arg]
    return "Dataset" in op and not op.startswith("Dataset") and outputs == [tf.variant.as_datatype_enum]


def name_inputs(node: Any) -> dict[str, list[str]]:
    """Names of the nodes that each argument of an operation comes from; several where it takes a list."""
    definition, named, at = op_def_registry.get(node.op), {}, 0
    sources = [strip_output(name) for name in node.input if not name.startswith("^")]
    for argument in definition.input_arg if definition is not None else ():
        if argument.number_attr:
            count = node.attr[argument.number_attr].i
        elif argument.type_list_attr:
            count = len(node.attr[argument.type_list_attr].list.type)
        else:
            count = 1
        named[argument.name] = sources[at : at + count]
        at += count
    return named


def find_place(node: Any, argument: str) -> int:
    """Where among a node's inputs an argument begins. Raises: ValueError where the operation has no such argument."""
    named = name_inputs(node)
    arguments = list(named)
    return sum(len(named[before]) for before in arguments[: arguments.index(argument)])


def strip_output(name: str) -> str:
    """The node of an input: `Const:output:0` in functions, `Const` or `Const:0` in graphs."""
    return name.lstrip("^").partition(":")[0]


def list_dataset_inputs(node: Any, nodes: Nodes) -> list[str]:
    """The datasets that a dataset takes its elements from, in their order."""
    every = [name for names in name_inputs(node).values() for name in names]
    return [name for name in every if name in nodes and is_dataset(nodes[name].op)]


def read_constant(node: Any, argument: str, nodes: Nodes) -> Any:
    """The number, truth or text that an argument has; None where the operation lacks it, or it is computed."""
    for name in name_inputs(node).get(argument, ())[:1]:
        source = nodes.get(name)
        if source is not None and source.op == "Const":
            value = tf.make_ndarray(source.attr["value"].tensor)
            return value.item() if value.shape == () else None
    return None


def list_functions(node: Any) -> list[str]:
    """Names of the functions that a node calls."""
    single = [value.func.name for value in node.attr.values() if value.HasField("func")]
    return single + [one.name for value in node.attr.values() for one in value.list.func]


def iterate_function_nodes(name: str, library: Mapping[str, Any]) -> Iterator[Any]:
    """All nodes of a function, and of those that it calls, each function once."""
    waiting, seen = [name], {name}
    while waiting:
        for node in library[waiting.pop()].node_def:
            yield node
            called = [one for one in list_functions(node) if one in library and one not in seen]
            seen.update(called)
            waiting += called
