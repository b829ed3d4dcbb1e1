"""Loops with one planted cause each, written by someone who had not read the rules: samplers, flows and agents."""

import gc
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.loops import repeat
from benchmarks.diagnosis.program import Mark, OwnLoop, register_program
from benchmarks.diagnosis.unseen_parts import FLOAT, Adam, Perceptron


class Hamiltonian:
    """Chains of a logistic regression's weights (chains, width), which move by their slopes."""

    def __init__(self, rows: int, width: int, size: float) -> None:
        random = np.random.default_rng(0)
        self.turned = tf.constant(random.normal(size=(width, rows)), FLOAT)
        self.plain = tf.transpose(self.turned)
        self.labels, self.size = tf.constant(random.integers(0, 2, (1, rows)), FLOAT), size

    def _pull(self, place: Any) -> Any:
        return (self.labels - tf.sigmoid(place @ self.turned)) @ self.plain - place

    def _weigh(self, place: Any, speed: Any) -> Any:
        logits = place @ self.turned
        fit = tf.reduce_sum(self.labels * logits - tf.nn.softplus(logits), 1)
        return fit - 0.5 * tf.reduce_sum(tf.square(place) + tf.square(speed), 1)

    def begin(self, place: Any) -> tuple[Any, Any]:
        """Speeds, and the energy."""
        speed = tf.random.normal(place.shape)
        return speed + 0.5 * self.size * self._pull(place), self._weigh(place, speed)

    def move(self, place: Any, speed: Any) -> tuple[Any, Any]:
        """One leapfrog."""
        place = place + self.size * speed
        return place, speed + self.size * self._pull(place)

    def finish(self, old: Any, before: Any, place: Any, speed: Any) -> tuple[Any, Any]:
        """Where the chains are then, and the share that has moved."""
        gain = self._weigh(place, speed - 0.5 * self.size * self._pull(place)) - before
        moves = tf.math.log(tf.random.uniform((len(place),), 1e-9)) < gain
        return tf.where(moves[:, None], place, old), tf.reduce_mean(tf.cast(moves, FLOAT))


@register_program("calls")
def make_leapfrog_sampler(planted: bool) -> OwnLoop:
    """Hamiltonian Monte Carlo of a logistic regression: each leapfrog is a call; the twin calls once a trajectory."""
    leaps, chains = 24, Hamiltonian(1500, 16, 0.01)
    kept = {"place": tf.zeros((8, 16))}
    begin, leap, finish = (tf.function(one) for one in (chains.begin, chains.move, chains.finish))

    def travel(old: Any) -> tuple[Any, Any]:
        speed, before = begin(old)
        place = old
        for _ in range(leaps):
            place, speed = leap(place, speed)
        moved: tuple[Any, Any] = finish(old, before, place, speed)
        return moved

    at_once = tf.function(travel)

    def take() -> Any:
        kept["place"], share = travel(kept["place"]) if planted else at_once(kept["place"])
        return share

    return repeat(take)


@register_program("eager")
def make_slow_teacher(planted: bool) -> OwnLoop:
    """BYOL, whose teacher follows the student by an average of weights in Python; the twin does it in the step."""
    sizes = (32, *[64] * 9, 32)
    student, teacher, guess = Perceptron(*sizes), Perceptron(*sizes), Perceptron(32, 64, 32)
    adam = Adam([*student.trainable_variables, *guess.trainable_variables])
    pairs = list(zip(teacher.trainable_variables, student.trainable_variables, strict=True))
    rows = tf.constant(np.random.default_rng(0).normal(size=(64, 32)), FLOAT)

    def follow() -> Any:
        drift = []
        for slow, fast in pairs:
            slow.assign(0.996 * slow + 0.004 * fast)
            drift.append(tf.norm(fast - slow))
        return tf.add_n(drift)

    def compare(left: Any, right: Any) -> Any:
        left, right = tf.math.l2_normalize(left, 1), tf.math.l2_normalize(right, 1)
        return 2.0 - 2.0 * tf.reduce_mean(tf.reduce_sum(left * right, 1))

    @tf.function
    def learn(rows: Any) -> tuple[Any, Any]:
        views = tf.concat([rows + 0.1 * tf.random.normal(rows.shape) for _ in range(2)], 0)
        goal = tf.roll(teacher(views), 64, 0)
        with tf.GradientTape() as tape:
            loss = compare(guess(student(views)), goal)
        adam.apply(tape.gradient(loss, adam.weights))
        return loss, tf.constant(0.0) if planted else follow()

    def take() -> Any:
        loss, drift = learn(rows)
        if planted:
            drift = follow()
        return loss + drift

    return repeat(take)


