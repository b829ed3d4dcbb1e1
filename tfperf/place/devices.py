"""The devices of a run: GPUs, or logical CPUs that stand for them. TensorFlow fixes both at its first use."""

import json
import os
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfperf.errors import UserError
from tfperf.runcard.placement import Placement

TF_CONFIG = "TF_CONFIG"
HOST = "/job:localhost/replica:0/task:0/device:CPU:0"


@dataclass(frozen=True)
class Devices:
    """Full names. On logical CPUs the host is CPU 0 and the devices are the CPUs after it."""

    host: str
    each: tuple[str, ...]
    logical: bool  # CPUs that share cores
    local: tuple[int, ...] | None = None  # numbers of those of this process; None: all

    def __len__(self) -> int:
        return len(self.each)

    @property
    def mine(self) -> list[tuple[int, str]]:
        """Those of this process, with their numbers."""
        return [(k, name) for k, name in enumerate(self.each) if self.local is None or k in self.local]

    def short(self, name: str) -> str:
        """`host`, or `device:K`."""
        return f"device:{self.each.index(name)}" if name in self.each else "host"


def make_devices(placement: Placement) -> Devices:
    """So many GPUs as the placement asks for, or logical CPUs where the machine has no GPU.

    With engine multiworker one device of each worker that TF_CONFIG lists. Raises: UserError where there are fewer GPUs
    or other workers, where the placement cannot be on so many, or where TensorFlow has other logical devices already.
    """
    # what a placement asks for must not be moved elsewhere in silence
    tf.config.set_soft_device_placement(False)
    gpus = len(tf.config.list_physical_devices("GPU"))
    if placement.engine == "multiworker":
        return _workers(placement, gpus > 0)
    wanted = max(gpus, 1) if placement.devices == "all" else placement.devices
    if gpus and wanted > gpus:
        raise UserError(f"placement.devices: got {wanted}; this machine has {gpus} GPUs")
    faults = [f"placement.{fault.key}: got {fault.value!r}; {fault.text}" for fault in placement.faults_on(wanted)]
    if faults:
        raise UserError(*faults)
    if not gpus:
        _split_cpu(wanted + 1)
    kind, first = ("GPU", 0) if gpus else ("CPU", 1)
    prefix = HOST.removesuffix("CPU:0")
    return Devices(HOST, tuple(f"{prefix}{kind}:{first + k}" for k in range(wanted)), not gpus)


def cluster() -> dict[str, Any]:
    """What TF_CONFIG says: workers' addresses and this one's number; empty where it is not set. Raises: UserError."""
    text = os.environ.get(TF_CONFIG, "")
    try:
        found = json.loads(text) if text else {}
        return {"workers": list(found["cluster"]["worker"]), "index": int(found["task"]["index"])} if found else {}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{TF_CONFIG}: cannot be read ({error!r}); must list cluster.worker and task.index") from None


def _workers(placement: Placement, gpu: bool) -> Devices:
    found = cluster()
    count = len(found.get("workers", ()))
    if placement.devices not in ("all", count) or not count:
        raise UserError(
            f"placement.devices: got {placement.devices}; {TF_CONFIG} lists {count} workers, each with one device"
        )
    name = "/job:worker/replica:0/task:{}/device:{}:0"
    each = tuple(name.format(k, "GPU" if gpu else "CPU") for k in range(count))
    return Devices(name.format(found["index"], "CPU"), each, not gpu, local=(found["index"],))


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
