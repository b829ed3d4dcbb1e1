"""Statistics that do not merge where they should; for trainables that have some."""

import tensorflow as tf

from tests.place.cheating.cheat import one, somewhere
from tfperf.place import statistics, strategy_statistics, towers
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


def the_first_ones_statistics_counted_twice(patch):
    honest = statistics.merge_values
    patch.setattr(statistics, "merge_values", lambda merge, values: honest(merge, [*values, values[0]]))


def metrics_not_divided(patch):
    patch.setattr(towers, "merge_values", lambda merge, values: tf.add_n(values))


def statistics_of_replicas_not_divided(patch):
    patch.setattr(strategy_statistics, "REDUCED", dict.fromkeys(["sum", "mean"], tf.distribute.ReduceOp.SUM))


STATISTICS = {
    one.__name__: one
    for one in (
        statistics_merged_on_the_host, statistics_changed_twice, the_first_ones_statistics_counted_twice,
        metrics_not_divided, statistics_of_replicas_not_divided,
    )
}  # fmt: skip
