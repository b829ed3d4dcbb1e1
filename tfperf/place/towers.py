"""The tower engine: one compiled graph in which each device computes its local batch.

Every tower reads each weight once a step, to its device, and the rows of the embedding tables that its examples use;
gradients are summed where the policy says, and each copy of a variable is updated where the policy says. The sum of
losses over the global batch is divided by its global count, so that the result is that of one device.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Generic

import keras
import tensorflow as tf

from tfperf.arrays import Snapshot
from tfperf.place.devices import Devices
from tfperf.place.merge_checks import list_metric_merges
from tfperf.place.method import Method
from tfperf.place.needs import (
    FirstDevices,
    Pass,
    SizedVariable,
    count_sum_bytes,
    list_merge_transfers,
    list_spared,
    make_pass_needs,
    record_passes,
)
from tfperf.place.optimizer import CLIPPING, build_placed_optimizer, clip, has_clipping
from tfperf.place.placed import PlacedVariable, build_trainable
from tfperf.place.rules import PlacementRule, make_rule
from tfperf.place.state import count_bytes, list_optimizer_variables
from tfperf.place.statistics import TowerStatistics, merge_values
from tfperf.place.step import Gradients, build_pass, build_step_loop, sample_draws, survey
from tfperf.place.traffic import Moves, count_moves, list_move_transfers
from tfperf.place.trainable import Builder, LocalBatches, Model, PassInputs
from tfperf.place.transfers import BatchShapes, NeededMerge, NeededTransfer, Needs
from tfperf.place.uses import UpdatedCopy, count_most_bytes, list_uses
from tfperf.place.variable_copies import VariableCopy
from tfperf.scopes import phase


class TowerEngine(Generic[Model]):
    """Trains a trainable on devices as a placement says."""

    def __init__(self, build: Builder[Model], method: Method, devices: Devices) -> None:
        self.method, self.devices = method, devices
        self.model, self.variables, statistics = build_trainable(build, method.placement, devices)
        tables = len(self.model.embeddings)
        self.tables, self.weights = self.variables[:tables], self.variables[tables:]
        self.statistics = TowerStatistics(statistics, self.model.statistics)
        flat = self._flatten_copies()
        self.optimizer = build_placed_optimizer(
            method.optimizer, [v.copies[k] for v, k in flat], [v.devices.slots[k] for v, k in flat],
            [v.devices.updates[k] for v, k in flat], devices.host,
        )  # fmt: skip
        self.call = tf.function(self._call, autograph=False)
        self._compute_gradients = build_pass(self.model, method)

    def _call(self, iterator: Any, count: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Take `count` steps; the loss of each (count), and each metric of each (count, ...)."""
        with tf.device(self.devices.host):
            return build_step_loop(lambda: self.take_step(*next(iterator)), self.model, self.method, count)

    def take_step(self, local_batches: LocalBatches, count: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """One step on the local batches, which count as so much together; loss and metrics."""
        count, step = tf.cast(count, self.method.precision), self.optimizer.iterations.value
        with tf.device(self.devices.host):
            known = survey(self.model, local_batches)
        every = [self._run_tower(k, local_batch, count, step, known) for k, local_batch in enumerate(local_batches)]
        with phase("merge"):
            numbers = range(len(self.variables))
            merged = [self._merge_gradients(i, [one.get_gradient(i) for one in every]) for i in numbers]
            statistics = self.statistics.merge([one.statistics for one in every])
            with tf.device(self.devices.host):
                loss = tf.add_n([one.loss for one in every])
                metrics = [
                    merge_values(metric.merge, [one.metrics[i] for one in every])
                    for i, metric in enumerate(self.model.metrics)
                ]
        with phase("update"):
            places = [variable.devices.merge for variable in self.variables]
            merged = clip(self.method.optimizer, merged, places, self.devices.host)
            pairs = [(g, copy) for g, v in zip(merged, self.variables, strict=True) for copy in v.copies]
            self.optimizer.apply(*map(list, zip(*pairs, strict=True)))
            self.statistics.assign(statistics)
        return loss, *metrics

    def _run_tower(
        self,
        tower: int,
        local_batch: Sequence[tf.Tensor],
        count: tf.Tensor,
        step: tf.Tensor,
        known: Sequence[tf.Tensor],
    ) -> Gradients:
        """What one device contributes."""
        device = self.devices.each[tower]
        with tf.name_scope(f"tower_{tower}"), tf.device(device):
            with phase("transfer"):
                weights = [_read_value(v.get_copy(tower), device) for v in self.weights]
                each = enumerate(self.model.select_ids(local_batch))
                rows = [_gather_rows(i, self.tables[i].get_copy(tower), ids, device) for i, ids in each]
                statistics = [_read_value(v.get_copy(tower), device) for v in self.statistics.variables]
            draws = sample_draws(self.model, step, tower, local_batch, rows, known)
            inputs = PassInputs(weights, rows, statistics, [tf.identity(one) for one in local_batch], draws, count)
            return self._compute_gradients(inputs)

    def _merge_gradients(self, index: int, every: Sequence[tf.Tensor | tf.IndexedSlices | None]) -> tf.Tensor | None:
        """The sum over devices of a variable's gradients, dense; None: there is none."""
        found: list[Any] = [gradient for gradient in every if gradient is not None]
        if not found:
            return None
        with tf.name_scope(f"variable_{index}"), tf.device(self.variables[index].devices.merge):
            if isinstance(found[0], tf.IndexedSlices):
                ids = tf.concat([g.indices for g in found], 0)
                total = tf.concat([g.values for g in found], 0)
                return tf.math.unsorted_segment_sum(total, ids, self.model.embeddings[index].shape[0])
            return tf.add_n(found) if len(found) > 1 else tf.identity(found[0])

    def list_copies(self) -> list[VariableCopy]:
        """Copies of variables, and slots."""
        copies = [
            VariableCopy(f"variable {v.name}", copy.value.device, device, count_bytes(copy))
            for v in self.variables for copy, device in zip(v.copies, v.devices.copies, strict=True)
        ]  # fmt: skip
        slots = [VariableCopy(f"slot {s.path}", s.value.device, to, count_bytes(s)) for s, to in self.optimizer.slots]
        return [*copies, *self.statistics.list_copies(), *slots]

    def list_rules(self) -> list[PlacementRule]:
        """Where everything of a step has to run."""
        host, several = self.devices.host, len(self.devices) > 1  # of one device there is nothing to sum
        rules = [make_rule("input", "", host, "Iterator"), make_rule("survey", r"\bsurvey(_\d+)?/", host, needed=False)]
        for k, device in enumerate(self.devices.each):
            rules.append(make_rule(f"pass of device {k}", rf"\btower_{k}/(?!tfperf\.transfer)", device))
            for i, table in enumerate(self.tables):
                scope, where = rf"\btower_{k}/tfperf\.transfer/table_{i}/", table.get_copy(k).value.device
                rules.append(make_rule(f"look-up of device {k} in {table.name}", scope, where, "ResourceGather"))
            rules.append(make_rule(f"transfer of device {k}", rf"\btower_{k}/tfperf\.transfer/", device, needed=False))
        for i, v in enumerate(self.variables):
            where, scope = v.devices.merge, rf"tfperf\.update/clip/gradient_{i}(_\d+)?/"
            rules.append(make_rule(f"merge of {v.name}", rf"tfperf\.merge/variable_{i}/", where, needed=several))
            rules.append(make_rule(f"clipping of {v.name}", scope, where, needed=has_clipping(self.method.optimizer)))
        for i, (v, k) in enumerate(self._flatten_copies()):
            scope, own = rf"tfperf\.update/.*variable_{i}/", frozenset([v.devices.copies[k], v.devices.slots[k]])
            rules.append(PlacementRule(f"assignment of {v.format_name(k)}", scope, own, "Assign"))
            rules.append(make_rule(f"update of {v.format_name(k)}", scope, v.devices.updates[k]))
        return [*rules, *self.statistics.list_rules(several)]

    def compute_needs(self, local_batches: BatchShapes) -> Needs:
        """What a step has to send and to multiply for the local batches, by the number of their device."""
        mine, host, firsts = self.devices.mine, self.devices.host, FirstDevices({0}, {0})
        every = record_passes(self.model, self.method, mine, host, local_batches, firsts)
        transfers = [one for each in every for one in each.list_input_transfers()]
        least = self.statistics.count_least_bytes(len(self.devices) > 1)
        most: dict[str, float] = {f"transfer of device {one.number}": one.sum_batch_bytes() for one in every}
        spared = self.statistics.list_spared(every)
        for i, v in enumerate(self.variables):
            sized = SizedVariable(v.devices, count_bytes(v.copies[0]), i, i if i < len(self.tables) else None)
            merging, own = [f"merge of {v.name}", f"clipping of {v.name}"], map(v.format_name, range(len(v.copies)))
            updating = [f"{what} of {name}" for name in own for what in ("update", "assignment")]
            spared += list_spared(every, sized, merging, updating)
            reads = (one for each in every for one in each.list_read_transfers(sized))
            transfers += [*reads, *list_merge_transfers(every, sized)]
            least |= dict.fromkeys([*merging, *updating], sized.size)
            most |= {merging[0]: count_sum_bytes(every, sized), merging[1]: CLIPPING * sized.size}
            if sized.table is not None:
                rows = {f"look-up of device {one.number} in {v.name}": one.count_look_up_bytes(sized) for one in every}
                spared += [name for name, size in rows.items() if not size]
                least, most = least | rows, most | rows
        moves = count_moves(self.method.optimizer, [v.copies[k] for v, k in self._flatten_copies()], host)
        updated = self._list_updated_copies(every)
        made = count_most_bytes(moves, updated, include_assignments=False)
        most |= {f"update of {name}": size for name, size in made.items()} | self.statistics.count_most_bytes()
        uses = [*list_uses(moves, updated, self.optimizer.variables), *self.statistics.list_uses(every)]
        return Needs(
            [*transfers, *self._list_update_transfers(moves, updated), *self.statistics.list_transfers(every)],
            least, most, uses=uses, spared=spared, merges=self._list_merges(every), **make_pass_needs(every),
        )  # fmt: skip

    def _list_merges(self, every: Sequence[Pass]) -> list[NeededMerge]:
        """How statistics, and what is told of a step, have to be merged."""
        numbers = [one.number for one in every]
        return [*self.statistics.list_merges(every), *list_metric_merges(every[0], self.model.metrics, numbers)]

    def _list_updated_copies(self, every: Sequence[Pass]) -> list[UpdatedCopy]:
        """Copies, and how many devices read each."""
        known = list(enumerate(self.variables))
        passes = Counter(id(v.get_copy(one.number)) for i, v in known for one in every if one.demand.variables[i])
        return [
            UpdatedCopy(
                v.format_name(k), count_bytes(copy), v.devices.copies[k], v.devices.slots[k], passes[id(copy)],
                any(one.demand.gradients[i] for one in every),
            )
            for i, v in known for k, copy in enumerate(v.copies)
        ]  # fmt: skip

    def _list_update_transfers(self, moves: Sequence[Moves], updated: list[UpdatedCopy]) -> Iterator[NeededTransfer]:
        """What updates away from their variables and slots fetch and bring back."""
        flat, slots = self._flatten_copies(), self.optimizer.variables
        for move in (some for some in moves if updated[some.update].changes):
            v, k = flat[move.update]
            size, to = count_bytes(v.copies[k] if move.slot is None else slots[move.slot]), v.devices
            yield from list_move_transfers(move, size, to.copies[k], to.slots[k], to.updates[k])

    def _flatten_copies(self) -> list[tuple[PlacedVariable, int]]:
        """Copies, as the optimizer numbers them."""
        return [(v, k) for v in self.variables for k in range(len(v.copies))]

    def snapshot(self) -> Snapshot:
        """Everything that training changes, by name; copies are equal, so the first stands for all."""
        out = {v.name: v.copies[0].numpy() for v in (*self.variables, *self.statistics.variables)}
        return out | {name: v.numpy() for name, v in list_optimizer_variables(self.optimizer).items()}

    def restore(self, snapshot: Snapshot) -> None:
        """Set what `snapshot` gave. Raises: ValueError, KeyError where names or shapes are others."""
        for variable in (*self.variables, *self.statistics.variables):
            variable.assign(snapshot[variable.name])
        for name, slot in list_optimizer_variables(self.optimizer).items():
            slot.assign(snapshot[name])


def _read_value(variable: keras.Variable, device: str) -> tf.Tensor:
    """A variable's value on a device."""
    with tf.device(variable.value.device):
        value = variable.value.read_value()
    with tf.device(device):
        return tf.identity(value)


def _gather_rows(index: int, table: keras.Variable, ids: tf.Tensor, device: str) -> tf.Tensor:
    """Rows of a table, gathered where it is, on a device."""
    with tf.name_scope(f"table_{index}"), tf.device(table.value.device):
        rows = tf.gather(table.value, ids)
    with tf.device(device):
        return tf.identity(rows)
