"""Random numbers of R replicas, each from a seed generator of its own."""

from collections.abc import Callable

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import Values
from tfperf.workloads.keras.stacked.replicas import map_replicas


def draw_replicas(
    values: Values, generator: keras.random.SeedGenerator, draw: Callable[..., tf.Tensor], *tensors: tf.Tensor
) -> tf.Tensor:
    """What each replica would draw alone (R, ...): `draw` of its tensors, with its state in the generator's place.

    The states go on as the generator's would.
    """
    state = generator.state

    def draw_one(seed: tf.Tensor, *some: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with keras.StatelessScope(state_mapping=[(state, seed)]) as scope:
            found = draw(*some)
        return found, tf.convert_to_tensor(scope.get_current_value(state))

    found, after = map_replicas(draw_one, values.get(state), *tensors)
    values.assign(state, after)
    return found
