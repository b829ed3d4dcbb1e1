"""Replicas of the zoo's models in pairs: trained as one stack, they are what Keras' own `fit` makes of each alone."""

import numpy as np
import pytest

from tests.workloads.keras.replicas.pairing import Pairs, compare_pairs

REPLICAS = 40
# epochs of the card in brackets: 40 fits alone by all of them take hours of two cores
EPOCHS = {"tabular": 60, "digits": 8, "text": 3}  # (60), (20), (8)
MAIN = {"tabular": "val_r2", "digits": "val_accuracy", "text": "val_accuracy"}


@pytest.mark.slow
@pytest.mark.parametrize("name", EPOCHS)
def test_forty_pairs_differ_by_nothing_that_can_be_seen(name):
    found = compare_pairs(name, REPLICAS, [f"train.epochs={EPOCHS[name]}"])
    assert found.epochs == EPOCHS[name]
    for figure in ("val_loss", MAIN[name]):
        told = found.figures[figure]
        print(name, figure, told)
        low, high = told["interval"]
        assert low <= 0 <= high, figure  # by chance alone 1 of 20 figures would be outside
        assert high - low < told["sigma"], figure


def test_an_interval_that_is_off_is_seen():
    alone = np.random.default_rng(1).normal(size=REPLICAS)
    turns = 0.1 * np.array([1.0, -1.0] * (REPLICAS // 2))
    for shift, inside in ((0.0, True), (0.03, True), (0.1, False)):
        told = Pairs((alone + turns + shift).tolist(), alone.tolist()).describe()
        assert (told["interval"][0] <= 0 <= told["interval"][1]) == inside
    # t of 39 degrees of freedom at 0.975 is 2.0227 (tables of Student's t)
    half = 2.0227 * 0.1 * np.sqrt(40 / 39) / np.sqrt(40)
    np.testing.assert_allclose(told["interval"], [0.1 - half, 0.1 + half], rtol=1e-4)
