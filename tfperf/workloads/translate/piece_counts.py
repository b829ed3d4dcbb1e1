"""How many pieces the steps of a training hold."""

import numpy as np

from tfperf.arrays import Int64Array
from tfperf.workloads.translate.batches import BatchPlan
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import Split
from tfperf.workloads.translate.feeding import plan_training


class PieceCounts:
    """Source and target pieces without padding and marks, by step; each epoch is planned once, when it is asked for."""

    def __init__(self, card: TranslationCard, split: Split, devices: int) -> None:
        self.card, self.split, self.devices = card, split, devices
        self.first = plan_training(card, split, devices, 0)
        self._latest: tuple[int, BatchPlan] = 0, self.first

    def count_between(self, before: int, after: int) -> int:
        """Pieces of the steps from number `before` (0: the first) up to `after`, which is left out."""
        steps = np.arange(before, after)
        epochs, places = np.divmod(steps, len(self.first.pieces))
        return sum(int(self._get_epoch(int(epoch))[places[epochs == epoch]].sum()) for epoch in np.unique(epochs))

    def _get_epoch(self, epoch: int) -> Int64Array:
        if self._latest[0] != epoch:
            self._latest = epoch, plan_training(self.card, self.split, self.devices, epoch)
        return self._latest[1].pieces
