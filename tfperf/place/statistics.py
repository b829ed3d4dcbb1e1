"""Variables that no gradient changes, and metrics, on several devices: what devices find merges into one value."""

from collections.abc import Iterator, Sequence

import tensorflow as tf

from tfperf.place.merge_checks import compute_shares
from tfperf.place.needs import Pass, SizedVariable
from tfperf.place.placed import PlacedVariable
from tfperf.place.rules import PlacementRule, make_rule
from tfperf.place.state import count_bytes
from tfperf.place.trainable import Statistic
from tfperf.place.transfers import NeededMerge, NeededTransfer, NeededUse
from tfperf.place.variable_copies import VariableCopy


def merge_values(merge: str, values: Sequence[tf.Tensor]) -> tf.Tensor:
    """One value of those that devices found."""
    if merge == "first" or len(values) == 1:
        return tf.identity(values[0])
    total = tf.add_n(list(values))
    return total / tf.cast(len(values), total.dtype) if merge == "mean" else total


def varies(every: Sequence[Pass], index: int) -> bool:
    """Whether what passes find of a statistic, by number among those that change, depends on what they are given."""
    return any(one.demand.statistics_vary[index] for one in every)


def assign_statistic(variable: tf.Variable, merge: str, value: tf.Tensor) -> None:
    """A statistic by what merged, in place."""
    (variable.assign_add if merge == "sum" else variable.assign)(value)


class TowerStatistics:
    """Those of the tower engine: merged where gradients would be, and assigned to each copy."""

    def __init__(self, variables: Sequence[PlacedVariable], statistics: Sequence[Statistic]) -> None:
        self.variables = variables
        every = zip(variables, statistics, strict=True)
        self.changing = [(v, statistic.merge) for v, statistic in every if statistic.merge != "fixed"]

    def merge(self, found: Sequence[Sequence[tf.Tensor]]) -> list[tf.Tensor]:
        """Of the values that each device found."""
        out = []
        for i, (v, merge) in enumerate(self.changing):
            with tf.name_scope(f"statistic_{i}"), tf.device(v.devices.merge):
                out.append(merge_values(merge, [values[i] for values in found]))
        return out

    def assign(self, values: Sequence[tf.Tensor]) -> None:
        """To all copies."""
        for i, ((v, merge), value) in enumerate(zip(self.changing, values, strict=True)):
            for copy in v.copies:
                with tf.name_scope(f"statistic_{i}"), tf.device(copy.value.device):
                    assign_statistic(copy.value, merge, value)

    def list_copies(self) -> Iterator[VariableCopy]:
        """Copies."""
        for v in self.variables:
            for copy, device in zip(v.copies, v.devices.copies, strict=True):
                yield VariableCopy(f"statistic {v.name}", copy.value.device, device, count_bytes(copy))

    def list_rules(self, several: bool) -> Iterator[PlacementRule]:
        """Where they merge, of several devices, and are assigned."""
        for i, (v, merge) in enumerate(self.changing):
            merges = several and merge != "first"
            yield make_rule(f"merge of {v.name}", rf"tfperf\.merge/statistic_{i}/", v.devices.merge, needed=merges)
            scope = rf"tfperf\.update/statistic_{i}(_\d+)?/"
            yield PlacementRule(f"assignment of {v.name}", scope, frozenset(v.devices.copies), "Assign")

    def list_transfers(self, every: Sequence[Pass]) -> Iterator[NeededTransfer]:
        """To each device, back to where they merge, and from there to each copy."""
        for i, v in enumerate(self.variables):
            for each in every:
                if each.demand.statistics[i]:
                    yield from each.list_read_transfers(SizedVariable(v.devices, count_bytes(v.copies[0])))
        for i, (v, merge) in enumerate(self.changing):
            senders = every[:1] if merge == "first" else every
            # what is one device's alone need not come by where others are summed
            whole, optional = count_bytes(v.copies[0]), len(senders) == 1 or not varies(every, i)
            for sender in senders:
                yield NeededTransfer("statistics", sender.device, v.devices.merge, whole, optional)
            for copy in v.devices.copies:
                yield NeededTransfer("merged statistics", v.devices.merge, copy, whole, optional)

    def list_merges(self, every: Sequence[Pass]) -> Iterator[NeededMerge]:
        """What each copy is changed by."""
        devices = [one.number for one in every]
        for i, (v, merge) in enumerate(self.changing):
            for copy in v.devices.copies if varies(every, i) else ():
                yield NeededMerge(v.name, "statistic", i, copy, compute_shares(merge, devices, 0))

    def list_spared(self, every: Sequence[Pass]) -> list[str]:
        """Merges of what is the same in every step, which TensorFlow knows before."""
        return [f"merge of {v.name}" for i, (v, _) in enumerate(self.changing) if not varies(every, i)]

    def count_most_bytes(self) -> dict[str, int]:
        """Bytes that merges and assignments give: a sum and, of a mean, its share of each device; each copy once."""
        found: dict[str, int] = {}
        for v, merge in self.changing:
            found[f"merge of {v.name}"] = count_bytes(v.copies[0]) * (2 if merge == "mean" else 1)
            found[f"assignment of {v.name}"] = count_bytes(v.copies[0]) * len(v.copies)
        return found

    def count_least_bytes(self, several: bool) -> dict[str, int]:
        """Bytes that the largest operation of each gives."""
        found: dict[str, int] = {}
        for v, merge in self.changing:
            found[f"assignment of {v.name}"] = count_bytes(v.copies[0])
            if several and merge != "first":
                found[f"merge of {v.name}"] = count_bytes(v.copies[0])
        return found

    def list_uses(self, every: Sequence[Pass]) -> Iterator[NeededUse]:
        """Each device that needs it reads the nearest copy once; each copy of one that changes is written once."""
        written = {v.name for v, _ in self.changing}
        for i, v in enumerate(self.variables):
            reading = [one.demand.statistics[i] for one in every]
            for k, device in enumerate(v.devices.copies):
                reads = int(reading[k]) if len(v.copies) > 1 else sum(reading)
                yield NeededUse(v.format_name(k), device, count_bytes(v.copies[k]), reads, int(v.name in written))
