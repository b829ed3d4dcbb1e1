"""What a card asks for that this machine, or this kind of command, has not."""

import json
import os
from pathlib import Path

from tfperf.errors import CardError
from tfperf.runcard.places import make_unfit_error
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.card_files import check_functions

TENSORFLOW = "tensorflow"


def refuse_backend() -> None:
    """CardError where the environment or Keras' file asks for another backend, which may not be installed."""
    file = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras") / "keras.json"
    try:
        kept = json.loads(file.read_text(encoding="utf-8")).get("backend", TENSORFLOW)
    except (OSError, ValueError, AttributeError):  # which Keras does not read either
        kept = TENSORFLOW
    backend = os.environ.get("KERAS_BACKEND")
    if (backend or kept) != TENSORFLOW:
        where = "KERAS_BACKEND is" if backend else f"{file}: backend is"
        raise CardError(f"{where} {backend or kept}; must be tensorflow: set KERAS_BACKEND=tensorflow")


def refuse_ensemble(card: KerasCard, verb: str = "") -> None:
    """CardError for replicas, where steps of one model are looked at; verb: that does, where it is known."""
    if card.replicas:
        who = f"`tfperf {verb}`" if verb else "a study of steps"
        keys = [f"engine.{key}=auto" for key in ("form", "chunk") if getattr(card.engine, key) != "auto"]
        settings = " ".join(f"--set {one}" for one in ("replicas=null", "ensemble={}", *keys))
        raise CardError(
            f"replicas: {who} looks at one model; the card trains {len(card.replicas)} copies: add {settings}"
        )


def refuse_missing(card: KerasCard) -> None:
    """CardError for functions that are not where the card says."""
    if faults := check_functions(card):
        raise make_unfit_error(card, faults)
