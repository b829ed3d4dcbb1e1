"""The same training through TensorFlow's own strategies: MirroredStrategy, CentralStorageStrategy, and
MultiWorkerMirroredStrategy with one device in each process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfperf.place.copies import Needs, Part, Use
from tfperf.place.devices import Devices
from tfperf.place.held import Kept
from tfperf.place.optimizer import CLIPPING, Decayed, clip, clips, make_optimizer
from tfperf.place.rules import Rule, one
from tfperf.place.state import named, numbered, size
from tfperf.place.step import drop_out, forward_backward, longest
from tfperf.place.strategy_needs import gathers, strategy_needs
from tfperf.place.traffic import count_moves
from tfperf.place.uses import Updated, list_uses, make_bytes
from tfperf.runcard.descent import Descent
from tfperf.runcard.placement import Placement
from tfperf.scopes import phase
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.feeding import most_columns
from tfperf.workloads.translate.translator import Translator, pieces


def make_strategy(placement: Placement, devices: Devices) -> tf.distribute.Strategy:
    """The strategy that a placement names, on these devices."""
    if placement.engine == "central":
        return tf.distribute.experimental.CentralStorageStrategy(list(devices.each), devices.host)
    if placement.engine == "multiworker":
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.AUTO
        )
        return _workers(devices, options)
    return tf.distribute.MirroredStrategy(list(devices.each), cross_device_ops=_merge(placement, devices))


def _workers(devices: Devices, options: Any) -> tf.distribute.Strategy:
    """MultiWorkerMirroredStrategy: of GPUs all that this process sees, of CPUs as many logical ones as it has."""
    if not devices.logical:
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    # not public; the strategy itself takes one CPU alone
    from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

    class OnLogicalCpus(CollectiveAllReduceExtended):
        def _initialize_local_devices(self, cluster_resolver: Any, worker_device: str) -> tuple[tuple[str, ...], str]:
            return tuple(f"{worker_device}/device:CPU:{k}" for k in range(len(devices.mine))), "CPU"

    class Workers(tf.distribute.MultiWorkerMirroredStrategy):
        def __init__(self) -> None:
            cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
            tf.distribute.Strategy.__init__(self, OnLogicalCpus(self, cluster, options))

    return Workers()


def _merge(placement: Placement, devices: Devices) -> tf.distribute.CrossDeviceOps | None:
    """How gradients are summed; None stands for TensorFlow's ring collective, which CPUs have."""
    if placement.merge == "ring":
        return None if devices.logical else tf.distribute.NcclAllReduce()
    if placement.merge == "hierarchical":
        return tf.distribute.HierarchicalCopyAllReduce()
    where = devices.host if placement.merge == "host" else devices.each[0]
    return tf.distribute.ReductionToOneDevice(where)


class _Summed(Decayed):
    """Mixed into a Keras optimizer: gradients are summed over devices, made dense and only then clipped."""

    card: Descent

    def _all_reduce_sum_gradients(self, grads_and_vars: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        replica = _replica()
        with phase("merge"):
            summed = super()._all_reduce_sum_gradients(grads_and_vars)  # type: ignore[misc]
            with tf.name_scope(f"device_{replica}"):
                dense = [tf.convert_to_tensor(gradient) for gradient, _ in summed]
        with phase("update"), tf.name_scope(f"device_{replica}"):
            gradients = clip(self.card, dense, [None] * len(dense))
        return [(gradient, variable) for gradient, (_, variable) in zip(gradients, summed, strict=True)]

    def _distributed_tf_update_step(
        self, distribution: Any, grads_and_vars: Sequence[tuple[Any, Any]], learning_rate: Any
    ) -> None:
        def update(variable: tf.Variable, gradient: tf.Tensor, rate: tf.Tensor) -> None:
            self.decay_and_update(gradient, variable, rate)

        with phase("update"):
            for i, (gradient, variable) in enumerate(grads_and_vars):
                with tf.name_scope(f"variable_{i}"):
                    distribution.extended.update(variable, update, args=(gradient, learning_rate), group=False)


def _replica() -> int:
    """Number of the replica whose program is made."""
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))


