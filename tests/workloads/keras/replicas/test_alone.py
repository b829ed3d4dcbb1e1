"""Each replica of an ensemble is, to the bit, what Keras' own `fit` makes of it alone."""

import keras
import numpy as np
import pytest

import tfperf
from tests.workloads.keras.replicas import nets
from tfperf.workloads.keras.inputs import draw_order
from tfperf.workloads.keras.replicas.draws import draw_model_seed, draw_samples

EPOCHS, BATCH, TRAINED = 7, 16, 72  # of 90 samples


class Ordered(keras.utils.PyDataset):
    """Batches in the order of a seed."""

    def __init__(self, x, y, seed, rows):
        super().__init__()
        self.x, self.y, self.seed, self.rows, self.epoch = x, y, seed, rows, 0

    def __len__(self):
        return -(-len(self.rows) // BATCH)

    def __getitem__(self, i):
        rows = self.rows[draw_order(self.seed, self.epoch, len(self.rows), True)][i * BATCH : (i + 1) * BATCH]
        return self.x[rows], self.y[rows]


class Epochs(keras.callbacks.Callback):
    """Tells the batches which epoch it is."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch, logs=None):
        self.batches.epoch = epoch


def fit_alone(replica, resampling="all", build=nets.build, callbacks=(), xla=False):
    """Keras' own fit: the model and its history."""
    x, y = nets.load()
    seed = draw_model_seed(1, replica)
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = build()
    model.jit_compile = xla
    batches = Ordered(x, y, seed, draw_samples(1, replica, TRAINED, resampling))
    held = x[TRAINED:], y[TRAINED:]
    history = model.fit(
        batches, epochs=EPOCHS, shuffle=False, verbose=0, validation_data=held, validation_batch_size=BATCH,
        callbacks=[Epochs(batches), *callbacks],
    )  # fmt: skip
    return model, history.history


def fit_ensemble(replicas, build=nets.build, form="lanes", xla=False, options=None, callbacks=None, **settings):
    x, y = nets.load()
    return tfperf.ensemble(build, replicas=replicas, seed=1, form=form, **settings).fit(
        x, y, epochs=EPOCHS, batch_size=BATCH, validation=0.2, callbacks=callbacks,
        keys={"engine.xla": xla, **(options or {})},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("xla", "resampling", "build"),
    [
        (False, "bootstrap", nets.build),
        pytest.param(True, "all", nets.build, marks=pytest.mark.slow),
        pytest.param(False, "all", nets.build_own_step, marks=pytest.mark.slow),
    ],
)
def test_lanes_are_what_fit_makes_alone(xla, resampling, build):
    found = fit_ensemble(3, build, xla=xla, data=resampling)
    for replica in (1, 3):
        _, history = fit_alone(replica, resampling, build, xla=xla)
        assert {*found.history} == {*history}
        for name, values in history.items():
            # XLA fuses the sums of a mean otherwise where steps are in a loop
            limit = 1e-6 if xla else 0.0
            mine = found.history[name][:, replica - 1]
            np.testing.assert_allclose(mine, np.float32(values), rtol=limit, atol=limit, err_msg=name)


@pytest.mark.slow
def test_a_replica_does_not_depend_on_the_others():
    many, one = fit_ensemble(3), fit_ensemble("3-3")
    assert one.replicas.id.tolist() == [3]
    for name, values in one.outcome.weights.items():
        np.testing.assert_array_equal(many.outcome.weights[name][2], values[0], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lanes", "stacked"])
def test_best_weights_are_those_that_early_stopping_restores(form):
    found = fit_ensemble(6, form=form, patience=2)
    stopped = found.replicas.stop_epoch < EPOCHS
    assert stopped.any() and set(found.replicas.status) == {"stopped", "all_epochs"}
    for row in (int(np.flatnonzero(stopped)[0]), int(np.flatnonzero(~stopped)[0])):
        rule = keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True)
        model, history = fit_alone(row + 1, callbacks=[rule])
        assert found.replicas.stop_epoch[row] == len(history["loss"])
        assert found.replicas.best_epoch[row] == 1 + np.argmin(history["val_loss"])
        trained = [values[row] for values in found.outcome.weights.values()]
        # Keras restores at a stop alone; a stack rounds otherwise
        if stopped[row]:
            for mine, own in zip(trained, model.get_weights(), strict=True):
                np.testing.assert_allclose(
                    mine, own, rtol=0 if form == "lanes" else 1e-4, atol=0 if form == "lanes" else 1e-5
                )
        assert np.isnan(found.history["val_loss"][found.replicas.stop_epoch[row] :, row]).all()


@pytest.mark.slow
def test_rates_and_weights_of_each():
    rates = [1e-3, 5e-3, 2e-2]
    found = fit_ensemble(3, learning_rate=rates)
    for row, rate in enumerate(rates):
        _, history = fit_alone(row + 1, build=lambda rate=rate: nets.build(rate=rate))
        np.testing.assert_array_equal(found.history["loss"][:, row], np.float32(history["loss"]))
    halved, whole = (fit_ensemble(2, loss_weight=weight, options={"train.epochs": 1}) for weight in ([0.5, 1.0], 1.0))
    np.testing.assert_allclose(halved.history["loss"][0, 1], whole.history["loss"][0, 1], rtol=1e-6)
    assert 0.3 < halved.history["loss"][0, 0] / whole.history["loss"][0, 0] < 0.6
