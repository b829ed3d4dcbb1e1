"""Values that are sent where nothing needs them, and look-ups on other devices."""

from copy import copy
from itertools import count

import tensorflow as tf

from tests.place.cheating.cheat import FIRST, MIRRORED, SECOND, change_reads, cheat, one, somewhere
from tests.place.test_engines import TEXT
from tfperf.place import strategies, towers
from tfperf.place.devices import HOST
from tfperf.scopes import phase


@cheat("weights sent", "placement.preset=Exp4", fault="CPU:1 to CPU:0: .* needed")
def weights_round_the_host(patch):
    def dishonest(value, device):
        with somewhere(HOST, "fetch"):
            value = value * one()
        with tf.device(device):
            return tf.identity(value)

    change_reads(patch, dishonest)


@cheat("weights sent", "placement.preset=Exp4", fault="CPU:1 to CPU:0: .* needed")
def weights_round_the_host_by_plumbing_alone(patch):
    def dishonest(value, device):
        with tf.device(HOST):
            value = tf.raw_ops.PreventGradient(input=value)
        with tf.device(device):
            return tf.identity(value)

    change_reads(patch, dishonest)


@cheat("weights sent", MIRRORED, fault="CPU:1 to CPU:2: .* needed")
def replicas_read_the_first_ones_weights(patch):
    honest = strategies.StrategyEngine.__init__

    def dishonest(self, *args):
        honest(self, *args)
        near = [Far(weight) for weight in self.model.weights]
        self.model = copy(self.model)
        self.model.weights = near

    patch.setattr(strategies.StrategyEngine, "__init__", dishonest)


class Far:
    """A variable that is read where it is."""

    def __init__(self, variable):
        self.variable, self.path, self.shape, self.dtype = variable, variable.path, variable.shape, variable.dtype

    @property
    def value(self):
        """What the first device's copy holds."""
        first = self.variable.value.values[0]
        with tf.device(first.device):
            return first.read_value()


@cheat("gradients", "placement.preset=Exp4", fault="merge of .* must be|no rule covers it, and it touches")
def gradients_merged_on_another_device(patch):
    honest = towers.TowerEngine._merge_gradients

    def dishonest(self, index, gradients):
        place = self.variables[index].devices.merge
        if isinstance(gradients[0], tf.IndexedSlices):
            return honest(self, index, gradients)
        with somewhere(HOST, "sum"):
            total = tf.add_n(gradients)
        with tf.name_scope(f"variable_{index}"), tf.device(place):
            return total * one()

    patch.setattr(towers.TowerEngine, "_merge_gradients", dishonest)


@cheat("gradients", MIRRORED, fault="merge: .* must be|CPU:1 to CPU:0: .* needed")
def gradients_of_replicas_merged_on_the_host(patch):
    patch.setattr(
        strategies, "build_strategy",
        lambda placement, devices: tf.distribute.MirroredStrategy(
            list(devices.each), cross_device_ops=tf.distribute.ReductionToOneDevice(devices.host)
        ),
    )  # fmt: skip


@cheat("gradients", "placement.preset=Exp3", fault="CPU:1 to CPU:2: .* needed")
def an_extra_copy_of_all_gradients(patch):
    honest = towers.TowerEngine._merge_gradients

    def dishonest(self, index, gradients):
        total = honest(self, index, gradients)
        if index < 2:
            return total
        other = SECOND if self.variables[index].devices.merge == FIRST else FIRST
        number = self.devices.each.index(other)
        with somewhere(other, f"step/tower_{number}/tfperf.backward"):
            largest = tf.reduce_max(total)
        with tf.name_scope(f"variable_{index}"), tf.device(self.variables[index].devices.merge):
            return total + largest * (one() - 1.0)

    patch.setattr(towers.TowerEngine, "_merge_gradients", dishonest)


