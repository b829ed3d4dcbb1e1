"""The memory of tensors that are made of NumPy's arrays, on the processor that stands for a GPU."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import constant_op

from tfperf.measure.device_memory import keep_arrays_in

COUNTED = """
import sys
import numpy as np
from tfperf.measure.device_memory import DeviceMemory

memory, held = DeviceMemory("cpu-arena", 64 * 2**20), []
memory.import_tensorflow()
memory.prepare()
import tensorflow as tf

for size in [600, 6_000, 60_000] * 20:
    before = memory.read()[0]
    held.append(tf.constant(np.ones(size), tf.float32))
    if memory.read()[0] - before < 4 * size:
        sys.exit(f"{size} numbers: not counted")
"""


@pytest.fixture
def copied(monkeypatch):
    """What is copied, as DeepCopy is told."""
    found, copy = [], tf.raw_ops.DeepCopy

    def record(x):
        found.append(x)
        return copy(x=x)

    monkeypatch.setattr(constant_op, "convert_to_eager_tensor", constant_op.convert_to_eager_tensor)
    monkeypatch.setattr(tf.raw_ops, "DeepCopy", record)
    return found


def test_a_tensor_outside_of_the_region_is_copied_there(copied):
    keep_arrays_in(tf.zeros([1], tf.uint8))  # in which no other tensor lies
    array = np.random.default_rng(0).normal(size=600)
    made = tf.constant(array, tf.float32)
    assert len(copied) == 1 and made is not copied[0] and np.array_equal(made.numpy(), array.astype("float32"))
    assert tf.constant(np.array(["text"])).dtype == tf.string and tf.constant(np.zeros([0, 3])).shape == (0, 3)
    assert tf.constant([1.0, 2.0]).shape == (2,) and len(copied) == 1, "TensorFlow makes these itself"


def test_a_tensor_in_the_region_is_left_there(copied, monkeypatch):
    region = tf.zeros([4096], tf.uint8)
    monkeypatch.setattr(constant_op, "convert_to_eager_tensor", lambda value, context, dtype=None: region)
    keep_arrays_in(region)
    assert tf.constant(np.zeros(4096, "uint8")) is region and not copied


@pytest.mark.slow
def test_what_arrays_are_made_into_is_counted_wherever_they_lie():
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
