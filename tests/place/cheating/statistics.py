"""Statistics that do not merge where they should; for trainables that have some."""

import tensorflow as tf

from tests.place.cheating.cheat import one, somewhere
from tfperf.place.devices import HOST
from tfperf.place.statistics import TowerStatistics


def statistics_merged_on_the_host(patch):
    honest = TowerStatistics.merge

    def dishonest(self, found):
        merged = honest(self, found)
        for i, values in enumerate(zip(*found, strict=True)):
            if merged[i].dtype == tf.float32:
                with somewhere(HOST, "elsewhere"):
                    total = tf.add_n(list(values))
                merged[i] += total * (one() - 1.0)
        return merged

    patch.setattr(TowerStatistics, "merge", dishonest)


def statistics_changed_twice(patch):
    honest = TowerStatistics.assign

    def dishonest(self, values):
        honest(self, values)
        honest(self, values)

    patch.setattr(TowerStatistics, "assign", dishonest)


STATISTICS = {one.__name__: one for one in (statistics_merged_on_the_host, statistics_changed_twice)}