@cheat("dense gradient", "placement.preset=Exp2", fault="CPU:1 to CPU:0: .* needed")
def sparse_gradients_made_dense_and_sent(patch):
    def dishonest(self, index, gradients):
        place, dense = self.variables[index].devices.merge, []
        for k, gradient in enumerate(gradients):
            with tf.device(self.devices.each[k]), tf.name_scope(f"/step/tower_{k}/tfperf.backward/"[1:]):
                dense.append(tf.convert_to_tensor(gradient))
        with tf.name_scope(f"variable_{index}"), tf.device(place):
            return tf.add_n(dense)

    patch.setattr(towers.TowerEngine, "_merge_gradients", dishonest)


@cheat("batch", "placement.preset=Exp4", f"data={{{TEXT}, batch: 100}}", fault="CPU:1 to CPU:2: .* needed")
def batches_sent_by_way_of_the_first_device(patch):
    honest = towers.TowerEngine._run_tower

    def dishonest(self, tower, local_batch, *others):
        with tf.device(FIRST), tf.name_scope("step/tower_0/tfperf.transfer/"):
            local_batch = [ids * tf.cast(one(), tf.int32) for ids in local_batch]
        return honest(self, tower, local_batch, *others)

    patch.setattr(towers.TowerEngine, "_run_tower", dishonest)


@cheat("unknown size", "placement.preset=Exp4", fault="size .* not known")
def weights_sent_as_text(patch):
    def dishonest(value, device):
        text = tf.io.serialize_tensor(value * one())
        with tf.device(HOST):
            text = tf.strings.join([text, ""])
        with tf.device(device):
            return tf.ensure_shape(tf.io.parse_tensor(text, value.dtype), value.shape)

    change_reads(patch, dishonest)


@cheat("look-up", "placement.preset=Exp3", fault="CPU:0 to CPU:1: .* needed")
def whole_tables_sent_and_looked_up_elsewhere(patch):
    honest = towers._gather_rows

    def dishonest(index, table, ids, device):
        decoy = tf.reduce_max(honest(index, table, ids[:1, :1], device))
        with tf.device(table.value.device):
            whole = table.value.read_value()
        with tf.device(device):
            return tf.gather(whole, ids) + decoy * (one() - 1.0)

    patch.setattr(towers, "_gather_rows", dishonest)


@cheat("gradients", MIRRORED, "placement.merge=ring", fault="collectives from CPU:1 to all: .* needed")
def gradients_of_replicas_merged_twice(patch):
    honest = strategies._ReductionMixin._all_reduce_sum_gradients

    def dishonest(self, pairs):
        weights = [gradient for gradient, _ in pairs][2:]
        with phase("merge"):
            extra = tf.distribute.get_replica_context().all_reduce("SUM", weights)
        nothing = tf.add_n([tf.reduce_max(one) for one in extra]) * (one() - 1.0)
        kept = [gradient + nothing for gradient in weights]
        return honest(self, [*pairs[:2], *zip(kept, [variable for _, variable in pairs[2:]], strict=True)])

    patch.setattr(strategies._ReductionMixin, "_all_reduce_sum_gradients", dishonest)


@cheat("gradients", "placement.preset=Exp4", fault="copies from CPU:2 to CPU:1: only")
def gradients_of_the_second_device_left_out(patch):
    honest = towers.TowerEngine._merge_gradients

    def dishonest(self, index, gradients):
        if isinstance(gradients[0], tf.IndexedSlices):
            return honest(self, index, gradients)
        return honest(self, index, [gradients[0]] * 2)

    patch.setattr(towers.TowerEngine, "_merge_gradients", dishonest)


@cheat("weights sent", "placement.preset=Exp4", fault="CPU:1 to CPU:0: .* needed")
def weights_by_way_of_a_staging_area(patch):
    honest, number = towers._read_value, count()

    def dishonest(variable, device):
        value, name = honest(variable, device), f"stage_{next(number)}"
        with somewhere(HOST, "stage"):
            put = tf.raw_ops.Stage(values=[value], shared_name=name)
            with tf.control_dependencies([put]):
                (got,) = tf.raw_ops.Unstage(dtypes=[value.dtype], shared_name=name)
        with tf.device(device):
            return tf.ensure_shape(tf.identity(got), value.shape)

    patch.setattr(towers, "_read_value", dishonest)
