"""Work that is done again where it belongs: updates, assignments, look-ups, reads, sums."""

import tensorflow as tf

from tests.place.cheating.cheat import CLIPPED, MIRRORED, change_reads, cheat, one, somewhere
from tfperf.place import strategies, towers
from tfperf.place.optimizer import DecayMixin, PlacementMixin, clip

EXP3, EXP4, COPIES = "placement.preset=Exp3", "placement.preset=Exp4", "placement.variables=mirrored"
SGD = "train.optimizer.name=SGD"
WRITTEN = r"variables of .* written \d+ times a step; must be"
READ = r"variables of .*: read .* times a step; must be .* at most"
TABLES = 2  # come first among the variables


def after_updates(patch, kind, again):
    """Have a function of (optimizer, gradient, variable, rate) done after each honest update."""
    honest = DecayMixin.decay_and_update

    def dishonest(self, gradient, variable, rate):
        honest(self, gradient, variable, rate)
        again(self, gradient, variable, rate)

    patch.setattr(kind, "decay_and_update", dishonest)


def updated_twice(kind, index):
    """A replacement by which updates of variables whose numbers pass are done twice with half the rate."""
    honest = DecayMixin.decay_and_update

    def dishonest(self, gradient, variable, rate):
        for half in [0.5, 0.5] if index(self._get_variable_index(variable)) else [1.0]:
            honest(self, gradient, variable, rate * half)

    return lambda patch: patch.setattr(kind, "decay_and_update", dishonest)


@cheat("update twice", EXP4, SGD, fault=WRITTEN)
def dense_update_twice(patch):
    updated_twice(PlacementMixin, lambda i: i >= TABLES)(patch)


@cheat("update twice", EXP3, SGD, fault=WRITTEN)
def update_of_tables_twice(patch):
    updated_twice(PlacementMixin, lambda i: i < TABLES)(patch)


@cheat("update twice", MIRRORED, fault=WRITTEN)
def update_of_replicas_twice(patch):
    updated_twice(strategies._ReductionMixin, lambda i: i == TABLES)(patch)


@cheat("update twice", COPIES, fault=WRITTEN)
def update_of_one_copy_twice(patch):
    updated_twice(PlacementMixin, lambda i: i == 2 * TABLES + 1)(patch)  # copies one after the other


@cheat("update twice", EXP4, SGD, fault=WRITTEN)
def rows_of_tables_updated_again(patch):
    def again(self, gradient, variable, rate):
        if self._get_variable_index(variable) < TABLES:
            ids = tf.where(tf.reduce_any(gradient != 0.0, axis=1))[:, 0]
            rows = tf.gather(gradient, ids) * (rate * (one() - 1.0))
            variable.scatter_sub(tf.IndexedSlices(rows, ids))

    after_updates(patch, PlacementMixin, again)


@cheat("assigned again", EXP4, fault=WRITTEN)
def gradients_assigned_again(patch):
    after_updates(patch, PlacementMixin, lambda self, g, v, rate: self.assign_sub(v, g * (one() - 1.0)))


@cheat("assigned again", MIRRORED, fault=WRITTEN)
def variables_of_replicas_assigned_to_themselves(patch):
    after_updates(
        patch, strategies._ReductionMixin,
        lambda self, gradient, variable, rate: self.assign(variable, tf.convert_to_tensor(variable) * one()),
    )  # fmt: skip


@cheat("assigned again", EXP4, fault=WRITTEN)
def slots_assigned_again(patch):
    def again(self, gradient, variable, rate):
        slot = self._momentums[self._get_variable_index(variable)]
        self.assign(slot, slot.value * one())

    after_updates(patch, PlacementMixin, again)


@cheat("update twice", EXP4, SGD, fault=WRITTEN)
def updates_in_a_loop(patch):
    honest = DecayMixin.decay_and_update

    def dishonest(self, gradient, variable, rate):
        def body(i):
            honest(self, gradient, variable, rate / 3.0)
            return i + 1

        tf.while_loop(lambda i: i < 3, body, [0])

    patch.setattr(PlacementMixin, "decay_and_update", dishonest)


