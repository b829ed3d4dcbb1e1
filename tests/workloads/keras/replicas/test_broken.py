"""Replicas that break, and such as only look so."""

import keras
import numpy as np
import pytest
from keras import layers

import tfperf

KEYS = {"engine.xla": False, "train.steps_per_call": 3}


def train(x, *inner, form="lanes", epochs=2):
    def build():
        model = keras.Sequential([keras.Input((3,)), *[one() for one in inner], layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    y = np.random.default_rng(1).normal(size=(len(x), 1))
    return tfperf.ensemble(build, replicas=2, form=form).fit(x, y, epochs=epochs, batch_size=16, keys=KEYS)


def test_a_run_whose_replicas_all_break_at_once_ends_with_a_record():
    x = np.zeros((40, 3))
    x[3] = np.nan
    found = train(x)
    assert found.replicas.status == ("quarantined",) * 2 and found.summary["replicas"]["usable"] == 0


@pytest.mark.slow
def test_statistics_may_be_larger_than_weights():
    x = 1e5 * np.random.default_rng(0).normal(size=(40, 3))  # whose variance is 1e10
    found = train(x, layers.BatchNormalization)
    assert found.replicas.status == ("all_epochs",) * 2
