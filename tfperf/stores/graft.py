"""The rest of a pipeline on stored elements: a reader of the store in the place of the stages that made them."""

from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from tfperf.errors import UserError
from tfperf.inputs.graph_copy import GraphCopy, read_graph
from tfperf.inputs.graph_nodes import index_nodes, list_functions
from tfperf.inputs.stages import name_kind
from tfperf.stores.fingerprint import find_changeable, iterate_nodes
from tfperf.stores.opening import ElementStore
from tfperf.stores.reading import read_in_order, read_numbers
from tfperf.stores.split import SplitPipeline, describe_node, list_datasets, set_spec

PREFIX = "tfperf_store_"  # of names from the reader's graph
NUMBER = (tf.TensorSpec([], tf.int64),)


def put_reader_in_place(copy: GraphCopy, split: SplitPipeline, store: ElementStore) -> tf.data.Dataset:
    """The dataset of a pipeline, which must have been read by `read_graph`, with stored elements after the split.

    Its elements are those of the pipeline, bit by bit and pass by pass: its shuffles, caches and random stages are the
    pipeline's own. What is before the split is not run. Raises: UserError where stages after it hold what may change.
    """
    ordered = bool(split.order)
    numbers = tf.data.Dataset.range(store.plan.elements)
    reader = read_graph(read_numbers(store, numbers) if ordered else read_in_order(store))
    grafted = copy.duplicate()
    ends = _add_graph(grafted, reader)
    readers = [
        (node, place) for node in grafted.graph.node for place, one in enumerate(node.input) if one == split.stage
    ]
    for node, place in readers:
        grafted.set_input(node, place, ends)
    if ordered:
        _put_order_in_place(grafted, split, ends)
    _drop_unused(grafted)
    if what := ", ".join(find_changeable(grafted)):
        last = describe_node(copy, split.stage)
        raise UserError(
            f"{store.folder}: stages after {last} hold {what}, of which they would have copies: what the program "
            "changes there later would not be seen; read the store by tfperf.open_store without pipeline, and put "
            "these stages behind it"
        )
    return _make_dataset(grafted, reader)


def _make_dataset(copy: GraphCopy, reader: GraphCopy) -> tf.data.Dataset:
    """With the user's nests and options."""
    owner = copy.owner
    dataset = copy.make_dataset(owner.element_spec).with_options(owner.options())
    # functions of Python, shuffles and caches live as long as the datasets that they came with
    dataset._tfperf_owners = (owner, reader.owner)
    return dataset


def _add_graph(copy: GraphCopy, other: GraphCopy) -> str:
    """Add the nodes and functions of another graph under names of their own; returns its last dataset's."""
    renamed = other.duplicate()
    functions = {name: PREFIX + name for name in renamed.library}
    for function in renamed.graph.library.function:
        function.signature.name = functions[function.signature.name]
        for node in function.node_def:
            _replace_function_names(node, functions)
    for node in renamed.graph.node:
        if node.op == "_Retval":
            continue
        _replace_function_names(node, functions)
        node.name = PREFIX + node.name
        node.input[:] = [f"^{PREFIX}{one[1:]}" if one.startswith("^") else PREFIX + one for one in node.input]
        copy.graph.node.add().CopyFrom(node)
    copy.graph.library.function.extend(renamed.graph.library.function)
    copy.nodes = index_nodes(copy.graph.node)
    copy.library = {one.signature.name: one for one in copy.graph.library.function}
    return PREFIX + other.output


def _replace_function_names(node: Any, names: dict[str, str]) -> None:
    node.op = names.get(node.op, node.op)
    for value in node.attr.values():
        if value.HasField("func"):
            value.func.name = names.get(value.func.name, value.func.name)
        for one in value.list.func:
            one.name = names.get(one.name, one.name)


def _put_order_in_place(copy: GraphCopy, split: SplitPipeline, reader: str) -> None:
    """Let the stages of the order run over the numbers that the reader takes."""
    numbers = next(one for one in list_datasets(copy, reader) if name_kind(copy.nodes[one].op) == "range")
    takers = [node for node in copy.graph.node if numbers in node.input]
    last = numbers
    for name in split.order:
        node = copy.nodes[name]
        copy.set_input(node, 0, last)
        set_spec(node, NUMBER)
        last = name
    for node in takers:
        for place, one in enumerate(node.input):
            if one == numbers:
                copy.set_input(node, place, last)


def _drop_unused(copy: GraphCopy) -> None:
    """Leave out all that the elements do not come from."""
    used = {node.name for node in iterate_nodes(copy)}
    kept = [node for node in copy.graph.node if node.name in used or node.op == "_Retval"]
    functions = {name for node in kept for name in list_functions(node)}
    waiting = list(functions)
    while waiting:
        for node in copy.library[waiting.pop()].node_def:
            called = {*list_functions(node), *({node.op} & {*copy.library})} - functions
            functions |= called
            waiting += called
    library = [one for one in copy.graph.library.function if one.signature.name in functions]
    graph = graph_pb2.GraphDef(versions=copy.graph.versions)
    graph.node.extend(kept)
    graph.library.function.extend(library)
    copy.graph.CopyFrom(graph)
    copy.nodes = index_nodes(copy.graph.node)
