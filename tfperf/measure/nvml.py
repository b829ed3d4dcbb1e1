"""What NVIDIA's management library (NVML) tells of GPUs: memory by process, energy, power, clocks, faults.

Each figure is asked for alone: one that a device, a driver or a permission does not give is None, never 0 and never an
error. Source: NVIDIA, NVML API Reference Guide.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tfperf.measure.environment import open_nvml
from tfperf.measure.visible_gpus import find_visible_gpus, is_order_unknown

IDLE = "idle"
REASONS: Mapping[int, str] = {  # bits of nvmlDeviceGetCurrentClocksEventReasons
    0x1: IDLE, 0x2: "clocks set by an application", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "heat, by software", 0x40: "heat, by hardware", 0x80: "power brake", 0x100: "clocks set for a display",
}  # fmt: skip


@dataclass(frozen=True)
class GpuMemory:
    """Bytes of a device, and of its processes; own: this one's, which includes its CUDA context."""

    total: int | None
    used: int | None
    free: int | None
    own: int | None
    others: int | None


@dataclass(frozen=True)
class GpuLoad:
    """What a device does at one moment: watts, MHz, shares of a short time, degrees Celsius.

    held_back: why its clocks are not higher; empty: nothing holds them back.
    """

    power_watts: float | None
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    utilisation: float | None
    memory_utilisation: float | None
    temperature_celsius: int | None
    held_back: tuple[str, ...] | None


@dataclass(frozen=True)
class GpuHealth:
    """Its link to the host, and errors of its memory since the driver was loaded, by whether they were corrected."""

    pcie_generation: int | None
    pcie_width: int | None
    corrected_errors: int | None
    uncorrected_errors: int | None


class GpuReader:
    """One GPU, or part of one, by its handle in NVML."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle
        self.name: str | None = self._ask("nvmlDeviceGetName")
        self.uuid: str | None = self._ask("nvmlDeviceGetUUID")

    def read_energy(self) -> float | None:
        """Joules since the driver was loaded, of a counter that rises several times a second."""
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if millijoules is None else millijoules / 1e3

    def read_memory(self, holds: bool) -> GpuMemory:
        """holds: whether this process holds memory of the device: if it is not listed then, it has another number
        outside of its container, and nobody can tell which of the processes is this one."""
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        total, used, free = (None if memory is None else int(getattr(memory, key)) for key in ("total", "used", "free"))
        return GpuMemory(total, used, free, *self._read_processes(holds))

    def read_used(self) -> int | None:
        """Bytes in use by all processes."""
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        return None if memory is None else int(memory.used)

    def read_load(self) -> GpuLoad:
        """Of now: what is read at the end of a stage may find the device at rest."""
        library = self._library
        power = self._ask("nvmlDeviceGetPowerUsage")  # milliwatts
        rates = self._ask("nvmlDeviceGetUtilizationRates")  # per cent
        return GpuLoad(
            None if power is None else power / 1e3,
            self._ask("nvmlDeviceGetClockInfo", library.NVML_CLOCK_SM),
            self._ask("nvmlDeviceGetClockInfo", library.NVML_CLOCK_MEM),
            None if rates is None else rates.gpu / 100,
            None if rates is None else rates.memory / 100,
            self._ask("nvmlDeviceGetTemperature", library.NVML_TEMPERATURE_GPU),
            self._read_reasons(),
        )

    def read_traffic(self) -> tuple[float | None, float | None]:
        """Bytes per second that go to the host and come from it; each takes NVML about 20 ms."""
        library = self._library
        counters = (library.NVML_PCIE_UTIL_TX_BYTES, library.NVML_PCIE_UTIL_RX_BYTES)
        sent, received = (self._ask("nvmlDeviceGetPcieThroughput", counter) for counter in counters)  # KB/s
        return None if sent is None else sent * 1e3, None if received is None else received * 1e3

    def read_health(self) -> GpuHealth:
        """Its link, and errors of its memory."""
        kinds = (self._library.NVML_MEMORY_ERROR_TYPE_CORRECTED, self._library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
        errors = (self._ask("nvmlDeviceGetTotalEccErrors", kind, self._library.NVML_VOLATILE_ECC) for kind in kinds)
        return GpuHealth(
            self._ask("nvmlDeviceGetCurrPcieLinkGeneration"), self._ask("nvmlDeviceGetCurrPcieLinkWidth"), *errors
        )

    def _read_processes(self, holds: bool) -> tuple[int | None, int | None]:
        """Bytes of this process, and of all others together, whether they compute or draw."""
        found = [self._ask(f"nvmlDeviceGet{kind}RunningProcesses") for kind in ("Compute", "Graphics")]
        if all(one is None for one in found):
            return None, None
        used = {process.pid: process.usedGpuMemory for listed in found for process in listed or ()}
        listed = os.getpid() in used
        own = used.pop(os.getpid(), None)
        hidden = (holds and not listed) or any(one is None for one in used.values())
        return own, None if hidden else sum(used.values())

    def _read_reasons(self) -> tuple[str, ...] | None:
        names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
        bits = next((found for name in names if (found := self._ask(name)) is not None), None)  # older drivers: second
        if bits is None:
            return None
        others = bits & ~sum(REASONS)
        return *(word for bit, word in REASONS.items() if bits & bit), *([f"reason {others:#x}"] if others else [])

    def _ask(self, name: str, *arguments: Any) -> Any:
        """What a function of the library says of the device; None where it does not."""
        try:
            return getattr(self._library, name)(self._handle, *arguments)
        except Exception:
            return None


@contextmanager
def open_gpus() -> Iterator[list[GpuReader]]:
    """The GPUs that this process sees, in its order; none where there is no NVML."""
    stack = ExitStack()
    library: Any = None
    with suppress(Exception):  # NVMLError is only importable where pynvml is
        library = stack.enter_context(open_nvml())
    try:
        yield [] if library is None else _open_visible(library)
    finally:
        with suppress(Exception):
            stack.close()


def list_unordered_gpus() -> list[str]:
    """Names of this machine's GPUs where they differ and it is not known which number is which: `open_gpus` gives none
    of them then. Nothing: it is known, or there are none."""
    with suppress(Exception), open_nvml() as library:
        names = [str(one.name) for one in _open_all(library)]
        return names if is_order_unknown(os.environ, names) else []
    return []


def read_utilisation() -> tuple[float | None, ...]:
    """Of each GPU that this process sees the share of time in which some kernel ran, as its driver sampled it last.

    The driver's sample is of 1/6 to 1 s, and of all processes. Source: NVML API Reference Guide, nvmlUtilization_t.
    """
    with open_gpus() as gpus:
        return tuple(gpu.read_load().utilisation for gpu in gpus)


def _open_visible(library: Any) -> list[GpuReader]:
    every = _open_all(library)
    visible = find_visible_gpus(os.environ, [one.uuid for one in every], [one.name for one in every])
    found = (_open_part(library, one) if isinstance(one, str) else every[one] for one in visible)
    return [one for one in found if one is not None]


def _open_all(library: Any) -> Sequence[GpuReader]:
    try:
        handles = [library.nvmlDeviceGetHandleByIndex(number) for number in range(library.nvmlDeviceGetCount())]
    except Exception:  # one that is lost hides how the others are numbered
        return []
    return [GpuReader(library, handle) for handle in handles]


def _open_part(library: Any, uuid: str) -> GpuReader | None:
    try:
        return GpuReader(library, library.nvmlDeviceGetHandleByUUID(uuid))
    except Exception:
        return None
