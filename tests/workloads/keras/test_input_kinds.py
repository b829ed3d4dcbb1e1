"""Data of every kind of tensor, of arrays and of a folder: taken without a model, digested, set or not."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import yaml

from tfperf.inputs.delivery import DigestLimits, digest_elements
from tfperf.runcard.dump import to_json_tree
from tfperf.study.input_apply import Effort, InputSearch
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.input_trial import SIDES
from tfperf.workloads.keras.input_trial import KerasLoader, describe_dataset
from tfperf.workloads.registry import WORKLOADS

CODE = """
import keras
import tensorflow as tf

ROWS = tf.random.stateless_uniform((12, 4), (1, 2))


def build():
    inputs = keras.Input((4,), sparse=True)
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    return model


def make(kind):
    if kind == "sparse":
        return tf.sparse.from_dense(tf.where(ROWS > 0.5, ROWS, 0))
    if kind == "ragged":
        return tf.RaggedTensor.from_row_lengths(tf.range(30.0), [3, 0, 2, 5, 0, 0, 4, 6, 1, 2, 3, 4])
    if kind == "texts":
        return tf.strings.as_string(ROWS)
    if kind == "complex":
        return tf.complex(ROWS, -ROWS)
    if kind == "empty":
        return ROWS[:, :0]
    return tf.cast(ROWS > 0.5 if kind == "bool" else 100 * ROWS, kind)


def load(kind):
    return tf.data.Dataset.from_tensor_slices((make(kind), ROWS[:, :1])).batch(4)
"""
NET = """
import keras


def build():
    model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
"""
KINDS = ["sparse", "ragged", "texts", "complex", "empty", "bool", "bfloat16", "int8"]


def read_card(folder, code, data):
    """A card of a model, and of data, that code has."""
    (folder / "kinds.py").write_text(code)
    card = {"workload": "keras", "model": {"build": "kinds.py:build"}, "data": data, "train": {"epochs": 1}}
    (folder / "card.yaml").write_text(yaml.safe_dump(card | {"engine": {"xla": False}}))
    return load_checked_card(folder / "card.yaml", ())


def read_kind(folder, kind):
    return read_card(folder, CODE, {"build": "kinds.py:load", "arguments": {"kind": kind}})


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_every_kind_are_taken_without_a_step(tmp_path, kind):
    KerasLoader(read_kind(tmp_path, kind), 1).take(7)


def test_a_training_with_sparse_batches_is_taken_apart(tmp_path):
    card = read_kind(tmp_path, "sparse")
    trial = WORKLOADS.get_for_card(card).build_input_trial(card)
    for side in SIDES:
        trial.take(side, 4)
    trial.put_back()
    source = trial.describe_source(0.2)
    assert source["is_settable"] and [one["kind"] for one in source["pipeline"]["stages"]][-1] == "batch"


@pytest.mark.parametrize("kind", KINDS)
def test_digests_tell_values_and_shapes_of_every_kind_apart(kind):
    space: dict = {}
    exec(CODE, space)

    def digest(values):
        return digest_elements(tf.data.Dataset.from_tensor_slices(values).batch(4), DigestLimits())

    values = space["make"](kind)
    found, again = digest(values), digest(values)
    assert found == again
    other = tf.sparse.reorder(values * 2) if kind == "sparse" else values[::-1]
    assert kind == "empty" or digest(other).values != found.values
    assert digest(space["make"]("int8" if kind == "bool" else "bool")).shapes != found.shapes


@pytest.mark.parametrize("texts", [(b"a", b"a\0"), (b"a", b"b")])
def test_single_texts_differ_in_value_and_not_in_type(texts):
    one, other = (digest_elements(tf.data.Dataset.from_tensors(text), DigestLimits()) for text in texts)
    assert one.values != other.values and one.shapes == other.shapes


def test_types_of_the_same_width_are_not_the_same():
    types = ["bfloat16", "float16", "uint16"]
    assert (
        len(
            {
                str(digest_elements(tf.data.Dataset.from_tensors(tf.zeros(3, one)), DigestLimits()).shapes)
                for one in types
            }
        )
        == 3
    )


def test_of_a_folder_of_images_nothing_is_set(tmp_path):
    for label in ("one", "two"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(4):
            keras.utils.save_img(tmp_path / "images" / label / f"{number}.png", np.full((8, 8, 1), 9 * number))
    data = {"folder": "images", "image_size": [8, 8], "channels": 1, "batch": 4}
    card = read_card(tmp_path, NET, data)
    source = WORKLOADS.get_for_card(card).build_input_trial(card).describe_source(0.2)
    assert source["kind"] == "tf.data.Dataset"
    search = InputSearch(
        tree=to_json_tree(card), ask=lambda *_: pytest.fail("a trial was asked for"), show=lambda *_: None, cores=2,
        effort=Effort(), source=source,
    )  # fmt: skip
    found = search.run()
    assert not found["changed"] and "nothing can be set" in found["why"]


@pytest.mark.parametrize(("draws", "position"), [(False, 2), (True, None)])
def test_what_python_makes_is_worth_storing_where_two_passes_agree(draws, position):
    noise = np.random.default_rng(1)

    def read(number):
        return np.float32(number + (noise.random() if draws else 0.0))

    def fetch(number):
        return tf.ensure_shape(tf.numpy_function(read, [number], tf.float32), ())

    files = tf.data.Dataset.range(64).map(fetch, name="fetch").map(lambda x: tf.fill((4,), x), name="fill")
    ahead = describe_dataset(files.batch(2), 0.1)["ahead"]
    assert (None if ahead is None else ahead["position"]) == position
