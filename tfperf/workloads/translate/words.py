"""How many words the steps of a training hold."""

import numpy as np

from tfperf.workloads.translate.batches import Plan, Rows
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.corpus import Part
from tfperf.workloads.translate.feeding import training_plan


class Words:
    """Source and target pieces without padding and marks, by step; each epoch is planned once, when it is asked for."""

    def __init__(self, card: Translation, part: Part, devices: int) -> None:
        self.card, self.part, self.devices = card, part, devices
        self.first = training_plan(card, part, devices, 0)
        self._latest: tuple[int, Plan] = 0, self.first

    def between(self, before: int, after: int) -> int:
        """Words of the steps from number `before` (0: the first) up to `after`, which is left out."""
        steps = np.arange(before, after)
        epochs, places = np.divmod(steps, len(self.first.words))
        return sum(int(self._of(int(epoch))[places[epochs == epoch]].sum()) for epoch in np.unique(epochs))

    def _of(self, epoch: int) -> Rows:
        if self._latest[0] != epoch:
            self._latest = epoch, training_plan(self.card, self.part, self.devices, epoch)
        return self._latest[1].words
