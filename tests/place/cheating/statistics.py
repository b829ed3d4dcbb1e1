"""Statistics that do not merge where they should; for trainables that have some."""

import tensorflow as tf

from tests.place.cheating.cheat import somewhere
from tfperf.place.devices import HOST
from tfperf.place.statistics import TowerStatistics


def statistics_merged_on_the_host(patch):
    honest = TowerStatistics.merge

    def dishonest(self, found):
        with somewhere(HOST, "elsewhere"):
            sums = [tf.add_n(list(values)) for values in zip(*found, strict=True)]
        return [a + 0 * tf.identity(b) for a, b in zip(honest(self, found), sums, strict=True)]

    patch.setattr(TowerStatistics, "merge", dishonest)


def statistics_changed_twice(patch):
    honest = TowerStatistics.assign

    def dishonest(self, values):
        honest(self, values)
        honest(self, values)

    patch.setattr(TowerStatistics, "assign", dishonest)


STATISTICS = {one.__name__: one for one in (statistics_merged_on_the_host, statistics_changed_twice)}
