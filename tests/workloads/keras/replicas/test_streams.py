"""Ensembles of batches that come from a stream: all replicas take the same, each as if alone."""

import numpy as np
import pytest
import tensorflow as tf

import tfperf
from tests.workloads.keras.replicas import nets
from tests.workloads.keras.replicas.interrupting import interrupt_at_save
from tfperf.errors import CardError, UserError
from tfperf.workloads.keras.replicas import stream
from tfperf.workloads.keras.replicas.draws import draw_model_seed
from tfperf.workloads.options import Options

EPOCHS, BATCH = 4, 16


def make_stream(count=72, shuffle=True, repeat=False, drop=False):
    x, y = nets.load()
    tf.random.set_seed(5)  # which the dataset's own seed is mixed with
    found = tf.data.Dataset.from_tensor_slices((x[:count], y[:count]))
    found = found.shuffle(30, seed=3) if shuffle else found
    return (found.repeat() if repeat else found).batch(BATCH, drop_remainder=drop)


def hold():
    x, y = nets.load()
    return tf.data.Dataset.from_tensor_slices((x[72:], y[72:])).batch(BATCH)


def fit_ensemble(form="lanes", keys=None, data=None, **options):
    return tfperf.ensemble(nets.build, replicas=3, seed=1, form=form).fit(
        make_stream() if data is None else data, epochs=EPOCHS, validation=hold(),
        keys={"engine.xla": False, **(keys or {})}, **options,
    )  # fmt: skip


def fit_alone(replica, data, **keys):
    """By tfperf's own fit of a model alone."""
    keys = {"engine.xla": False, **keys}
    seed = draw_model_seed(1, replica)
    return tfperf.fit(nets.build, data, seed=seed, epochs=EPOCHS, validation=hold(), keys=keys).history


@pytest.mark.slow
@pytest.mark.parametrize(("form", "windows"), [("lanes", False), ("stacked", True)])
def test_each_replica_is_what_a_fit_makes_alone(form, windows, monkeypatch):
    if windows:  # of two batches each
        monkeypatch.setattr(stream, "MOST_BYTES", 2 * BATCH * 4 * 4)
    found = fit_ensemble(form)
    for replica in (1, 3):
        history = fit_alone(replica, make_stream())
        for name, values in history.items():
            mine = found.history[name][:, replica - 1]
            limit = 0.0 if form == "lanes" else 1e-4
            np.testing.assert_allclose(mine, np.float32(values), rtol=limit, atol=limit, err_msg=name)


@pytest.mark.slow
def test_epochs_of_some_steps_of_an_endless_stream(monkeypatch):
    monkeypatch.setattr(stream, "MOST_BYTES", 2 * BATCH * 4 * 4)
    keys = {"train.steps_per_epoch": 5}
    found = fit_ensemble(keys=keys, data=make_stream(repeat=True))
    history = fit_alone(2, make_stream(repeat=True), **keys)
    np.testing.assert_array_equal(found.history["loss"][:, 1], np.float32(history["loss"]))


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "MOST_BYTES", 2 * BATCH * 4 * 4)
    keys = {"train.checkpoint_every": 3, "train.steps_per_call": 1}
    whole = fit_ensemble(keys=keys, run=tmp_path / "whole")
    with interrupt_at_save(3):
        fit_ensemble(keys=keys, run=tmp_path / "cut")
    cut = fit_ensemble(keys=keys, run=tmp_path / "cut", options=Options(resume=True))
    assert cut.outcome.summary["resumed_from_steps"] == [9]
    for name, values in whole.outcome.weights.items():
        np.testing.assert_array_equal(cut.outcome.weights[name], values, err_msg=name)
    more = fit_ensemble(keys=keys, run=tmp_path / "whole", options=Options(replicas=(4, 5)))
    assert more.replicas.id.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("make", "settings", "said"),
    [
        (make_stream, {"data": "bootstrap"}, "ensemble.data: got bootstrap; must be all for a tf.data.Dataset"),
        (lambda: make_stream().map(lambda x, y: (tf.strings.as_string(x), y)), {}, "data: has texts"),
        (lambda: make_stream().map(lambda x, y: (tf.sparse.from_dense(x), y)), {}, "data: has SparseTensorSpec"),
        (lambda: make_stream(count=40).concatenate(make_stream()), {}, "step 3 has 8 samples, must have 16"),
        (lambda: make_stream(repeat=True), {}, "train.steps_per_epoch: missing"),
    ],
)  # fmt: skip
def test_what_is_refused(make, settings, said):
    with pytest.raises((CardError, UserError), match=said):
        tfperf.ensemble(nets.build, replicas=2, **settings).fit(make(), epochs=1)