@register_program("retracing")
def make_balanced_losses(planted: bool) -> OwnLoop:
    """A physics-informed net whose step is built anew with the new weights of its two losses; the twin passes them."""
    net = Perceptron(1, 96, 96, 1)
    adam = Adam(net.trainable_variables)
    points = tf.constant(np.linspace(0.0, 3.0, 512)[:, None], FLOAT)
    origin = tf.zeros((1, 1))
    kept = {"inside": 1.0, "edge": 1.0}

    def learn(inside_weight: Any, edge_weight: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(points)
                value = net(points)
            slope = inner.gradient(value, points)
            inside = tf.reduce_mean(tf.square(slope + value - tf.sin(points)))
            edge = tf.reduce_mean(tf.square(net(origin) - 1.0))
            loss = inside_weight * inside + edge_weight * edge
        adam.apply(outer.gradient(loss, adam.weights))
        return inside, edge

    def build_step(inside_weight: float, edge_weight: float) -> Any:
        @tf.function
        def step() -> Any:
            return learn(inside_weight, edge_weight)

        return step

    passed = tf.function(learn)

    def take() -> Any:
        if planted:
            inside, edge = build_step(kept["inside"], kept["edge"])()
        else:
            inside, edge = passed(tf.constant(kept["inside"]), tf.constant(kept["edge"]))
        total = float(inside) + float(edge) + 1e-9
        kept["inside"] = 0.9 * kept["inside"] + 0.1 * 2.0 * float(edge) / total
        kept["edge"] = 0.9 * kept["edge"] + 0.1 * 2.0 * float(inside) / total
        return inside

    return repeat(take)


@register_program("conversion")
def make_listed_replay(planted: bool) -> OwnLoop:
    """Soft actor-critic; the drawn transitions are a list of tuples, of which tensors are made; the twin has arrays."""
    count, batch, width, actions = 5000, 192, 40, 4
    random = np.random.default_rng(0)
    before, after = (random.normal(size=(count, width)).astype(np.float32) for _ in range(2))
    acted = random.uniform(-1, 1, (count, actions)).astype(np.float32)
    rewards = random.normal(size=count).astype(np.float32)
    buffer = [(before[n], acted[n], float(rewards[n]), after[n]) for n in range(count)]
    actor = Perceptron(width, 64, 2 * actions)
    critics, targets = ([Perceptron(width + actions, 64, 1) for _ in range(2)] for _ in range(2))
    critic_weights = [one for critic in critics for one in critic.trainable_variables]
    target_weights = [one for critic in targets for one in critic.trainable_variables]
    actor_adam, critic_adam = Adam(actor.trainable_variables), Adam(critic_weights)

    def act(x: Any) -> tuple[Any, Any]:
        mean, spread = tf.split(actor(x), 2, 1)
        spread = tf.clip_by_value(spread, -5.0, 1.0)
        noise = tf.random.normal((batch, actions))
        action = tf.tanh(mean + tf.exp(spread) * noise)
        chance = -0.5 * tf.square(noise) - spread - tf.math.log(1.0 - tf.square(action) + 1e-6)
        return action, tf.reduce_sum(chance, 1)

    def critic(nets: Any, x: Any, action: Any) -> Any:
        both = tf.concat([x, action], 1)
        return tf.stack([net(both)[:, 0] for net in nets])

    @tf.function
    def learn(x: Any, action: Any, reward: Any, x_after: Any) -> Any:
        next_action, chance = act(x_after)
        goal = reward + 0.99 * (tf.reduce_min(critic(targets, x_after, next_action), 0) - 0.1 * chance)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(critic(critics, x, action) - goal))
        critic_adam.apply(tape.gradient(loss, critic_adam.weights))
        with tf.GradientTape() as tape:
            new, chance = act(x)
            actor_loss = tf.reduce_mean(0.1 * chance - tf.reduce_min(critic(critics, x, new), 0))
        actor_adam.apply(tape.gradient(actor_loss, actor_adam.weights))
        for slow, fast in zip(target_weights, critic_weights, strict=True):
            slow.assign(0.995 * slow + 0.005 * fast)
        return loss

    def take() -> Any:
        chosen = random.integers(0, count, batch)
        if planted:
            parts = [tf.convert_to_tensor([buffer[n][place] for n in chosen], FLOAT) for place in range(4)]
        else:
            parts = [tf.convert_to_tensor(one[chosen]) for one in (before, acted, rewards, after)]
        return learn(*parts)

    return repeat(take)


