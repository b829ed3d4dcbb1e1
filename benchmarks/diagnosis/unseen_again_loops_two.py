"""Loops with one planted cause each, written by someone who had not read the rules: speech, rows, graphs, replicas."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.loops import repeat
from benchmarks.diagnosis.program import OwnLoop, register_program
from benchmarks.diagnosis.unseen_parts import FLOAT, Adam, Perceptron


@register_program("input", "Map")
def make_spectrogram_pipeline(planted: bool) -> OwnLoop:
    """Keywords in speech: the spectrograms are made in each epoch; the twin keeps them in a cache."""
    count, batch, samples, bands, kinds = 64, 16, 8000, 40, 12
    random = np.random.default_rng(0)
    waves = random.normal(size=(count, samples)).astype(np.float32)
    labels = random.integers(0, kinds, count)
    mel = tf.signal.linear_to_mel_weight_matrix(bands, 257, 8000, 60.0, 3800.0)

    def analyse(wave: Any, label: Any) -> tuple[Any, Any]:
        spectrum = tf.abs(tf.signal.stft(wave, 400, 100, 512))
        bands_now = tf.math.log(spectrum @ mel + 1e-6)
        centred = bands_now - tf.reduce_mean(bands_now, 0)
        return centred / (tf.math.reduce_std(bands_now, 0) + 1e-3), label

    data = tf.data.Dataset.from_tensor_slices((waves, labels)).map(analyse)
    if not planted:
        data = data.cache()
    batches = iter(data.repeat().batch(batch, drop_remainder=True).prefetch(2))
    frames = 1 + (samples - 400) // 100
    net = Perceptron(frames * bands, 96, kinds)
    adam = Adam(net.trainable_variables)

    @tf.function
    def step(sound: Any, label: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = net(tf.reshape(sound, (batch, frames * bands)))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    def take() -> Any:
        return step(*next(batches))

    return repeat(take)


@register_program("input", "Shuffle")
def make_fresh_episodes(planted: bool) -> OwnLoop:
    """Prototypical nets whose episode is the first batch of a new iterator that shuffles; the twin keeps one."""
    rows, batch, width, kinds = 8000, 192, 64, 10
    random = np.random.default_rng(0)
    x, y = random.normal(size=(rows, width)).astype(np.float32), random.integers(0, kinds, rows)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(rows).repeat().batch(batch, drop_remainder=True)
    only = iter(data)
    net = Perceptron(width, 128, 128, 32)
    adam = Adam(net.trainable_variables)

    @tf.function
    def learn(x: Any, y: Any) -> Any:
        support, query = tf.split(tf.one_hot(y, kinds), 2)
        with tf.GradientTape() as tape:
            known, asked = tf.split(net(x), 2)
            middle = tf.matmul(support, known, transpose_a=True) / (tf.reduce_sum(support, 0)[:, None] + 1e-3)
            far = tf.reduce_sum(tf.square(asked[:, None] - middle), 2)
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=query, logits=-far))
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    def take() -> Any:
        return learn(*next(iter(data) if planted else only))

    return repeat(take)


@register_program("table_update")
def make_decayed_factors(planted: bool) -> OwnLoop:
    """Matrix factorization with pairs of items: the penalty is on both tables; the twin's is on the rows in use."""
    users, items, width, batch = 60_000, 20_000, 16, 1024
    random = np.random.default_rng(0)
    tables = [tf.Variable(tf.random.normal((rows, width), stddev=0.1, seed=1)) for rows in (users, items)]

    @tf.function
    def step(user: Any, liked: Any, other: Any) -> Any:
        with tf.GradientTape() as tape:
            who = tf.gather(tables[0], user)
            good, bad = tf.gather(tables[1], liked), tf.gather(tables[1], other)
            loss = tf.reduce_mean(tf.nn.softplus(tf.reduce_sum(who * (bad - good), 1)))
            used = tables if planted else [who, good, bad]
            loss += 1e-5 * tf.add_n([tf.nn.l2_loss(one) for one in used])
        for table, gradient in zip(tables, tape.gradient(loss, tables), strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                table.scatter_sub(tf.IndexedSlices(0.05 * gradient.values, gradient.indices))
            else:
                table.assign_sub(0.05 * gradient)
        return loss

    def take() -> Any:
        user = random.integers(0, users, batch).astype(np.int32)
        liked, other = random.integers(0, items, (2, batch)).astype(np.int32)
        return step(user, liked, other)

    return repeat(take)


@register_program("py_function")
def make_drawn_neighbours(planted: bool) -> OwnLoop:
    """GraphSAGE whose neighbours are drawn by NumPy in the compiled step; the twin draws by TensorFlow."""
    nodes, most, width, batch, drawn, kinds = 20_000, 30, 32, 384, 10, 8
    random = np.random.default_rng(0)
    degrees = random.integers(3, most + 1, nodes).astype(np.int32)
    table = random.integers(0, nodes, (nodes, most)).astype(np.int32)
    neighbours = [row[:degree] for row, degree in zip(table, degrees, strict=True)]
    features = tf.constant(random.normal(size=(nodes, width)), FLOAT)
    all_neighbours, all_degrees = tf.constant(table), tf.constant(degrees)
    labels = tf.constant(random.integers(0, kinds, nodes))
    net = Perceptron(2 * width, 96, kinds)
    adam = Adam(net.trainable_variables)

    def draw_neighbours(seeds: Any) -> Any:
        return np.stack([random.choice(neighbours[seed], drawn) for seed in seeds])

    @tf.function
    def step(seeds: Any) -> Any:
        if planted:
            near = tf.ensure_shape(tf.numpy_function(draw_neighbours, [seeds], tf.int32), (batch, drawn))
        else:
            degree = tf.cast(tf.gather(all_degrees, seeds), FLOAT)[:, None]
            which = tf.cast(tf.random.uniform((batch, drawn)) * degree, tf.int32)
            near = tf.gather_nd(all_neighbours, tf.stack([tf.repeat(seeds[:, None], drawn, 1), which], 2))
        around = tf.reduce_mean(tf.gather(features, near), 1)
        with tf.GradientTape() as tape:
            logits = net(tf.concat([tf.gather(features, seeds), around], 1))
            goal = tf.gather(labels, seeds)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=goal, logits=logits))
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    def take() -> Any:
        return step(tf.constant(random.integers(0, nodes, batch).astype(np.int32)))

    return repeat(take)


