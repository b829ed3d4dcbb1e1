"""Loops with one planted cause each, written by someone who had not read the rules: policies and meta-learning."""

import gc
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.loops import repeat
from benchmarks.diagnosis.program import Mark, OwnLoop, register_program
from benchmarks.diagnosis.unseen_parts import Adam, Perceptron
from tfperf.arrays import Float64Array, Int64Array


def draw_transitions(sums: Float64Array, leaves: int, values: Float64Array) -> Int64Array:
    """For each value the leaf in whose part of the sum it lies, one by one."""
    found = []
    for value in values:
        node = 1
        while node < leaves:
            node *= 2
            if value > sums[node]:
                value -= sums[node]
                node += 1
        found.append(node - leaves)
    return np.array(found)


def draw_together(sums: Float64Array, leaves: int, values: Float64Array) -> Int64Array:
    """The same for all at once."""
    values, nodes = values.copy(), np.ones(len(values), np.int64)
    while nodes[0] < leaves:
        nodes *= 2
        right = values > sums[nodes]
        values -= np.where(right, sums[nodes], 0.0)
        nodes += right
    return nodes - leaves


def change_priorities(sums: Float64Array, leaves: int, chosen: Int64Array, priorities: Float64Array) -> None:
    """New priorities of leaves, and the sums above them."""
    nodes = chosen + leaves
    sums[nodes] = priorities
    while nodes[0] > 1:
        nodes = np.unique(nodes // 2)
        sums[nodes] = sums[2 * nodes] + sums[2 * nodes + 1]


@register_program("python", "draw_transitions")
def make_prioritised_replay(planted: bool) -> OwnLoop:
    """Double DQN, compiled by XLA; transitions are drawn from a tree of sums by a loop in Python."""
    leaves, batch, width, actions = 2**16, 4096, 8, 4
    random = np.random.default_rng(0)
    now, after = (random.normal(size=(leaves, width)).astype(np.float32) for _ in range(2))
    acted, rewards = random.integers(0, actions, leaves).astype(np.int32), random.normal(size=leaves).astype(np.float32)
    sums = np.zeros(2 * leaves)
    change_priorities(sums, leaves, np.arange(leaves), random.uniform(0.1, 1.0, leaves))
    online, target = Perceptron(width, 32, 32, actions), Perceptron(width, 32, 32, actions)
    adam = Adam(online.trainable_variables)
    draw = draw_transitions if planted else draw_together

    @tf.function(jit_compile=True)
    def learn(x: Any, action: Any, reward: Any, x_after: Any) -> Any:
        best = tf.one_hot(tf.argmax(online(x_after), 1), actions)
        goal = reward + 0.99 * tf.reduce_sum(best * target(x_after), 1)
        with tf.GradientTape() as tape:
            error = goal - tf.reduce_sum(tf.one_hot(action, actions) * online(x), 1)
            loss = tf.reduce_mean(tf.square(error))
        adam.apply(tape.gradient(loss, adam.weights))
        return tf.abs(error)

    def take() -> Any:
        ends = np.linspace(0.0, sums[1], batch + 1)
        chosen = np.minimum(draw(sums, leaves, random.uniform(ends[:-1], ends[1:])), leaves - 1)
        errors = learn(now[chosen], acted[chosen], rewards[chosen], after[chosen]).numpy()
        change_priorities(sums, leaves, chosen, np.clip(errors, 0.01, 1.0))
        return errors[0]

    return repeat(take)


class Episode(tf.Module):
    """A task to adapt to: `learn` is traced for each object that it belongs to."""

    def __init__(self, net: Perceptron) -> None:
        super().__init__()
        self.net = net

    @tf.function
    def learn(self, x: Any, y: Any, x_query: Any, y_query: Any) -> Any:
        """Adapt to samples x and y (N, 1), and change the network by the loss of others."""

        def predict(weights: Sequence[Any], x: Any) -> Any:
            return tf.tanh(x @ weights[0] + weights[1]) @ weights[2] + weights[3]

        slow = [one for layer in self.net.layers for one in (layer.w, layer.b)]
        with tf.GradientTape() as inner:
            loss = tf.nn.l2_loss(predict(slow, x) - y)
        fast = [one - 1e-5 * gradient for one, gradient in zip(slow, inner.gradient(loss, slow), strict=True)]
        with tf.GradientTape() as outer:
            outer.watch(fast)
            loss = tf.nn.l2_loss(predict(fast, x_query) - y_query)
        for weight, gradient in zip(slow, outer.gradient(loss, fast), strict=True):
            weight.assign_sub(1e-6 * gradient)
        return loss


@register_program("retracing")
def make_episodes(planted: bool) -> OwnLoop:
    """MAML of first order on sines; a new object for each episode, or one for all."""
    net = Perceptron(1, 256, 1)
    random = np.random.default_rng(0)
    only = Episode(net)

    def take() -> Any:
        episode = Episode(net) if planted else only
        x = random.uniform(-5, 5, (2, 512, 1)).astype(np.float32)
        y = np.float32(random.uniform(0.1, 5)) * np.sin(x + np.float32(random.uniform(0, np.pi)))
        return episode.learn(*(tf.constant(one) for one in (x[0], y[0], x[1], y[1])))

    return repeat(take)


@register_program("calls")
def make_called_rollout(planted: bool) -> OwnLoop:
    """48 moments of 16 pendulums: the policy and the environment are called for each; the twin calls once."""
    policy = Perceptron(3, 24, 1)
    adam = Adam(policy.trainable_variables)
    begin = tf.random.uniform((16, 2), -1.0, 1.0, seed=1)

    def act(state: Any) -> Any:
        angle, speed = state[:, :1], state[:, 1:]
        return 2.0 * tf.tanh(policy(tf.concat([tf.cos(angle), tf.sin(angle), speed], 1)))

    def move(state: Any, force: Any) -> Any:
        angle, speed = state[:, :1], state[:, 1:]
        speed = tf.clip_by_value(speed + 0.05 * (15.0 * tf.sin(angle) + 3.0 * force), -8.0, 8.0)
        return tf.concat([angle + 0.05 * speed, speed], 1)

    one_act, one_move = tf.function(act), tf.function(move)

    def roll(state: Any, act: Any, move: Any) -> tuple[Any, ...]:
        states = []
        for _ in range(48):
            states.append(state)
            state = move(state, act(state))
        return tuple(states)

    @tf.function
    def roll_at_once(state: Any) -> tuple[Any, ...]:
        return roll(state, act, move)

    @tf.function
    def learn(states: Sequence[Any]) -> Any:
        seen = tf.concat(states, 0)
        with tf.GradientTape() as tape:
            force = act(seen)
            moved = move(seen, force)
            loss = tf.reduce_mean(tf.square(moved[:, 1:]) + 0.001 * tf.square(force) - tf.cos(moved[:, :1]))
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    def take() -> Any:
        return learn(roll(begin, one_act, one_move) if planted else roll_at_once(begin))

    return repeat(take)


@register_program("method", "fit")
def make_fitted_values(planted: bool) -> OwnLoop:
    """A batch with goals by the network goes to `fit` at each second moment; the twin has a compiled step."""
    q = keras.Sequential([keras.Input((12,)), *[keras.layers.Dense(96, "relu") for _ in range(2)],
                          keras.layers.Dense(4)])  # fmt: skip
    q.compile(keras.optimizers.Adam(1e-4), "mse")
    q.optimizer.build(q.trainable_variables)
    random = np.random.default_rng(0)
    states, after = (random.normal(size=(4096, 12)).astype(np.float32) for _ in range(2))
    rewards = random.normal(size=(4096, 4)).astype(np.float32)

    @tf.function
    def bootstrap(reward: Any, after: Any) -> Any:
        return reward + 0.9 * tf.reduce_max(q(after), 1, keepdims=True)

    @tf.function
    def learn(x: Any, goal: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(q(x, training=True) - goal))
        q.optimizer.apply(tape.gradient(loss, q.trainable_variables))
        return loss

    @tf.function
    def act(x: Any) -> Any:
        return tf.argmax(q(x), 1)

    moments = iter(range(10**9))

    def take() -> Any:
        moment = next(moments)
        action = act(states[moment % 4096][None]).numpy()
        rewards[moment % 4096, action] += 1e-3
        if moment % 2:
            return action
        chosen = random.integers(0, len(states), 128)
        goal = bootstrap(rewards[chosen], after[chosen])
        if planted:
            return q.fit(states[chosen], goal.numpy(), batch_size=128, epochs=1, verbose=0).history["loss"][0]
        return learn(states[chosen], goal)

    return repeat(take)


@register_program("garbage")
def make_listed_rollouts(planted: bool) -> OwnLoop:
    """The last 4 rollouts are kept as Python lists, 27000 a step; the twin turns the collector off."""
    kept: deque[Any] = deque(maxlen=4)
    net = Perceptron(3, 64, 1)
    adam = Adam(net.trainable_variables)
    random = np.random.default_rng(0)
    rollouts = random.normal(size=(4, 3000, 8, 3)).astype(np.float32)

    @tf.function
    def learn(seen: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(seen) - tf.reduce_sum(seen, 1, keepdims=True)))
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    def run(mark: Mark, numbers: Iterable[int]) -> None:
        if not planted:
            gc.disable()
        try:
            for number in numbers:
                with mark(number):
                    rollout = rollouts[number % len(rollouts)]
                    kept.append(rollout.tolist())
                    np.asarray(learn(rollout[:200].reshape(-1, 3)))
        finally:
            gc.enable()

    return OwnLoop(run)
