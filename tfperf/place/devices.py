"""The devices of a run: GPUs, or logical CPUs that stand for them. TensorFlow fixes both at its first use."""

import json
import os
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfperf.errors import UserError
from tfperf.runcard.placement import TF_CONFIG, Placement

HOST = "/job:localhost/replica:0/task:0/device:CPU:0"


@dataclass(frozen=True)
class Devices:
    """Full names. On logical CPUs the host is CPU 0 and the devices are the CPUs after it."""

    host: str
    each: tuple[str, ...]
    logical: bool  # CPUs that share cores
    local: tuple[int, ...] | None = None  # numbers of those of this process; None: all
    workers: int = 1  # processes that share them, each with as many

    def __len__(self) -> int:
        return len(self.each)

    @property
    def mine(self) -> list[tuple[int, str]]:
        """Those of this process, with their numbers."""
        return [(k, name) for k, name in enumerate(self.each) if self.local is None or k in self.local]

    def get_short_name(self, name: str) -> str:
        """`host`, or `device:K`."""
        return f"device:{self.each.index(name)}" if name in self.each else "host"


def make_devices(placement: Placement) -> Devices:
    """So many GPUs as the placement asks for, or logical CPUs where the machine has no GPU.

    With engine multiworker they are divided evenly among the workers that TF_CONFIG lists. Raises: UserError where
    there are fewer GPUs or other workers, where the placement cannot be on so many, or where TensorFlow has other
    logical devices already.
    """
    # what a placement asks for must not be moved elsewhere in silence
    tf.config.set_soft_device_placement(False)
    gpus = len(tf.config.list_physical_devices("GPU"))
    if placement.engine == "multiworker":
        return _make_worker_devices(placement, gpus)
    wanted = max(gpus, 1) if placement.devices == "all" else placement.devices
    if gpus and wanted > gpus:
        raise UserError(f"placement.devices: got {wanted}; this machine has {gpus} GPUs")
    faults = [f"placement.{fault.key}: got {fault.value!r}; {fault.text}" for fault in placement.check_devices(wanted)]
    if faults:
        raise UserError(*faults)
    if not gpus:
        _split_cpu(wanted + 1)
    kind, first = ("GPU", 0) if gpus else ("CPU", 1)
    prefix = HOST.removesuffix("CPU:0")
    return Devices(HOST, tuple(f"{prefix}{kind}:{first + k}" for k in range(wanted)), not gpus)


def count_devices(placement: Placement) -> int:
    """Devices of a run; of engine multiworker without TF_CONFIG as many as the workers of a sweep's trial have here.

    Raises: UserError as `make_devices`.
    """
    if placement.engine == "multiworker" and not parse_tf_config():
        gpus = len(tf.config.list_physical_devices("GPU"))
        return max(gpus, 1) * placement.local_workers if placement.devices == "all" else placement.devices
    return len(make_devices(placement))


def parse_tf_config() -> dict[str, Any]:
    """What TF_CONFIG says: workers' addresses and this one's number; empty where it is not set. Raises: UserError."""
    text = os.environ.get(TF_CONFIG, "")
    try:
        found = json.loads(text) if text else {}
        if not found:
            return {}
        workers, index = found["cluster"]["worker"], int(found["task"]["index"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{TF_CONFIG}: cannot be read ({error!r}); must list cluster.worker and task.index") from None
    if not isinstance(workers, list) or not workers or not all(isinstance(one, str) for one in workers):
        raise UserError(f"{TF_CONFIG}: cluster.worker: got {workers!r}; must be a list of addresses, host:port")
    if not 0 <= index < len(workers):
        raise UserError(f"{TF_CONFIG}: task.index: got {index}; must be 0 to {len(workers) - 1}, one of the workers")
    return {"workers": workers, "index": index}


def _make_worker_devices(placement: Placement, gpus: int) -> Devices:
    """As many devices of each worker; of workers on one machine, GPUs one after the other."""
    found = parse_tf_config()
    if not found:
        raise UserError(
            f"placement.engine: got 'multiworker'; {TF_CONFIG} is not set: it must list cluster.worker and task.index"
            " (tfperf sweep sets it for the workers that it starts)"
        )
    workers, index = found["workers"], found["index"]
    count = len(workers)
    wanted = max(gpus, 1) * count if placement.devices == "all" else placement.devices
    if placement.workers not in (None, count):
        raise UserError(f"placement.workers: got {placement.workers}; {TF_CONFIG} lists {count}")
    if wanted % count:
        raise UserError(
            f"placement.devices: got {placement.devices}; {TF_CONFIG} lists {count} workers, which need as many each"
        )
    each = wanted // count
    before = sum(_parse_machine(one) == _parse_machine(workers[index]) for one in workers[:index])
    if gpus:
        _take_gpus(range(each * before, each * (before + 1)), gpus)
    elif each > 1:
        _split_cpu(each)
    name = "/job:worker/replica:0/task:{}/device:{}:{}"
    names = [name.format(task, "GPU" if gpus else "CPU", k) for task in range(count) for k in range(each)]
    own = tuple(range(index * each, (index + 1) * each))
    return Devices(name.format(index, "CPU", 0), tuple(names), not gpus, local=own, workers=count)


def _parse_machine(address: str) -> str:
    return address.rpartition(":")[0]


def _take_gpus(numbers: range, available: int) -> None:
    """Hide all GPUs but these: TensorFlow's strategy takes all that it sees."""
    if numbers.stop > available:
        needed = f"this worker needs GPUs {numbers.start} to {numbers.stop - 1}"
        raise UserError(f"placement.devices: {needed}; this machine has {available}")
    physical = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices([physical[k] for k in numbers], "GPU")


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
