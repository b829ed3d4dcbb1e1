"""The same training through TensorFlow's own strategies: MirroredStrategy, CentralStorageStrategy, and
MultiWorkerMirroredStrategy with one device in each process.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import Snapshot
from tfperf.place.devices import Devices
from tfperf.place.merge_checks import list_metric_merges
from tfperf.place.method import Method
from tfperf.place.needs import Pass
from tfperf.place.optimizer import CLIPPING, DecayMixin, clip, has_clipping, make_optimizer
from tfperf.place.rules import PlacementRule, make_rule
from tfperf.place.state import count_bytes, list_all_variables, list_optimizer_variables, list_trained_variables
from tfperf.place.step import build_pass, build_step_loop, sample_draws, survey
from tfperf.place.strategy_needs import compute_strategy_needs, record_strategy_passes, uses_collectives
from tfperf.place.strategy_statistics import StrategyStatistics, group_by_type, reduce_metrics
from tfperf.place.traffic import count_moves
from tfperf.place.trainable import Builder, LocalBatches, Model, PassInputs
from tfperf.place.transfers import BatchShapes, NeededMerge, NeededUse, Needs
from tfperf.place.uses import UpdatedCopy, count_most_bytes, list_uses
from tfperf.place.variable_copies import VariableCopy
from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.runcard.placement import Placement
from tfperf.scopes import phase


def build_strategy(placement: Placement, devices: Devices) -> tf.distribute.Strategy:
    """The strategy that a placement names, on these devices."""
    if placement.engine == "central":
        return tf.distribute.experimental.CentralStorageStrategy(list(devices.each), devices.host)
    if placement.engine == "multiworker":
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.AUTO
        )
        return _build_worker_strategy(devices, options)
    return tf.distribute.MirroredStrategy(list(devices.each), cross_device_ops=_make_reduction(placement, devices))


def _build_worker_strategy(devices: Devices, options: Any) -> tf.distribute.Strategy:
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


def _make_reduction(placement: Placement, devices: Devices) -> tf.distribute.CrossDeviceOps | None:
    """How gradients are summed; None stands for TensorFlow's ring collective, which CPUs have."""
    if placement.merge == "ring":
        return None if devices.logical else tf.distribute.NcclAllReduce()
    if placement.merge == "hierarchical":
        return tf.distribute.HierarchicalCopyAllReduce()
    where = devices.host if placement.merge == "host" else devices.each[0]
    return tf.distribute.ReductionToOneDevice(where)


class _ReductionMixin(DecayMixin):
    """Mixed into a Keras optimizer: gradients are summed over devices, made dense and only then clipped."""

    clip_options: ModelOptimizer

    def _all_reduce_sum_gradients(self, grads_and_vars: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        replica = _get_replica_number()
        with phase("merge"):
            summed = list(grads_and_vars)
            for numbers in group_by_type([gradient for gradient, _ in summed]):
                some = super()._all_reduce_sum_gradients([summed[i] for i in numbers])  # type: ignore[misc]
                for i, pair in zip(numbers, some, strict=True):
                    summed[i] = pair
            with tf.name_scope(f"device_{replica}"):
                dense = [tf.convert_to_tensor(gradient) for gradient, _ in summed]
        with phase("update"), tf.name_scope(f"device_{replica}"):
            gradients = clip(self.clip_options, dense, [None] * len(dense))
        return [(gradient, variable) for gradient, (_, variable) in zip(gradients, summed, strict=True)]

    def _distributed_tf_update_step(
        self, distribution: Any, grads_and_vars: Sequence[tuple[Any, Any]], learning_rate: Any
    ) -> None:
        def update(variable: tf.Variable, gradient: tf.Tensor, rate: tf.Tensor) -> None:
            self.decay_and_update(gradient, variable, rate)

        with phase("update"):
            for gradient, variable in grads_and_vars:
                i = self._get_variable_index(variable)  # type: ignore[attr-defined]
                with tf.name_scope(f"variable_{i}"):
                    distribution.extended.update(variable, update, args=(gradient, learning_rate), group=False)


def _get_replica_number() -> int:
    """Number of the replica whose program is made."""
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))


