"""The tower engine: one compiled graph in which each device computes its part of a batch. N devices, B pairs on each.

Every tower reads each weight once a step, to its device, and the rows of the embedding tables that its sentences use;
gradients are summed where the policy says, and each copy of a variable is updated where the policy says. The sum over
all labels of the global batch is divided by their global number, so that the result is that of one device.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import NDArray

from tfperf.place.copies import Needs, Part, Way
from tfperf.place.devices import Devices
from tfperf.place.held import Kept
from tfperf.place.needs import Sized, compiled, merge_ways, passes, products, read_ways, sum_bytes
from tfperf.place.optimizer import CLIPPING, clip, clips, made_on, placed_optimizer
from tfperf.place.policy import Home, find_homes
from tfperf.place.rules import Rule, one
from tfperf.place.state import named, numbered, size
from tfperf.place.step import Gradients, drop_out, forward_backward, longest
from tfperf.place.traffic import Moves, count_moves, list_ways
from tfperf.place.uses import Updated, list_uses, make_bytes
from tfperf.scopes import phase
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.translator import Translator, pieces


@dataclass(frozen=True)
class Placed:
    """A variable's copies, each on its device."""

    name: str
    home: Home
    copies: tuple[keras.Variable, ...]

    def nearest(self, tower: int) -> keras.Variable:
        """The copy that a tower reads."""
        return self.copies[tower if len(self.copies) > 1 else 0]

    def called(self, copy: int) -> str:
        """Name of a copy."""
        return f"{self.name}, copy {copy}" if len(self.copies) > 1 else self.name


