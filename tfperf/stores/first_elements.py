"""What the elements of a dataset are: their components, found by looking at the first ones twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray
from tfperf.errors import UserCodeError, UserError
from tfperf.inputs.graph_copy import GraphCopy, make_flat_spec
from tfperf.inputs.graph_nodes import list_dataset_inputs
from tfperf.inputs.stages import read_name
from tfperf.stores.layout import Component, RecordLayout, can_store
from tfperf.stores.split import SplitPipeline, describe_node, list_datasets

LOOKED_AT = 8  # elements
MOST_BYTES = 64 * 2**20  # of them, but for the last one
NO_LENGTH = "whose values have no fixed length"
FAULTS = {"string": NO_LENGTH, "variant": f"as ragged and sparse tensors and datasets are, {NO_LENGTH}"}


def find_layout(copy: GraphCopy, split: SplitPipeline) -> RecordLayout:
    """Of the elements that a split stores. Raises: UserError where they cannot be stored, differ from one pass to the
    next, or there are none."""
    where = f"stage {describe_node(copy, split.stage)}"
    types = [one.dtype.name for one in make_flat_spec(copy.nodes[split.stage])]
    structure, names = index_structure(find_spec(copy, split.stage))
    names = names or [str(place) for place in range(len(types))]
    for name, one in zip(names, types, strict=True):
        if not can_store(one):
            fault = FAULTS.get(one, "which a store does not hold")
            raise UserError(
                f"{where}: component {name} is of type {one}, {fault}; store after a stage that gives numbers"
            )
    first, again = _take_twice(split.make_stored(copy), where)
    for name, *several in zip(names, *first, strict=True):
        refuse_varying(where, name, [one.shape for one in several])
    refuse_unequal(copy, split, first, again)
    components = tuple(
        Component(name, one.dtype.name, tuple(map(int, one.shape))) for name, one in zip(names, first[0], strict=True)
    )
    layout = RecordLayout(components, structure)
    if not layout.record_bytes:
        raise UserError(f"{where}: its elements have no values")
    return layout


def refuse_other_last(copy: GraphCopy, split: SplitPipeline, layout: RecordLayout, elements: int) -> None:
    """UserError where the last element has another shape than the first, as of a batch that is smaller.

    It is not made where the graph tells all shapes.
    """
    if all(spec.shape.is_fully_defined() for spec in make_flat_spec(copy.nodes[split.stage])):
        return
    where = f"stage {describe_node(copy, split.stage)}"
    with explain_errors(where):
        for last in split.make_stored(copy, elements - 1).build().take(1):
            for one, part in zip(layout.components, last, strict=True):
                refuse_varying(where, one.name, [one.shape, part.shape])


def _take_twice(made: GraphCopy, where: str) -> list[list[list[AnyArray]]]:
    with explain_errors(where):
        found = [take_first(made) for _ in range(2)]
    if not found[0]:
        raise UserError(f"{where}: has no elements")
    return found


@contextmanager
def explain_errors(where: str) -> Iterator[None]:
    """Turn what TensorFlow raises while elements are made into UserCodeError; where: of what."""
    try:
        yield
    except tf.errors.OpError as error:
        said = " ".join(str(error).split())[:300]
        raise UserCodeError(f"{where} could not be made: {said}") from None


def refuse_varying(where: str, name: str, shapes: list[Any]) -> None:
    """UserError for a component whose shape differs from element to element."""
    if len(set(map(tuple, shapes))) > 1:
        told = " and ".join(str(tuple(one)) for one in dict.fromkeys(map(tuple, shapes)))
        raise UserError(
            f"{where}: component {name} varies in shape, {told}; only elements of one shape can be stored: store after "
            "a stage that gives all the same, as one that resizes, pads, or leaves out what is left of the last batch "
            "(drop_remainder=True)"
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
    """The first elements, fewer where they are large; the components of each that are arrays."""
    found: list[list[AnyArray]] = []
    size = 0
    for one in islice(copy.build(), LOOKED_AT):
        found.append([np.asarray(part.numpy()) for part in one if part.dtype != tf.variant])
        size += sum(array.nbytes for array in found[-1])
        if size >= MOST_BYTES:
            break
    return found


def is_equal(first: list[list[AnyArray]], again: list[list[AnyArray]]) -> bool:
    """Whether two lists of elements are the same, bit for bit."""
    return len(first) == len(again) and all(
        a.dtype == b.dtype and a.shape == b.shape and _to_bytes(a) == _to_bytes(b)
        for one, other in zip(first, again, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def find_spec(copy: GraphCopy, stage: str) -> Any:
    """How the elements of a stage nest; None where it cannot be told.

    The graph has them flat. Its nodes are those of the user's datasets, as far as both have as many sources; if
    TensorFlow puts others in between, a stage is found by the user's name for it.
    """
    types = [one.dtype for one in make_flat_spec(copy.nodes[stage])]
    name = read_name(copy.nodes[stage])
    for one, node in _iterate_datasets(copy):
        if node == stage or (name is not None and node is None and getattr(one, "_name", None) == name):
            spec = one.element_spec
            if [getattr(part, "dtype", None) for part in tf.nest.flatten(spec)] == types:
                return spec
    return None


def _iterate_datasets(copy: GraphCopy) -> Iterator[tuple[Any, str | None]]:
    """The user's datasets, the last one first, each with its node, where that can be told."""
    waiting: list[tuple[Any, str | None]] = [(copy.owner, copy.output)]
    while waiting:
        one, node = waiting.pop(0)
        inputs = one._inputs()
        is_left_out = node is not None and type(one).__name__ == "CacheDataset" and "Cache" not in copy.nodes[node].op
        if is_left_out:
            waiting += [(inputs[0], node)]
            continue
        yield one, node
        sources = [] if node is None else list_dataset_inputs(copy.nodes[node], copy.nodes)
        waiting += zip(inputs, sources if len(sources) == len(inputs) else [None] * len(inputs), strict=True)


def index_structure(spec: Any) -> tuple[Any, list[str]]:
    """A nest of places in the flat components, and a name for each, none where two would be the same.

    (None, []) for nests that are unknown, or of other kinds than tuples and dicts with texts for keys. Tuples with
    names for their parts become plain ones.
    """
    names: list[str] = []

    def walk(one: Any, path: tuple[str, ...]) -> Any:
        if isinstance(one, dict) and all(isinstance(key, str) for key in one):
            return {key: walk(one[key], (*path, key)) for key in sorted(one)}
        if isinstance(one, tuple):
            keys = getattr(one, "_fields", range(len(one)))
            return [walk(part, (*path, str(key))) for key, part in zip(keys, one, strict=True)]
        if not isinstance(one, tf.TensorSpec):
            raise TypeError(type(one).__name__)
        names.append(".".join(path) or "0")
        return len(names) - 1

    try:
        structure = walk(spec, ())
    except TypeError:
        return None, []
    return structure, names if len(set(names)) == len(names) else []


def _to_bytes(array: AnyArray) -> Any:
    return array.tolist() if array.dtype == object else array.tobytes()
