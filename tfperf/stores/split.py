"""A pipeline cut in two at a stage: what makes the elements that are stored, and the order in which they are taken.

An order commutes with what makes one element of one: f of a shuffled dataset is the shuffled dataset of f. So shuffles
and repeats before the stage are left out where elements are made, and run over the numbers of the stored ones later.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfperf.errors import UserError
from tfperf.inputs.graph_copy import GraphCopy, make_flat_spec
from tfperf.inputs.graph_nodes import (
    iterate_function_nodes,
    list_dataset_inputs,
    list_functions,
    name_inputs,
    read_constant,
)  # fmt: skip
from tfperf.inputs.operations import PYTHON, find_random, find_stateful
from tfperf.inputs.stages import name_kind, read_name
from tfperf.stores.fingerprint import RESOURCE, find_changeable
from tfperf.stores.layout import can_store

ORDERS = ("shuffle", "repeat")  # from the first of which on only what follows may come before the stage
PICKS = ("take", "skip", "shard")  # by number alone
SINGLE = ("map", "prefetch", "options", "assert_cardinality")  # one element of one
DRAWING = ("random", "sampling", "shuffle_and_repeat")  # kinds of stages that draw
CALLS = {"If", "While", "Case"}  # whose functions are looked at by themselves
CAPTURED = ("other_arguments", "other_args")  # that names of arguments end with


@dataclass(frozen=True)
class SplitPipeline:
    """Where a pipeline is cut. Names of nodes of its graph.

    order: stages before the cut that only choose numbers, the first one first; base: the stage after which each
    element is made of one alone, so that those that are stored already can be passed over there.
    """

    stage: str
    order: tuple[str, ...]
    base: str

    def make_stored(self, copy: GraphCopy, skip: int = 0) -> GraphCopy:
        """What makes the elements, in the order of their source, from the one of number `skip` on."""
        return self._make(copy, skip)[0]

    def make_base(self, copy: GraphCopy) -> GraphCopy:
        """What they are made of, one of one."""
        made, base = self._make(copy, 0)
        return made.cut(base)

    def _make(self, copy: GraphCopy, skip: int) -> tuple[GraphCopy, str]:
        made = copy.cut(self.stage)
        base = self.base
        for name in list_chain(made, self.stage):
            kind = name_kind(made.nodes[name].op)
            if name in self.order or kind in ("cache", "assert_cardinality"):
                made.leave_out_stage(name)
                source = list_dataset_inputs(made.nodes[name], made.nodes)[0]
                base = source if base == name else base
        for node in made.graph.node:
            if "deterministic" in node.attr and node.attr["deterministic"].s == b"false":
                node.attr["deterministic"].s = b"true"
        return (_insert_skip(made, base, skip) if skip else made), base


def find_stage(copy: GraphCopy, name: str) -> str:
    """The node of the stage with a name of the user's, the last one of that name. Raises: UserError."""
    names = {read_name(copy.nodes[one]): one for one in list_datasets(copy)}
    if name not in names:
        own = ", ".join(dict.fromkeys(str(one) for one in names if one is not None)) or "none"
        raise UserError(
            f"stage: got {name}; the pipeline has no stage of that name; it has: {own} (a stage is named where it is "
            f'made: dataset.map(..., name="{name}"))'
        )
    return names[name]


def split_pipeline(copy: GraphCopy, stage: str) -> SplitPipeline:
    """Cut after a stage, a node's name. Raises: UserError where it is random, or others are in the way."""
    refuse_random(copy, stage)
    chain = list_chain(copy, stage)[::-1]
    first = next((at for at, one in enumerate(chain) if name_kind(copy.nodes[one].op) in ORDERS), None)
    root = chain[0]
    for one in list_datasets(copy, root):
        if one != root and name_kind(copy.nodes[one].op) in ORDERS:
            raise UserError(_say_in_the_way(copy, one, root, stage))
    if first is None:
        start = len(chain)
        while start > 1 and name_kind(copy.nodes[chain[start - 1]].op) in (*SINGLE, "cache"):
            start -= 1
        return SplitPipeline(stage, (), chain[start - 1])
    order = []
    for one in chain[first:]:
        node, kind = copy.nodes[one], name_kind(copy.nodes[one].op)
        if kind == "cache" and read_constant(node, "filename", copy.nodes):
            raise UserError(_say_in_the_way(copy, one, chain[first], stage))
        if kind in (*ORDERS, *PICKS, "cache"):
            order.append(one)
        elif kind not in SINGLE:
            raise UserError(_say_in_the_way(copy, one, chain[first], stage))
    return SplitPipeline(stage, tuple(order), chain[first - 1])


