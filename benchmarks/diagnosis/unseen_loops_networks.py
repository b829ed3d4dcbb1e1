"""Loops with one planted cause each, written by someone who had not read the rules: texts, pictures and replicas."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.loops import repeat
from benchmarks.diagnosis.program import OwnLoop, register_program
from benchmarks.diagnosis.strategies import make_strategy
from benchmarks.diagnosis.unseen_parts import FLOAT, Adam, Linear, Perceptron


class Decoder(tf.Module):
    """Words, a gated state, and the logits of the next word."""

    def __init__(self, words: int = 60, units: int = 48) -> None:
        super().__init__()
        self.table = tf.Variable(tf.random.normal((words, units), seed=1))
        self.gate, self.new, self.out = Linear(2 * units, units), Linear(2 * units, units), Linear(units, words)

    def __call__(self, word: Any, state: Any) -> tuple[Any, Any]:
        """Logits of the next word (B, words) and the new state (B, units), of a word (B) and a state."""
        both = tf.concat([tf.gather(self.table, word), state], -1)
        gate = tf.sigmoid(self.gate(both))
        state = gate * state + (1 - gate) * tf.tanh(self.new(both))
        return self.out(state), state


@register_program("eager")
def make_beam_search(planted: bool) -> OwnLoop:
    """Self-training on the best of 5 beams; the search is not in a tf.function."""
    batch, beams, length, words, units = 8, 5, 16, 60, 48
    decoder = Decoder(words, units)
    adam = Adam(decoder.trainable_variables)
    start = tf.random.normal((batch, units), seed=1)

    def search(start: Any) -> Any:
        state = tf.repeat(start, beams, 0)
        word = tf.zeros((batch * beams,), tf.int32)
        scores = tf.tile(tf.constant([[0.0] + [-1e9] * (beams - 1)]), [batch, 1])
        said = tf.zeros((batch, beams, 0), tf.int32)
        for _ in range(length):
            logits, state = decoder(word, state)
            total = scores[:, :, None] + tf.reshape(tf.nn.log_softmax(logits), (batch, beams, words))
            scores, best = tf.math.top_k(tf.reshape(total, (batch, beams * words)), beams)
            origin, chosen = best // words, best % words
            said = tf.concat([tf.gather(said, origin, batch_dims=1), chosen[:, :, None]], 2)
            state = tf.reshape(
                tf.gather(tf.reshape(state, (batch, beams, units)), origin, batch_dims=1), (batch * beams, units)
            )
            word = tf.reshape(chosen, (-1,))
        return said[:, 0]

    @tf.function
    def learn(start: Any, said: Any) -> Any:
        with tf.GradientTape() as tape:
            state, word, loss = start, tf.zeros((batch,), tf.int32), 0.0
            for place in range(length):
                logits, state = decoder(word, state)
                word = said[:, place]
                loss += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=word, logits=logits))
        adam.apply([tf.convert_to_tensor(one) for one in tape.gradient(loss, adam.weights)])
        return loss

    find = search if planted else tf.function(search)

    def take() -> Any:
        return learn(start, find(start))

    return repeat(take)


@register_program("straggler", devices=2)
def make_first_replica_statistics(planted: bool) -> OwnLoop:
    """Replica 0 finds the eigenvalues of its features' covariance in each step; the twin does without."""
    strategy = make_strategy()
    with strategy.scope():
        kernel = tf.Variable(tf.random.normal((96, 448), stddev=0.1, seed=1))
        head = tf.Variable(tf.random.normal((448, 1), stddev=0.1, seed=2))
        optimizer = keras.optimizers.SGD(1e-3)
        optimizer.build([kernel, head])
    random = np.random.default_rng(0)
    x, y = random.normal(size=(1024, 96)).astype(np.float32), random.normal(size=(1024, 1)).astype(np.float32)

    def give(context: Any) -> Any:
        return tf.constant(x), tf.constant(y)

    batch = strategy.experimental_distribute_values_from_function(give)

    def work(mine: Any) -> tuple[Any, Any]:
        x, y = mine
        with tf.GradientTape() as tape:
            hidden = tf.tanh(x @ kernel)
            loss = tf.reduce_mean(tf.square(hidden @ head - y))
        first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
        spread = tf.constant(0.0)
        if planted and first:
            centred = hidden - tf.reduce_mean(hidden, 0)
            spread = tf.reduce_max(tf.linalg.eigvalsh(tf.matmul(centred, centred, transpose_a=True)))
        gradients = tape.gradient(loss, [kernel, head])
        scale = 1.0 / (1.0 + 1e-3 * spread)
        optimizer.apply([scale * one for one in gradients], [kernel, head])
        return loss, spread

    @tf.function
    def step() -> Any:
        loss, spread = strategy.run(work, args=(batch,))
        return strategy.reduce("MEAN", loss, None) + 0.0 * strategy.reduce("SUM", spread, None)

    return repeat(step)