def _create_shared_variable(next_creator: Any, **kwargs: Any) -> tf.Variable:
    """A variable of an optimizer that replicas set to the same value, as Nadam's product: Keras leaves out how."""
    return next_creator(**{**kwargs, "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA})


class StrategyEngine(Generic[Model]):
    """Trains a trainable by a strategy of TensorFlow's."""

    def __init__(self, build: Builder[Model], method: Method, devices: Devices) -> None:
        self.method, self.devices = method, devices
        self.central = method.placement.engine == "central"
        self.strategy = build_strategy(method.placement, devices)
        with self.strategy.scope():
            self.model = build()
            self.variables, self._state_variables = list_trained_variables(self.model), list_all_variables(self.model)
            with tf.variable_creator_scope(_create_shared_variable):
                self.optimizer = make_optimizer(method.optimizer, _ReductionMixin, clip_options=method.optimizer)
                self.optimizer.build(list(self.variables.values()))
        self.statistics = StrategyStatistics(self.model.statistics, devices, self.central)
        self._uses_collectives = uses_collectives(method.placement, devices.logical)
        self.call = tf.function(self._call, autograph=False)
        self._compute_gradients = build_pass(self.model, method)

    def _call(self, iterator: Any, count: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Take `count` steps; the loss of each (count), and each metric of each (count, ...)."""
        with tf.device(self.devices.host):
            return build_step_loop(lambda: self._take_step(*next(iterator)), self.model, self.method, count)

    def _take_step(self, local_batches: LocalBatches, count: tf.Tensor) -> Sequence[tf.Tensor]:
        """One step on the local batches, which count as so much together; loss and metrics."""
        with tf.device(self.devices.host):
            known = survey(self.model, local_batches)  # here: no replica needs what others get
        loss, metrics = self.strategy.run(self._run_device, args=(local_batches, count, known))
        with tf.device(self.devices.host):
            loss = self.strategy.reduce("SUM", loss, axis=None)
            return [loss, *reduce_metrics(self.strategy, self.model.metrics, metrics)]

    def _run_device(self, local_batches: LocalBatches, count: tf.Tensor, known: Sequence[tf.Tensor]) -> Any:
        """One step of one replica on its local batch; its share of the loss, and its metrics."""
        tower = _get_replica_number()
        local_batch = list(map(tf.identity, local_batches[tower]))
        with tf.name_scope(f"tower_{tower}"):
            with phase("transfer"):
                # as they are read, TensorFlow would hand them to the loops of layers by way of the host
                weights = [tf.identity(weight.value) for weight in self.model.weights]
                looked_up = zip(self.model.embeddings, self.model.select_ids(local_batch), strict=True)
                rows = [tf.gather(table.value, ids) for table, ids in looked_up]
                statistics = [tf.identity(one.variable.value) for one in self.model.statistics]
            count = tf.cast(count, self.method.precision)
            draws = sample_draws(self.model, self.optimizer.iterations.value, tower, local_batch, rows, known)
            found = self._compute_gradients(PassInputs(weights, rows, statistics, local_batch, draws, count))
        with phase("merge"), tf.name_scope(f"device_{tower}"):
            tables = [self._pad_gradient(gradient, i, local_batch) for i, gradient in enumerate(found.tables)]
        self.statistics.merge_and_assign(found.statistics)
        self.optimizer.apply([*tables, *found.weights], list(self.variables.values()))
        return found.loss, list(found.metrics)

    def _pad_gradient(
        self, gradient: tf.Tensor | tf.IndexedSlices | None, table: int, local_batch: Sequence[tf.Tensor]
    ) -> tf.Tensor | tf.IndexedSlices | None:
        """A table's gradient as it is merged: the gathering collective takes one shape in all steps of a call."""
        if not self._uses_collectives or not isinstance(gradient, tf.IndexedSlices):
            return gradient
        rows = local_batch[0].shape[0] * self.model.most_look_ups[table]
        missing = rows - tf.shape(gradient.indices)[0]
        padded = tf.pad(gradient.values, [[0, missing], [0, 0]])
        values = tf.ensure_shape(padded, [rows, self.model.embeddings[table].shape[-1]])
        return tf.IndexedSlices(values, tf.pad(gradient.indices, [[0, missing]]), gradient.dense_shape)

    def list_copies(self) -> list[VariableCopy]:
        """Copies of variables, and slots."""
        found = []
        wanted = [self.devices.host] if self.central else [device for _, device in self.devices.mine]
        for name, variable in self._list_variables().items():
            copies = getattr(variable.value, "values", [variable.value])
            pairs = zip(copies, wanted, strict=True)
            found += [VariableCopy(name, copy.device, device, count_bytes(variable)) for copy, device in pairs]
        return found

    def list_rules(self) -> list[PlacementRule]:
        """Where everything of a step has to run."""
        host = self.devices.host
        mine, central = self.devices.mine, self.central
        each, several = frozenset(device for _, device in mine), len(self.devices) > 1
        rules = [make_rule("input", "", host, "Iterator"), make_rule("survey", r"\bsurvey(_\d+)?/", host, needed=False)]
        for k, device in mine:
            where = self.devices.host if central else device
            look_ups, tables = rf"\btower_{k}/tfperf\.transfer", bool(self.model.embeddings)
            rules.append(make_rule(f"look-ups of device {k}", look_ups, where, "(Resource)?Gather", needed=tables))
            rules.append(make_rule(f"transfer of device {k}", rf"\btower_{k}/tfperf\.transfer", device, needed=False))
            rules.append(make_rule(f"pass of device {k}", rf"\btower_{k}/(?!tfperf\.transfer)", device))
            update, merge = rf"tfperf\.update(_\d+)?/device_{k}/", rf"tfperf\.merge(_\d+)?/device_{k}/"
            # of engine central the first device's sum is all that updates take
            needed = has_clipping(self.method.optimizer) and (k == 0 or not central)
            rules.append(make_rule(f"clipping of device {k}", update, device, needed=needed))
            rules.append(make_rule(f"gradients of device {k}", merge, device, needed=False))
        sums = {"host": frozenset([host]), "reduce_to_one": frozenset(self.devices.each[:1])}
        merged = sums.get(self.method.placement.merge, each)
        rules.append(PlacementRule("merge", r"tfperf\.merge(_\d+)?/", merged, needed=several))
        owners = [(0, self.devices.host)] if central else mine
        for i, name in enumerate(self.variables):
            for local, (k, device) in enumerate(owners):
                scope = rf"tfperf\.update(_\d+)?/variable_{i}/" + ("" if central else f"update_{local}/")
                rules.append(make_rule(f"update of {name}, device {k}", scope, device))
        return [*rules, *self.statistics.list_rules()]

    def compute_needs(self, local_batches: BatchShapes) -> Needs:
        """What a step has to send and to multiply for the local batches, by the number of their device."""
        every = record_strategy_passes(self.model, self.method, self.devices, local_batches)
        needs = compute_strategy_needs(self.model, self.method, self.devices, every)
        numbers = [k for k, _ in self.devices.mine]
        changes = dict(zip(self.variables, every[0].demand.gradients, strict=True))
        sizes = {name: count_bytes(variable) for name, variable in self.variables.items()}
        least = {f"update of {name}, device {k}": n for name, n in sizes.items() for k in numbers}
        spared = [f"update of {name}, device {k}" for name in self.variables if not changes[name] for k in numbers]
        spared += [what for what, rows in needs.most.items() if what.startswith("look-ups of") and not rows]
        uses, most = self._list_uses_and_most(every)
        changed = sum(sizes[name] for name in changes if changes[name])
        most |= {f"clipping of device {k}": CLIPPING * changed for k in numbers} | self.statistics.count_most_bytes()
        return replace(
            needs, least=least | self.statistics.count_least_bytes(), most={**needs.most, **most},
            uses=[*uses, *self.statistics.list_uses(every)], spared=spared, merges=self._list_merges(every),
        )  # fmt: skip

    def _list_merges(self, every: Sequence[Pass]) -> list[NeededMerge]:
        """How statistics, and what is told of a step, have to be merged; sums of hierarchies and NCCL are not known."""
        placement = self.method.placement
        if placement.merge == "hierarchical" or (placement.merge == "ring" and not self.devices.logical):
            return []
        metrics = list_metric_merges(every[0], self.model.metrics, range(len(self.devices)))
        return [*self.statistics.list_merges(every), *metrics]

    def _list_uses_and_most(self, passes: Sequence[Pass]) -> tuple[list[NeededUse], dict[str, int]]:
        """Uses of variables and slots, each device's own or all of them the host's; bytes that updates give at most."""
        central, variables = self.central, list(self.variables.values())
        moves = count_moves(self.method.optimizer, variables, self.devices.host)
        uses: list[NeededUse] = []
        most: dict[str, int] = {}
        for k, device in [(0, self.devices.host)] if central else self.devices.mine:
            demands = [one.demand for one in passes if central or one.number == k]
            every = [
                UpdatedCopy(
                    name, count_bytes(v), device, device, sum(d.variables[i] for d in demands), demands[0].gradients[i]
                )
                for i, (name, v) in enumerate(self.variables.items())
            ]
            uses += list_uses(moves, every, self.optimizer.variables)
            made = count_most_bytes(moves, every, include_assignments=True)
            most |= {f"update of {name}, device {k}": n for name, n in made.items()}
        return uses, most

    def snapshot(self) -> Snapshot:
        """Everything that training changes, by name."""
        return {name: np.asarray(v.numpy()) for name, v in self._list_variables().items()}

    def restore(self, snapshot: Snapshot) -> None:
        """Set what `snapshot` gave. Raises: ValueError, KeyError where names or shapes are others."""
        for name, variable in self._list_variables().items():
            variable.assign(snapshot[name])

    def _list_variables(self) -> dict[str, keras.Variable]:
        return self._state_variables | list_optimizer_variables(self.optimizer)
