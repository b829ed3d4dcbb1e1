"""Merges of what devices find, and the types that each can be of. TensorFlow is imported when one is checked."""

from typing import Literal, get_args

from tfperf.errors import UserError

# first: all devices find the same, and nothing is sent; sum: of metrics their sum, of statistics that of the changes
MergeKind = Literal["sum", "mean", "first"]


def refuse_unmergeable(what: str, merge: str, dtype: str, *more: str) -> None:
    """Raises: UserError where there is no such merge, these and `more`, or where values of the type have none."""
    import tensorflow as tf

    words = (*get_args(MergeKind), *more)
    if merge not in words:
        raise UserError(f"{what}: merge: got {merge!r}; allowed: {', '.join(words)}")
    try:
        kind = tf.as_dtype(dtype)
    except TypeError:
        raise UserError(f"{what}: dtype: got {dtype!r}; must be the name of one of TensorFlow's types") from None
    fractions = kind.is_floating or kind.is_complex
    if merge == "mean" and not fractions:
        raise UserError(f"{what}: merge: got 'mean' of {kind.name}, which has no fractions; allowed: a floating type")
    if merge == "sum" and not (fractions or kind.is_integer):
        raise UserError(f"{what}: merge: got 'sum' of {kind.name}; allowed: a type of numbers")
