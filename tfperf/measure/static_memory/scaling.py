"""The program of a step for any size, from those of two small ones: what differs between these grows with the size.

A step for many may hold constants that take minutes to make and more memory than there is; a program has shapes alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.errors import UnknownSizeError
from tfperf.measure.static_memory.heap import Shape
from tfperf.measure.static_memory.program import GivenTensor, Node, OptimizedGraph
from tfperf.measure.static_memory.shapes import read_constant


@dataclass(frozen=True)
class Scale:
    """Two sizes, and one for which numbers that were seen at both are wanted."""

    first: int
    second: int
    wanted: int

    def scale_number(self, less: int, more: int) -> int:
        """On a line through both.

        >>> Scale(3, 7, 100).scale_number(10, 18), Scale(3, 7, 100).scale_number(5, 5)
        (204, 5)

        Raises: UnknownSizeError for numbers that are on no line of whole steps.
        """
        step, rest = divmod(more - less, self.second - self.first)
        if rest:
            raise UnknownSizeError(f"{less} at {self.first} and {more} at {self.second} do not grow by whole numbers")
        return less + step * (self.wanted - self.first)

    def scale_shape(self, less: Sequence[int], more: Sequence[int]) -> Shape:
        """Each length by itself. Raises: UnknownSizeError, also where there are not as many."""
        if len(less) != len(more):
            raise UnknownSizeError(f"a tensor has {len(less)} axes at {self.first}, {len(more)} at {self.second}")
        return tuple(map(self.scale_number, less, more))


def scale_program(less: OptimizedGraph, more: OptimizedGraph, scale: Scale) -> OptimizedGraph:
    """Of the programs for both sizes. Raises: UnknownSizeError where they differ in more than lengths."""
    if list(map(_describe, less.nodes)) != list(map(_describe, more.nodes)) or less.wanted != more.wanted:
        raise UnknownSizeError(f"the programs for {scale.first} and {scale.second} are not made of the same operations")
    nodes = [_scale_node(one, other, scale) for one, other in zip(less.nodes, more.nodes, strict=True)]
    return replace(
        less,
        nodes=nodes,
        variables=_scale_given(less.variables, more.variables, scale),
        captured=_scale_given(less.captured, more.captured, scale),
    )


def _describe(node: Node) -> tuple[Any, ...]:
    return node.name, node.op, node.inputs, node.edges, node.controls, node.waits, list(node.widths)


def _scale_node(less: Node, more: Node, scale: Scale) -> Node:
    shapes = [_scale_known(one, other, scale) for one, other in zip(less.shapes, more.shapes, strict=True)]
    known = [shape for shape in shapes if shape is not None]
    attr = _scale_constant(less, more, scale) if less.op == "Const" else less.attr
    return replace(less, shapes=shapes, static=known if len(known) == len(shapes) else None, attr=attr)


def _scale_known(less: Shape | None, more: Shape | None, scale: Scale) -> Shape | None:
    return None if less is None or more is None else scale.scale_shape(less, more)


def _scale_given(
    less: Mapping[str, GivenTensor], more: Mapping[str, GivenTensor], scale: Scale
) -> Mapping[str, GivenTensor]:
    return {name: replace(one, shape=_scale_known(one.shape, more[name].shape, scale)) for name, one in less.items()}


def _scale_constant(less: Node, more: Node, scale: Scale) -> Mapping[str, Any]:
    """Its attributes, where it is a shape, or lengths of parts: with those of the wanted size."""
    one, other = read_constant(less), read_constant(more)
    if one is None or other is None or one.dtype == bool or one.shape != other.shape or np.array_equal(one, other):
        return less.attr
    import tensorflow as tf

    flat = scale.scale_shape(one.ravel().tolist(), other.ravel().tolist())
    found: AnyArray = np.array(flat, one.dtype).reshape(one.shape)
    return {**less.attr, "value": tf.compat.v1.AttrValue(tensor=tf.make_tensor_proto(found))}