@register_program("short_operations")
def make_looped_experts(planted: bool) -> OwnLoop:
    """A mixture of 64 experts, each with its own multiplications; the twin multiplies for all at once."""
    experts, width, units, batch = 64, 16, 24, 48
    first = tf.Variable(tf.random.normal((experts, width, units), stddev=0.2, seed=1))
    second = tf.Variable(tf.random.normal((experts, units, width), stddev=0.2, seed=2))
    gate, head = Perceptron(width, experts), Perceptron(width, 1)
    adam = Adam([first, second, *gate.trainable_variables, *head.trainable_variables])
    random = np.random.default_rng(0)
    rows = tf.constant(random.normal(size=(batch, width)), FLOAT)
    goals = tf.constant(random.normal(size=(batch, 1)), FLOAT)

    def mix_one_by_one(x: Any, shares: Any) -> Any:
        total = tf.zeros((batch, width))
        for place, (into, out) in enumerate(zip(tf.unstack(first), tf.unstack(second), strict=True)):
            total += shares[:, place, None] * (tf.nn.relu(x @ into) @ out)
        return total

    def mix_together(x: Any, shares: Any) -> Any:
        hidden = tf.nn.relu(tf.matmul(tf.tile(x[None], [experts, 1, 1]), first))
        return tf.reduce_sum(tf.transpose(shares)[:, :, None] * tf.matmul(hidden, second), 0)

    mix = mix_one_by_one if planted else mix_together

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(head(x + mix(x, tf.nn.softmax(gate(x)))) - y))
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    def take() -> Any:
        return step(rows, goals)

    return repeat(take)


def count_edits(said: list[int], meant: list[int]) -> int:
    """Edits from one list to the other."""
    row = list(range(len(meant) + 1))
    for place, one in enumerate(said, 1):
        corner, row[0] = row[0], place
        for column, other in enumerate(meant, 1):
            best = min(row[column] + 1, row[column - 1] + 1, corner + (one != other))
            corner, row[column] = row[column], best
    return row[-1]


