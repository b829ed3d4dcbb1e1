"""Which devices a card's workers run on, here or at another place, and with which settings of their processes."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle

from tfperf.errors import CardError
from tfperf.infer.dispatch_records import MemberSlot, Slot
from tfperf.infer.worker import WorkerSpec
from tfperf.measure.environment import count_cores
from tfperf.measure.nvml import list_unordered_gpus, open_gpus
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.loading import ModelLoader

# of a worker on the CPU: the same whatever their number, so that what they compute is the same to the bit
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "OMP_NUM_THREADS": "1"}
# of this process' variables, those that a worker on another machine gets: what it computes may depend on them
CARRIED = ("TF_", "XLA_", "KERAS_")


def list_devices(card: PredictCard, gpus: int) -> list[str]:
    """A device for each worker. Raises: CardError for a GPU that is not there."""
    wanted: Sequence[str] = ()
    if card.queue.devices != "auto":
        wanted = card.queue.devices
    else:
        wanted = [f"gpu:{number}" for number in range(gpus)] or ["cpu:0"]
    for place, one in enumerate(wanted):
        _refuse_missing(f"queue.devices.{place}", one, gpus)
        _refuse_other_cpu(place, one)
    found: list[str] = []
    for one in wanted:
        each = card.queue.workers_per_device
        count = each if each != "auto" else count_cores() if one == "cpu:0" and card.queue.devices == "auto" else 1
        found += [one] * count
    return found


def make_slots(card: PredictCard) -> list[Slot]:
    """A slot for each worker. Raises: CardError for devices that are not there, and for too many slownesses."""
    needs_gpus = card.queue.devices == "auto" or any(one != "cpu:0" for one in card.queue.devices)
    devices = list_devices(card, _count_gpus() if needs_gpus else 0)
    specs = _make_specs(card, len(devices))
    return [
        Slot(f"worker {place} on {device}", spec, make_environment(device), device)
        for place, (device, spec) in enumerate(zip(devices, specs, strict=True))
    ]


def get_unit(card: PredictCard) -> int | None:
    """Batches that are handed out at a time; None: by their time."""
    return None if card.queue.unit == "auto" else card.queue.unit


def make_member_slots(card: PredictCard, members: int) -> list[MemberSlot]:
    """A slot for each worker of each member of a place: of a card's devices there, or, where the card leaves them open,
    of one device, the first GPU or else the CPU. Raises: CardError for too many slownesses, and for other CPUs."""
    devices: Sequence[str] = ("auto",) if card.queue.devices == "auto" else card.queue.devices
    for place, one in enumerate(devices):
        _refuse_other_cpu(place, one)
    each = 1 if card.queue.workers_per_device == "auto" else card.queue.workers_per_device
    wanted = [(member, device) for member in range(members) for device in devices for _ in range(each)]
    carried = {name: value for name, value in os.environ.items() if name.startswith(CARRIED)}
    return [
        MemberSlot(
            f"worker {place} on member {member}" + ("" if device == "auto" else f", {device}"), spec, member=member,
            find_environment=partial(find_member_environment, device, carried),
        )
        for place, ((member, device), spec) in enumerate(zip(wanted, _make_specs(card, len(wanted)), strict=True))
    ]  # fmt: skip


def find_member_environment(device: str, carried: Mapping[str, str]) -> dict[str, str]:
    """Variables of a worker's process on this machine, a member. Raises: CardError for a GPU that is not here."""
    count = _count_gpus() if device != "cpu:0" else 0
    if device == "auto":
        device = "gpu:0" if count else "cpu:0"
    _refuse_missing("queue.devices", device, count)
    return {**carried, **make_environment(device)}


def make_environment(device: str) -> dict[str, str]:
    """Variables of a worker's process on a device of this machine."""
    threads = {} if device.startswith("gpu") else ONE_THREAD
    return {"TF_CPP_MIN_LOG_LEVEL": "3", **threads, "CUDA_VISIBLE_DEVICES": _find_visible(device)}


def _count_gpus() -> int:
    """That this process sees. Raises: CardError where it is not known which number is which."""
    if names := list_unordered_gpus():
        told = ", ".join(names)
        raise CardError(
            f"queue.devices: the GPUs of this machine differ ({told}): their numbers are clear only where the "
            "environment has CUDA_DEVICE_ORDER=PCI_BUS_ID; set it, or CUDA_VISIBLE_DEVICES=-1 for the CPU alone"
        )
    with open_gpus() as gpus:
        return len(gpus)


def _make_specs(card: PredictCard, count: int) -> list[WorkerSpec]:
    slowness = card.queue.slowness
    if slowness and len(slowness) != count:
        raise CardError(f"queue.slowness: got {len(slowness)}; must be one for each of {count} workers")
    loader = ModelLoader(card.model, card.output.names)
    return [WorkerSpec(loader, slowness=slow) for _, slow in zip(range(count), slowness or cycle([1.0]), strict=False)]


def _refuse_missing(key: str, device: str, gpus: int) -> None:
    kind, _, number = device.partition(":")
    if kind == "gpu" and int(number) >= gpus:
        raise CardError(f"{key}: got {device}; this machine has {gpus} GPUs")


def _refuse_other_cpu(place: int, device: str) -> None:
    if device.startswith("cpu") and device != "cpu:0":
        raise CardError(f"queue.devices.{place}: got {device}; must be cpu:0: workers share all cores")


def _find_visible(device: str) -> str:
    """What a worker on a device sees: the entry of CUDA_VISIBLE_DEVICES, where that limits this process."""
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return "-1"
    limited = os.environ.get("CUDA_VISIBLE_DEVICES")
    return number if limited is None else limited.split(",")[int(number)].strip()
