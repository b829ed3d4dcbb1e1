"""Models whose own step takes other batches than their call; programs that give models; modules of one name."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfperf
from tests.workloads.keras.running import run
from tfperf.errors import RunDirectoryError
from tfperf.workloads.options import Options

X = np.random.default_rng(2).normal(size=(64, 4)).astype("float32")


class Autoencoder(keras.Model):
    """Finds its inputs again; its data are these alone."""

    def __init__(self):
        super().__init__()
        self.part = layers.Dense(4)

    def call(self, inputs):
        return self.part(inputs)

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=data, y_pred=self(data, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


class Triplets(Autoencoder):
    """Three samples a step, one a call."""

    def train_step(self, data):
        ((a, p, n),) = data
        with tf.GradientTape() as tape:
            found = [self(one, training=True) for one in (a, p, n)]
            loss = tf.reduce_mean((found[0] - found[1]) ** 2 - 0.1 * (found[0] - found[2]) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def build(kind):
    keras.utils.set_random_seed(4)
    model = kind()
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize(("kind", "data"), [(Autoencoder, X), (Triplets, ((X, X + 1, 2 * X),))])
def test_they_train_as_with_keras(kind, data):
    ours = tfperf.fit(lambda: build(kind), data, epochs=3, batch=16, shuffle=False, seed=4)
    keras.utils.set_random_seed(4)
    plain = build(kind)
    batches = tf.data.Dataset.from_tensor_slices(data).batch(16)
    theirs = plain.fit(batches, epochs=3, shuffle=False, verbose=0).history
    np.testing.assert_allclose(ours.history["loss"], theirs["loss"], rtol=1e-5)


@pytest.mark.slow
def test_a_program_that_gives_another_model_is_refused_at_a_resume(tmp_path):
    def fit(activation, rate, options=None):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(3, activation), layers.Dense(1)])
        model.compile(keras.optimizers.SGD(rate), "mse")
        return tfperf.fit(model, (X, X[:, :1]), tmp_path / "run", epochs=2, batch=16, options=options)

    fit("relu", 0.1)
    again = Options(resume=True)
    assert fit("relu", 0.1, again).summary["steps"] == 8
    for activation, rate in (("tanh", 0.1), ("relu", 0.2)):
        with pytest.raises(RunDirectoryError, match="the model: not the file that the run began with"):
            fit(activation, rate, again)


PAGES = """import keras
import numpy as np
import {helper}


class Pages(keras.utils.PyDataset):
    def __len__(self):
        return 4

    def __getitem__(self, number):
        return {helper}.make(number)


def load():
    return Pages(workers=1, use_multiprocessing=True)
"""
MODEL = """import keras
import {helper}


def build():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense({helper}.UNITS, kernel_initializer="zeros")])
    model.compile("sgd", "mse")
    return model
"""


def test_processes_of_a_dataset_import_the_modules_of_its_own_folder(tmp_path):
    helper = "tfperf_made_up_tools"
    for folder, name, text, tools in (
        ("nets", "tfperf_made_up_net", MODEL, "UNITS = 1\n"),
        ("feed", "tfperf_made_up_feed", PAGES,
         "import numpy as np\ndef make(number):\n    return np.ones((8, 2)), np.full((8, 1), 3.0)\n"),
    ):  # fmt: skip
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.py").write_text(text.format(helper=helper))
        (tmp_path / folder / f"{helper}.py").write_text(tools)
    card = tmp_path / "card.yaml"
    card.write_text(
        "workload: keras\nmodel: {build: 'nets/tfperf_made_up_net.py:build'}\n"
        "data: {build: 'feed/tfperf_made_up_feed.py:load'}\ntrain: {epochs: 1}\nengine: {xla: false}\n"
    )
    said = run("fit", card, "-o", tmp_path / "run")
    assert "loss: " in said and 3 < float(said.split("loss: ")[1].split()[0]) <= 9
