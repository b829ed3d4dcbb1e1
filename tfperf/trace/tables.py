"""Work on all rows of a table in a running program's graphs, where a step takes few of them.

Looks at TensorFlow's own objects; imports it.
"""

import gc
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tfperf.trace.live_graphs import (
    CALL,
    PASSED_ON,
    find_outermost,
    link_captures,
    list_graphs,
    list_variables,
    read_handle,
)
from tfperf.trace.noted_work import find_batch_sizes

Shape = tuple[int, ...]
GATHER = re.compile(r"ResourceGather(Nd)?|Gather(V2|Nd)?")
SPARSE = re.compile(r"Resource(Sparse|Scatter)\w+")  # touches the rows that it is given
PRODUCT = re.compile(r"(Batch)?MatMul(V2|V3)?|Einsum|Conv\w+|Tensordot|Sparse\w*MatMul")
WHOLE = re.compile(r"ReadVariableOp|Identity|Cast|Transpose")  # give what they take, all of it
LEAST_ROWS, FEW = 1000, 0.5  # of a table; share of its rows that a step takes at most


@dataclass
class TableUse:
    """Tables by their shapes (rows, width), and what they are called.

    embeddings: of Keras' layers. sparse: of which an operation gathers few rows. multiplied: shapes of variables that
    are in products as a whole.
    """

    embeddings: dict[Shape, str] = field(default_factory=dict)
    sparse: dict[Shape, str] = field(default_factory=dict)
    multiplied: set[Shape] = field(default_factory=set)


def find_table_work(optimizers: Collection[str], graphs: Iterable[Any] | None = None) -> list[tuple[str, str]]:
    """Operations on all rows of a table of which a step takes few: name, table.

    A table is the matrix of a Keras Embedding, or a variable of many rows of which an operation gathers some, but that
    is in no product as a whole. Optimizers' operations on it are known by their scopes, others by its shape. Reads are
    among them: they copy all of it once something has scattered rows into the variable.
    """
    every = list_graphs() if graphs is None else list(graphs)
    use = _find_use(every)
    tables = {shape: name for shape, name in (use.sparse | use.embeddings).items() if shape not in use.multiplied}
    found = {}
    for operation in (operation for graph in every for operation in graph.get_operations()):
        if operation.type in PASSED_ON or CALL.fullmatch(operation.type) or _is_sparse(operation):
            continue
        shape = next((one for one in _list_shapes(operation) if one in tables), None)
        if shape is not None and (shape in use.sparse or set(operation.name.split("/")) & set(optimizers)):
            found[operation.name] = tables[shape]
    return sorted(found.items())


def _find_use(graphs: Collection[Any]) -> TableUse:
    """How tables are used: of each product and each gather the variable is looked for that it takes, as a whole."""
    captures, batch = link_captures(graphs), max(find_batch_sizes(), default=None)
    names = {id(one.handle): one.name.partition(":")[0].removesuffix("/embeddings")
             for graph in graphs for one in list_variables(graph)}  # fmt: skip
    use = TableUse()
    for graph in graphs:
        whole: dict[int, Any] = {}  # of tensors (ids) that are all of a variable: its resource
        for operation in graph.get_operations():  # inputs come before what they feed
            whole_of = [_find_resource(one, whole, captures) for one in operation.inputs]
            if WHOLE.fullmatch(operation.type) and whole_of[0] is not None:
                whole[id(operation.outputs[0])] = whole_of[0]
            elif PRODUCT.fullmatch(operation.type):
                use.multiplied |= {_get_handle_shape(one) for one in whole_of if one is not None}
            elif GATHER.fullmatch(operation.type) and whole_of[0] is not None:
                _note_gather(operation, whole_of[0], names, batch, use)
    _add_embeddings(use)
    return use


def _find_resource(tensor: Any, whole: Mapping[int, Any], captures: Mapping[int, Any]) -> Any:
    """The resource of the variable that a tensor is, or is all of; None: of none."""
    if tensor.dtype.name == "resource":
        return find_outermost(tensor, captures)
    return whole.get(id(tensor))


def _note_gather(operation: Any, resource: Any, names: Mapping[int, str], batch: int | None, use: TableUse) -> None:
    shape, rows = _get_handle_shape(resource), _count_rows(operation, batch)
    if len(shape) == 2 and shape[0] >= LEAST_ROWS and 0 < rows <= FEW * shape[0]:
        _add_name(use.sparse, shape, names.get(id(resource), "a variable"))


def _add_embeddings(use: TableUse) -> None:
    """Keras' embeddings, by the names of their layers."""
    keras = sys.modules.get("keras")
    kinds = () if keras is None else (keras.layers.Embedding,)
    layers = [one for one in gc.get_objects() if issubclass(type(one), kinds) and one.built]
    for layer in sorted(layers, key=lambda one: str(one.name)):
        _add_name(use.embeddings, (layer.input_dim, layer.output_dim), layer.name)


def _add_name(names: dict[Shape, str], shape: Shape, name: str) -> None:
    """Put a table to others of its shape: operations on these cannot be told apart."""
    known = names.get(shape, "").split(" or ") if shape in names else []
    names[shape] = " or ".join(dict.fromkeys([*known, name]))


def _is_sparse(operation: Any) -> bool:
    return bool(GATHER.fullmatch(operation.type) or SPARSE.fullmatch(operation.type))


def _count_rows(operation: Any, batch: int | None) -> int:
    """How many rows an operation gathers; 0: not known."""
    shape = operation.outputs[0].shape
    sizes = shape.as_list()[:-1] if shape.rank else [0]
    return prod((batch if number == 0 else 0) or 0 if size is None else size for number, size in enumerate(sizes))


def _list_shapes(operation: Any) -> Iterator[Shape]:
    """Shapes of the matrices that an operation takes and gives, those of variables among them."""
    for tensor in (*operation.inputs, *operation.outputs):
        if tensor.dtype.name == "resource":
            yield _get_handle_shape(tensor)
        elif tensor.shape.rank == 2:
            yield tuple(tensor.shape.as_list())


def _get_handle_shape(tensor: Any) -> Shape:
    """The shape of the variable behind a resource; empty: not known."""
    known = read_handle(tensor)
    return () if known is None else tuple(int(one.size) for one in known.shape.dim)