class Towers:
    """Trains a translator on devices as a placement says."""

    def __init__(self, card: Translation, rows: int, devices: Devices) -> None:
        self.card, self.devices = card, devices
        homes = _homes(card, rows, devices)
        with _made_at([home.copies[0] for home in homes.values()]):
            self.model = Translator(card, rows)
        self.variables = [
            Placed(name, home, tuple(_copies(variable, home)))
            for (name, home), variable in zip(homes.items(), named(self.model).values(), strict=True)
        ]
        self.tables, self.weights = self.variables[:2], self.variables[2:]
        flat = self._flat()
        self.optimizer = placed_optimizer(
            card.train.optimizer, [v.copies[k] for v, k in flat], [v.home.slots[k] for v, k in flat],
            [v.home.updates[k] for v, k in flat], devices.host,
        )  # fmt: skip
        self.call = tf.function(self._call, autograph=False)
        self._tower = forward_backward(self.model, card)

    def _call(self, iterator: Any, count: tf.Tensor) -> tf.Tensor:
        """Take `count` steps; the loss per label of each (count)."""
        losses = tf.TensorArray(self.card.engine.precision, count)

        def body(i: tf.Tensor, losses: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            return i + 1, losses.write(i, self.step(*next(iterator)))

        with tf.device(self.devices.host):
            out: tf.Tensor = tf.while_loop(lambda i, _: i < count, body, (0, losses))[1].stack()
        return out

    def step(self, batches: Sequence[tuple[tf.Tensor, tf.Tensor]], tokens: tf.Tensor) -> tf.Tensor:
        """One step on the parts of a batch, each (source, target), with `tokens` labels in all; the loss per label."""
        tokens = tf.cast(tokens, self.card.engine.precision)
        step = self.optimizer.iterations.value
        with tf.device(self.devices.host):
            columns = longest(batches)
        parts = [self._part(k, *batch, tokens, step, columns) for k, batch in enumerate(batches)]
        with phase("merge"):
            merged = [self._merged(i, [part.of(i) for part in parts]) for i in range(len(self.variables))]
            with tf.device(self.devices.host):
                loss = tf.add_n([part.loss for part in parts])
        with phase("update"):
            homes = [variable.home.merge for variable in self.variables]
            merged = clip(self.card.train.optimizer, merged, homes, self.devices.host)
            pairs = [(g, copy) for g, v in zip(merged, self.variables, strict=True) for copy in v.copies]
            self.optimizer.apply(*map(list, zip(*pairs, strict=True)))
        return loss

    def _part(
        self, tower: int, source: tf.Tensor, target: tf.Tensor, tokens: tf.Tensor, step: tf.Tensor,
        columns: Sequence[tf.Tensor],
    ) -> Gradients:  # fmt: skip
        """What one device contributes."""
        device = self.devices.each[tower]
        with tf.name_scope(f"tower_{tower}"), tf.device(device):
            with phase("transfer"):
                values = [_read(v.nearest(tower), device) for v in self.weights]
                rows = [
                    _looked_up(i, self.tables[i].nearest(tower), ids, device)
                    for i, ids in enumerate(pieces(source, target))
                ]
            kept = drop_out(self.card, step, tower, rows, columns)
            return self._tower(values, rows, tf.identity(source), tf.identity(target), tokens, kept)

    def _merged(self, index: int, gradients: Sequence[tf.Tensor | tf.IndexedSlices]) -> tf.Tensor:
        """The sum over devices of a variable's gradients, dense."""
        with tf.name_scope(f"variable_{index}"), tf.device(self.variables[index].home.merge):
            if isinstance(gradients[0], tf.IndexedSlices):
                ids = tf.concat([g.indices for g in gradients], 0)
                total = tf.concat([g.values for g in gradients], 0)
                return tf.math.unsorted_segment_sum(total, ids, self.model.rows)
            return tf.add_n(gradients) if len(gradients) > 1 else tf.identity(gradients[0])

    def kept(self) -> list[Kept]:
        """Copies of variables, and slots."""
        copies = [
            Kept(f"variable {v.name}", copy.value.device, device, size(copy))
            for v in self.variables for copy, device in zip(v.copies, v.home.copies, strict=True)
        ]  # fmt: skip
        slots = self.optimizer.slots
        return copies + [Kept(f"slot {slot.path}", slot.value.device, device, size(slot)) for slot, device in slots]

    def rules(self) -> list[Rule]:
        """Where everything of a step has to run."""
        host = self.devices.host
        rules = [one("input", "", host, "Iterator"), one("columns", r"\bcolumns(_\d+)?/", host, needed=False)]
        for k, device in enumerate(self.devices.each):
            rules.append(one(f"pass of device {k}", rf"\btower_{k}/(?!tfperf\.transfer)", device))
            for i, table in enumerate(self.tables):
                scope, where = rf"\btower_{k}/tfperf\.transfer/table_{i}/", table.nearest(k).value.device
                rules.append(one(f"look-up of device {k} in {table.name}", scope, where, "ResourceGather"))
            rules.append(one(f"transfer of device {k}", rf"\btower_{k}/tfperf\.transfer/", device, needed=False))
        for i, v in enumerate(self.variables):
            several = len(self.devices) > 1  # of one device there is nothing to sum
            rules.append(one(f"merge of {v.name}", rf"tfperf\.merge/variable_{i}/", v.home.merge, needed=several))
            clipping = rf"tfperf\.update/clip/gradient_{i}(_\d+)?/"
            rules.append(one(f"clipping of {v.name}", clipping, v.home.merge, needed=clips(self.card.train.optimizer)))
        for i, (v, k) in enumerate(self._flat()):
            scope, kept = rf"tfperf\.update/.*variable_{i}/", frozenset([v.home.copies[k], v.home.slots[k]])
            rules.append(Rule(f"assignment of {v.called(k)}", scope, kept, "Assign"))
            rules.append(one(f"update of {v.called(k)}", scope, v.home.updates[k]))
        return rules

    def needs(self, parts: Mapping[int, Part]) -> Needs:
        """What a step has to send and to multiply for the parts of a batch, by the number of their device."""
        every = passes(self.card, list(enumerate(self.devices.each)), self.devices.host, parts)
        ways = [one.batch() for one in every]
        least: dict[str, int] = {}
        most = {f"transfer of device {one.number}": one.batch().size for one in every}
        for i, v in enumerate(self.variables):
            sized = Sized(v.home, size(v.copies[0]), i if i < len(self.tables) else None)
            ways += [*(way for one in every for way in read_ways(one, sized)), *merge_ways(every, sized)]
            least |= {f"{what} of {v.name}": sized.size for what in ("merge", "clipping")}
            most |= {f"merge of {v.name}": sum_bytes(every, sized), f"clipping of {v.name}": CLIPPING * sized.size}
            for what in ("update", "assignment"):
                least |= {f"{what} of {v.called(k)}": sized.size for k in range(len(v.copies))}
            if sized.side is not None:
                looked_up = {f"look-up of device {one.number} in {v.name}": one.rows(sized.side) for one in every}
                least |= looked_up
                most |= looked_up
        moves = count_moves(self.card.train.optimizer, [v.copies[k] for v, k in self._flat()], self.devices.host)
        updated = self._updated()
        most |= {f"update of {name}": made for name, made in make_bytes(moves, updated, assigned=False).items()}
        return Needs(
            [*ways, *self._moved(moves)], least, most, products(every, self.model.rows), compiled=compiled(every),
            uses=list(list_uses(moves, updated, self.optimizer.variables)),
        )  # fmt: skip

    def _updated(self) -> list[Updated]:
        """Copies, and how many devices read each."""
        passes = Counter(id(v.nearest(k)) for v in self.variables for k in range(len(self.devices.each)))
        return [
            Updated(v.called(k), size(copy), v.home.copies[k], v.home.slots[k], passes[id(copy)])
            for v, k in self._flat() for copy in [v.copies[k]]
        ]  # fmt: skip

    def _moved(self, moves: Sequence[Moves]) -> Iterator[Way]:
        """What updates away from their variables and slots fetch and bring back."""
        flat, slots = self._flat(), self.optimizer.variables
        for move in moves:
            v, k = flat[move.update]
            moved = v.copies[k] if move.slot is None else slots[move.slot]
            yield from list_ways(move, size(moved), v.home.copies[k], v.home.slots[k], v.home.updates[k])

    def _flat(self) -> list[tuple[Placed, int]]:
        """Copies, as the optimizer numbers them."""
        return [(v, k) for v in self.variables for k in range(len(v.copies))]

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that training changes, by name; copies are equal, so the first stands for all."""
        out = {v.name: v.copies[0].numpy() for v in self.variables}
        return out | {name: v.numpy() for name, v in numbered(self.optimizer).items()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Set what `state` gave. Raises: ValueError, KeyError where names or shapes are others."""
        for variable in self.variables:
            for copy in variable.copies:
                copy.assign(state[variable.name])
        for name, slot in numbered(self.optimizer).items():
            slot.assign(state[name])


def _homes(card: Translation, rows: int, devices: Devices) -> dict[str, Home]:
    # made once only for its shapes: Keras would make variables without values later, inside of the compiled call
    with made_on(devices.host):
        shapes = Translator(card, rows)
    tables, weights = ({v.path: size(v) for v in part} for part in (shapes.embeddings, shapes.weights))
    homes = find_homes(card.placement, devices.host, devices.each, weights, tables)
    return {name: homes[name] for name in (*tables, *weights)}


@contextmanager
def _made_at(devices: Sequence[str]) -> Iterator[None]:
    """Trainable variables made inside lie on the devices, in the order in which they are made."""
    left = iter(devices)

    def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
        with tf.device(next(left) if kwargs.get("trainable") else None):
            return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield


def _copies(variable: keras.Variable, home: Home) -> Iterator[keras.Variable]:
    """The variable itself, and more with the same value and path on the other devices of its home."""
    yield variable
    for device in home.copies[1:]:
        with ExitStack() as scopes:
            for part in variable.path.split("/")[:-1]:  # optimizers go by it
                scopes.enter_context(keras.name_scope(part))
            scopes.enter_context(made_on(device))
            yield keras.Variable(variable.numpy(), dtype=variable.dtype, name=variable.name)


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
