"""Graphs of a running program's functions, as TensorFlow keeps them.

Looks at TensorFlow's own objects; imports it.
"""

import gc
import re
from collections.abc import Iterable, Mapping
from typing import Any

PASSED_ON = frozenset(["Identity", "IdentityN", "NoOp", "Const"])  # no work
READ = re.compile(r"ReadVariableOp|ResourceGather(Nd)?|VariableShape|VarIsInitializedOp")
CALL = re.compile(r"(Stateful|Stateless)?(PartitionedCall|While|If|Case)|XlaLaunch")  # looked at by itself


def list_graphs() -> list[Any]:
    """Graphs of all tf.functions that are alive."""
    from tensorflow.python.framework.func_graph import FuncGraph

    return [one for one in gc.get_objects() if issubclass(type(one), FuncGraph)]


def list_variables(graph: Any) -> list[Any]:
    """Variables of a graph that are alive."""
    return [one for reference in graph._weak_variables if (one := reference()) is not None]


def link_captures(graphs: Iterable[Any]) -> dict[int, Any]:
    """By the tensors (ids) inside graphs that stand for tensors outside: these, of whatever graph they are."""
    return {id(inner): outer for graph in graphs for outer, inner in getattr(graph, "captures", ())}


def find_outermost(tensor: Any, captures: Mapping[int, Any]) -> Any:
    """What a tensor stands for in the end: of a variable's resource that which the program holds."""
    while id(tensor) in captures:
        tensor = captures[id(tensor)]
    return tensor


def read_handle(tensor: Any) -> Any:
    """Shape and dtype of the variable behind a resource; None: not known."""
    from tensorflow.python.framework.ops import EagerTensor
    from tensorflow.python.ops.handle_data_util import get_resource_handle_data

    found = tensor._handle_data if isinstance(tensor, EagerTensor) else get_resource_handle_data(tensor)
    known = found is not None and found.is_set and len(found.shape_and_type) == 1
    return found.shape_and_type[0] if known else None
