"""Replicas of the zoo's models in pairs: trained as one stack, they are what Keras' own `fit` makes of each alone."""

import numpy as np
import pytest

from tests.workloads.keras.replicas.pairing import Pairs, compare_pairs

REPLICAS = 40
# fewer epochs than the cards have, and smaller photographs: 40 fits alone of all would take hours
SMALL = ("size=48", "count=600")
SETTINGS = {
    "keras_tabular": ["train.epochs=60"], "keras_digits": ["train.epochs=8"], "keras_text": ["train.epochs=3"],
    "photos": [
        "train.epochs=4", "model.arguments.size=48", "model.arguments.filters=8",
        *(f"{key}.arguments.{one}" for key in ("data", "data.validation") for one in SMALL),
    ],
}  # fmt: skip
MAIN = {"keras_tabular": "val_r2"}  # of the others the accuracy


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_forty_pairs_differ_by_nothing_that_can_be_seen(name):
    found = compare_pairs(name, REPLICAS, SETTINGS[name])
    for figure in ("val_loss", MAIN.get(name, "val_accuracy")):
        told = found.figures[figure]
        print(name, figure, told)
        low, high = told["interval"]
        assert low <= 0 <= high, figure  # by chance alone 1 of 20 figures would be outside
        assert high - low < told["sigma"], figure


@pytest.mark.slow
def test_pairs_of_a_model_that_cannot_be_stacked_are_equal():
    found = compare_pairs("tagger", 3, ["train.epochs=2", "train.callbacks=[]"], form="lanes")
    assert all(told["equal"] == told["pairs"] == 3 for told in found.figures.values())


def test_an_interval_that_is_off_is_seen():
    alone = np.random.default_rng(1).normal(size=REPLICAS)
    turns = 0.1 * np.array([1.0, -1.0] * (REPLICAS // 2))
    for shift, inside in ((0.0, True), (0.03, True), (0.1, False)):
        told = Pairs((alone + turns + shift).tolist(), alone.tolist()).describe()
        assert (told["interval"][0] <= 0 <= told["interval"][1]) == inside
    # t of 39 degrees of freedom at 0.975 is 2.0227 (tables of Student's t)
    half = 2.0227 * 0.1 * np.sqrt(40 / 39) / np.sqrt(40)
    np.testing.assert_allclose(told["interval"], [0.1 - half, 0.1 + half], rtol=1e-4)
