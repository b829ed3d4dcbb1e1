"""Lists of tensors, in which loops keep what their iterations give: TensorFlow's TensorList operations."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tfperf.errors import UnknownSizeError
from tfperf.measure.static_memory.heap import Heap, Shape, Tensor, TensorList, Value
from tfperf.measure.static_memory.program import Node

Results = list[Value | None]
KEEPING = "kept by a loop"


class ListKernels:
    """What each operation on lists does with buffers. A list that nobody else holds is changed in place."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap

    def run(self, node: Node, inputs: Sequence[Value]) -> Results:
        """Results, each of which the caller holds. Raises: UnknownSizeError."""
        return KERNELS[node.op](self, node, inputs)

    def add(self, node: Node, lists: Sequence[TensorList]) -> Results:
        """Sums of their tensors."""
        rows = zip(*(one.items for one in lists), strict=True)
        items = [next((one for one in row if one is not None), None) for row in rows]
        made = [None if one is None else self._make(node, one.shape, one.width) for one in items]
        return [TensorList(made, lists[0].shape, lists[0].width)]

    def fill(self, node: Node, like: TensorList) -> Results:
        """Zeros of the same shapes."""
        made = [self._make(node, one.shape, one.width) if one is not None else None for one in like.items]
        return [TensorList(made, like.shape, like.width)]

    def _make(self, node: Node, shape: Shape, width: int) -> Tensor:
        return self._heap.make_tensor(shape, width, node.name, KEEPING)

    def _change(self, given: TensorList) -> TensorList:
        """A handle that may be changed."""
        if given.refs == 1:
            given.refs += 1
            return given
        for item in given.items:
            if item is not None:
                self._heap.keep(item)
        return TensorList(list(given.items), given.shape, given.width)

    def _make_unset(self, node: Node, inputs: Sequence[Value]) -> Results:
        count = _read_number(node, inputs[1])
        return [TensorList([None] * count, _read_shape(inputs[0]), _read_width(node))]

    def _begin(self, node: Node, inputs: Sequence[Value]) -> Results:
        return [TensorList([], _read_shape(inputs[0]), _read_width(node))]

    def _append(self, node: Node, inputs: Sequence[Value]) -> Results:
        given, item = inputs
        assert isinstance(given, TensorList) and isinstance(item, Tensor)
        made = self._change(given)
        self._heap.keep(item)
        made.items.append(item)
        return [made]

    def _pop(self, node: Node, inputs: Sequence[Value]) -> Results:
        given = inputs[0]
        assert isinstance(given, TensorList)
        made = self._change(given)
        item = made.items.pop()
        if item is None:
            shape = made.shape or _read_shape(inputs[1])
            if shape is None:
                raise UnknownSizeError(f"{node.name} ({node.op}): the shape of what the list has is not known")
            item = self._make(node, shape, made.width)
        return [made, item]

    def _set(self, node: Node, inputs: Sequence[Value]) -> Results:
        given, place, item = inputs
        assert isinstance(given, TensorList) and isinstance(item, Tensor)
        made, at = self._change(given), _read_number(node, place)
        if at >= len(made.items):
            made.items += [None] * (at + 1 - len(made.items))
        before = made.items[at]
        self._heap.keep(item)
        made.items[at] = item
        if before is not None:
            self._heap.release(before)
        return [made]

    def _get(self, node: Node, inputs: Sequence[Value]) -> Results:
        given, place = inputs[:2]
        assert isinstance(given, TensorList)
        item = given.items[_read_number(node, place)]
        if item is not None:
            self._heap.keep(item)
            return [Tensor(item.buffer, item.shape, item.width)]
        shape = given.shape or _read_shape(inputs[2]) or node.shapes[0]
        if shape is None:
            raise UnknownSizeError(f"{node.name} ({node.op}): the shape of what the list has is not known")
        return [self._make(node, shape, given.width)]

    def _split(self, node: Node, inputs: Sequence[Value]) -> Results:
        tensor = inputs[0]
        assert isinstance(tensor, Tensor)
        rest = tensor.shape[1:]
        items: list[Tensor | None] = [self._make(node, rest, tensor.width) for _ in range(tensor.shape[0])]
        return [TensorList(items, rest, tensor.width)]

    def _stack(self, node: Node, inputs: Sequence[Value]) -> Results:
        given = inputs[0]
        assert isinstance(given, TensorList)
        shape = next((one.shape for one in given.items if one is not None), given.shape)
        if shape is None:
            raise UnknownSizeError(f"{node.name} ({node.op}): the shape of what the list has is not known")
        return [self._make(node, (len(given.items), *shape), given.width)]

    def _count(self, node: Node, inputs: Sequence[Value]) -> Results:
        given = inputs[0]
        assert isinstance(given, TensorList)
        made = self._make(node, (), 4)
        made.value = np.array(len(given.items), np.int32)
        return [made]

    def _get_shape(self, node: Node, inputs: Sequence[Value]) -> Results:
        given = inputs[0]
        assert isinstance(given, TensorList)
        shape = given.shape or next((one.shape for one in given.items if one is not None), None)
        made = self._make(node, (0 if shape is None else len(shape),), node.widths[0])
        made.value = None if shape is None else np.array(shape, np.int32)
        return [made]


def _read_number(node: Node, given: Value) -> int:
    if not isinstance(given, Tensor) or given.value is None:
        raise UnknownSizeError(f"{node.name} ({node.op}): a number that it is given is not known before it runs")
    return int(given.value)


def _read_shape(given: Value) -> Shape | None:
    """None where a part of it is not known."""
    if not isinstance(given, Tensor) or given.value is None or given.value.ndim == 0 or np.any(given.value < 0):
        return None
    return tuple(int(one) for one in given.value)


def _read_width(node: Node) -> int:
    import tensorflow as tf

    kind = tf.as_dtype(node.attr["element_dtype"].type)
    return 0 if kind in (tf.variant, tf.resource, tf.string) else int(kind.size)


Kernel = Callable[[ListKernels, Node, Sequence[Value]], Results]
KERNELS: Mapping[str, Kernel] = {
    "TensorListReserve": ListKernels._make_unset, "EmptyTensorList": ListKernels._begin,
    "TensorListPushBack": ListKernels._append, "TensorListPopBack": ListKernels._pop,
    "TensorListSetItem": ListKernels._set, "TensorListGetItem": ListKernels._get,
    "TensorListFromTensor": ListKernels._split, "TensorListStack": ListKernels._stack,
    "TensorListLength": ListKernels._count, "TensorListElementShape": ListKernels._get_shape,
}  # fmt: skip
