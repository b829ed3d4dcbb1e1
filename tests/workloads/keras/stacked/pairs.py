"""Training of the same replicas in both forms: as lanes, each by the model's own step, and as a stack. In float64."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from tfperf.sources.samples import Samples
from tfperf.train.ensemble import Ensemble
from tfperf.train.forms import PlainForm
from tfperf.train.settings import Settings
from tfperf.workloads.keras.replicas.draws import BatchDraw, draw_model_seed
from tfperf.workloads.keras.replicas.factory import KerasFactory
from tfperf.workloads.keras.replicas.forms import LANES, STACKED
from tfperf.workloads.keras.replicas.template import ModelTemplate
from tfperf.workloads.keras.stacked.stack import list_refusals

EXACT = 1e-12  # of what numbers of about 1 may differ by in float64 after STEPS steps
STEPS = 10
# values of a training that both forms have; kept ones are others before the first validation
COMPARED = ("model/", "state/")


@contextmanager
def use_float64():
    """Layers and numbers of float64; the policy too, which Keras keeps from the first layer on."""
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        keras.config.set_floatx(before[0])
        keras.config.set_dtype_policy(before[1])


def make_factory(
    build: Callable[[], keras.Model], data: Any, validation: Any = None, replicas: int = 3, batch: int = 8,
    loss_weights: Any = None, rates: Any = None,
) -> KerasFactory:  # fmt: skip
    """Replicas whose models are built one by one, each from its seed."""
    samples = Samples(data)
    seeds = [draw_model_seed(1, r) for r in range(1, replicas + 1)]

    def make(seed):
        keras.utils.set_random_seed(seed)
        return build()

    models = [make(seed) for seed in seeds]
    held = None if validation is None else Samples(validation)
    template = ModelTemplate(models[0], len(samples), samples, held, batch, None)
    starts = [template.initial, *(template.read_start(template.build_like(model)) for model in models[1:])]
    if rates is not None:
        name = template.find_learning_rate()
        assert name is not None
        starts = [{**start, name: np.asarray(rate)} for start, rate in zip(starts, rates, strict=True)]
    batches = [BatchDraw(seed, np.arange(len(samples)), template.batch) for seed in seeds]
    return KerasFactory(template, starts, batches, loss_weights, f"{id(template)}")


def train(factory: KerasFactory, form: str, steps: int, xla: bool = False, epochs: int = 100):
    """The state after some steps, and the rows of the epochs that ended."""
    template = factory.template
    settings = Settings(steps=epochs * template.epoch, patience=10**9, cache=False, xla=xla, devices=1)
    ensemble = Ensemble(settings, factory, PlainForm(form), factory.replicas if form == LANES else 1, 2)
    ensemble.build_loops()
    ensemble.run(steps, xla)
    found = ensemble.gather_state(), ensemble.take_rows(False)
    ensemble.close()
    return found


def assert_same(
    build, data, validation=None, steps=STEPS, limit=EXACT, xla=False, probe=False, **options
) -> dict[str, np.ndarray]:
    """Both forms have the same weights, statistics, seeds and metrics after some steps; those of the stack.

    build: makes the model, compiled; data, validation: (inputs, targets), or with sample weights; probe: the first
    batch is taken outside of a graph, too.
    """
    with use_float64():
        factory = make_factory(build, data, validation, **options)
        assert list_refusals(factory.template.model) == []
        assert not probe or factory.find_difference() is None
        lanes, stack = train(factory, LANES, steps, xla), train(factory, STACKED, steps, xla)
    return compare_states(factory, lanes, stack, limit)


def compare_states(factory: KerasFactory, ran: Any, stacked: Any, limit: float) -> dict[str, np.ndarray]:
    """AssertionError where what was trained as lanes differs from a stack, see `train`; the state of the stack."""
    (lanes, rows), (stack, others) = ran, stacked
    names = [name for name in lanes if name.startswith(COMPARED) and name in stack]
    assert {name for name in lanes if name.startswith("model/")} <= {*names}
    for name in names:
        np.testing.assert_allclose(stack[name], lanes[name], rtol=limit, atol=limit, err_msg=name)
    moved = [name for name in names if name.startswith("model/") and not np.allclose(
        lanes[name], np.stack([start[name.removeprefix("model/")] for start in factory.starts])
    )]  # fmt: skip
    assert moved, "the training changes nothing, so nothing was compared"
    assert rows[0] == others[0]
    told = max(limit, 1e-6)  # in float32
    for name, values in rows[1].items():
        np.testing.assert_allclose(others[1][name], values, rtol=told, atol=told, err_msg=name)
    return stack


def refuse(build) -> list[str]:
    """Why a model cannot be stacked."""
    with use_float64():
        return list_refusals(build())


def compile_model(layers, loss="mse", metrics=(), optimizer=None) -> keras.Model:
    """A sequential model, compiled with SGD with momentum."""
    model = keras.Sequential(layers)
    model.compile(optimizer or keras.optimizers.SGD(1e-2, momentum=0.9), loss, metrics=list(metrics))
    return model


def draw(*shape, seed=0) -> np.ndarray:
    """Numbers of mean 0 and variance 1."""
    return np.random.default_rng(seed).normal(size=shape)
