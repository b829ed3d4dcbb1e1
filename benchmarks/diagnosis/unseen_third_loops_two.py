"""Loops with one planted cause each, written by someone who had not read the rules: actors, shops and molecules."""

from itertools import count, pairwise
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.diagnosis.loops import repeat
from benchmarks.diagnosis.program import OwnLoop, register_program
from benchmarks.diagnosis.unseen_parts import Adam, Perceptron

DISCOUNT, TRACE = 0.99, 0.95


def estimate_advantages(rewards: Any, values: Any, ends: Any) -> Any:
    """Generalised advantages (T, N), one by one; values has one moment more."""
    moments, actors = rewards.shape
    advantages = np.zeros_like(rewards)
    for actor in range(actors):
        running = 0.0
        for moment in reversed(range(moments)):
            goes_on = 1.0 - ends[moment, actor]
            after = DISCOUNT * goes_on * values[moment + 1, actor]
            error = rewards[moment, actor] + after - values[moment, actor]
            running = error + DISCOUNT * TRACE * goes_on * running
            advantages[moment, actor] = running
    return advantages


def estimate_together(rewards: Any, values: Any, ends: Any) -> Any:
    """The same for all actors at once."""
    goes_on = DISCOUNT * (1.0 - ends)
    errors = rewards + goes_on * values[1:] - values[:-1]
    running = np.zeros_like(rewards[0])
    advantages = np.empty_like(rewards)
    for moment in reversed(range(len(rewards))):
        running = errors[moment] + TRACE * goes_on[moment] * running
        advantages[moment] = running
    return advantages


