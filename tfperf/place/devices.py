"""The devices of a run: GPUs, or logical CPUs that stand for them. TensorFlow fixes both at its first use."""

from dataclasses import dataclass
from typing import Literal

import tensorflow as tf

from tfperf.errors import UserError

HOST = "/job:localhost/replica:0/task:0/device:CPU:0"


@dataclass(frozen=True)
class Devices:
    """Full names. On logical CPUs the host is CPU 0 and the devices are the CPUs after it."""

    host: str
    each: tuple[str, ...]
    logical: bool  # CPUs that share cores

    def __len__(self) -> int:
        return len(self.each)

    def short(self, name: str) -> str:
        """`host`, or `device:K`."""
        return "host" if name == self.host else f"device:{self.each.index(name)}"


def make_devices(count: Literal["all"] | int) -> Devices:
    """So many GPUs, or logical CPUs where the machine has no GPU.

    Raises: UserError where there are fewer GPUs, or where TensorFlow runs already with other logical devices.
    """
    gpus = len(tf.config.list_physical_devices("GPU"))
    wanted = max(gpus, 1) if count == "all" else count
    if gpus and wanted > gpus:
        raise UserError(f"placement.devices: got {wanted}; this machine has {gpus} GPUs")
    if not gpus:
        _split_cpu(wanted + 1)
    # what a placement asks for must not be moved elsewhere in silence
    tf.config.set_soft_device_placement(False)
    kind, first = ("GPU", 0) if gpus else ("CPU", 1)
    prefix = HOST.removesuffix("CPU:0")
    return Devices(HOST, tuple(f"{prefix}{kind}:{first + k}" for k in range(wanted)), not gpus)


def _split_cpu(count: int) -> None:
    """Make so many logical CPUs."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError:
        there = len(tf.config.list_logical_devices("CPU"))
        if there < count:
            raise UserError(
                f"placement.devices: {count} logical CPUs are needed, host included, but TensorFlow already runs with "
                f"{there} in this process; begin in a process of its own"
            ) from None
