"""`tfperf input` on a small training, from the command line, in real processes."""

import json

import pytest
from click.testing import CliRunner

from tfperf.cli import main
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.keras.input_trial import KerasInputTrial
from tfperf.workloads.registry import WORKLOADS

CODE = """
import keras
import tensorflow as tf
import time


def build():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    return model


def wait(x):
    time.sleep(0.02)
    return x


def load():
    def fetch(number):
        x = tf.numpy_function(wait, [tf.fill((4,), tf.cast(number, tf.float32))], tf.float32)
        return tf.ensure_shape(x, (4,)), tf.zeros((2,))

    return tf.data.Dataset.range(64).map(fetch, name="fetch").batch(2, name="batch").prefetch(1)
"""


@pytest.mark.slow
def test_a_map_that_waits_is_found_from_the_command_line(tmp_path):
    (tmp_path / "nets.py").write_text(CODE)
    (tmp_path / "card.yaml").write_text(
        "workload: keras\nmodel: {build: 'nets.py:build'}\ndata: {build: 'nets.py:load'}\ntrain: {epochs: 1}\n"
        "engine: {xla: false}\n"
    )
    said = CliRunner().invoke(
        main, ["input", str(tmp_path / "card.yaml"), "-o", str(tmp_path / "out"), "--seconds", "1", "-q"]
    )
    assert said.exit_code == 0, said.output
    words = " ".join(said.output.split())
    assert "input-bound: a step needs" in words and "fetch has 1 at a time" in words
    assert 'dataset.map(fetch, num_parallel_calls=tf.data.AUTOTUNE, name="fetch")' in words
    report = json.loads((tmp_path / "out" / "input.json").read_text())
    assert report["bound"] == "input" and report["as_it_is"]["waits"]["value"] > 0.8
    assert report["as_it_is"]["data"]["rate"]["value"] < 25.5  # 40 ms a batch at the least
    assert report["workers"]["ram"]["one"] > 1e8
    (cure,) = [one for one in report["cures"] if one["kind"] == "sequential_map"]
    assert cure["rate"] > 2 * report["as_it_is"]["both"]["rate"]["value"]
    assert "<h1>input</h1>" in (tmp_path / "out" / "report.html").read_text()


LENGTHS = """
import keras
import tensorflow as tf


class CountedLengths(keras.layers.Layer):
    def build(self, shape):
        self.total = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x):
        self.total.assign_add(tf.cast(tf.shape(x)[1], tf.float32))
        return x


def build():
    model = keras.Sequential([
        keras.Input((None, 3)), CountedLengths(name="lengths"), keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1),
    ])
    model.compile("sgd", "mse", jit_compile=False)
    return model


def load():
    def make(number):
        return tf.ones((2, 2 + 3 * (number % 2), 3)), tf.ones((2, 1))

    return tf.data.Dataset.range(40).map(make)
"""


def test_the_model_alone_takes_batches_of_several_shapes_where_they_vary(tmp_path):
    (tmp_path / "lengths.py").write_text(LENGTHS)
    (tmp_path / "card.yaml").write_text(
        "workload: keras\nmodel: {build: 'lengths.py:build'}\ndata: {build: 'lengths.py:load', validation: 0.2}\n"
        "train: {epochs: 1}\nengine: {xla: false}\n"
    )
    card = load_checked_card(tmp_path / "card.yaml", ())
    trial = WORKLOADS.get_for_card(card).build_input_trial(card)
    assert isinstance(trial, KerasInputTrial)
    (total,) = trial._training.model.get_layer("lengths").weights
    before = float(total)
    trial.take("model", 4)
    assert float(total) - before == 2 + 5 + 2 + 5
    trial.put_back()
    assert float(total) == before
