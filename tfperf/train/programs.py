"""Tracing that leaves nothing behind."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

ONE_AT_A_TIME = Lock()  # the registry is the process's: what one thread registers, another must not remove


def traced(python: Callable[..., Any], signature: Sequence[tf.TensorSpec], xla: bool) -> Callable[..., Any]:
    """The compiled function, which dies with the last reference to it.

    TensorFlow registers each tf.custom_gradient that it traces under a new name for the rest of the process, with all
    that the gradient refers to: tables and matrices of every stack ever built. Once traced, nobody asks for it again.
    """
    with ONE_AT_A_TIME:
        registered: dict[str, Any] = ops.gradient_registry._registry
        before = set(registered)
        try:
            return tf.function(python, jit_compile=xla, autograph=False).get_concrete_function(*signature)  # type: ignore[no-any-return]
        finally:
            for name in registered.keys() - before:
                if name.startswith("CustomGradient"):
                    del registered[name]
