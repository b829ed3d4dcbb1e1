"""Errors that say that memory was short."""

import errno

import pytest
import tensorflow as tf

from tfperf.errors import UserError
from tfperf.workloads.exhaustion import find_exhaustion


def chain(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "MemoryError"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "OSError: [Errno 12] Cannot allocate memory"),
        (
            tf.errors.ResourceExhaustedError(None, None, "Graph error:\n\nDetected at\n OOM when allocating x"),
            "OOM when allocating x",
        ),
        (tf.errors.ResourceExhaustedError(None, None, "quota"), "ResourceExhaustedError: quota"),
        (tf.errors.InternalError(None, None, "CUDA_ERROR_OUT_OF_MEMORY"), "InternalError: CUDA_ERROR_OUT_OF_MEMORY"),
        (chain(UserError("in a step"), chain(ValueError("no"), MemoryError("deep"))), "MemoryError: deep"),
        (ValueError("out of memory, says a layer"), None),
        (chain(UserError("out of memory"), ValueError("no")), None),
        (OSError(errno.ENOENT, "no file"), None),
        (tf.errors.InvalidArgumentError(None, None, "shape"), None),
    ],
)  # fmt: skip
def test_what_errors_say_of_memory(error, said):
    assert find_exhaustion(error) == said