def _one_for_all(next_creator: Any, **kwargs: Any) -> tf.Variable:
    """A variable of an optimizer that replicas set to the same value, as Nadam's product: Keras leaves out how."""
    return next_creator(**{**kwargs, "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA})


class Replicas:
    """Trains a translator by a strategy of TensorFlow's."""

    def __init__(self, card: Translation, rows: int, devices: Devices) -> None:
        self.card, self.devices = card, devices
        self.strategy = make_strategy(card.placement, devices)
        with self.strategy.scope():
            self.model = Translator(card, rows)
            self.variables = named(self.model)
            with tf.variable_creator_scope(_one_for_all):
                self.optimizer = make_optimizer(card.train.optimizer, _Summed, card=card.train.optimizer)
                self.optimizer.build(list(self.variables.values()))
        source, target = most_columns(card)
        self._columns = source, target - 1  # that are looked up in each table
        self._gathers = gathers(card, devices.logical)
        self.call = tf.function(self._call, autograph=False)
        self._part = forward_backward(self.model, card)

    def _call(self, iterator: Any, count: tf.Tensor) -> tf.Tensor:
        """Take `count` steps; the loss per label of each (count)."""
        losses = tf.TensorArray(self.card.engine.precision, count)

        def body(i: tf.Tensor, losses: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            batches, tokens = next(iterator)
            with tf.device(self.devices.host):
                columns = longest(batches)  # here: no replica needs what others get
            each = self.strategy.run(self._replica, args=(batches, tokens, columns))
            with tf.device(self.devices.host):
                return i + 1, losses.write(i, self.strategy.reduce("SUM", each, axis=None))

        with tf.device(self.devices.host):
            out: tf.Tensor = tf.while_loop(lambda i, _: i < count, body, (0, losses))[1].stack()
        return out

    def _replica(
        self, batches: Sequence[tuple[tf.Tensor, tf.Tensor]], tokens: tf.Tensor, columns: Sequence[tf.Tensor]
    ) -> tf.Tensor:  # fmt: skip
        """One step of one replica on its part of a batch; its share of the loss per label."""
        tower = _replica()
        source, target = map(tf.identity, batches[tower])
        with tf.name_scope(f"tower_{tower}"):
            with phase("transfer"):
                # as they are read, TensorFlow would hand them to the loops of layers by way of the host
                values = [tf.identity(weight.value) for weight in self.model.weights]
                looked_up = zip(self.model.embeddings, pieces(source, target), strict=True)
                rows = [tf.gather(table.value, ids) for table, ids in looked_up]
            tokens = tf.cast(tokens, self.card.engine.precision)
            kept = drop_out(self.card, self.optimizer.iterations.value, tower, rows, columns)
            part = self._part(values, rows, source, target, tokens, kept)
        most = [source.shape[0] * columns for columns in self._columns]
        with phase("merge"), tf.name_scope(f"device_{tower}"):
            tables = [self._sent(gradient, count) for gradient, count in zip(part.tables, most, strict=True)]
        self.optimizer.apply([*tables, *part.weights], list(self.variables.values()))
        return part.loss

    def _sent(self, gradient: tf.Tensor | tf.IndexedSlices, rows: int) -> tf.Tensor | tf.IndexedSlices:
        """A table's gradient as it is merged: the gathering collective takes one shape in all steps of a call."""
        if not self._gathers or not isinstance(gradient, tf.IndexedSlices):
            return gradient
        missing = rows - tf.shape(gradient.indices)[0]
        values = tf.ensure_shape(tf.pad(gradient.values, [[0, missing], [0, 0]]), [rows, self.card.model.units])
        return tf.IndexedSlices(values, tf.pad(gradient.indices, [[0, missing]]), gradient.dense_shape)

    def kept(self) -> list[Kept]:
        """Copies of variables, and slots."""
        found = []
        central = self.card.placement.engine == "central"
        wanted = [self.devices.host] if central else [device for _, device in self.devices.mine]
        for name, variable in self._all().items():
            copies = getattr(variable.value, "values", [variable.value])
            pairs = zip(copies, wanted, strict=True)
            found += [Kept(name, copy.device, device, size(variable)) for copy, device in pairs]
        return found

    def rules(self) -> list[Rule]:
        """Where everything of a step has to run."""
        host = self.devices.host
        mine, central = self.devices.mine, self.card.placement.engine == "central"
        each, several = frozenset(device for _, device in mine), len(self.devices) > 1
        rules = [one("input", "", host, "Iterator"), one("columns", r"\bcolumns(_\d+)?/", host, needed=False)]
        for k, device in mine:
            where = self.devices.host if central else device
            rules.append(one(f"look-ups of device {k}", rf"\btower_{k}/tfperf\.transfer", where, "(Resource)?Gather"))
            rules.append(one(f"transfer of device {k}", rf"\btower_{k}/tfperf\.transfer", device, needed=False))
            rules.append(one(f"pass of device {k}", rf"\btower_{k}/(?!tfperf\.transfer)", device))
            clipping = one(f"clipping of device {k}", rf"tfperf\.update(_\d+)?/device_{k}/", device)
            # of engine central the first device's sum is all that updates take
            needed = clips(self.card.train.optimizer) and (k == 0 or not central)
            rules.append(replace(clipping, needed=needed))
            rules.append(one(f"gradients of device {k}", rf"tfperf\.merge(_\d+)?/device_{k}/", device, needed=False))
        sums = {"host": frozenset([self.devices.host]), "reduce_to_one": frozenset(self.devices.each[:1])}
        rules.append(Rule("merge", r"tfperf\.merge(_\d+)?/", sums.get(self.card.placement.merge, each), needed=several))
        homes = [(0, self.devices.host)] if central else mine
        for i, name in enumerate(self.variables):
            for local, (k, device) in enumerate(homes):
                scope = rf"tfperf\.update(_\d+)?/variable_{i}/" + ("" if central else f"update_{local}/")
                rules.append(one(f"update of {name}, device {k}", scope, device))
        return rules

    def needs(self, parts: Mapping[int, Part]) -> Needs:
        """What a step has to send and to multiply for the parts of a batch, by the number of their device."""
        sizes = [size(variable) for variable in self.variables.values()]
        needs = strategy_needs(self.card, self.devices, sizes, self.model.rows, parts)
        numbers = [k for k, _ in self.devices.mine]
        updates = zip(self.variables, sizes, strict=True)
        least = {f"update of {name}, device {k}": n for name, n in updates for k in numbers}
        uses, most = self._uses_and_most()
        most |= {f"clipping of device {k}": CLIPPING * sum(sizes) for k in numbers}
        return replace(needs, least=least, most={**needs.most, **most}, uses=uses)

    def _uses_and_most(self) -> tuple[list[Use], dict[str, int]]:
        """Uses of variables and slots, each device's own or all of them the host's; bytes that updates give at most."""
        central, variables = self.card.placement.engine == "central", list(self.variables.values())
        moves = count_moves(self.card.train.optimizer, variables, self.devices.host)
        passes = len(self.devices) if central else 1
        uses: list[Use] = []
        most: dict[str, int] = {}
        for k, device in [(0, self.devices.host)] if central else self.devices.mine:
            every = [Updated(name, size(v), device, device, passes) for name, v in self.variables.items()]
            uses += list_uses(moves, every, self.optimizer.variables)
            made = make_bytes(moves, every, assigned=True)
            most |= {f"update of {name}, device {k}": n for name, n in made.items()}
        return uses, most

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that training changes, by name."""
        return {name: np.asarray(v.numpy()) for name, v in self._all().items()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Set what `state` gave. Raises: ValueError, KeyError where names or shapes are others."""
        for name, variable in self._all().items():
            variable.assign(state[name])

    def _all(self) -> dict[str, keras.Variable]:
        return self.variables | numbered(self.optimizer)
