"""Cards whose memory cannot be measured, and what is taken where a card leaves something open. Without TensorFlow."""

from collections.abc import Sequence

from tfperf.errors import CardError
from tfperf.measure.environment import list_gpus
from tfperf.runcard.faults import Fault
from tfperf.runcard.places import make_unfit_error
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.runners import refuse_untimable


def refuse_unmeasurable(card: Card, modes: Sequence[str]) -> None:
    """CardError for predictions; for several devices; for what trains first."""
    if "predict" in modes:
        raise CardError("--mode: got predict; nothing is predicted batch by batch; allowed: train")
    refuse_untimable(card, "a memory study")
    if (len(list_gpus()) if card.engine.devices == "all" else card.engine.devices) > 1:
        fault = Fault("engine.devices", card.engine.devices, "memory is measured on one device; allowed: 1")
        raise make_unfit_error(card, [fault])


def describe_defaults(card: Card) -> list[str]:
    """What a fit chooses by measurements or by the number of replicas, and what is taken for any number of them."""
    engine = card.engine
    defaults = {"form": (engine.form, "shared"), "products": (engine.products, "grouped"), "xla": (engine.xla, "false")}
    left = [f"engine.{key}: {default}" for key, (value, default) in defaults.items() if value == "auto"]
    lines = []
    if left:
        lines.append(f"where the card says auto, as a fit begins: {', '.join(left)}; --set measures another choice")
    if engine.stacks == "auto":
        lines.append("engine.stacks: 1, as on a GPU; a processor has more, each with tables of its own: --set a number")
    return lines
