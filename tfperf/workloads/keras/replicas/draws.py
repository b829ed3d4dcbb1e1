"""What each replica draws: the seed of its model, the samples that it is trained on, their order in each epoch.

R replicas, N samples, n of them for a replica, B a batch. All is a function of the card's seed, the replica's number
and its attempt alone: a replica that is added later, or trained alone, draws the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tfperf.arrays import BoolMask, Indices, Int32Array
from tfperf.data.keys import Purpose, make_generator
from tfperf.errors import CardError
from tfperf.train.blueprints import Unread
from tfperf.workloads.keras.inputs import draw_order

Resampling = Literal["all", "bootstrap"]


def draw_model_seed(seed: int, replica: int, attempt: int = 0) -> int:
    """The seed of a replica's model, dropout and order: a card with this seed trains the same without replicas."""
    return int(make_generator(seed, replica, Purpose.MODEL_SEED, attempt).integers(2**31))


def draw_samples(seed: int, replica: int, count: int, resampling: Resampling) -> Indices:
    """The samples of a replica, of `count`: each once, or as many with replacement (n).

    Source of the bootstrap: Efron 1979, "Bootstrap methods: another look at the jackknife".
    """
    if resampling == "all":
        return np.arange(count)
    return make_generator(seed, replica, Purpose.BOOTSTRAP).integers(count, size=count)


def select_samples(masks: BoolMask, replicas: int, count: int, what: str) -> list[Indices]:
    """The samples of each replica that its mask selects; masks (R, N). Raises: CardError.

    what: the key that the masks are of, for messages.
    """
    if masks.shape != (replicas, count) or masks.dtype != bool:
        raise CardError(
            f"{what}: got {masks.dtype} of shape {masks.shape}; must be bool of shape ({replicas}, {count}): "
            "a mask of the training samples for each replica"
        )
    counts = masks.sum(axis=1)
    if counts.min() != counts.max() or not counts.min():
        raise CardError(
            f"{what}: selects {counts.min()} to {counts.max()} samples; must select as many for each replica, at least "
            "1: leave some out where they are more"
        )
    return [np.flatnonzero(mask) for mask in masks]


class RowDraw(Unread):
    """Which rows the batches of one replica have, step after step."""

    seed: int  # of its model

    def draw_rows(self, step: int, count: int) -> Int32Array:
        """Of `count` steps from number `step` on (count, B)."""
        raise NotImplementedError


@dataclass(frozen=True)
class BatchDraw(RowDraw):
    """The samples of one replica in an order of its own, epoch after epoch."""

    seed: int
    samples: Indices  # (n)
    batch: int
    shuffle: bool = True

    @property
    def epoch(self) -> int:
        """Steps of an epoch, of which the last may have fewer samples."""
        return -(-len(self.samples) // self.batch)

    def draw_rows(self, step: int, count: int) -> Int32Array:
        """The samples of `count` steps from number `step` on (count, B); 0 where the last of an epoch has none."""
        epochs = range(step // self.epoch, (step + count - 1) // self.epoch + 1)
        rows = np.concatenate([self._draw_epoch(epoch) for epoch in epochs]) if count else np.zeros((0, self.batch))
        first = step % self.epoch
        return rows[first : first + count].astype(np.int32)

    def _draw_epoch(self, epoch: int) -> Indices:
        order = self.samples[draw_order(self.seed, epoch, len(self.samples), self.shuffle)]
        rows = np.zeros(self.epoch * self.batch, np.int64)
        rows[: len(order)] = order
        return rows.reshape(self.epoch, self.batch)


DrawSamples = Callable[[Sequence[int]], list[Indices]]  # of some replicas, by their numbers
