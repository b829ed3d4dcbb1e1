"""Trainings on Python generators and on a stand-in of torch's DataLoader: what Keras' own fit makes of them."""

import keras
import numpy as np
import pytest

import tfperf
from tests.sources import fake_torch
from tests.workloads.keras import nets
from tests.workloads.keras.running import NETS, fit, fit_twice, run, write_card


def train_keras(data, epochs=4):
    keras.utils.set_random_seed(3)
    model = nets.build_linear()
    for _ in range(epochs):  # a generator is used up after each
        model.fit(data(), steps_per_epoch=5, shuffle=False, verbose=0)
    return model.get_weights()


def assert_same(folder, weights):
    model = keras.saving.load_model(folder / "model.keras")
    for one, other in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["generate", "make_generators"])
def test_a_function_that_makes_generators_is_called_for_each_epoch(tmp_path, monkeypatch, function):
    data = {"build": f"{NETS}:{function}", "validation": {"build": f"{NETS}:generate", "arguments": {"count": 30}}}
    whole, _ = fit_twice(write_card(tmp_path, data=data), tmp_path, monkeypatch, 13)
    parts = [f"{part}: a Python generator" for part in ("data", "data.validation")]
    assert whole["steps"] == 20 and whole["not_bit_exact"] == parts
    assert_same(tmp_path / "whole", train_keras(nets.generate))


def test_a_generator_is_used_up_after_an_epoch(tmp_path):
    data = {"build": f"{NETS}:generate_once"}
    said = run("fit", write_card(tmp_path, data=data), "-o", tmp_path / "run", code=2)
    assert "data.build: nets.py:generate_once: its generator is used up after one pass" in " ".join(said.split())
    assert fit(write_card(tmp_path, data=data, train={"epochs": 1}), tmp_path / "one")["steps"] == 5


@pytest.mark.slow
def test_a_generator_without_an_end_goes_on_from_epoch_to_epoch(tmp_path, monkeypatch):
    data = {"build": f"{NETS}:generate_endless"}
    card = write_card(tmp_path, data=data, train={"steps_per_epoch": 7})
    whole, _ = fit_twice(card, tmp_path, monkeypatch, 13)
    assert whole["steps"] == 28


def test_faults_and_keys_that_do_not_fit_are_told(tmp_path):
    data = {"build": f"{NETS}:generate_broken"}
    said = run("fit", write_card(tmp_path, data=data), "-o", tmp_path / "run", code=2)
    assert "data: batch 4: ValueError: page 3 is missing (" in said and "nets.py, line" in said
    card = write_card(tmp_path, data={**data, "shuffle": True, "batch": 4})
    said = run("fit", card, "-o", tmp_path / "no", code=2)
    assert "data.batch: got 4; must be left out for a Python generator, whose elements are batches" in said
    assert "data.shuffle: must be left out for a Python generator, which has its own order" in said


class Batches:
    """Gives a generator for each pass."""

    def __iter__(self):
        return nets.generate()


def make_loader(count=70):
    inputs, targets = nets.load(count)
    samples = list(zip(inputs[:count], targets[:count], strict=True))
    return fake_torch.DataLoader(samples, batch_size=16, drop_last=False)


@pytest.mark.slow
def test_a_program_gives_loaders_and_generators(tmp_path):
    want = train_keras(nets.generate)
    for name, data in (("loader", make_loader()), ("function", nets.generate), ("iterable", Batches())):
        keras.utils.set_random_seed(3)
        model = nets.build_linear()
        tfperf.fit(model, data, epochs=4, seed=3, output=tmp_path / name, keys={"engine.xla": False})
        for one, other in zip(model.get_weights(), want, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