@register_program("python", "count_edits")
def make_error_rate(planted: bool) -> OwnLoop:
    """CTC with the rate of errors of each batch by loops in Python; the twin has it of tf.edit_distance."""
    batch, frames, width, kinds, length = 16, 40, 26, 20, 18
    random = np.random.default_rng(0)
    sound = tf.constant(random.normal(size=(batch, frames, width)), FLOAT)
    texts = random.integers(0, kinds - 1, (batch, length)).astype(np.int32)
    places = np.stack(np.meshgrid(np.arange(batch), np.arange(length), indexing="ij"), 2).reshape(-1, 2)
    truth = tf.SparseTensor(places.astype(np.int64), texts.reshape(-1), (batch, length))
    lengths = tf.fill((batch,), frames)
    net = Perceptron(width, 64, kinds)
    adam = Adam(net.trainable_variables, 1e-7)
    meant = texts.tolist()

    @tf.function
    def step(sound: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            logits = tf.reshape(net(tf.reshape(sound, (-1, width))), (batch, frames, kinds))
            logits = tf.transpose(logits, (1, 0, 2))
            loss = tf.reduce_mean(tf.nn.ctc_loss(truth, logits, None, lengths, blank_index=-1))
        adam.apply(tape.gradient(loss, adam.weights))
        (said,), _ = tf.nn.ctc_greedy_decoder(logits, lengths)
        if planted:
            return loss, tf.sparse.to_dense(said, -1)
        return loss, tf.reduce_mean(tf.edit_distance(tf.cast(said, tf.int32), truth, normalize=True))

    def take() -> Any:
        loss, rest = step(sound)
        if planted:
            said = [[one for one in row if one >= 0] for row in rest.numpy().tolist()]
            rest = sum(count_edits(*pair) for pair in zip(said, meant, strict=True)) / (batch * length)
        return float(loss) + float(rest)

    return repeat(take)


@register_program("straggler", devices=2)
def make_one_long_document(planted: bool) -> OwnLoop:
    """Each second batch is padded to one long document, and replica 0 gets them all; the twin cuts documents."""
    batch, words, units, kinds, short, long = 16, 500, 32, 5, 64, 256
    strategy = tf.distribute.MirroredStrategy(
        ["/cpu:0", "/cpu:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )
    with strategy.scope():
        table = tf.Variable(tf.random.normal((words, units), stddev=0.1, seed=1))
        kernel = tf.Variable(tf.random.normal((5, units, 64), stddev=0.1, seed=2))
        head = tf.Variable(tf.random.normal((64, kinds), stddev=0.1, seed=3))
        optimizer = keras.optimizers.SGD(1e-3)
        optimizer.build([table, kernel, head])
    random = np.random.default_rng(0)
    sizes = random.integers(short // 2, short, 8 * batch)
    sizes[:: 2 * batch] = long
    sizes[1::batch] = short
    documents = random.integers(0, words, (len(sizes), long)).astype(np.int32)
    kept = sizes if planted else np.minimum(sizes, short)
    labels = random.integers(0, kinds, len(sizes))

    def give(context: Any) -> Any:
        data = tf.data.Dataset.from_tensor_slices((documents, kept, labels))
        data = data.map(lambda text, size, label: (text[:size], label))
        return data.padded_batch(batch, ([None], []), drop_remainder=True).cache().repeat()

    batches = iter(strategy.distribute_datasets_from_function(give))

    def work(text: Any, label: Any) -> Any:
        weights = [table, kernel, head]
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.nn.conv1d(tf.gather(table, text), kernel, 1, "SAME"))
            logits = tf.reduce_max(hidden, 1) @ head
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))
        optimizer.apply([tf.convert_to_tensor(one) for one in tape.gradient(loss, weights)], weights)
        return loss

    @tf.function
    def step(batches: Any) -> Any:
        return strategy.reduce("MEAN", strategy.run(work, args=next(batches)), None)

    def take() -> Any:
        return step(batches)

    return repeat(take)
