"""Models and data as a user would have them."""

import itertools

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def build_mlp(units=8, dropout=0.3):
    """Dropout, batch statistics, a metric."""
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(units, "relu"), layers.Dropout(dropout), layers.BatchNormalization(),
         layers.Dense(1)]
    )  # fmt: skip
    model.compile("adam", "mse", metrics=["mae"])
    return model


class Adversaries(keras.Model):
    """Two parts with an optimizer each, and a step of its own."""

    def __init__(self, **options):
        super().__init__(**options)
        self.first, self.second = layers.Dense(3, "tanh"), layers.Dense(1)
        self.other = keras.optimizers.RMSprop(0.01)
        self.tracker = keras.metrics.Mean("loss")

    def call(self, inputs, training=False):
        return self.second(self.first(inputs))

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((self(inputs, training=True) - targets) ** 2)
        for part, optimizer in ((self.first, self.optimizer), (self.second, self.other)):
            variables = part.trainable_variables
            optimizer.apply(tape.gradient(loss, variables), variables)
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


def build_adversaries():
    """Compiled with one of the optimizers."""
    return compile_model(Adversaries())


def build_two_inputs():
    """A functional model with a dict of inputs, an embedding, sample weights."""
    number, word = keras.Input((3,), name="number"), keras.Input((), dtype="int64", name="word")
    joined = layers.Concatenate()([number, layers.Embedding(5, 4)(word)])
    model = keras.Model({"number": number, "word": word}, layers.Dense(1)(layers.Dense(6, "gelu")(joined)))
    model.compile(keras.optimizers.AdamW(0.01), "huber", weighted_metrics=["mae"])
    return model


def build_weighted():
    """Two outputs whose losses weigh differently."""
    inputs = keras.Input((6,))
    model = keras.Model(inputs, {"a": layers.Dense(1, name="a")(inputs), "b": layers.Dense(1, name="b")(inputs)})
    model.compile("sgd", {"a": "mse", "b": "mae"}, loss_weights={"a": 1, "b": 100}, weighted_metrics={"b": ["mse"]})
    return model


def load_pair(count=70):
    """Targets for two outputs."""
    inputs, targets = load(count)
    return inputs, {"a": targets, "b": targets}


class Odd(keras.Model):
    """Draws without a state that could be kept; logs of several kinds."""

    def __init__(self, **options):
        super().__init__(**options)
        self.dense = layers.Dense(1, dtype="bfloat16")

    def call(self, inputs, training=False):
        return self.dense(inputs + tf.random.normal(tf.shape(inputs)))

    def train_step(self, data):
        super().train_step(data)
        return {"loss": tf.constant(2.0), "inner": {"deep/er": tf.constant(3)}, "each": tf.ones(4), "text": "words"}


class Unfinished(keras.Model):
    """Its steps tell figures that are not finite, or of validation alone, under names that files do not have."""

    def __init__(self, **options):
        super().__init__(**options)
        self.dense = layers.Dense(1)
        self.lost = self.add_weight(name="lost", initializer="zeros", trainable=False)

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        loss = super().train_step(data)["loss"]
        self.lost.assign(np.nan)
        return {"loss": loss, "val_own": loss, ".": loss, "gone": loss * np.nan}

    def test_step(self, data):
        return {"alone": super().test_step(data)["loss"]}


def compile_model(model):
    """The model, to be trained."""
    model.compile("sgd", "mse")
    return model


def build_unfinished():
    """Compiled."""
    return compile_model(Unfinished())


def build_odd():
    """Compiled."""
    return compile_model(Odd())


class Unsaved(keras.Sequential):
    """What no file can hold."""

    def get_config(self):
        raise NotImplementedError("never")


def build_unsaved():
    """Compiled."""
    return compile_model(Unsaved([keras.Input((6,)), layers.Dense(1)]))


