"""Work that hides in functions, loops, branches, Python, XLA's code and constants."""

import numpy as np
import tensorflow as tf

from tests.place.cheating.cheat import beside_decoy, change_reads, cheat, one, somewhere
from tfperf.place import towers
from tfperf.place.devices import HOST
from tfperf.place.optimizer import DecayMixin, PlacementMixin


@cheat("nested function", "placement.preset=Exp4", fault="runs a function that no graph shows")
def update_in_a_function_that_stays_one(patch):
    honest = DecayMixin.decay_and_update

    def dishonest(self, gradient, variable, rate):
        @tf.function(autograph=False, experimental_attributes={"_noinline": True})
        def apart(gradient, rate):
            with tf.device(HOST):
                honest(self, gradient, variable, rate)

        apart(gradient, beside_decoy(gradient, rate))

    patch.setattr(PlacementMixin, "decay_and_update", dishonest)


@cheat("loop", "placement.preset=Exp4", fault="CPU:1 to CPU:0: .* needed")
def weights_sent_row_by_row_in_a_loop(patch):
    def dishonest(value, device):
        if value.shape.rank < 2:
            return value

        def body(i, rows):
            with tf.device(HOST):
                row = value[i] * one()
            return i + 1, rows.write(i, row)

        with tf.device(device):
            rows = tf.TensorArray(value.dtype, value.shape[0], element_shape=value.shape[1:])
            last = value.shape[0]
            return tf.ensure_shape(tf.while_loop(lambda i, _: i < last, body, (0, rows))[1].stack(), value.shape)

    change_reads(patch, dishonest)


@cheat("branch", "placement.preset=Exp4", fault="not known|needed|no rule covers it")
def weights_fetched_in_a_branch_that_is_seldom_taken(patch):
    def dishonest(value, device):
        def fetch():
            with tf.device(HOST):
                return tf.sin(value)

        with tf.device(device):
            seldom = tf.timestamp() < 0.0
            return tf.cond(seldom, fetch, lambda: tf.identity(value))

    change_reads(patch, dishonest)


@cheat("host's Python", "placement.preset=Exp4", fault="runs Python that no graph shows")
def gradients_through_python(patch):
    honest = towers.TowerEngine._merge_gradients

    def dishonest(self, index, gradients):
        total = honest(self, index, gradients)
        assert total is not None
        with somewhere(HOST, "python"):
            changed = tf.numpy_function(np.array, [total], total.dtype)
        with tf.device(self.variables[index].devices.merge):
            return tf.ensure_shape(changed, total.shape)

    patch.setattr(towers.TowerEngine, "_merge_gradients", dishonest)


@cheat("host's Python", "placement.preset=Exp4", fault="runs Python that no graph shows")
def work_in_python_without_operands(patch):
    honest = towers.TowerEngine.take_step

    def dishonest(self, *args):
        weights = self.variables[2].copies[0].value

        def work():
            weights.assign(weights * 0.999)

        with somewhere(HOST, "python"):
            tf.py_function(work, [], [])
        return honest(self, *args)

    patch.setattr(towers.TowerEngine, "take_step", dishonest)


@cheat("XLA", "placement.preset=Exp4", fault="no rule covers it|must be|needed")
def gradients_clipped_by_xla_on_the_host(patch):
    def dishonest(options, gradients, devices, host=None):
        compiled = tf.function(lambda gs: [g * 0.5 for g in gs], jit_compile=True, autograph=False)
        with tf.device(HOST):
            scaled = compiled([tf.identity(g) for g in gradients])
        out = []
        for gradient, device in zip(scaled, devices, strict=True):
            with tf.device(device):
                out.append(tf.identity(gradient))
        return out

    patch.setattr(towers, "clip", dishonest)


@cheat("nested function", "placement.preset=Exp4", fault="runs a function that no graph shows")
def work_in_the_function_of_a_dataset(patch):
    honest = towers.TowerEngine._merge_gradients

    def dishonest(self, index, gradients):
        total = honest(self, index, gradients)
        with tf.name_scope(f"variable_{index}"), tf.device(HOST):
            data = tf.data.Dataset.from_tensors(total)
            changed = data.reduce(tf.zeros_like(total), lambda state, x: state + tf.sin(x))
        with tf.name_scope(f"variable_{index}"), tf.device(self.variables[index].devices.merge):
            return total + changed * (one() - 1.0)

    patch.setattr(towers.TowerEngine, "_merge_gradients", dishonest)


@cheat("constants", "placement.preset=Exp4", fault="constant of")
def weights_as_constants(patch):
    def dishonest(value, device):
        random = np.random.default_rng(1).uniform(-0.1, 0.1, value.shape)
        with tf.device(device):
            return tf.constant(random, value.dtype) + value * (one() - 1.0)

    change_reads(patch, dishonest)


@cheat("constants", "placement.preset=Exp4", fault="captured tensor of")
def weights_from_a_captured_tensor(patch):
    honest, made = towers._read_value, {}

    def dishonest(variable, device):
        value = honest(variable, device)
        with tf.init_scope(), tf.device(device):
            made.setdefault((id(variable), device), tf.random.uniform(value.shape, -0.1, 0.1, value.dtype))
        with tf.device(device):
            return made[id(variable), device] + value * (one() - 1.0)

    patch.setattr(towers, "_read_value", dishonest)
