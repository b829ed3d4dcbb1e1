"""Counters of the hardware for each stage of a memory trial: NVML at its end, and a thread's readings during it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from tfperf.measure.device_memory import DeviceMemory
from tfperf.measure.environment import read_rss_bytes
from tfperf.measure.nvml import GpuReader, open_gpus
from tfperf.measure.readings import PeriodicReader, Reading


class StageCounters:
    """What is counted from the end of one stage to that of the next. gpus: those visible; steps run on the first."""

    def __init__(self, gpus: Sequence[GpuReader], reader: PeriodicReader) -> None:
        self._gpus, self._reader = gpus, reader
        self._energy = [gpu.read_energy() for gpu in gpus]
        # what the thread read during each stage; none of it is a peak
        self.readings: dict[str, Any] = {"period_seconds": reader.period, "stages": []}

    def read_stage(self, name: str, memory: DeviceMemory | None, peak: int | None) -> dict[str, Any]:
        """The parts of a stage's record: joules of the first GPU, and what NVML says of each; None without NVML.

        memory: of the first GPU, once TensorFlow has it; peak: bytes of tensors in the stage.
        """
        before, self._energy = self._energy, [gpu.read_energy() for gpu in self._gpus]
        self.readings["stages"].append({"stage": name, **self._reader.take()})
        reserved = None if memory is None else memory.compute_reserved(peak)
        found = [
            {"energy_joules": subtract_energy(then, now), "energy_counter_joules": now}
            | _describe_gpu(gpu, memory is not None, reserved if gpu is self._gpus[0] else None)
            for gpu, then, now in zip(self._gpus, before, self._energy, strict=True)
        ]
        return {"energy_joules": found[0]["energy_joules"] if found else None, "nvml": found or None}


@contextmanager
def open_counters(device: str) -> Iterator[StageCounters]:
    """Counters for steps on a device: of GPUs only where the steps run on one."""
    with open_gpus() as every:
        gpus = every if device == "gpu" else []
        with PeriodicReader(lambda: read_now(gpus)) as reader:
            yield StageCounters(gpus, reader)


def read_now(gpus: Sequence[GpuReader]) -> Reading:
    """RAM of the process, and load, memory and traffic of each GPU."""
    ram = read_rss_bytes()
    figures: dict[str, float | None] = {"ram_bytes": ram}
    words = set()
    for number, gpu in enumerate(gpus):
        load = asdict(gpu.read_load())
        held_back = load.pop("held_back") or ()
        words |= {f"gpu{number}: {word}" for word in held_back}
        sent, received = gpu.read_traffic()
        more = {"used_bytes": gpu.read_used(), "sent_bytes_per_s": sent, "received_bytes_per_s": received}
        figures |= {f"gpu{number}.{key}": value for key, value in (load | more).items()}
    return figures, frozenset(words)


def subtract_energy(before: float | None, now: float | None) -> float | None:
    """Joules between two readings of a counter; None where it has not moved, as no device uses none.

    >>> subtract_energy(10.0, 12.5), subtract_energy(10.0, 10.0), subtract_energy(None, 3.0)
    (2.5, None, None)
    """
    return now - before if before is not None and now is not None and now > before else None


def _describe_gpu(gpu: GpuReader, holds: bool, reserved: int | None) -> dict[str, Any]:
    """reserved: bytes of the allocator; the rest of this process's are its CUDA context and what libraries took."""
    memory = gpu.read_memory(holds)
    context = memory.own - reserved if memory.own is not None and reserved is not None else None
    return {
        "name": gpu.name, "uuid": gpu.uuid, "memory": asdict(memory) | {"context": context},
        **asdict(gpu.read_load()), **asdict(gpu.read_health()),
    }  # fmt: skip
