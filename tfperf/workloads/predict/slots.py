"""Which devices a card's workers run on, and with which settings of their processes."""

import os
from collections.abc import Sequence
from itertools import cycle

from tfperf.errors import CardError
from tfperf.infer.dispatch_records import Slot
from tfperf.infer.worker import WorkerSpec
from tfperf.measure.environment import count_cores
from tfperf.measure.nvml import open_gpus
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.loading import ModelLoader

# of a worker on the CPU: the same whatever their number, so that what they compute is the same to the bit
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "OMP_NUM_THREADS": "1"}


def list_devices(card: PredictCard, gpus: int) -> list[str]:
    """A device for each worker. Raises: CardError for a GPU that is not there."""
    wanted: Sequence[str] = ()
    if card.queue.devices != "auto":
        wanted = card.queue.devices
    else:
        wanted = [f"gpu:{number}" for number in range(gpus)] or ["cpu:0"]
    for place, one in enumerate(wanted):
        kind, _, number = one.partition(":")
        if kind == "gpu" and int(number) >= gpus:
            raise CardError(f"queue.devices.{place}: got {one}; this machine has {gpus} GPUs")
        if one != "cpu:0" and kind == "cpu":
            raise CardError(f"queue.devices.{place}: got {one}; must be cpu:0: workers share all cores")
    found: list[str] = []
    for one in wanted:
        each = card.queue.workers_per_device
        count = each if each != "auto" else count_cores() if one == "cpu:0" and card.queue.devices == "auto" else 1
        found += [one] * count
    return found


def make_slots(card: PredictCard) -> list[Slot]:
    """A slot for each worker. Raises: CardError for devices that are not there, and for too many slownesses."""
    with open_gpus() as gpus:
        devices = list_devices(card, len(gpus))
    slowness = card.queue.slowness
    if slowness and len(slowness) != len(devices):
        raise CardError(f"queue.slowness: got {len(slowness)}; must be one for each of {len(devices)} workers")
    loader = ModelLoader(card.model, card.output.names)
    found = []
    for place, (device, slow) in enumerate(zip(devices, slowness or cycle([1.0]), strict=False)):
        settings = {"TF_CPP_MIN_LOG_LEVEL": "3", **({} if device.startswith("gpu") else ONE_THREAD)}
        settings["CUDA_VISIBLE_DEVICES"] = _find_visible(device)
        found.append(Slot(f"worker {place} on {device}", WorkerSpec(loader, slowness=slow), settings, device))
    return found


def _find_visible(device: str) -> str:
    """What a worker on a device sees: the entry of CUDA_VISIBLE_DEVICES, where that limits this process."""
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return "-1"
    limited = os.environ.get("CUDA_VISIBLE_DEVICES")
    return number if limited is None else limited.split(",")[int(number)].strip()
