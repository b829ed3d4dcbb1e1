"""Passes on other devices, on none, or twice."""

from contextlib import ExitStack

import pytest
import tensorflow as tf

from tests.place.cheating.cheat import SECOND, cheat, one
from tfperf.place import towers


@cheat("layer", "placement.preset=Exp4", fault="pass of device 0: .* must be CPU:1")
def projection_on_another_device(patch):
    layer_where(patch, SECOND, None)


@cheat("layer", "placement.preset=Exp4", fault="CPU:2 to CPU:1: .* needed")
def projection_on_another_device_under_its_name(patch):
    layer_where(patch, SECOND, "step/tower_1/tfperf.forward")


def layer_where(patch, device, scope):
    """The last product on a device, under a scope; its backward pass too."""
    from tfperf.workloads.translate import translator

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
    honest = towers.TowerEngine._run_tower

    def dishonest(self, tower, local_batch, *others):
        return honest(self, tower, [side[:2] for side in local_batch] if tower else local_batch, *others)

    patch.setattr(towers.TowerEngine, "_run_tower", dishonest)


def times(given, factor):
    """What a device is given, with other weights."""
    return given._replace(weights=[weight * factor for weight in given.weights])


@cheat("layer", "placement.preset=Exp4", fault="matrix products")
def passes_done_twice(patch):
    honest = towers.build_pass  # type: ignore[attr-defined]

    def dishonest(model, method):
        compute = honest(model, method)

        def twice(given):
            compute(times(given, 2.0))
            first, second = compute(times(given, one())), compute(given)
            weights = [(a + b) / 2.0 for a, b in zip(first.weights, second.weights, strict=True)]  # type: ignore[operator]
            return type(first)(first.loss, second.tables, weights)

        return twice

    patch.setattr(towers, "build_pass", dishonest)


@cheat("XLA", "placement.preset=Exp4", "engine.xla=true", fault="XLA's code on CPU:1: runs 2 times")
def passes_of_xla_done_twice(patch):
    honest = towers.build_pass  # type: ignore[attr-defined]

    def dishonest(model, method):
        compute = honest(model, method)

        def twice(given):
            first, second = compute(times(given, one())), compute(given)
            weights = [(a + b) / 2.0 for a, b in zip(first.weights, second.weights, strict=True)]  # type: ignore[operator]
            return type(first)(first.loss, second.tables, weights)

        return twice

    patch.setattr(towers, "build_pass", dishonest)