@register_program("garbage")
def make_collected_chains(planted: bool) -> OwnLoop:
    """An energy-based model with Langevin chains, and gc.collect() at each fourth step for fear of a leak."""
    net = Perceptron(16, 64, 64, 1)
    adam = Adam(net.trainable_variables)
    chains = tf.Variable(tf.random.normal((128, 16), seed=1))
    rows = tf.constant(np.random.default_rng(0).normal(size=(128, 16)), FLOAT)

    @tf.function
    def learn(rows: Any) -> Any:
        place = chains.value()
        for _ in range(8):
            with tf.GradientTape() as tape:
                tape.watch(place)
                energy = tf.reduce_sum(net(place))
            place = place - 0.02 * tape.gradient(energy, place) - 0.01 * place + 0.1 * tf.random.normal(place.shape)
        chains.assign(place)
        with tf.GradientTape() as tape:
            real, made = net(rows), net(place)
            loss = tf.reduce_mean(real - made) + 0.1 * tf.reduce_mean(tf.square(real) + tf.square(made))
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    def run(mark: Mark, numbers: Iterable[int]) -> None:
        for number in numbers:
            with mark(number):
                np.asarray(learn(rows))
                if planted and number % 4 == 3:
                    gc.collect()

    return OwnLoop(run)


@register_program("constants")
def make_inducing_points(planted: bool) -> OwnLoop:
    """A sparse Gaussian process: points and kernel stay, but their factor is found in each step."""
    inducing, width, count, batch = 360, 4, 4096, 96
    random = np.random.default_rng(0)
    places = tf.constant(random.uniform(-2, 2, (inducing, width)), FLOAT)
    x = random.uniform(-2, 2, (count, width)).astype(np.float32)
    y = np.sin(x.sum(1)).astype(np.float32)
    mean, spread = tf.Variable(tf.zeros((inducing, 1))), tf.Variable(tf.zeros((inducing, 1)))
    noise = tf.Variable(0.0)
    adam = Adam([mean, spread, noise], 1e-3)

    def compare(left: Any, right: Any) -> Any:
        squares = tf.reduce_sum(tf.square(left), 1)[:, None] + tf.reduce_sum(tf.square(right), 1)
        return tf.exp(-0.5 * tf.nn.relu(squares - 2.0 * tf.matmul(left, right, transpose_b=True)))

    def factorize() -> Any:
        return tf.linalg.cholesky(compare(places, places) + 1e-3 * tf.eye(inducing))

    ready = factorize()

    @tf.function
    def step(x: Any, y: Any) -> Any:
        factor = factorize() if planted else ready
        cross = tf.linalg.triangular_solve(factor, compare(places, x))
        with tf.GradientTape() as tape:
            guess = tf.reduce_sum(cross * mean, 0)
            doubt = 1.0 - tf.reduce_sum(tf.square(cross), 0) + tf.reduce_sum(tf.square(cross * tf.exp(spread)), 0)
            fit = -0.5 * (noise + (tf.square(y - guess) + doubt) * tf.exp(-noise))
            prior = 0.5 * tf.reduce_sum(tf.square(mean) + tf.exp(2.0 * spread) - 1.0 - 2.0 * spread)
            loss = prior / count - tf.reduce_mean(fit)
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    def take() -> Any:
        chosen = random.integers(0, count, batch)
        return step(tf.constant(x[chosen]), tf.constant(y[chosen]))

    return repeat(take)
