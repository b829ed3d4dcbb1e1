"""The engine that a placement asks for."""

from typing import Any, Protocol

import tensorflow as tf

from tfperf.arrays import AnyArray, Snapshot
from tfperf.place.devices import Devices
from tfperf.place.method import Method
from tfperf.place.rules import PlacementRule
from tfperf.place.trainable import Builder, Model
from tfperf.place.transfers import BatchShapes, Needs
from tfperf.place.variable_copies import VariableCopy


class PlacementEngine(Protocol[Model]):
    """Trains a trainable on devices."""

    model: Model
    devices: Devices

    @property
    def call(self) -> Any:
        """A compiled function of (iterator over global batches, count of steps): loss, and metrics, of each step."""

    def list_copies(self) -> list[VariableCopy]:
        """Copies of variables, and slots."""

    def list_rules(self) -> list[PlacementRule]:
        """Where everything of a step has to run."""

    def compute_needs(self, local_batches: BatchShapes) -> Needs:
        """What a step has to send and to multiply for the local batches, by the number of their device."""

    def snapshot(self) -> Snapshot:
        """Everything that training changes, by name."""

    def restore(self, snapshot: Snapshot) -> None:
        """Set what `snapshot` gave. Raises: ValueError, KeyError where names or shapes are others."""


def build_engine(build: Builder[Model], method: Method, devices: Devices) -> PlacementEngine[Model]:
    """The engine for a trainable, which `build` makes wherever its variables have to be: it may be called twice."""
    if method.placement.engine == "tower":
        from tfperf.place.towers import TowerEngine

        return TowerEngine(build, method, devices)
    from tfperf.place.strategies import StrategyEngine

    return StrategyEngine(build, method, devices)


def take_steps(engine: PlacementEngine[Any], iterator: Any, count: int) -> AnyArray:
    """Take steps; the loss of each (count): its sum over the global batch, divided by the batch's count."""
    losses: AnyArray = engine.call(iterator, tf.constant(count))[0].numpy()
    return losses


def take_with_metrics(engine: PlacementEngine[Any], iterator: Any, count: int) -> tuple[AnyArray, dict[str, AnyArray]]:
    """The same, and by name the metrics of each (count, ...)."""
    loss, *metrics = engine.call(iterator, tf.constant(count))
    names = (metric.name for metric in engine.model.metrics)
    return loss.numpy(), {name: one.numpy() for name, one in zip(names, metrics, strict=True)}
