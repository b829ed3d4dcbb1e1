"""Callbacks of an ensemble: each replica has its own, and they do what they do to a model alone."""

from typing import ClassVar

import keras
import numpy as np
import pytest

import tfperf
from tests.workloads.keras.replicas import nets
from tests.workloads.keras.replicas.interrupting import interrupt_at_save
from tests.workloads.keras.replicas.test_alone import BATCH, EPOCHS, fit_alone, fit_ensemble
from tfperf.errors import CardError
from tfperf.workloads.options import Options


def make_rules():
    """They change the rate and end the training, by what they know from before."""
    return [
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * (0.5 if epoch == 2 else 1.0)),
        keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=0.05),
        keras.callbacks.EarlyStopping("val_mae", patience=2, min_delta=0.02, restore_best_weights=True),
    ]


class Recorder(keras.callbacks.Callback):
    """Keeps what it is called with."""

    seen: ClassVar = []

    def __init__(self, name=""):
        super().__init__()
        self.name = name

    def on_train_begin(self, logs=None):
        self.seen.append(("begin", id(self)))

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append((epoch, id(self), float(np.ravel(self.model.get_weights()[0])[0]), logs["loss"]))

    def on_train_end(self, logs=None):
        self.seen.append(("end", id(self)))

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


@pytest.mark.slow
def test_callbacks_do_what_they_do_to_a_model_alone():
    found = fit_ensemble(3, callbacks=make_rules())
    ended = found.replicas.stop_epoch
    for row in (0, 2):
        rules = make_rules()
        model, history = fit_alone(row + 1, callbacks=rules)
        assert len(history["loss"]) == ended[row]
        np.testing.assert_array_equal(found.history["loss"][: ended[row], row], np.float32(history["loss"]))
        assert np.isnan(found.history["loss"][ended[row] :, row]).all()
        for mine, own in zip(found.model(row + 1).get_weights(), model.get_weights(), strict=True):
            np.testing.assert_array_equal(mine, own)
    assert ended.min() < EPOCHS and "callbacks are called" in found.outcome.summary["not_stacked"][0]


@pytest.mark.slow
def test_each_replica_has_its_own_and_files_of_its_own(tmp_path):
    Recorder.seen.clear()
    callbacks = [Recorder(), keras.callbacks.CSVLogger(str(tmp_path / "log.csv"))]
    found = fit_ensemble(2, callbacks=callbacks)
    who = {one[1] for one in Recorder.seen}
    assert len(who) == 2 and len(Recorder.seen) == 2 * (EPOCHS + 2)
    assert len({one[2] for one in Recorder.seen if len(one) == 4}) == 2 * EPOCHS
    for row in (0, 1):
        lines = (tmp_path / f"replica_{row + 1}" / "log.csv").read_text().splitlines()
        assert len(lines) == EPOCHS + 1
        loss = float(lines[1].split(",")[1])
        np.testing.assert_allclose(loss, found.history["loss"][0, row], rtol=1e-6)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_bit(tmp_path):
    x, y = nets.load()

    def fit(folder, resume=False):
        keys = {"engine.xla": False, "train.checkpoint_every": 4, "train.steps_per_call": 3}
        setup = tfperf.ensemble(nets.build, replicas=3, seed=1)
        return setup.fit(
            x, y, epochs=EPOCHS, batch_size=BATCH, validation=0.2, callbacks=make_rules()[1:], keys=keys,
            run=tmp_path / folder, options=Options(resume=resume),
        )  # fmt: skip

    whole = fit("whole")
    with interrupt_at_save(3):
        fit("cut")
    cut = fit("cut", resume=True)
    assert cut.outcome.summary["resumed_from_steps"]
    for name, values in whole.outcome.weights.items():
        np.testing.assert_array_equal(cut.outcome.weights[name], values, err_msg=name)
    np.testing.assert_array_equal(cut.replicas.stop_epoch, whole.replicas.stop_epoch)


def test_hooks_of_batches_are_refused():
    with pytest.raises(CardError, match=r"train.callbacks: TerminateOnNaN has hooks of batches"):
        fit_ensemble(2, callbacks=[keras.callbacks.TerminateOnNaN()])
    with pytest.raises(CardError, match=r"engine.form: got .stacked."):
        fit_ensemble(2, form="stacked", callbacks=make_rules())
