"""Variables in the graphs of a running program: which ones no step changes, and tables of which steps take few rows.

Looks at TensorFlow's own objects; imports it.
"""

import gc
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from math import prod
from typing import Any

from tfperf.trace.noted_work import find_batch_size

Shape = tuple[int, ...]
PASSED_ON = frozenset(["Identity", "IdentityN", "NoOp", "Const"])  # no work
READ = re.compile(r"ReadVariableOp|ResourceGather(Nd)?|VariableShape|VarIsInitializedOp")
CALL = re.compile(r"(Stateful|Stateless)?(PartitionedCall|While|If|Case)|XlaLaunch")  # looked at by itself
GATHER = re.compile(r"ResourceGather(Nd)?|Gather(V2|Nd)?")
SPARSE = re.compile(r"Resource(Sparse|Scatter)\w+")  # touches the rows that it is given
PRODUCT = re.compile(r"(Batch)?MatMul(V2|V3)?|Einsum|Conv\w+|Tensordot")
LEAST_ROWS, FEW = 1000, 0.5  # of a table; share of its rows that a step takes at most


def list_graphs() -> list[Any]:
    """Graphs of all tf.functions that are alive."""
    from tensorflow.python.framework.func_graph import FuncGraph

    return [one for one in gc.get_objects() if issubclass(type(one), FuncGraph)]


def list_variables(graph: Any) -> list[Any]:
    """Variables of a graph that are alive."""
    return [one for reference in graph._weak_variables if (one := reference()) is not None]


def find_frozen(graphs: Iterable[Any]) -> set[int]:
    """Resources (ids) of Keras' weights that are not to be trained, and that no operation in any of the graphs changes.

    Other variables that are not trained are those that Python assigns, as a rule.
    """
    keras = sys.modules.get("keras")
    kinds = () if keras is None else (keras.Variable,)
    fixed, changed = set[int](), set[int]()
    for one in (one for one in gc.get_objects() if issubclass(type(one), kinds)):
        with suppress(AttributeError, ValueError):  # not built, or of several devices
            if not one.trainable:
                fixed.add(id(one.value.handle))
    for graph in graphs:
        outer = {id(inner): id(one) for one, inner in graph.captures}
        for operation in graph.get_operations():
            if not READ.fullmatch(operation.type) and not CALL.fullmatch(operation.type):
                changed |= {outer[id(one)] for one in operation.inputs if id(one) in outer}
    return fixed - changed


def find_table_work(optimizers: Collection[str], graphs: Iterable[Any] | None = None) -> list[tuple[str, str]]:
    """Operations on all rows of a table of which a step takes few: name, table.

    A table is the matrix of a Keras Embedding, or a variable of many rows of which an operation gathers some, but that
    is in no product as a whole. Optimizers' operations on it are known by their scopes, others by its shape. Reads are
    among them: they copy all of it once something has scattered rows into the variable.
    """
    every = list_graphs() if graphs is None else list(graphs)
    embeddings = find_embeddings()
    sparse, multiplied = _find_sparse(every, find_batch_size()), _find_multiplied(every)
    tables = {shape: name for shape, name in {**sparse, **embeddings}.items() if shape not in multiplied}
    found = {}
    for operation in (operation for graph in every for operation in graph.get_operations()):
        if operation.type in PASSED_ON or CALL.fullmatch(operation.type):
            continue
        shape = next((one for one in _list_shapes(operation) if one in tables), None)
        if shape is None:
            continue
        optimizes = bool(set(operation.name.split("/")) & set(optimizers))
        if optimizes or (shape in sparse and not _is_sparse(operation)):
            found[operation.name] = tables[shape]
    return sorted(found.items())


def find_embeddings() -> dict[Shape, str]:
    """Tables of Keras' embeddings by their shapes (rows, width): what layer they are of."""
    keras = sys.modules.get("keras")
    kinds = () if keras is None else (keras.layers.Embedding,)
    layers = [one for one in gc.get_objects() if issubclass(type(one), kinds) and one.built]
    return {(one.input_dim, one.output_dim): one.name for one in layers}


def _is_sparse(operation: Any) -> bool:
    return bool(GATHER.fullmatch(operation.type) or SPARSE.fullmatch(operation.type))


def _find_sparse(graphs: Iterable[Any], batch: int | None) -> dict[Shape, str]:
    """Shapes of variables of many rows of which an operation gathers few, and names of these variables.

    batch: the size of batches, where graphs leave it open; None: not known.
    """
    out = {}
    for graph in graphs:
        names = {tuple(one.shape): one.name.partition(":")[0] for one in list_variables(graph) if one.shape.rank == 2}
        for operation in graph.get_operations():
            if GATHER.fullmatch(operation.type):
                shape = next((one for one in _list_shapes(operation) if one in names), None)
                rows = _count_rows(operation, batch)
                if shape is not None and shape[0] >= LEAST_ROWS and 0 < rows <= FEW * shape[0]:
                    out[shape] = names[shape].removesuffix("/embeddings")
    return out


def _count_rows(operation: Any, batch: int | None) -> int:
    """How many rows an operation gathers; 0: not known."""
    shape = operation.outputs[0].shape
    sizes = shape.as_list()[:-1] if shape.rank else [0]
    return prod((batch if number == 0 else 0) or 0 if size is None else size for number, size in enumerate(sizes))


def _find_multiplied(graphs: Iterable[Any]) -> set[Shape]:
    """Shapes (rows, columns) of matrices in products, as they are and turned."""
    products = (one for graph in graphs for one in graph.get_operations() if PRODUCT.fullmatch(one.type))
    shapes = {shape for one in products for shape in _list_shapes(one)}
    return shapes | {shape[::-1] for shape in shapes}


def _list_shapes(operation: Any) -> Iterator[Shape]:
    """Shapes of the matrices that an operation takes and gives, those of variables among them."""
    for tensor in (*operation.inputs, *operation.outputs):
        if tensor.dtype.name == "resource":
            yield _get_handle_shape(tensor)
        elif tensor.shape.rank == 2:
            yield tuple(tensor.shape.as_list())


def _get_handle_shape(tensor: Any) -> Shape:
    """The shape of the variable behind a resource; empty: not known."""
    from tensorflow.python.ops.handle_data_util import get_resource_handle_data

    data = get_resource_handle_data(tensor)
    shapes = list(data.shape_and_type) if data is not None and data.is_set else []
    return tuple(int(one.size) for one in shapes[0].shape.dim) if len(shapes) == 1 else ()
