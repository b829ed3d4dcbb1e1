"""Programs whose placement is not what their card asks for: each replaces a part of an engine and trains as it would.

python -m tests.place.cheats FOLDER: overrides by name on stdin, also of honest programs; the faults of each to FOLDER.
"""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tests.place.child import fed
from tests.place.test_engines import TEXT
from tests.runcard.cards import write
from tfperf.place import strategies, towers
from tfperf.place.devices import HOST, make_devices
from tfperf.place.engine import make_engine, take
from tfperf.place.graphs import run_step
from tfperf.place.optimizer import Decayed, Placed, clip
from tfperf.place.proof import prove_engine
from tfperf.runcard.loader import load_any

CARD = """\
workload: translate
data: {fixed_length: 9, vocabulary: 300}
model: {units: 32, layers: 1}
train: {steps: 100, optimizer: {learning_rate: 0.01}}
placement: {devices: 2}
"""
FIRST, SECOND = (HOST.replace("CPU:0", f"CPU:{k}") for k in (1, 2))
CLIPPED, MIRRORED = "train.optimizer.global_clipnorm=0.01", "placement.engine=mirrored"


class Cheat(NamedTuple):
    """What is replaced in an engine of these overrides, and what a fault must say of it."""

    replace: Callable[[pytest.MonkeyPatch], None]
    overrides: tuple[str, ...]
    fault: str
    kind: str


CHEATS: dict[str, Cheat] = {}


def cheat(kind, *overrides, fault):
    """Enter a cheat under its function's name."""

    def enter(replace):
        CHEATS[replace.__name__] = Cheat(replace, overrides, fault, kind)
        return replace

    return enter


@contextmanager
def somewhere(device, scope):
    """On a device, under a name of one's own."""
    with tf.device(device), tf.name_scope(f"{scope}/"):
        yield


def one():
    """A factor of one that no optimizer of graphs can know."""
    return tf.cast(tf.timestamp() > 0.0, tf.float32)


def beside_decoy(gradient, rate):
    """A rate to which a small operation on a gradient adds nothing."""
    return tf.convert_to_tensor(rate) + tf.reduce_max(gradient[:2] * 2.0) * (one() - 1.0)


# updates


def update_where(patch, device, scope):
    """Updates on a device under a scope, with a small operation where they should be."""
    honest = Decayed.decay_and_update

    def dishonest(self, gradient, variable, rate):
        rate = beside_decoy(gradient, rate)
        with somewhere(device, scope(self._get_variable_index(variable))):
            honest(self, gradient, variable, rate)

    patch.setattr(Placed, "decay_and_update", dishonest)


@cheat("update", "placement.preset=Exp4", fault="no rule covers it, and it touches")
def update_on_the_host_beside_a_decoy(patch):
    update_where(patch, HOST, lambda i: "elsewhere")


@cheat("imitated scope", "placement.variables=device", "placement.merge=host", fault="update of .* largest operation")
def update_on_the_host_in_the_scope_of_the_merge(patch):
    update_where(patch, HOST, lambda i: f"step/tfperf.merge/variable_{i}")


@cheat("update", MIRRORED, fault="variables of .* a step touches")
def update_on_the_first_replica_alone(patch):
    honest = strategies._Summed.decay_and_update
    new = {}

    def dishonest(self, gradient, variable, rate):
        name = variable._shared_name.partition("/replica")[0]
        if variable.device == FIRST:
            honest(self, gradient, variable, rate)
            new[name] = tf.convert_to_tensor(variable)
        else:
            self.assign(variable, new[name] + beside_decoy(gradient, 0.0))

    patch.setattr(strategies._Summed, "decay_and_update", dishonest)


@cheat("slots", "placement.preset=Exp4", fault="CPU:1 to CPU:0: .* needed")
def slots_on_the_host_beside_decoys(patch):
    honest = Placed.add_variable

    def dishonest(self, *args, **kwargs):
        places, self.places = self.places, [(HOST, update) for _, update in self.places]
        real = honest(self, *args, **kwargs)
        self.places = places
        self.slots.pop()
        self.slots.append((honest(self, *args, **kwargs), self.slots[-1][1]))
        self.slots.pop(-2)
        return real

    patch.setattr(Placed, "add_variable", dishonest)


# clipping


