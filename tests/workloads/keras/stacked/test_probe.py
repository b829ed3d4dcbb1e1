"""The first step of a stack beside that of the model's own train_step: what differs is seen, and named."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, make_factory, train
from tfperf.errors import CardError, UserError
from tfperf.workloads.keras.replicas.forms import STACKED
from tfperf.workloads.keras.stacked import losses, metrics, stack
from tfperf.workloads.keras.stacked import optimizer as optimizers

X, Y = draw(24, 3).astype("float32"), draw(24, 1, seed=1).astype("float32")
WORDS = np.random.default_rng(0).integers(0, 5, (24, 6))  # most of them several times in a batch


@keras.saving.register_keras_serializable("tests")
class Penalised(keras.losses.MeanSquaredError):
    """Has a call of its own."""

    def __call__(self, y_true, y_pred, sample_weight=None):
        return super().__call__(y_true, y_pred, sample_weight) + 3 * ops.mean(ops.square(y_pred))


@keras.saving.register_keras_serializable("tests")
class Levelled(keras.losses.MeanSquaredError):
    """Looks at all samples of a batch; with eight of them it is the plain one."""

    def call(self, y_true, y_pred):
        values = super().call(y_true, y_pred)
        return ops.minimum(values, 8 * ops.mean(values))


def build(loss="mse", optimizer=None):
    return lambda: compile_model([keras.Input((3,)), layers.Dense(4, "tanh"), layers.Dense(1)], loss, [], optimizer)


def build_words(optimizer):
    def make():
        first = [keras.Input((6,), dtype="int32"), layers.Embedding(5, 4), layers.Flatten(), layers.Dense(1)]
        return compile_model(first, optimizer=optimizer())

    return make


def find_difference(build, data=(X, Y)):
    factory = make_factory(build, data)
    assert factory.refusals == []
    return factory.find_difference()


def test_losses_of_ones_own_are_those_of_the_model():
    for loss in (Penalised(), Levelled(), keras.losses.CosineSimilarity(axis=0)):
        assert find_difference(build(loss)) is None


def test_a_model_that_gives_a_number_for_each_sample():
    def make():
        inputs = keras.Input((3,))
        model = keras.Model(inputs, layers.Dense(1)(inputs)[:, 0])
        model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
        return model

    assert find_difference(make, (X, Y[:, 0])) is None


def test_a_loss_that_is_scaled_for_the_gradient():
    scaled = keras.optimizers.SGD(0.1, loss_scale_factor=8.0)
    assert find_difference(build(optimizer=scaled)) is None


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.AdamW(0.05), lambda: keras.optimizers.RMSprop(0.05, momentum=0.5),
        lambda: keras.optimizers.SGD(0.5, clipnorm=0.05), lambda: keras.optimizers.Adam(0.05, global_clipnorm=0.05),
        lambda: keras.optimizers.Adam(0.05, gradient_accumulation_steps=2),
    ],
)  # fmt: skip
def test_tables_whose_rows_a_batch_has_several_times(optimizer):
    data = WORDS[:21], Y[:21].astype("float64")
    assert_same(build_words(optimizer), data, replicas=2, limit=1e-10, probe=True)  # with a shorter last batch


def test_gradients_that_are_summed_before_they_are_squared_are_seen(monkeypatch):
    monkeypatch.setattr(stack, "find_tables", lambda model: [])
    monkeypatch.setattr(optimizers, "find_tables", lambda model: [])
    found = find_difference(build_words(lambda: keras.optimizers.Adam(0.05)), (WORDS, Y))
    assert found is not None and found.startswith("a first step as a stack changes the loss of its batch from")


def test_optimizers_that_square_what_they_have_squared_leave_tables_to_lanes():
    for optimizer in (lambda: keras.optimizers.Adadelta(1.0), lambda: keras.optimizers.SGD(0.5, clipvalue=0.1)):
        (reason,) = make_factory(build_words(optimizer), (WORDS, Y)).refusals
        assert "takes the gradients of a row of " in reason and "embeddings" in reason


def test_a_loss_that_is_another_is_seen(monkeypatch):
    monkeypatch.setattr(losses, "_is_samplewise", lambda loss: True)
    found = find_difference(build(Penalised()))
    assert found is not None and found.startswith("the loss of its first batch as a stack is")


def test_a_metric_that_is_another_is_seen(monkeypatch):
    real = metrics.update_loss_metrics

    def count_twice(values, model, total, each, batch):
        real(values, model, total, each, 2 * batch)

    monkeypatch.setattr(metrics, "update_loss_metrics", count_twice)
    found = find_difference(build())
    assert found is not None and found.startswith("a first step as a stack leaves another")


def test_a_builder_that_draws_its_settings_is_refused():
    rates = iter([0.1, 0.2, 0.3, 0.4])
    with pytest.raises(UserError, match="the optimizer of the model differs from call to call"):
        make_factory(lambda: build(optimizer=keras.optimizers.SGD(next(rates)))(), (X, Y))
    kinds = iter(["tanh", "relu", "tanh"])

    def make():
        return compile_model([keras.Input((3,)), layers.Dense(4, next(kinds)), layers.Dense(1)])

    with pytest.raises(UserError, match=r"layer \d+ \(Dense\) of the model differs"):
        make_factory(make, (X, Y))


def test_averages_of_weights_are_refused():
    with pytest.raises(CardError, match="use_ema"):
        make_factory(build(optimizer=keras.optimizers.SGD(0.1, use_ema=True)), (X, Y))


def test_metrics_taken_replica_by_replica_compile_beside_a_shorter_last_batch():
    def make():
        model = build()()
        model.compile("sgd", "mse", metrics=[keras.metrics.R2Score()])
        return model

    state, _ = train(make_factory(make, (X[:20], Y[:20])), STACKED, 3, xla=True)
    assert all(np.isfinite(value).all() for name, value in state.items() if name.startswith("model/"))