def _say_in_the_way(copy: GraphCopy, one: str, other: str, stage: str) -> str:
    last = describe_node(copy, stage)
    return (
        f"stage {describe_node(copy, one)} beside {describe_node(copy, other)}: their order cannot be kept apart from "
        f"the elements after {last}; between a shuffle or repeat and the stage only map, take, skip, shard, cache in "
        "memory and prefetch may stand: store after an earlier stage, or shuffle after this one"
    )


def refuse_random(copy: GraphCopy, stage: str) -> None:
    """UserError where a stage, or one before it, draws numbers or has a state."""
    for one in list_datasets(copy, stage):
        node = copy.nodes[one]
        kinds = {inner.op for name in list_functions(node) for inner in iterate_function_nodes(name, copy.library)}
        what = find_random(kinds) or [
            kind for kind in sorted(kinds) if "ShuffleDataset" in kind or "RandomDataset" in kind
        ]
        if name_kind(node.op) in DRAWING:
            what = [node.op]
        if what:
            raise UserError(
                f"stage {describe_node(copy, one)} is random ({', '.join(what)}), so what comes out of it, or after "
                "it, cannot be stored; store after an earlier stage"
            )
        if states := find_stateful(kinds - PYTHON - CALLS):
            raise UserError(
                f"stage {describe_node(copy, one)} has a state of its own ({', '.join(states)}), so its elements may "
                "differ from pass to pass; store after an earlier stage"
            )
        if _has_handle(copy, node):
            raise UserError(
                f"stage {describe_node(copy, one)} holds a table, or something else, of which TensorFlow does not tell "
                "what is in it, so that nobody sees when it changes; store after an earlier stage"
            )


def _has_handle(copy: GraphCopy, node: Any) -> bool:
    """Whether the functions of a stage are given something that a graph cannot copy, by its address."""
    given = [name for key, names in name_inputs(node).items() if key.endswith(CAPTURED) for name in names]
    return any(copy.nodes[one].op == "Const" and copy.nodes[one].attr["dtype"].type == RESOURCE for one in given)


def choose_stage(copy: GraphCopy) -> str:
    """The last stage whose elements can be stored, do not depend on what a program may change, and have shapes that the
    graph tells. Raises: UserError."""
    faults: list[str] = []
    for one in reversed(list_datasets(copy)):
        if not list_dataset_inputs(copy.nodes[one], copy.nodes):
            continue  # a source alone: nothing would be prepared
        try:
            split_pipeline(copy, one)
        except UserError as error:
            faults.append(str(error))
            continue
        where = f"stage {describe_node(copy, one)}"
        specs = make_flat_spec(copy.nodes[one])
        if what := ", ".join(find_changeable(copy, one)):
            faults.append(f"{where}: it, or one before it, holds {what}, which the program may change")
        elif all(spec.shape.is_fully_defined() and can_store(spec.dtype.name) for spec in specs):
            return one
        else:
            faults.append(f"{where}: the graph does not tell its shapes, or it gives other values than numbers")
    raise UserError("stage: none can be stored by itself; name one by --after STAGE", *dict.fromkeys(faults))


def list_chain(copy: GraphCopy, name: str) -> list[str]:
    """A stage, the only one that it reads, and so on, up to one that reads none or several."""
    chain = [name]
    while len(sources := list_dataset_inputs(copy.nodes[chain[-1]], copy.nodes)) == 1:
        chain.append(sources[0])
    return chain


def list_datasets(copy: GraphCopy, name: str | None = None) -> list[str]:
    """Nodes of all stages that one depends on, sources first, and itself; by default of the last."""

    def walk(one: str) -> Iterator[str]:
        for source in list_dataset_inputs(copy.nodes[one], copy.nodes):
            yield from walk(source)
        yield one

    return list(dict.fromkeys(walk(copy.output if name is None else name)))


def describe_node(copy: GraphCopy, name: str) -> str:
    """A stage in words: the user's name for it, or its kind."""
    node = copy.nodes[name]
    own = read_name(node)
    return f"'{own}' ({name_kind(node.op)})" if own else name_kind(node.op)


def _insert_skip(copy: GraphCopy, base: str, count: int) -> GraphCopy:
    readers = [(node, place) for node in copy.graph.node for place, one in enumerate(node.input) if one == base]
    node = copy.add_node("tfperf_skip", "SkipDataset")
    node.input[:] = [base, copy.add_constant(count)]
    set_spec(node, make_flat_spec(copy.nodes[base]))
    for reader, place in readers:
        copy.set_input(reader, place, node.name)
    return copy


def set_spec(node: Any, specs: tuple[tf.TensorSpec, ...]) -> None:
    """Let the attributes of a dataset's node say what its elements are."""
    del node.attr["output_types"].list.type[:], node.attr["output_shapes"].list.shape[:]
    node.attr["output_types"].list.type.extend(spec.dtype.as_datatype_enum for spec in specs)
    node.attr["output_shapes"].list.shape.extend(spec.shape.as_proto() for spec in specs)