def build_eager():
    """Runs without programs."""
    model = keras.Sequential([keras.Input((6,)), layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    return model


def build_reader():
    """Takes texts."""
    return compile_model(keras.Sequential(
        [keras.Input((1,), dtype="string"), layers.StringLookup(vocabulary=["a", "b"]), layers.Embedding(4, 3),
         layers.Flatten(), layers.Dense(1)]
    ))  # fmt: skip


def load_texts(count=70):
    """One word a sample."""
    return np.array([["a"], ["b"]] * (count // 2)), np.ones(count)


def draw(count=70):
    """Other numbers each time, unless somebody sets the seed."""
    inputs = np.random.normal(size=(count, 6))
    return inputs, inputs[:, :1]


def load(count=70):
    """Numbers for the models with one input."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(count, 6))
    return inputs, np.sin(inputs.sum(axis=1, keepdims=True))


def load_two(count=70):
    """A dict of inputs, targets and weights."""
    rng = np.random.default_rng(1)
    inputs = {"number": rng.normal(size=(count, 3)), "word": rng.integers(0, 5, count)}
    return inputs, rng.normal(size=(count, 1)), rng.uniform(size=count)


def fail_in_a_step(count=70):
    """Data with what no loss can be made of."""
    inputs, targets = load(count)
    targets[count // 2] = np.nan
    return inputs, targets


def build_linear():
    """No draws, so that Keras' own fit can be followed step by step."""
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8, "tanh"), layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    return model


def build_classifier():
    """Three classes."""
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8, "tanh"), layers.Dense(3, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
    return model


def load_classes(count=70):
    """Numbers of classes."""
    inputs, targets = load(count)
    return inputs, np.digitize(targets[:, 0], [-0.3, 0.3])


def stream(count=70, kind="plain"):
    """Batches of tf.data in several ways."""
    inputs, targets = load(count)
    slices = tf.data.Dataset.from_tensor_slices((inputs.astype("float32"), targets.astype("float32")))
    if kind == "shuffled":
        return slices.shuffle(count).batch(16).prefetch(1)
    if kind == "cached":
        return slices.shuffle(count).cache().batch(16)
    if kind == "filtered":
        return slices.shuffle(count).filter(lambda x, y: x[0] > -1).batch(16)
    if kind == "endless":
        return slices.shuffle(count).repeat().batch(16)
    if kind == "random":
        return slices.map(lambda x, y: (x + tf.random.normal((6,)), y)).batch(16)
    if kind == "stateless":
        numbered = slices.enumerate()
        return numbered.map(lambda i, xy: (xy[0] + tf.random.stateless_normal((6,), (i, 7)), xy[1]), 2).batch(16)
    if kind == "stateless_shuffled":
        return stream(count, "stateless").unbatch().shuffle(count).batch(16)
    if kind == "empty":
        return slices.take(0).batch(16)
    if kind == "single":
        return slices.map(lambda x, y: (x, y[0]))
    return slices.batch(16)


def stream_held():
    """Data of its own that validates."""
    return stream(30)


def generate(count=70):
    """Batches of a generator function."""
    yield from zip(*(np.array_split(part, range(16, count, 16)) for part in load(count)), strict=True)


def generate_once():
    """A generator, which can be gone through once."""
    return generate()


def generate_endless():
    """One without an end."""
    return itertools.cycle(generate())


def make_generators(count=70):
    """A function that is called for each pass."""
    return lambda: generate(count)


def generate_broken():
    """Fails at the fourth batch."""
    for number, batch in enumerate(generate()):
        if number == 3:
            raise ValueError("page 3 is missing")
        yield batch


class Pages(keras.utils.PyDataset):
    """Batches by number."""

    def __init__(self, count, **options):
        super().__init__(**options)
        self.inputs, self.targets = load(count)

    def __len__(self):
        return -(-len(self.inputs) // 16)

    def __getitem__(self, index):
        rows = slice(16 * index, 16 * index + 16)
        return self.inputs[rows], self.targets[rows]


class Drawing(Pages):
    """Other numbers each time."""

    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        return inputs + np.random.normal(size=inputs.shape), targets


class Broken(Pages):
    """Lacks a page."""

    def __getitem__(self, index):
        if index == 3:
            raise ValueError("page 3 is missing")
        return super().__getitem__(index)


def page(count=70, workers=1, classes=False, drawing=False, broken=False):
    """A PyDataset."""
    found = (Drawing if drawing else Broken if broken else Pages)(count, workers=workers)
    if classes:
        found.inputs, found.targets = load_classes(count)
    return found
