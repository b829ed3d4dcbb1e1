"""The tower engine: one compiled graph in which each device computes its part of a batch.

Every tower reads each weight once a step, to its device, and the rows of the embedding tables that its examples use;
gradients are summed where the policy says, and each copy of a variable is updated where the policy says. The sum of
losses over the global batch is divided by its global count, so that the result is that of one device.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic

import keras
import tensorflow as tf
from numpy.typing import NDArray

from tfperf.place.copies import Merge, Needs, Part, Way
from tfperf.place.devices import Devices
from tfperf.place.held import Kept
from tfperf.place.merges import merges_told
from tfperf.place.method import Method
from tfperf.place.needs import (
    Firsts,
    Pass,
    Sized,
    compiled,
    merge_ways,
    name_spared,
    own_constants,
    passes,
    products,
    read_ways,
    sum_bytes,
)
from tfperf.place.optimizer import CLIPPING, clip, clips, placed_optimizer
from tfperf.place.placed import Placed, build_placed
from tfperf.place.rules import Rule, one
from tfperf.place.state import numbered, size
from tfperf.place.statistics import TowerStatistics, merge_values
from tfperf.place.step import Gradients, draw, forward_backward, survey, take_steps
from tfperf.place.traffic import Moves, count_moves, list_ways
from tfperf.place.trainable import Build, Given, Model, Parts
from tfperf.place.uses import Updated, list_uses, make_bytes
from tfperf.scopes import phase


class Towers(Generic[Model]):
    """Trains a trainable on devices as a placement says."""

    def __init__(self, build: Build[Model], method: Method, devices: Devices) -> None:
        self.method, self.devices = method, devices
        self.model, self.variables, statistics = build_placed(build, method.placement, devices)
        tables = len(self.model.embeddings)
        self.tables, self.weights = self.variables[:tables], self.variables[tables:]
        self.statistics = TowerStatistics(statistics, self.model.statistics)
        flat = self._flat()
        self.optimizer = placed_optimizer(
            method.optimizer, [v.copies[k] for v, k in flat], [v.home.slots[k] for v, k in flat],
            [v.home.updates[k] for v, k in flat], devices.host,
        )  # fmt: skip
        self.call = tf.function(self._call, autograph=False)
        self._tower = forward_backward(self.model, method)

    def _call(self, iterator: Any, count: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Take `count` steps; the loss of each (count), and each metric of each (count, ...)."""
        with tf.device(self.devices.host):
            return take_steps(lambda: self.step(*next(iterator)), self.model, self.method, count)

    def step(self, parts: Parts, count: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """One step on the parts of a batch, which counts as so much; loss and metrics."""
        count = tf.cast(count, self.method.precision)
        step = self.optimizer.iterations.value
        with tf.device(self.devices.host):
            known = survey(self.model, parts)
        every = [self._part(k, part, count, step, known) for k, part in enumerate(parts)]
        with phase("merge"):
            merged = [self._merged(i, [part.of(i) for part in every]) for i in range(len(self.variables))]
            statistics = self.statistics.merge([part.statistics for part in every])
            with tf.device(self.devices.host):
                loss = tf.add_n([part.loss for part in every])
                metrics = [
                    merge_values(metric.merge, [part.metrics[i] for part in every])
                    for i, metric in enumerate(self.model.metrics)
                ]
        with phase("update"):
            homes = [variable.home.merge for variable in self.variables]
            merged = clip(self.method.optimizer, merged, homes, self.devices.host)
            pairs = [(g, copy) for g, v in zip(merged, self.variables, strict=True) for copy in v.copies]
            self.optimizer.apply(*map(list, zip(*pairs, strict=True)))
            self.statistics.assign(statistics)
        return loss, *metrics

    def _part(
        self, tower: int, part: Sequence[tf.Tensor], count: tf.Tensor, step: tf.Tensor, known: Sequence[tf.Tensor]
    ) -> Gradients:
        """What one device contributes."""
        device = self.devices.each[tower]
        with tf.name_scope(f"tower_{tower}"), tf.device(device):
            with phase("transfer"):
                weights = [_read(v.nearest(tower), device) for v in self.weights]
                rows = [
                    _looked_up(i, self.tables[i].nearest(tower), ids, device)
                    for i, ids in enumerate(self.model.look_up(part))
                ]
                statistics = [_read(v.nearest(tower), device) for v in self.statistics.variables]
            draws = draw(self.model, step, tower, part, rows, known)
            return self._tower(Given(weights, rows, statistics, [tf.identity(one) for one in part], draws, count))

    def _merged(self, index: int, gradients: Sequence[tf.Tensor | tf.IndexedSlices | None]) -> tf.Tensor | None:
        """The sum over devices of a variable's gradients, dense; None: there is none."""
        found: list[Any] = [gradient for gradient in gradients if gradient is not None]
        if not found:
            return None
        with tf.name_scope(f"variable_{index}"), tf.device(self.variables[index].home.merge):
            if isinstance(found[0], tf.IndexedSlices):
                ids = tf.concat([g.indices for g in found], 0)
                total = tf.concat([g.values for g in found], 0)
                return tf.math.unsorted_segment_sum(total, ids, self.model.embeddings[index].shape[0])
            return tf.add_n(found) if len(found) > 1 else tf.identity(found[0])

    def kept(self) -> list[Kept]:
        """Copies of variables, and slots."""
        copies = [
            Kept(f"variable {v.name}", copy.value.device, device, size(copy))
            for v in self.variables for copy, device in zip(v.copies, v.home.copies, strict=True)
        ]  # fmt: skip
        slots = [Kept(f"slot {one.path}", one.value.device, device, size(one)) for one, device in self.optimizer.slots]
        return [*copies, *self.statistics.kept(), *slots]

    def rules(self) -> list[Rule]:
        """Where everything of a step has to run."""
        host, several = self.devices.host, len(self.devices) > 1  # of one device there is nothing to sum
        rules = [one("input", "", host, "Iterator"), one("survey", r"\bsurvey(_\d+)?/", host, needed=False)]
        for k, device in enumerate(self.devices.each):
            rules.append(one(f"pass of device {k}", rf"\btower_{k}/(?!tfperf\.transfer)", device))
            for i, table in enumerate(self.tables):
                scope, where = rf"\btower_{k}/tfperf\.transfer/table_{i}/", table.nearest(k).value.device
                rules.append(one(f"look-up of device {k} in {table.name}", scope, where, "ResourceGather"))
            rules.append(one(f"transfer of device {k}", rf"\btower_{k}/tfperf\.transfer/", device, needed=False))
        for i, v in enumerate(self.variables):
            rules.append(one(f"merge of {v.name}", rf"tfperf\.merge/variable_{i}/", v.home.merge, needed=several))
            clipping = rf"tfperf\.update/clip/gradient_{i}(_\d+)?/"
            rules.append(one(f"clipping of {v.name}", clipping, v.home.merge, needed=clips(self.method.optimizer)))
        for i, (v, k) in enumerate(self._flat()):
            scope, kept = rf"tfperf\.update/.*variable_{i}/", frozenset([v.home.copies[k], v.home.slots[k]])
            rules.append(Rule(f"assignment of {v.called(k)}", scope, kept, "Assign"))
            rules.append(one(f"update of {v.called(k)}", scope, v.home.updates[k]))
        return [*rules, *self.statistics.rules(several)]

    def needs(self, parts: Mapping[int, Part]) -> Needs:
        """What a step has to send and to multiply for the parts of a batch, by the number of their device."""
        each, host = list(enumerate(self.devices.each)), self.devices.host
        every = passes(self.model, self.method, each, host, parts, Firsts({0}, {0}))
        ways = [way for one in every for way in one.inputs()]
        least: dict[str, int] = {}
        most: dict[str, float] = {f"transfer of device {one.number}": one.most_transferred() for one in every}
        spared = self.statistics.spared(every)
        for i, v in enumerate(self.variables):
            sized = Sized(v.home, size(v.copies[0]), i, i if i < len(self.tables) else None)
            updating = [f"{what} of {v.called(k)}" for k in range(len(v.copies)) for what in ("update", "assignment")]
            spared += name_spared(every, sized, [f"merge of {v.name}", f"clipping of {v.name}"], updating)
            ways += [*(way for one in every for way in read_ways(one, sized)), *merge_ways(every, sized)]
            least |= {f"{what} of {v.name}": sized.size for what in ("merge", "clipping")}
            most |= {f"merge of {v.name}": sum_bytes(every, sized), f"clipping of {v.name}": CLIPPING * sized.size}
            least |= dict.fromkeys(updating, sized.size)
            if sized.table is not None:
                looked_up = {f"look-up of device {one.number} in {v.name}": one.looked_up(sized) for one in every}
                spared += [name for name, rows in looked_up.items() if not rows]
                least |= looked_up
                most |= looked_up
        moves = count_moves(self.method.optimizer, [v.copies[k] for v, k in self._flat()], host)
        updated = self._updated(every)
        most |= {f"update of {name}": made for name, made in make_bytes(moves, updated, assigned=False).items()}
        uses = [*list_uses(moves, updated, self.optimizer.variables), *self.statistics.uses(every)]
        return Needs(
            [*ways, *self._moved(moves, updated), *self.statistics.ways(every)],
            least | self.statistics.least(len(self.devices) > 1), most | self.statistics.most(), products(every),
            compiled=compiled(every), uses=uses, spared=spared, merges=self._merges(every), **own_constants(every),
        )  # fmt: skip

    def _merges(self, every: Sequence[Pass]) -> list[Merge]:
        """How statistics, and what is told of a step, have to be merged."""
        numbers = [one.number for one in every]
        return [*self.statistics.merges(every), *merges_told(every, self.model.metrics, numbers)]

    def _updated(self, every: Sequence[Pass]) -> list[Updated]:
        """Copies, and how many devices read each."""
        known = list(enumerate(self.variables))
        passes = Counter(id(v.nearest(one.number)) for i, v in known for one in every if one.demand.variables[i])
        return [
            Updated(
                v.called(k), size(copy), v.home.copies[k], v.home.slots[k], passes[id(copy)],
                any(one.demand.gradients[i] for one in every),
            )
            for i, v in known for k, copy in enumerate(v.copies)
        ]  # fmt: skip

    def _moved(self, moves: Sequence[Moves], updated: Sequence[Updated]) -> Iterator[Way]:
        """What updates away from their variables and slots fetch and bring back."""
        flat, slots = self._flat(), self.optimizer.variables
        for move in (some for some in moves if updated[some.update].changes):
            v, k = flat[move.update]
            moved = v.copies[k] if move.slot is None else slots[move.slot]
            yield from list_ways(move, size(moved), v.home.copies[k], v.home.slots[k], v.home.updates[k])

    def _flat(self) -> list[tuple[Placed, int]]:
        """Copies, as the optimizer numbers them."""
        return [(v, k) for v in self.variables for k in range(len(v.copies))]

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that training changes, by name; copies are equal, so the first stands for all."""
        out = {v.name: v.copies[0].numpy() for v in (*self.variables, *self.statistics.variables)}
        return out | {name: v.numpy() for name, v in numbered(self.optimizer).items()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Set what `state` gave. Raises: ValueError, KeyError where names or shapes are others."""
        for variable in (*self.variables, *self.statistics.variables):
            variable.assign(state[variable.name])
        for name, slot in numbered(self.optimizer).items():
            slot.assign(state[name])


def _read(variable: keras.Variable, device: str) -> tf.Tensor:
    """A variable's value on a device."""
    with tf.device(variable.value.device):
        value = variable.value.read_value()
    with tf.device(device):
        return tf.identity(value)


def _looked_up(index: int, table: keras.Variable, ids: tf.Tensor, device: str) -> tf.Tensor:
    """Rows of a table, gathered where it is, on a device."""
    with tf.name_scope(f"table_{index}"), tf.device(table.value.device):
        rows = tf.gather(table.value, ids)
    with tf.device(device):
        return tf.identity(rows)
