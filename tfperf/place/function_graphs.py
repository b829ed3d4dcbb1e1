"""The graphs of functions that a call runs, as TensorFlow tells them when it makes their kernels."""

from collections.abc import Callable
from typing import Any


def record_graphs(call: Callable[[], Any]) -> list[list[Any]]:
    """Of each function that a call runs, which has run before, the graphs of its parts, one for each device."""
    from tensorflow.python.eager.context import context  # not public

    now = context()
    now.enable_run_metadata()
    try:
        now.export_run_metadata()  # what was told before
        remake_kernels()
        call()
        return [list(one.partition_graphs) for one in now.export_run_metadata().function_graphs]
    finally:
        now.disable_run_metadata()


def remake_kernels() -> None:
    """Let TensorFlow make all kernels anew at the next call, and forget what it has learned of their costs.

    It tells of graphs when it makes kernels. It learns which operations are cheap, and its profiler shows those only
    beside ten times as many events of the runtime's own. It learns nothing while it traces.
    """
    from tensorflow.python.eager.context import context  # not public

    context().clear_kernel_cache()
