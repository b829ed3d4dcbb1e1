"""Trainings on two logical CPUs with one planted cause each."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.fits import Waiter, build_mlp, make_dataset
from benchmarks.diagnosis.loops import repeat
from benchmarks.diagnosis.program import Fit, OwnLoop, register_program


def make_strategy() -> tf.distribute.MirroredStrategy:
    """Of all logical CPUs."""
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(len(tf.config.list_logical_devices("CPU")))])


def make_local(strategy: tf.distribute.MirroredStrategy, values: Sequence[Any]) -> Any:
    """One value for each replica."""
    return strategy.experimental_distribute_values_from_function(lambda context: tf.constant(
        values[context.replica_id_in_sync_group]
    ))  # fmt: skip


@register_program("straggler", "with", devices=2)
def make_uneven_replicas(planted: bool) -> OwnLoop:
    """The second replica has six times the work of the first; in the twin they share it evenly."""
    strategy = make_strategy()
    with strategy.scope():
        weight = tf.Variable(tf.ones((300, 300)), aggregation=tf.VariableAggregation.MEAN)
    times = [2, 12] if planted else [7, 7]

    def work() -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        value = tf.convert_to_tensor(weight)
        for _ in range(times[int(tf.get_static_value(replica))]):  # each replica is traced for itself
            value = tf.tanh(value @ value / 300.0)
        weight.assign_add(1e-6 * value)
        return tf.reduce_sum(value)

    @tf.function
    def step() -> Any:
        return strategy.reduce("SUM", strategy.run(work), None)

    return repeat(step)


@register_program("straggler", "ms of work", devices=2)
def make_uneven_batches(planted: bool) -> OwnLoop:
    """The second replica has three times the batch of the first; in the twin they share it evenly."""
    strategy = make_strategy()
    with strategy.scope():
        weight = tf.Variable(tf.ones((600, 600)), aggregation=tf.VariableAggregation.MEAN)
    x = make_local(strategy, [np.ones((rows, 600), np.float32) for rows in ((512, 1536) if planted else (1024, 1024))])

    def work(mine: Any) -> Any:
        value = tf.tanh(mine @ weight / 600.0)
        weight.assign_add(1e-6 * tf.matmul(value, value, transpose_a=True))
        return tf.reduce_sum(value)

    @tf.function
    def step() -> Any:
        return strategy.reduce("SUM", strategy.run(work, args=(x,)), None)

    return repeat(step)


@register_program("straggler", "later than the other", devices=2)
def make_late_replica(planted: bool) -> OwnLoop:
    """The matrix of the second replica is prepared in each step, before it can begin; in the twin it is ready."""
    strategy = make_strategy()
    with strategy.scope():
        weight = tf.Variable(tf.ones((200, 200)), aggregation=tf.VariableAggregation.MEAN)
    one = tf.eye(200) + tf.cast(np.random.default_rng(1).normal(size=(200, 200)) / 100.0, tf.float32)

    def invert(value: Any, times: int) -> Any:
        for _ in range(2 * times):  # of one thread each
            value = tf.linalg.inv(value)
        return value

    def work(matrices: Sequence[Any]) -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        value = invert(matrices[int(tf.get_static_value(replica))], 3)  # each replica is traced for itself
        weight.assign_add(1e-6 * value)
        return tf.reduce_sum(value)

    @tf.function
    def step(raw: Any) -> Any:
        matrices = (raw, invert(raw, 2) if planted else raw)
        return strategy.reduce("SUM", strategy.run(work, args=(matrices,)), None)

    return repeat(step, one)


@register_program("callback", "Waiter", sleeps=True, devices=2)
def make_mirrored_callback(planted: bool) -> Fit:
    """A callback that sleeps beside a strategy."""
    with make_strategy().scope():
        model = build_mlp(128)
    return Fit(model, make_dataset(12), 12, (lambda: [Waiter()]) if planted else list)


@register_program("input", devices=2)
def make_mirrored_input(planted: bool) -> Fit:
    """A slow pipeline feeds two replicas."""
    from benchmarks.diagnosis.pipelines import compute, make_slices

    with make_strategy().scope():
        model = build_mlp(64, 1)
    data = make_slices().map(compute)
    return Fit(model, (data if planted else data.cache()).batch(96, drop_remainder=True).prefetch(2), 12)


@register_program("python", "summarise", devices=2)
def make_mirrored_python(planted: bool) -> OwnLoop:
    """Python looks at what each replica gives, in every step."""
    strategy = make_strategy()
    with strategy.scope():
        weight = tf.Variable(tf.ones((200, 200)), aggregation=tf.VariableAggregation.MEAN)

    def work() -> Any:
        value = tf.tanh(tf.convert_to_tensor(weight) @ weight / 200.0)
        weight.assign_add(1e-6 * value)
        return value

    @tf.function
    def step() -> Any:
        return strategy.run(work)

    def summarise(values: Any) -> None:
        for value in strategy.experimental_local_results(values):
            for _ in range(8):
                np.sort(np.tile(value.numpy().ravel(), 16))

    def take() -> Any:
        values = step()
        local = strategy.experimental_local_results(values)[0]
        if planted:
            summarise(values)
        return local[0, 0]

    return repeat(take)


@register_program("validation")
def make_half_precision_validation(planted: bool) -> Fit:
    """A model of mixed precision whose validation takes longer than its training."""
    previous = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    model = build_mlp(128)
    keras.mixed_precision.set_dtype_policy(previous)
    return Fit(model, make_dataset(12), 12, settings={"validation_data": make_dataset(40)} if planted else {})
