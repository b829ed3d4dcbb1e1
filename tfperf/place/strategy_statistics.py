"""Variables that no gradient changes, and metrics, in TensorFlow's strategies."""

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfperf.place.devices import Devices
from tfperf.place.merge_checks import compute_shares
from tfperf.place.needs import Pass
from tfperf.place.rules import PlacementRule, make_rule
from tfperf.place.state import count_bytes
from tfperf.place.statistics import assign_statistic, varies
from tfperf.place.trainable import Metric, Statistic
from tfperf.place.transfers import NeededMerge, NeededUse
from tfperf.scopes import phase

REDUCED = {"sum": tf.distribute.ReduceOp.SUM, "mean": tf.distribute.ReduceOp.MEAN}


class StrategyStatistics:
    """Merged as gradients are; each copy is changed on its device, or the only one on the host."""

    def __init__(self, statistics: Sequence[Statistic], devices: Devices, central: bool) -> None:
        self.statistics, self.devices, self.central = statistics, devices, central
        self.changing = [statistic for statistic in statistics if statistic.merge != "fixed"]

    def merge_and_assign(self, found: Sequence[tf.Tensor]) -> None:
        """By the values that a replica found; called by all of them."""
        if not self.changing:
            return
        context = tf.distribute.get_replica_context()
        merged = dict(enumerate(found))
        for merge, operation in REDUCED.items():
            mine = [i for i, statistic in enumerate(self.changing) if statistic.merge == merge]
            for numbers in ([mine[k] for k in group] for group in group_by_type([found[i] for i in mine])):
                with phase("merge"):
                    values = context.all_reduce(operation, [found[i] for i in numbers])
                merged |= dict(zip(numbers, values, strict=True))
        values = [merged[i] for i in range(len(found))]
        context.merge_call(self._assign, args=(values,))

    def _assign(self, strategy: tf.distribute.Strategy, values: Sequence[Any]) -> None:
        with phase("update"):
            for i, (statistic, value) in enumerate(zip(self.changing, values, strict=True)):
                with tf.name_scope(f"statistic_{i}"):
                    strategy.extended.update(
                        statistic.variable.value, assign_statistic, args=(statistic.merge, value), group=False
                    )

    @property
    def _owners(self) -> list[tuple[int, str]]:
        return [(0, self.devices.host)] if self.central else self.devices.mine

    def list_rules(self) -> Iterator[PlacementRule]:
        """Where they are changed."""
        for i, statistic in enumerate(self.changing):
            for local, (k, device) in enumerate(self._owners):
                scope = rf"tfperf\.update(_\d+)?/statistic_{i}/" + ("" if self.central else f"update_{local}/")
                yield make_rule(f"assignment of {statistic.variable.path}, device {k}", scope, device, "Assign")

    def count_least_bytes(self) -> dict[str, int]:
        """Bytes that the largest operation of each assignment gives."""
        return {
            f"assignment of {statistic.variable.path}, device {k}": count_bytes(statistic.variable)
            for statistic in self.changing for k, _ in self._owners
        }  # fmt: skip

    def count_most_bytes(self) -> dict[str, int]:
        """Bytes that all of them give: they assign, and no more."""
        return self.count_least_bytes()

    def list_merges(self, every: Sequence[Pass]) -> Iterator[NeededMerge]:
        """What each copy is changed by: where the first device's is taken, by its own device's."""
        devices = range(len(self.devices))
        for i, statistic in enumerate(self.changing):
            for k, device in self._owners if varies(every, i) else ():
                path = statistic.variable.path
                yield NeededMerge(path, "statistic", i, device, compute_shares(statistic.merge, devices, k), k)

    def list_uses(self, every: Sequence[Pass]) -> Iterator[NeededUse]:
        """Each device that asks reads its own copy once, or the host's; each copy of one that changes is written."""
        for i, statistic in enumerate(self.statistics):
            for k, device in self._owners:
                reads = sum(one.demand.statistics[i] for one in every if self.central or one.number == k)
                writes = int(statistic.merge != "fixed")
                yield NeededUse(statistic.variable.path, device, count_bytes(statistic.variable), reads, writes)


def group_by_type(values: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[list[int]]:
    """Numbers of values of one type: TensorFlow's rings and hierarchies put together what they reduce at once."""
    groups: dict[tf.DType, list[int]] = {}
    for i, value in enumerate(values):
        groups.setdefault(value.dtype, []).append(i)
    return list(groups.values())


def reduce_metrics(
    strategy: tf.distribute.Strategy, metrics: Sequence[Metric], values: Sequence[Any]
) -> list[tf.Tensor]:
    """One value of each metric, of those that replicas found."""
    found = []
    for metric, value in zip(metrics, values, strict=True):
        if metric.merge == "first":
            found.append(strategy.experimental_local_results(value)[0])
        else:
            found.append(strategy.reduce(REDUCED[metric.merge], value, axis=None))
    return found