@register_program("half_precision")
def make_diffusion_half(planted: bool) -> OwnLoop:
    """A denoiser of convolutions whose inputs and kernels are cast to float16."""
    kind = tf.float16 if planted else FLOAT
    shapes = [(3, 3, 3, 24), (3, 3, 24, 24), (3, 3, 24, 3)]
    kernels = [tf.Variable(tf.random.normal(shape, stddev=0.05, seed=1)) for shape in shapes]
    adam = Adam(kernels)
    images = tf.constant(np.random.default_rng(0).normal(size=(6, 16, 16, 3)), FLOAT)
    kept = tf.constant(np.linspace(0.99, 0.1, 100), FLOAT)

    @tf.function
    def step(images: Any) -> Any:
        share = tf.gather(kept, tf.random.uniform((len(images), 1, 1, 1), 0, 100, tf.int32))
        noise = tf.random.normal(images.shape)
        noisy = tf.sqrt(share) * images + tf.sqrt(1 - share) * noise
        with tf.GradientTape() as tape:
            value = tf.cast(noisy, kind)
            for kernel in kernels[:-1]:
                value = tf.nn.relu(tf.nn.conv2d(value, tf.cast(kernel, kind), 1, "SAME"))
            value = tf.nn.conv2d(value, tf.cast(kernels[-1], kind), 1, "SAME")
            loss = tf.reduce_mean(tf.square(tf.cast(value, FLOAT) - noise))
        adam.apply(tape.gradient(loss, kernels))
        return loss

    def take() -> Any:
        return step(images)

    return repeat(take)


@register_program("conversion")
def make_gan_whole_data(planted: bool) -> OwnLoop:
    """Two optimizers; all images and labels go into each call, which takes 48 of them by their indices."""
    count, batch, pixels = 16_000, 48, 16 * 16 * 3
    random = np.random.default_rng(0)
    data: dict[str, Any] = {
        "image": random.uniform(-1, 1, (count, pixels)).astype(np.float32),
        "label": np.eye(10, dtype=np.float32)[random.integers(0, 10, count)],
    }
    if not planted:
        data = {name: tf.constant(value) for name, value in data.items()}
    generator, critic = Perceptron(42, 96, pixels), Perceptron(pixels + 10, 96, 1)
    generator_adam, critic_adam = Adam(generator.trainable_variables), Adam(critic.trainable_variables)

    @tf.function
    def step(data: Any, chosen: Any) -> Any:
        real, label = tf.gather(data["image"], chosen), tf.gather(data["label"], chosen)
        noise = tf.random.normal((batch, 32))
        with tf.GradientTape(persistent=True) as tape:
            made = tf.tanh(generator(tf.concat([noise, label], 1)))
            good, bad = (critic(tf.concat([one, label], 1)) for one in (real, made))
            critic_loss = tf.reduce_mean(tf.nn.softplus(-good) + tf.nn.softplus(bad))
            generator_loss = tf.reduce_mean(tf.nn.softplus(-bad))
        critic_adam.apply(tape.gradient(critic_loss, critic_adam.weights))
        generator_adam.apply(tape.gradient(generator_loss, generator_adam.weights))
        return critic_loss

    def take() -> Any:
        return step(data, tf.constant(random.integers(0, count, batch)))

    return repeat(take)