@cheat("clipping", "placement.preset=Exp4", CLIPPED, fault="clipping of .* must be")
def clipping_on_another_device(patch):
    def dishonest(card, gradients, devices, host=None):
        return clip(card, gradients, [SECOND if device == FIRST else FIRST for device in devices], host)

    patch.setattr(towers, "clip", dishonest)


@cheat("clipping", MIRRORED, CLIPPED, fault="clipping of device")
def clipping_of_replicas_on_the_host(patch):
    def dishonest(card, gradients, devices, host=None):
        with tf.device(HOST):
            return clip(card, [tf.identity(g) for g in gradients], [HOST] * len(devices), HOST)

    patch.setattr(strategies, "clip", dishonest)


@cheat("clipping", "placement.preset=Exp4", CLIPPED, fault="no rule covers it, and it touches")
def norm_of_all_found_on_the_host(patch):
    def dishonest(card, gradients, devices, host=None):
        with somewhere(HOST, "norm"):
            squares = [tf.reduce_sum(gradient * gradient) for gradient in gradients]
            factor = card.global_clipnorm / tf.maximum(tf.sqrt(tf.add_n(squares)), card.global_clipnorm)
        clipped = []
        for gradient, device in zip(gradients, devices, strict=True):
            with tf.device(device):
                clipped.append(gradient * factor)
        return clipped

    patch.setattr(towers, "clip", dishonest)


# copies


@cheat("weights sent", "placement.preset=Exp4", fault="CPU:1 to CPU:0: .* needed")
def weights_round_the_host(patch):
    honest = towers._read

    def dishonest(variable, device):
        value = honest(variable, device)
        with somewhere(HOST, "fetch"):
            value = value * one()
        with tf.device(device):
            return tf.identity(value)

    patch.setattr(towers, "_read", dishonest)


@cheat("weights sent", "placement.preset=Exp4", fault="CPU:1 to CPU:0: .* needed")
def weights_round_the_host_by_plumbing_alone(patch):
    honest = towers._read

    def dishonest(variable, device):
        value = honest(variable, device)
        with tf.device(HOST):
            value = tf.raw_ops.PreventGradient(input=value)
        with tf.device(device):
            return tf.identity(value)

    patch.setattr(towers, "_read", dishonest)


@cheat("weights sent", MIRRORED, fault="CPU:1 to CPU:2: .* needed")
def replicas_read_the_first_ones_weights(patch):
    honest = strategies.Replicas.__init__

    def dishonest(self, *args):
        honest(self, *args)
        near = [Far(weight.value.values[0]) for weight in self.model.weights]
        self.model = SimpleNamespace(weights=near, embeddings=self.model.embeddings, rows=self.model.rows)

    patch.setattr(strategies.Replicas, "__init__", dishonest)


class Far:
    """A variable that is read where it is."""

    def __init__(self, variable):
        self.variable = variable

    @property
    def value(self):
        """What it holds."""
        with tf.device(self.variable.device):
            return self.variable.read_value()


@cheat("gradients", "placement.preset=Exp4", fault="merge of .* must be|no rule covers it, and it touches")
def gradients_merged_on_another_device(patch):
    honest = towers.Towers._merged

    def dishonest(self, index, gradients):
        home = self.variables[index].home.merge
        if isinstance(gradients[0], tf.IndexedSlices):
            return honest(self, index, gradients)
        with somewhere(HOST, "sum"):
            total = tf.add_n(gradients)
        with tf.name_scope(f"variable_{index}"), tf.device(home):
            return total * one()

    patch.setattr(towers.Towers, "_merged", dishonest)


@cheat("gradients", MIRRORED, fault="merge: .* must be|CPU:1 to CPU:0: .* needed")
def gradients_of_replicas_merged_on_the_host(patch):
    patch.setattr(
        strategies, "make_strategy",
        lambda placement, devices: tf.distribute.MirroredStrategy(
            list(devices.each), cross_device_ops=tf.distribute.ReductionToOneDevice(devices.host)
        ),
    )  # fmt: skip


