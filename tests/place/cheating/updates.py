"""Updates and clippings that are not where they should be."""

import tensorflow as tf

from tests.place.cheating.cheat import CLIPPED, FIRST, MIRRORED, SECOND, beside_decoy, cheat, one, somewhere
from tfperf.place import strategies, towers
from tfperf.place.devices import HOST
from tfperf.place.optimizer import DecayMixin, PlacementMixin, clip

MOMENTUM = "train.optimizer={name: RMSprop, learning_rate: 0.01, momentum: 0.5}"  # subtracted as it is read


def update_where(patch, device, scope):
    """Updates on a device under a scope, with a small operation where they should be."""
    honest = DecayMixin.decay_and_update

    def dishonest(self, gradient, variable, rate):
        rate = beside_decoy(gradient, rate)
        with somewhere(device, scope(self._get_variable_index(variable))):
            honest(self, gradient, variable, rate)

    patch.setattr(PlacementMixin, "decay_and_update", dishonest)


@cheat("update", "placement.preset=Exp4", fault="no rule covers it, and it touches")
def update_on_the_host_beside_a_decoy(patch):
    update_where(patch, HOST, lambda i: "elsewhere")


@cheat("imitated scope", "placement.variables=device", "placement.merge=host", fault="update of .* largest operation")
def update_on_the_host_in_the_scope_of_the_merge(patch):
    update_where(patch, HOST, lambda i: f"step/tfperf.merge/variable_{i}")


@cheat("update", MIRRORED, fault="variables of .* a step touches")
def update_on_the_first_replica_alone(patch):
    honest = strategies._ReductionMixin.decay_and_update
    new = {}

    def dishonest(self, gradient, variable, rate):
        name = variable._shared_name.partition("/replica")[0]
        if variable.device == FIRST:
            honest(self, gradient, variable, rate)
            new[name] = tf.convert_to_tensor(variable)
        else:
            self.assign(variable, new[name] + beside_decoy(gradient, 0.0))

    patch.setattr(strategies._ReductionMixin, "decay_and_update", dishonest)


@cheat("slots", "placement.preset=Exp4", fault="CPU:1 to CPU:0: .* needed")
def slots_on_the_host_beside_decoys(patch):
    honest = PlacementMixin.add_variable

    def dishonest(self, *args, **kwargs):
        places, self.places = self.places, [(HOST, update) for _, update in self.places]
        real = honest(self, *args, **kwargs)
        self.places = places
        self.slots.pop()
        self.slots.append((honest(self, *args, **kwargs), self.slots[-1][1]))
        self.slots.pop(-2)
        return real

    patch.setattr(PlacementMixin, "add_variable", dishonest)


@cheat("slots", "placement.preset=Exp1", MOMENTUM, fault="CPU:0 to CPU:1: .* needed .*; most")
def momentum_by_way_of_the_update(patch):
    honest = PlacementMixin.assign_sub
    patch.setattr(PlacementMixin, "assign_sub", lambda self, variable, value: honest(self, variable, value * one()))


@cheat("clipping", "placement.preset=Exp4", CLIPPED, fault="clipping of .* must be")
def clipping_on_another_device(patch):
    def dishonest(options, gradients, devices, host=None):
        return clip(options, gradients, [SECOND if device == FIRST else FIRST for device in devices], host)

    patch.setattr(towers, "clip", dishonest)


@cheat("clipping", MIRRORED, CLIPPED, fault="clipping of device")
def clipping_of_replicas_on_the_host(patch):
    def dishonest(options, gradients, devices, host=None):
        with tf.device(HOST):
            return clip(options, [tf.identity(g) for g in gradients], [HOST] * len(devices), HOST)

    patch.setattr(strategies, "clip", dishonest)


@cheat("clipping", "placement.preset=Exp4", CLIPPED, fault="no rule covers it, and it touches")
def norm_of_all_found_on_the_host(patch):
    def dishonest(options, gradients, devices, host=None):
        with somewhere(HOST, "norm"):
            squares = [tf.reduce_sum(gradient * gradient) for gradient in gradients]
            factor = options.global_clipnorm / tf.maximum(tf.sqrt(tf.add_n(squares)), options.global_clipnorm)
        clipped = []
        for gradient, device in zip(gradients, devices, strict=True):
            with tf.device(device):
                clipped.append(gradient * factor)
        return clipped

    patch.setattr(towers, "clip", dishonest)
