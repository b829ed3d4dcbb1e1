"""Cards whose memory cannot be measured. Nothing here needs TensorFlow: a card is refused before a trial begins."""

from collections.abc import Iterator

from tfperf.measure.environment import list_gpus
from tfperf.runcard.faults import Fault
from tfperf.workloads.translate.card import TranslationCard

PARTS = "variables", "embeddings", "slots", "updates"  # keys of a placement, in the order of its `places`
ON_HOST = "without a GPU host and device are one memory; allowed here: on the device"


def list_memory_faults(card: TranslationCard) -> Iterator[Fault]:
    """Why the card's steps cannot be taken in one process, on one device whose memory is told from the host's."""
    placement, gpus = card.placement, len(list_gpus())
    if placement.engine == "multiworker":
        why = "its workers are processes of their own, and memory is measured in one; allowed: tower, mirrored, central"
        yield Fault("placement.engine", "multiworker", why)
    elif (gpus if placement.devices == "all" else placement.devices) > 1:
        yield Fault("placement.devices", placement.devices, "memory is measured on one device; allowed: 1")
    if gpus:
        return
    if card.engine.lstm == "cudnn":
        yield Fault("engine.lstm", "cudnn", "it needs a GPU; allowed here: auto, block, plain")
    yield from _list_parts_on_host(card)


def _list_parts_on_host(card: TranslationCard) -> Iterator[Fault]:
    """By the keys that put them there."""
    placement = card.placement
    if "host" not in placement.places:
        return
    if placement.preset is not None or placement.engine == "central":
        key = "preset" if placement.preset is not None else "engine"
        yield Fault(f"placement.{key}", getattr(placement, key), f"it has variables or updates on the host; {ON_HOST}")
        return
    yield from (Fault(f"placement.{name}", "host", ON_HOST) for name in PARTS if getattr(placement, name) == "host")