@register_program("python", "estimate_advantages")
def make_advantages_one_by_one(planted: bool) -> OwnLoop:
    """PPO with 48 actors: the advantages are estimated by two loops in Python, or by one for all actors."""
    moments, actors, width, actions = 64, 48, 8, 4
    random = np.random.default_rng(0)
    policy, critic = Perceptron(width, 64, 64, actions), Perceptron(width, 64, 64, 1)
    adam = Adam([*policy.trainable_variables, *critic.trainable_variables])
    states = tf.constant(random.normal(size=(moments + 1, actors, width)).astype(np.float32))
    acted = tf.constant(random.integers(0, actions, moments * actors).astype(np.int32))
    rewards = random.normal(size=(moments, actors)).astype(np.float32)
    ends = (random.random((moments, actors)) < 0.02).astype(np.float32)
    before = tf.fill((moments * actors,), -float(np.log(actions)))
    estimate = estimate_advantages if planted else estimate_together

    @tf.function
    def evaluate(states: Any) -> Any:
        return tf.reshape(critic(tf.reshape(states, (-1, width))), (moments + 1, actors))

    @tf.function
    def learn(x: Any, action: Any, before: Any, advantage: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            chance = -tf.nn.sparse_softmax_cross_entropy_with_logits(action, policy(x))
            ratio = tf.exp(chance - before)
            gain = tf.minimum(ratio * advantage, tf.clip_by_value(ratio, 0.8, 1.2) * advantage)
            loss = 0.5 * tf.reduce_mean(tf.square(critic(x)[:, 0] - wanted)) - tf.reduce_mean(gain)
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    seen = tf.reshape(states[:-1], (-1, width))

    def take() -> Any:
        values = evaluate(states).numpy()
        advantages = estimate(rewards, values, ends)
        wanted = (advantages + values[:-1]).reshape(-1)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        return learn(seen, acted, before, advantages.reshape(-1), wanted)

    return repeat(take)


class ListedMemory:
    """Transitions as they come from the environment: a tuple of each."""

    def __init__(self, states: Any, actions: Any, rewards: Any) -> None:
        self.rows = [(states[one], actions[one], rewards[one], states[one + 1]) for one in range(len(actions))]

    def put(self, place: int, transition: tuple[Any, ...]) -> None:
        """A new transition in the place of an old one."""
        self.rows[place] = transition

    def draw(self, chosen: Any) -> tuple[Any, ...]:
        """States, actions, rewards and states after of those chosen."""
        return tuple(tf.constant(list(part)) for part in zip(*[self.rows[one] for one in chosen], strict=True))


class ArrayMemory:
    """An array of each part of the transitions."""

    def __init__(self, states: Any, actions: Any, rewards: Any) -> None:
        self.parts = (states[:-1].copy(), actions.copy(), rewards.copy(), states[1:].copy())

    def put(self, place: int, transition: tuple[Any, ...]) -> None:
        """A new transition in the place of an old one."""
        for part, one in zip(self.parts, transition, strict=True):
            part[place] = one

    def draw(self, chosen: Any) -> tuple[Any, ...]:
        """States, actions, rewards and states after of those chosen."""
        return tuple(tf.constant(part[chosen]) for part in self.parts)


@register_program("conversion")
def make_transitions_in_tuples(planted: bool) -> OwnLoop:
    """Double DQN of a robot: tensors are made of lists of arrays, or of arrays."""
    size, batch, width, actions = 4096, 384, 24, 6
    random = np.random.default_rng(1)
    states = random.normal(size=(size + 1, width)).astype(np.float32)
    acted, rewards = random.integers(0, actions, size).astype(np.int32), random.normal(size=size).astype(np.float32)
    memory = (ListedMemory if planted else ArrayMemory)(states, acted, rewards)
    online, target = Perceptron(width, 128, 128, actions), Perceptron(width, 128, 128, actions)
    adam = Adam(online.trainable_variables)
    moments = count()

    @tf.function
    def act(state: Any) -> Any:
        return tf.argmax(online(state[None])[0], output_type=tf.int32)

    @tf.function
    def learn(x: Any, action: Any, reward: Any, after: Any) -> Any:
        best = tf.argmax(online(after), 1)
        goal = reward + 0.99 * tf.gather(target(after), best, batch_dims=1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(goal - tf.gather(online(x), action, batch_dims=1)))
        adam.apply(tape.gradient(loss, adam.weights))
        for old, new in zip(target.trainable_variables, online.trainable_variables, strict=True):
            old.assign(0.995 * old + 0.005 * new)
        return loss

    def take() -> Any:
        place = next(moments) % size
        action = np.int32(act(tf.constant(states[place])))
        memory.put(place, (states[place], action, rewards[place], states[place + 1]))
        return learn(*memory.draw(random.integers(0, size, batch)))

    return repeat(take)


class StackedPerceptron(tf.Module):
    """Perceptrons of as many shops, the weights of which are stacked."""

    def __init__(self, shops: int, *sizes: int) -> None:
        super().__init__()
        pairs = list(pairwise(sizes))
        self.w = [tf.Variable(tf.random.normal((shops, *pair), stddev=pair[0] ** -0.5, seed=1)) for pair in pairs]
        self.b = [tf.Variable(tf.zeros((shops, 1, pair[1]))) for pair in pairs]

    def __call__(self, x: Any) -> Any:
        """x (shops, B, the first size)."""
        for w, b in zip(self.w[:-1], self.b[:-1], strict=True):
            x = tf.tanh(x @ w + b)
        return x @ self.w[-1] + self.b[-1]


class Forecaster(tf.Module):
    """The sales of a shop, or of many, learned by quantiles."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net
        self.adam = Adam(net.trainable_variables)

    @tf.function
    def learn(self, x: Any, y: Any) -> Any:
        """One step; x (..., days, features), y (..., days, 1)."""
        with tf.GradientTape() as tape:
            error = y - self.net(x)
            each = tf.reduce_mean(tf.maximum(0.7 * error, -0.3 * error), (-2, -1))
            loss = tf.reduce_sum(each)
        self.adam.apply(tape.gradient(loss, self.adam.weights))
        return each


@register_program("calls")
def make_forecaster_of_each_shop(planted: bool) -> OwnLoop:
    """24 shops with a small network each: a step of each is a call; the twin has them stacked, in one call."""
    shops, sizes = 24, (16, 48, 1)
    x = tf.random.normal((shops, 384, 16), seed=4)
    y = tf.reduce_sum(tf.tanh(x), -1, keepdims=True)
    parts = list(zip(tf.unstack(x), tf.unstack(y), strict=True))
    each = [Forecaster(Perceptron(*sizes)) for _ in range(shops if planted else 0)]
    together = Forecaster(StackedPerceptron(shops, *sizes))

    def take() -> Any:
        if not planted:
            return together.learn(x, y)
        return [one.learn(*part) for one, part in zip(each, parts, strict=True)]

    return repeat(take)


def draw_molecules(count: int, atoms: int) -> tuple[Any, ...]:
    """Distances between atoms, the kinds of atoms, and measured levels of energy."""
    random = np.random.default_rng(atoms)
    places = random.uniform(0.0, 5.0, (count, atoms, 3))
    distances = np.sqrt(np.square(places[:, :, None] - places[:, None]).sum(-1))
    levels = np.sort(random.normal(size=(count, atoms)), -1)
    kinds = np.eye(4)[random.integers(0, 4, (count, atoms))]
    return tuple(tf.constant(one.astype(np.float32)) for one in (distances, kinds, levels))


class TightBinding:
    """Levels of molecules, from couplings that depend on distances."""

    def __init__(self) -> None:
        self.coupling = keras.Sequential([keras.Input((None, None, 4)), layers.Dense(1, use_bias=False)])
        self.onsite = keras.Sequential([keras.Input((None, 4)), layers.Dense(1, use_bias=False)])
        self.weights = [*self.coupling.trainable_weights, *self.onsite.trainable_weights]

    def __call__(self, distances: Any, kinds: Any) -> Any:
        """distances (B, atoms, atoms), kinds (B, atoms, 4); levels (B, atoms)."""
        near = tf.exp(-tf.square(distances[..., None] - tf.constant([0.5, 1.0, 1.5, 2.0])))
        energies = tf.linalg.set_diag(self.coupling(near)[..., 0], self.onsite(kinds)[..., 0])
        return tf.linalg.eigh(energies)[0]


@register_program("straggler", devices=2)
def make_molecules_by_size(planted: bool) -> OwnLoop:
    """One replica has the large molecules and the other the small; in the twin each has half of both."""
    strategy = tf.distribute.MirroredStrategy([one.name for one in tf.config.list_logical_devices("CPU")])
    with strategy.scope():
        net = TightBinding()
        adam = keras.optimizers.Adam(1e-4)
        adam.build(net.weights)
    large, small = draw_molecules(24, 80), draw_molecules(24, 20)
    halves = [[tuple(part[where::2] for part in group) for group in (large, small)] for where in range(2)]
    parts = [[large], [small]] if planted else halves
    batch = strategy.experimental_distribute_values_from_function(lambda here: parts[here.replica_id_in_sync_group])

    def learn_part(groups: list[Any]) -> Any:
        with tf.GradientTape() as tape:
            loss = 0.0
            for distances, kinds, levels in groups:
                loss += tf.reduce_sum(tf.abs(net(distances, kinds) - levels)) / 2400.0
        adam.apply(tape.gradient(loss, net.weights), net.weights)
        return loss

    @tf.function
    def learn(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(learn_part, args=(batch,)), axis=None)

    return repeat(lambda: learn(batch))
