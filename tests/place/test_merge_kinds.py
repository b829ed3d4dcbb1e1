"""Merges that a type does not have are refused when a statistic or metric is made."""

import keras
import pytest

from tfperf.errors import UserError
from tfperf.place.trainable import Metric, Statistic


def variable(dtype):
    return keras.Variable([0, 0], dtype=dtype, name="seen", trainable=False)


@pytest.mark.parametrize(
    ("merge", "dtype", "fault"),
    [
        ("mean", "int32", "merge: got 'mean' of int32, which has no fractions; allowed: a floating type"),
        ("mean", "bool", "merge: got 'mean' of bool"),
        ("sum", "bool", "merge: got 'sum' of bool; allowed: a type of numbers"),
        ("largest", "float32", "merge: got 'largest'; allowed: sum, mean, first"),
    ],
)
def test_a_merge_that_a_type_does_not_have_is_refused(merge, dtype, fault):
    with pytest.raises(UserError, match=f"metric exact: {fault}"):
        Metric("exact", merge, dtype)
    with pytest.raises(UserError, match=f"statistic seen: {fault}"):
        Statistic(variable(dtype), merge)


def test_a_metric_is_of_a_type_and_is_not_fixed():
    with pytest.raises(UserError, match="metric exact: dtype: got 'float33'; must be the name of one of"):
        Metric("exact", "sum", "float33")
    with pytest.raises(UserError, match=r"metric exact: merge: got 'fixed'; allowed: sum, mean, first$"):
        Metric("exact", "fixed")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("merge", "dtype"),
    [("first", "bool"), ("sum", "int64"), ("mean", "float16"), ("mean", "bfloat16"), ("fixed", "bool")],
)
def test_other_merges_are_taken(merge, dtype):
    assert Statistic(variable(dtype), merge).merge == merge
    assert merge == "fixed" or Metric("exact", merge, dtype).dtype == dtype