@cheat("gradients", "placement.preset=Exp3", fault="CPU:1 to CPU:2: .* needed")
def an_extra_copy_of_all_gradients(patch):
    honest = towers.Towers._merged

    def dishonest(self, index, gradients):
        total = honest(self, index, gradients)
        if index < 2:
            return total
        other = SECOND if self.variables[index].home.merge == FIRST else FIRST
        number = self.devices.each.index(other)
        with somewhere(other, f"step/tower_{number}/tfperf.backward"):
            largest = tf.reduce_max(total)
        with tf.name_scope(f"variable_{index}"), tf.device(self.variables[index].home.merge):
            return total + largest * (one() - 1.0)

    patch.setattr(towers.Towers, "_merged", dishonest)


@cheat("dense gradient", "placement.preset=Exp2", fault="CPU:1 to CPU:0: .* needed")
def sparse_gradients_made_dense_and_sent(patch):
    def dishonest(self, index, gradients):
        home, dense = self.variables[index].home.merge, []
        for k, gradient in enumerate(gradients):
            with tf.device(self.devices.each[k]), tf.name_scope(f"/step/tower_{k}/tfperf.backward/"[1:]):
                dense.append(tf.convert_to_tensor(gradient))
        with tf.name_scope(f"variable_{index}"), tf.device(home):
            return tf.add_n(dense)

    patch.setattr(towers.Towers, "_merged", dishonest)


@cheat("batch", "placement.preset=Exp4", f"data={{{TEXT}, batch: 100}}", fault="CPU:1 to CPU:2: .* needed")
def batches_sent_by_way_of_the_first_device(patch):
    honest = towers.Towers._part

    def dishonest(self, tower, source, target, *others):
        with tf.device(FIRST), tf.name_scope("step/tower_0/tfperf.transfer/"):
            source, target = (ids * tf.cast(one(), tf.int32) for ids in (source, target))
        return honest(self, tower, source, target, *others)

    patch.setattr(towers.Towers, "_part", dishonest)


@cheat("unknown size", "placement.preset=Exp4", fault="size .* not known")
def weights_sent_as_text(patch):
    honest = towers._read

    def dishonest(variable, device):
        value = honest(variable, device)
        text = tf.io.serialize_tensor(value * one())
        with tf.device(HOST):
            text = tf.strings.join([text, ""])
        with tf.device(device):
            return tf.ensure_shape(tf.io.parse_tensor(text, value.dtype), value.shape)

    patch.setattr(towers, "_read", dishonest)


# embeddings


@cheat("look-up", "placement.preset=Exp3", fault="CPU:0 to CPU:1: .* needed")
def whole_tables_sent_and_looked_up_elsewhere(patch):
    honest = towers._looked_up

    def dishonest(index, table, ids, device):
        decoy = tf.reduce_max(honest(index, table, ids[:1, :1], device))
        with tf.device(table.value.device):
            whole = table.value.read_value()
        with tf.device(device):
            return tf.gather(whole, ids) + decoy * (one() - 1.0)

    patch.setattr(towers, "_looked_up", dishonest)


# passes


@cheat("layer", "placement.preset=Exp4", fault="pass of device 0: .* must be CPU:1")
def projection_on_another_device(patch):
    layer_where(patch, SECOND, None)


@cheat("layer", "placement.preset=Exp4", fault="CPU:2 to CPU:1: .* needed")
def projection_on_another_device_under_its_name(patch):
    layer_where(patch, SECOND, "step/tower_1/tfperf.forward")


def layer_where(patch, device, scope):
    """The last product on a device, under a scope; its backward pass too."""
    from tfperf.models import translator

    honest = translator.Core.decode

    def dishonest(self, *args, **kwargs):
        projection = self.projection
        outer = self.projection.call

        def call(x):
            with ExitStack() as where:
                where.enter_context(tf.device(device))
                if scope:
                    where.enter_context(tf.name_scope(f"{scope}/"))
                return outer(x)

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(projection, "call", call)
            return honest(self, *args, **kwargs)

    patch.setattr(translator.Core, "decode", dishonest)


@cheat("layer", "placement.preset=Exp4", fault="matrix products")
def a_device_that_idles(patch):
    honest = towers.Towers._part

    def dishonest(self, tower, source, target, *others):
        return honest(self, tower, *((source[:2], target[:2]) if tower else (source, target)), *others)

    patch.setattr(towers.Towers, "_part", dishonest)


