"""The engine that a card asks for."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfperf.errors import UserError
from tfperf.place.copies import Needs, Part
from tfperf.place.devices import Devices
from tfperf.place.held import Kept
from tfperf.place.rules import Rule
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.translator import Translator


class Engine(Protocol):
    """Trains a translator on devices."""

    model: Translator
    devices: Devices

    @property
    def call(self) -> Any:
        """A compiled function of (iterator over global batches, count of steps): the loss per label of each (count)."""

    def kept(self) -> list[Kept]:
        """Copies of variables, and slots."""

    def rules(self) -> list[Rule]:
        """Where everything of a step has to run."""

    def needs(self, parts: Mapping[int, Part]) -> Needs:
        """What a step has to send and to multiply for the parts of a batch, by the number of their device."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that training changes, by name."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Set what `state` gave. Raises: ValueError, KeyError where names or shapes are others."""


def make_engine(card: Translation, rows: int, devices: Devices) -> Engine:
    """The card's engine for a model with so many rows in its tables.

    Raises: UserError where the card asks for a kernel that the devices do not have.
    """
    if card.engine.lstm == "cudnn" and devices.logical:
        raise UserError("engine.lstm: got 'cudnn', which needs a GPU; allowed here: auto, block, plain")
    if card.placement.engine == "tower":
        from tfperf.place.towers import Towers

        return Towers(card, rows, devices)
    from tfperf.place.strategies import Replicas

    return Replicas(card, rows, devices)


def take(engine: Engine, iterator: Any, count: int) -> NDArray[np.floating[Any]]:
    """Take steps; the loss per label of each (count)."""
    losses: NDArray[np.floating[Any]] = engine.call(iterator, tf.constant(count)).numpy()
    return losses