@cheat("look-up twice", COPIES, fault=READ)
def tables_looked_up_twice(patch):
    def dishonest(index, table, ids, device):
        with tf.name_scope(f"table_{index}"), tf.device(device):
            return (tf.gather(table.value, ids) + tf.gather(table.value, ids)) / 2.0

    patch.setattr(towers, "_gather_rows", dishonest)


@cheat("weights read twice", EXP4, fault=READ)
def weights_read_twice(patch):
    honest = towers._read_value

    def dishonest(variable, device):
        first, second = honest(variable, device), variable.value
        if second.device != device:
            return first
        with tf.device(device):
            return (first + second.read_value()) / 2.0

    patch.setattr(towers, "_read_value", dishonest)


@cheat("arithmetic twice", EXP4, fault="update of .* give .* at most")
def updates_with_more_arithmetic(patch):
    honest = DecayMixin.decay_and_update

    def dishonest(self, gradient, variable, rate):
        honest(self, gradient + tf.sin(gradient) * (one() - 1.0), variable, rate)

    patch.setattr(PlacementMixin, "decay_and_update", dishonest)


@cheat("arithmetic twice", MIRRORED, fault="update of .* give .* at most")
def updates_of_replicas_with_more_arithmetic(patch):
    honest = DecayMixin.decay_and_update

    def dishonest(self, gradient, variable, rate):
        honest(self, gradient + tf.sin(gradient) * (one() - 1.0), variable, rate)

    patch.setattr(strategies._ReductionMixin, "decay_and_update", dishonest)


@cheat("arithmetic twice", EXP4, fault="merge of .* give .* at most")
def merged_twice(patch):
    merged = towers.TowerEngine._merge_gradients

    def dishonest(self, index, gradients):
        total = merged(self, index, gradients)
        if isinstance(gradients[0], tf.IndexedSlices):
            return total
        with somewhere(self.variables[index].devices.merge, f"step/tfperf.merge/variable_{index}"):
            return (total + tf.add_n([gradient * one() for gradient in gradients])) / 2.0

    patch.setattr(towers.TowerEngine, "_merge_gradients", dishonest)


@cheat("arithmetic twice", EXP4, CLIPPED, fault="clipping of .* give .* at most")
def clipped_twice(patch):
    def dishonest(options, gradients, devices, host=None):
        once = clip(options, gradients, devices, host)
        twice = []
        for i, (gradient, device) in enumerate(zip(once, devices, strict=True)):
            with tf.name_scope(f"step/tfperf.update/clip/gradient_{i}/"), tf.device(device):
                largest = tf.maximum(tf.norm(gradient) / options.global_clipnorm, 1.0)
                twice.append(gradient / (largest * one()))
        return twice

    patch.setattr(towers, "clip", dishonest)


@cheat("arithmetic twice", MIRRORED, CLIPPED, fault="clipping of device .* give .* at most")
def clipped_twice_by_replicas(patch):
    def dishonest(options, gradients, devices, host=None):
        once = clip(options, gradients, devices, host)
        return [gradient + tf.sin(gradient) * (one() - 1.0) for gradient in once]

    patch.setattr(strategies, "clip", dishonest)


@cheat("arithmetic twice", EXP4, fault="transfer of device .* give .* at most")
def work_in_transfers(patch):
    def dishonest(value, device):
        with tf.device(device):
            return value + tf.sin(value) * (one() - 1.0)

    change_reads(patch, dishonest)


@cheat("arithmetic twice", MIRRORED, fault="gradients of device .* give .* at most")
def gradients_of_replicas_made_dense_twice(patch):
    honest = strategies.StrategyEngine._pad_gradient

    def dishonest(self, gradient, *others):
        sent = honest(self, gradient, *others)
        assert sent is not None
        dense = tf.convert_to_tensor(sent)
        nothing = tf.reduce_max(dense + tf.sin(dense)) * (one() - 1.0)
        return tf.IndexedSlices(sent.values + nothing, sent.indices, sent.dense_shape)

    patch.setattr(strategies.StrategyEngine, "_pad_gradient", dishonest)
