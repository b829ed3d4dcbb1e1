"""Where the batches of a training come from, call after call."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import keras

from tfperf.arrays import ArraysByName
from tfperf.workloads.keras.loops import Batches, Compilation, Logs, Step, StepLoop


class Feed(Protocol):
    """Where a training's batches come from."""

    @property
    def steps_per_epoch(self) -> int | None:
        """None: known at an epoch's end."""

    @property
    def batch(self) -> int | None:
        """Samples of a whole batch; None: not known."""

    @property
    def has_texts(self) -> bool:
        """Whether there are texts, which XLA cannot take."""

    @property
    def unkept(self) -> Sequence[str]:
        """What of it may be another for a resumed run."""

    def read_first_batch(self) -> Any:
        """A batch, to build a model for."""

    def record(self, count: int) -> "Recorded":
        """The first whole batches, to compare and time loops by."""

    @property
    def compilations(self) -> Sequence[Compilation]:
        """How loops can be compiled."""

    def make_loop(self, step: Step, compilation: Compilation) -> StepLoop:
        """A compiled loop over such batches."""

    def make_keras_loop(self, model: keras.Model, xla: bool) -> StepLoop:
        """Keras' own over them."""

    def run(self, loop: StepLoop, epoch: int, done: int, count: int) -> tuple[int, Logs]:
        """Take steps of an epoch of which some are done; fewer than `count` where the epoch ends."""

    def warm_up(self, loop: StepLoop) -> None:
        """Compile what its calls need; no batch is taken."""

    def snapshot(self) -> ArraysByName:
        """Where it is."""

    def restore(self, snapshot: ArraysByName) -> None:
        """Go on from there."""


class Recorded(Protocol):
    """Some batches that can be taken again and again."""

    def __len__(self) -> int:
        """How many."""

    def split(self, single: bool) -> Iterable[Batches]:
        """All of them in one call, or in a call each."""

    def repeat(self, count: int) -> Batches:
        """A call of so many, one after the other and from the first again."""