@cheat("layer", "placement.preset=Exp4", fault="matrix products")
def passes_done_twice(patch):
    honest = towers.forward_backward

    def dishonest(model, card):
        compute = honest(model, card)

        def twice(values, *others):
            compute([value * 2.0 for value in values], *others)
            first = compute([value * one() for value in values], *others)
            second = compute(values, *others)
            weights = [(a + b) / 2.0 for a, b in zip(first.weights, second.weights, strict=True)]
            return type(first)(first.loss, second.tables, weights)

        return twice

    patch.setattr(towers, "forward_backward", dishonest)


# what hides work


@cheat("nested function", "placement.preset=Exp4", fault="runs a function that no graph shows")
def update_in_a_function_that_stays_one(patch):
    honest = Decayed.decay_and_update

    def dishonest(self, gradient, variable, rate):
        @tf.function(autograph=False, experimental_attributes={"_noinline": True})
        def apart(gradient, rate):
            with tf.device(HOST):
                honest(self, gradient, variable, rate)

        apart(gradient, beside_decoy(gradient, rate))

    patch.setattr(Placed, "decay_and_update", dishonest)


@cheat("loop", "placement.preset=Exp4", fault="CPU:1 to CPU:0: .* needed")
def weights_sent_row_by_row_in_a_loop(patch):
    honest = towers._read

    def dishonest(variable, device):
        value = honest(variable, device)
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

    patch.setattr(towers, "_read", dishonest)


@cheat("branch", "placement.preset=Exp4", fault="not known|needed|no rule covers it")
def weights_fetched_in_a_branch_that_is_seldom_taken(patch):
    honest = towers._read

    def dishonest(variable, device):
        value = honest(variable, device)

        def fetch():
            with tf.device(HOST):
                return tf.sin(value)

        with tf.device(device):
            seldom = tf.timestamp() < 0.0
            return tf.cond(seldom, fetch, lambda: tf.identity(value))

    patch.setattr(towers, "_read", dishonest)


@cheat("host's Python", "placement.preset=Exp4", fault="runs Python that no graph shows")
def gradients_through_python(patch):
    honest = towers.Towers._merged

    def dishonest(self, index, gradients):
        total = honest(self, index, gradients)
        with somewhere(HOST, "python"):
            changed = tf.numpy_function(np.array, [total], total.dtype)
        with tf.device(self.variables[index].home.merge):
            return tf.ensure_shape(changed, total.shape)

    patch.setattr(towers.Towers, "_merged", dishonest)


@cheat("host's Python", "placement.preset=Exp4", fault="runs Python that no graph shows")
def work_in_python_without_operands(patch):
    honest = towers.Towers.step

    def dishonest(self, *args):
        weights = self.variables[2].copies[0].value

        def work():
            weights.assign(weights * 0.999)

        with somewhere(HOST, "python"):
            tf.py_function(work, [], [])
        return honest(self, *args)

    patch.setattr(towers.Towers, "step", dishonest)


@cheat("XLA", "placement.preset=Exp4", fault="no rule covers it|must be|needed")
def gradients_clipped_by_xla_on_the_host(patch):
    def dishonest(card, gradients, devices, host=None):
        compiled = tf.function(lambda gs: [g * 0.5 for g in gs], jit_compile=True, autograph=False)
        with tf.device(HOST):
            scaled = compiled([tf.identity(g) for g in gradients])
        out = []
        for gradient, device in zip(scaled, devices, strict=True):
            with tf.device(device):
                out.append(tf.identity(gradient))
        return out

    patch.setattr(towers, "clip", dishonest)


@cheat("XLA", "placement.preset=Exp4", "engine.xla=true", fault="XLA's code on CPU:1: runs 2 times")
def passes_of_xla_done_twice(patch):
    honest = towers.forward_backward

    def dishonest(model, card):
        compute = honest(model, card)

        def twice(values, *others):
            first, second = compute([value * one() for value in values], *others), compute(values, *others)
            weights = [(a + b) / 2.0 for a, b in zip(first.weights, second.weights, strict=True)]
            return type(first)(first.loss, second.tables, weights)

        return twice

    patch.setattr(towers, "forward_backward", dishonest)


