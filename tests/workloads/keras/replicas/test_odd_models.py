"""Models and data that replicas are not made for, or that go wrong in the middle: they are told in words."""

import keras
import numpy as np
import pytest
from keras import layers

import tfperf
from tests.workloads.keras.replicas import nets
from tfperf.errors import CardError, UserCodeError
from tfperf.workloads.keras.replicas.page import draw_curves


def build_without_loss():
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
    model.compile("adam")
    return model


def fail(y, y_pred):
    raise ZeroDivisionError("a loss of mine")


def build_with_failing_loss():
    model = build_without_loss()
    model.compile("adam", fail)
    return model


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (build_without_loss, "No loss to compute"),
        pytest.param(build_with_failing_loss, "a loss of mine", marks=pytest.mark.slow),
    ],
)
def test_steps_that_fail_are_told_without_a_traceback_of_ours(build, said):
    x, y = nets.load()
    with pytest.raises(UserCodeError, match="model: tracing its steps") as told:
        tfperf.ensemble(build, replicas=2).fit(x, y, epochs=1)
    assert said in str(told.value) and "tfperf/workloads" not in str(told.value)


def test_a_figure_that_is_never_finite_has_an_empty_panel():
    nothing = np.full((3, 2), np.nan)
    figure = draw_curves({"loss": np.ones((3, 2)), "val_loss": nothing})
    trained, validated = figure.axes[0].lines
    assert np.size(trained.get_xdata()) == 3 and np.size(validated.get_xdata()) == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lanes", "stacked"])
def test_validation_that_is_not_finite_keeps_the_last_weights(form, tmp_path):
    x, y = nets.load()
    held = x[:16], np.full((16, 1), np.nan, np.float32)
    found = tfperf.ensemble(nets.build, replicas=2, form=form).fit(
        x, y, epochs=2, batch_size=16, validation=held, run=tmp_path / "run", keys={"engine.xla": False}
    )
    assert found.replicas.is_usable.all() and found.replicas.best_epoch.tolist() == [0, 0]
    assert np.isfinite(found.predict(x)).all() and found.summary["best"]["median"] is None
    assert "n/a" in repr(found) and (tmp_path / "run" / "report.html").exists()


def build_without_reduction():
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
    model.compile("adam", keras.losses.MeanSquaredError(reduction=None))
    return model


@pytest.mark.slow
def test_a_loss_for_each_sample_is_left_to_lanes():
    x, y = nets.load()
    with pytest.raises(CardError, match="its loss has no reduction"):
        tfperf.ensemble(build_without_reduction, replicas=2, form="stacked").fit(x, y, epochs=1)
    found = tfperf.ensemble(build_without_reduction, replicas=2).fit(x, y, epochs=1)
    assert found.summary["choices"]["form"] == "lanes" and np.isfinite(found.history["loss"]).all()
