"""What the elements of a dataset are: their components, found by looking at the first ones twice."""

from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray
from tfperf.errors import UserError
from tfperf.inputs.graph_copy import GraphCopy
from tfperf.inputs.stages import read_name
from tfperf.stores.layout import Component, RecordLayout, can_store
from tfperf.stores.split import SplitPipeline, describe_node, list_datasets

LOOKED_AT = 8  # elements


def find_layout(copy: GraphCopy, split: SplitPipeline) -> RecordLayout:
    """Of the elements that a split stores. Raises: UserError where they cannot be stored, differ from one pass to the
    next, or there are none."""
    where = f"stage {describe_node(copy, split.stage)}"
    spec = find_spec(copy, split.stage)
    structure, names = index_structure(spec) if spec is not None else (None, [])
    first, again = (take_first(split.make_stored(copy)) for _ in range(2))
    if not first:
        raise UserError(f"{where}: has no elements")
    names = names or [str(place) for place in range(len(first[0]))]
    for name, one in zip(names, first[0], strict=True):
        if not can_store(one.dtype.name):
            raise UserError(
                f"{where}: component {name} is of type {one.dtype.name}, whose values have no fixed length; store "
                "after a stage that gives numbers"
            )
    for name, *several in zip(names, *first, strict=True):
        refuse_varying(where, name, [one.shape for one in several])
    refuse_unequal(copy, split, first, again)
    components = tuple(
        Component(name, one.dtype.name, tuple(map(int, one.shape))) for name, one in zip(names, first[0], strict=True)
    )
    layout = RecordLayout(components, _flatten_structure(len(components)) if structure is None else structure)
    if not layout.record_bytes:
        raise UserError(f"{where}: its elements have no values")
    return layout


def refuse_varying(where: str, name: str, shapes: list[Any]) -> None:
    """UserError for a component whose shape differs from element to element."""
    if len(set(map(tuple, shapes))) > 1:
        told = " and ".join(str(tuple(one)) for one in dict.fromkeys(map(tuple, shapes)))
        raise UserError(
            f"{where}: component {name} varies in shape, {told}; only elements of one shape can be stored: store after "
            "a stage that gives all the same, as one that resizes, or pads"
        )


def refuse_unequal(copy: GraphCopy, split: SplitPipeline, first: Any, again: Any) -> None:
    """UserError, by the first stage whose elements differ, where two passes over the first elements do."""
    if is_equal(first, again):
        return
    made = split.make_stored(copy)
    for one in list_datasets(made):
        part = made.cut(one)
        if not is_equal(take_first(part), take_first(part)):
            raise UserError(
                f"stage {describe_node(made, one)} is random: two passes gave other elements; store after an "
                "earlier stage"
            )
    raise UserError("the pipeline is random: two passes gave other elements; it cannot be stored")


def take_first(copy: GraphCopy) -> list[list[AnyArray]]:
    """The first elements, the components of each."""
    elements = islice(copy.build(), LOOKED_AT)
    return [[np.asarray(part.numpy() if hasattr(part, "numpy") else part) for part in one] for one in elements]


def is_equal(first: list[list[AnyArray]], again: list[list[AnyArray]]) -> bool:
    """Whether two lists of elements are the same, bit for bit."""
    return len(first) == len(again) and all(
        a.dtype == b.dtype and a.shape == b.shape and _to_bytes(a) == _to_bytes(b)
        for one, other in zip(first, again, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def find_spec(copy: GraphCopy, stage: str) -> Any:
    """How the elements of a stage nest, where it is the end of the dataset, or can be found by the user's own name."""
    if copy.nodes[copy.output].name == stage or _leave_out_options(copy) == stage:
        return copy.owner.element_spec
    name = read_name(copy.nodes[stage])
    waiting, found = [copy.owner], None
    while waiting and name is not None:
        one = waiting.pop(0)
        if found is None and getattr(one, "_name", None) == name:
            found = one.element_spec
        waiting += one._inputs()
    return found


def index_structure(spec: Any) -> tuple[Any, list[str]]:
    """A nest of places in the flat components, and a name for each; (None, []) for nests of other kinds than tuples
    and dicts."""
    names: list[str] = []

    def walk(one: Any, path: tuple[str, ...]) -> Any:
        if isinstance(one, dict):
            return {key: walk(one[key], (*path, str(key))) for key in sorted(one)}
        if type(one) is tuple:
            return [walk(part, (*path, str(place))) for place, part in enumerate(one)]
        if not isinstance(one, tf.TensorSpec):
            raise TypeError(type(one).__name__)
        names.append(".".join(path) or "0")
        return len(names) - 1

    try:
        structure = walk(spec, ())
    except TypeError:
        return None, []
    return (structure, names) if len(set(names)) == len(names) else (None, [])


def _leave_out_options(copy: GraphCopy) -> str:
    name = copy.output
    while copy.nodes[name].op == "OptionsDataset":
        name = copy.nodes[name].input[0]
    return name


def _flatten_structure(count: int) -> Any:
    return list(range(count)) if count > 1 else 0


def _to_bytes(array: AnyArray) -> Any:
    return array.tolist() if array.dtype == object else array.tobytes()