@cheat("gradients", MIRRORED, "placement.merge=ring", fault="collectives from CPU:1 to all: .* needed")
def gradients_of_replicas_merged_twice(patch):
    honest = strategies._Summed._all_reduce_sum_gradients

    def dishonest(self, pairs):
        weights = [gradient for gradient, _ in pairs][2:]
        with strategies.phase("merge"):
            extra = tf.distribute.get_replica_context().all_reduce("SUM", weights)
        nothing = tf.add_n([tf.reduce_max(one) for one in extra]) * (one() - 1.0)
        kept = [gradient + nothing for gradient in weights]
        return honest(self, [*pairs[:2], *zip(kept, [variable for _, variable in pairs[2:]], strict=True)])

    patch.setattr(strategies._Summed, "_all_reduce_sum_gradients", dishonest)


@cheat("gradients", "placement.preset=Exp4", fault="copies from CPU:2 to CPU:1: only")
def gradients_of_the_second_device_left_out(patch):
    honest = towers.Towers._merged

    def dishonest(self, index, gradients):
        if isinstance(gradients[0], tf.IndexedSlices):
            return honest(self, index, gradients)
        return honest(self, index, [gradients[0]] * 2)

    patch.setattr(towers.Towers, "_merged", dishonest)


@cheat("nested function", "placement.preset=Exp4", fault="runs a function that no graph shows")
def work_in_the_function_of_a_dataset(patch):
    honest = towers.Towers._merged

    def dishonest(self, index, gradients):
        total = honest(self, index, gradients)
        with tf.name_scope(f"variable_{index}"), tf.device(HOST):
            data = tf.data.Dataset.from_tensors(total)
            changed = data.reduce(tf.zeros_like(total), lambda state, x: state + tf.sin(x))
        with tf.name_scope(f"variable_{index}"), tf.device(self.variables[index].home.merge):
            return total + changed * (one() - 1.0)

    patch.setattr(towers.Towers, "_merged", dishonest)


@cheat("weights sent", "placement.preset=Exp4", fault="CPU:1 to CPU:0: .* needed")
def weights_by_way_of_a_staging_area(patch):
    honest, number = towers._read, count()

    def dishonest(variable, device):
        value, name = honest(variable, device), f"stage_{next(number)}"
        with somewhere(HOST, "stage"):
            put = tf.raw_ops.Stage(values=[value], shared_name=name)
            with tf.control_dependencies([put]):
                (got,) = tf.raw_ops.Unstage(dtypes=[value.dtype], shared_name=name)
        with tf.device(device):
            return tf.ensure_shape(tf.identity(got), value.shape)

    patch.setattr(towers, "_read", dishonest)


@cheat("constants", "placement.preset=Exp4", fault="constant of")
def weights_as_constants(patch):
    honest = towers._read

    def dishonest(variable, device):
        value = honest(variable, device)
        random = np.random.default_rng(1).uniform(-0.1, 0.1, value.shape)
        with tf.device(device):
            return tf.constant(random, value.dtype) + value * (one() - 1.0)

    patch.setattr(towers, "_read", dishonest)


@cheat("constants", "placement.preset=Exp4", fault="captured tensor of")
def weights_from_a_captured_tensor(patch):
    honest, made = towers._read, {}

    def dishonest(variable, device):
        value = honest(variable, device)
        with tf.init_scope(), tf.device(device):
            made.setdefault((id(variable), device), tf.random.uniform(value.shape, -0.1, 0.1, value.dtype))
        with tf.device(device):
            return made[id(variable), device] + value * (one() - 1.0)

    patch.setattr(towers, "_read", dishonest)


def faults(card, cheats=()):
    """The faults of a card's program, parts of which are replaced."""
    with pytest.MonkeyPatch.context() as patch:
        for one in cheats:
            one.replace(patch)
        devices = make_devices(card.placement)
        rows, every = fed(card, len(devices), alone=False)
        engine = make_engine(card, rows, devices)
        iterator = iter(every())
        take(engine, iterator, 1)
        return prove_engine(engine, run_step(lambda: take(engine, iterator, 1))).faults


def main():
    """Find the faults of programs by name: the names of cheats, and overrides of the card."""
    folder, found = Path(sys.argv[1]), {}
    strategies.make_strategy = cache(strategies.make_strategy)  # the same group of devices has one
    for name, overrides in json.load(sys.stdin).items():
        cheats = [CHEATS[one] for one in name.split("+") if one in CHEATS]
        card = load_any(write(folder, CARD, "card.yaml"), list(overrides))
        found[name] = faults(card, cheats)
    (folder / "faults.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
