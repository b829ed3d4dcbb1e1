"""Memory of the device that steps run on, as TensorFlow's own allocator counts it.

A machine without a GPU can stand in for one: TensorFlow then gives the processor the allocator that GPUs have, with a
limit, of which all is reserved as one region before anything else, as on a GPU.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfperf.measure.loading import speed_up_import
from tfperf.runcard.memory import MemoryDevice

MIB = 2**20
NUMBERS = "biuf"  # kinds of NumPy's types
LEFT = 8 * MIB  # of the limit, that the region does not take: small tensors of the host come first
NAMES: Mapping[MemoryDevice, str] = {"gpu": "GPU:0", "cpu-arena": "CPU:0"}  # as TensorFlow calls them


@dataclass(frozen=True)
class DeviceMemory:
    """A device, and how many bytes of it may be used; None: all."""

    kind: MemoryDevice
    limit: int | None = None

    def import_tensorflow(self) -> None:
        """Import it, Keras too, with what the environment has to say before."""
        if self.kind == "cpu-arena":
            assert self.limit is not None
            os.environ |= {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(self.limit // MIB)}
        with speed_up_import():
            import keras  # noqa: F401
            import tensorflow  # noqa: F401

    def prepare(self) -> None:
        """Reserve the region, or limit the first GPU, beside which no other is used; before any tensor is made."""
        import tensorflow as tf

        if self.kind == "cpu-arena":
            assert self.limit is not None
            tf.config.set_visible_devices([], "GPU")  # the processor takes the steps, also where there is one
            keep_arrays_in(tf.raw_ops.Empty(shape=[max(self.limit // MIB * MIB - LEFT, MIB)], dtype=tf.uint8))
        else:
            gpu = tf.config.list_physical_devices("GPU")[0]
            tf.config.set_visible_devices([gpu], "GPU")
            if self.limit is not None:
                part = tf.config.LogicalDeviceConfiguration(memory_limit=self.limit // MIB)
                tf.config.set_logical_device_configuration(gpu, [part])
        self.reset_peak()

    def read(self) -> tuple[int, int]:
        """Bytes in use now, and the most since the peak was reset."""
        import tensorflow as tf

        found: Mapping[str, Any] = tf.config.experimental.get_memory_info(NAMES[self.kind])
        return int(found["current"]), int(found["peak"])

    def compute_reserved(self, peak: int | None) -> int | None:
        """Bytes that TensorFlow has taken from the GPU, whether tensors use them or not; None: not known.

        It takes all of the limit with the first tensor, unless it is told to grow or to use CUDA's own allocator.
        peak: bytes of tensors, 0 before the first.
        """
        grows = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "false").lower() == "true"
        if self.kind != "gpu" or self.limit is None or not peak or grows or os.environ.get("TF_GPU_ALLOCATOR"):
            return None
        return self.limit // MIB * MIB

    def reset_peak(self) -> None:
        """Count the peak from now on."""
        import tensorflow as tf

        tf.config.experimental.reset_memory_stats(NAMES[self.kind])


def keep_arrays_in(region: Any) -> None:
    """From now on copy there what NumPy's arrays are made into, as a GPU does, to the end of this process.

    On a processor a tensor shares the memory of an array that happens to lie at a multiple of 64 bytes: which do,
    differs from process to process, and the allocator counts none of them. region: a tensor that is all of it.
    """
    import tensorflow as tf
    from tensorflow.python.framework import constant_op  # not public

    convert, begin = constant_op.convert_to_eager_tensor, find_address(region)
    end = begin + int(region.shape[0])

    def convert_copied(value: Any, context: Any, dtype: Any = None) -> Any:
        made = convert(value, context, dtype)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in NUMBERS or not value.size:
            return made
        return made if begin <= find_address(made) < end else tf.raw_ops.DeepCopy(x=made)

    constant_op.convert_to_eager_tensor = convert_copied


def find_address(tensor: Any) -> int:
    """Where the numbers of a tensor in the processor's memory begin."""
    return int(np.asarray(memoryview(tensor)).ctypes.data)
