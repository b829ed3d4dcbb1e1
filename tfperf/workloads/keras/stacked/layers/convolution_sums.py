"""Convolutions of R replicas, each with a kernel of its own. Channels are last; B samples of C channels."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

import keras
import tensorflow as tf
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext  # not public

# Milliseconds for forward and both gradients on two cores, R = 10, B = 32, 26 x 26 places, kernels of 3 x 3, one by
# one against patches: from 1 to 16 channels 36 and 53 in a graph, 83 and 28 in XLA; from 3 to 16: 44 and 186, 128 and
# 80; from 16 to 32: 122 and 611, 90 and 286. As groups of one convolution: no gradient, and 8200 in XLA.
MOST_PLACES = 9  # of a kernel that patches are cut for
MOST_NUMBERS = 27  # in a patch
# as one convolution of the channels of all replicas against one by one in a graph: 29 and 100 for 4 channels, each
# filtered twice, 100 and 55 for 16; in XLA, 1400 one by one and 104 as shifted products
MOST_CHANNELS = 8  # of a replica


def is_compiled() -> bool:
    """Whether XLA compiles what is traced."""
    return bool(GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def convolve(
    x: tf.Tensor, kernel: tf.Tensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
) -> tf.Tensor:
    """Shapes: x (R, B, *S, C); kernel (R, *K, C / G, F), in G groups of channels; returns (R, B, *S', F).

    padding: valid or same.
    """
    groups = x.shape[-1] // kernel.shape[-2]
    if groups > 1:
        return _join_groups(
            convolve(_split_groups(x, groups), _split_groups(kernel, groups), strides, padding, dilations), groups
        )
    size = kernel.shape[1:-2]
    places, fixed = prod(size), None not in x.shape[2:]
    if places == 1 or (
        fixed and places <= MOST_PLACES and places * x.shape[-1] <= MOST_NUMBERS and is_compiled()
    ):  # fmt: skip
        parts = [part for _, part in cut_windows(x, size, strides, padding, dilations)]
        patches = tf.concat(parts, -1) if len(parts) > 1 else parts[0]
        return _multiply(patches, tf.reshape(kernel, [kernel.shape[0], -1, kernel.shape[-1]]))

    def take(one: tf.Tensor, own: tf.Tensor) -> tf.Tensor:
        return keras.ops.conv(one, own, [*strides], padding, "channels_last", dilations)

    return take_each(take, x, kernel)


def _split_groups(tensor: tf.Tensor, groups: int) -> tf.Tensor:
    """(R, ..., G N) as (R G, ..., N)."""
    shape, last = tensor.shape, tensor.shape[-1] // groups
    sizes = [-1 if n is None else n for n in shape[:-1]]
    rank = len(shape)
    parts = tf.transpose(tf.reshape(tensor, [*sizes, groups, last]), [0, rank - 1, *range(1, rank - 1), rank])
    return tf.reshape(parts, [shape[0] * groups, *sizes[1:], last])


def _join_groups(tensor: tf.Tensor, groups: int) -> tf.Tensor:
    """(R G, ..., N) as (R, ..., G N)."""
    shape, rank = tensor.shape, len(tensor.shape)
    sizes = [-1 if n is None else n for n in shape[1:-1]]
    parts = tf.reshape(tensor, [shape[0] // groups, groups, *sizes, shape[-1]])
    return tf.reshape(tf.transpose(parts, [0, *range(2, rank), 1, rank]), [shape[0] // groups, *sizes, -1])


def _multiply(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """Shapes: x (R, B, *S, I); matrix (R, I, O); returns (R, B, *S, O)."""
    sizes = [-1 if n is None else n for n in x.shape[1:-1]]
    y = tf.matmul(tf.reshape(x, [x.shape[0], -1, x.shape[-1]]), matrix)
    return tf.reshape(y, [x.shape[0], *sizes, matrix.shape[-1]])


def take_each(function: Callable[..., tf.Tensor], *tensors: tf.Tensor) -> tf.Tensor:
    """What a function gives of each replica's tensors (R, ...), one by one: XLA takes half a second to compile each."""
    parts = [tf.unstack(one, num=tensors[0].shape[0]) for one in tensors]
    return tf.stack([function(*some) for some in zip(*parts, strict=True)])


def cut_windows(
    x: tf.Tensor, size: Sequence[int], strides: Sequence[int], padding: str, dilations: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tf.Tensor]]:
    """Each place of a kernel, and what it meets of x (R, B, *S, C) in all windows: (R, B, *S', C)."""
    if prod(size) == 1:  # nothing is padded, whatever the length
        yield (0,) * len(size), x[(slice(None), slice(None), *(slice(None, None, one) for one in strides))]
        return
    spans = [(k - 1) * d + 1 for k, d in zip(size, dilations, strict=True)]
    if padding == "same":
        pads = [_pad_same(n, *one) for n, *one in zip(x.shape[2:-1], spans, strides, strict=True)]
        x = tf.pad(x, [(0, 0), (0, 0), *pads, (0, 0)])
    counts = [(n - span) // s + 1 for n, span, s in zip(x.shape[2:-1], spans, strides, strict=True)]
    for place in product(*map(range, size)):
        cut = [
            slice(k * d, k * d + (count - 1) * s + 1, s)
            for k, d, count, s in zip(place, dilations, counts, strides, strict=True)
        ]
        yield place, x[(slice(None), slice(None), *cut)]


def _pad_same(length: int, span: int, stride: int) -> tuple[int, int]:
    """Before and after, such that a window begins at each stride; the odd one goes after."""
    total = max((-(-length // stride) - 1) * stride + span - length, 0)
    return total // 2, total - total // 2


def convolve_depthwise(
    x: tf.Tensor, kernel: tf.Tensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
) -> tf.Tensor:
    """Shapes: x (R, B, *S, C); kernel (R, *K, C, M); returns (R, B, *S', C M)."""
    if is_compiled() and None not in x.shape[2:]:
        return _add_shifted(x, kernel, strides, padding, dilations)

    def take(one: tf.Tensor, own: tf.Tensor) -> tf.Tensor:
        return keras.ops.depthwise_conv(one, own, tuple(strides), padding, "channels_last", tuple(dilations))

    if x.shape[-1] > MOST_CHANNELS:
        return take_each(take, x, kernel)
    return _split_channels(take(_join_channels(x, -1), _join_channels(kernel, -2)), x.shape[0])


def _add_shifted(
    x: tf.Tensor, kernel: tf.Tensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
) -> tf.Tensor:
    """Depthwise as a sum over the places of a kernel: XLA has it in one pass."""
    size = kernel.shape[1:-2]
    middle, total = (slice(None), None, *(None,) * len(size)), tf.zeros([], x.dtype)
    for place, part in cut_windows(x, size, strides, padding, dilations):
        product_ = part[..., None] * kernel[(slice(None), *place)][middle]
        total = total + product_
    return tf.reshape(total, [*total.shape[:-2], -1])


def _join_channels(tensor: tf.Tensor, axis: int) -> tf.Tensor:
    """(R, ..., C, ...) as (..., R C, ...): the replicas as channels, which are at an axis from the end."""
    rank, place = len(tensor.shape), len(tensor.shape) + axis
    moved = tf.transpose(tensor, [*range(1, place), 0, *range(place, rank)])
    sizes = [-1 if n is None else n for n in tensor.shape]
    return tf.reshape(moved, [*sizes[1:place], sizes[0] * sizes[place], *sizes[place + 1 :]])


def _split_channels(tensor: tf.Tensor, replicas: int) -> tf.Tensor:
    """(..., R C) as (R, ..., C)."""
    rank = len(tensor.shape)
    sizes = [-1 if n is None else n for n in tensor.shape[:-1]]
    parts = tf.reshape(tensor, [*sizes, replicas, tensor.shape[-1] // replicas])
    return tf.transpose(parts, [rank - 1, *range(rank - 1), rank])
