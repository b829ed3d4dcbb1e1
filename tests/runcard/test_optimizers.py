"""The optimizer block against Keras' own classes."""

import inspect
import subprocess
import sys
from dataclasses import fields
from typing import get_args

import pytest
from pydantic import ValidationError

from tests.runcard.cards import ROOT, SHORT, faults, write
from tfperf.runcard.optimizers import CLIPPINGS, COUPLING, OWN, ElementWise
from tfperf.workloads.pdf.card import Optimizer
from tfperf.workloads.pdf.cards import load_card

SHARED = {"learning_rate", "weight_decay", *CLIPPINGS, "use_ema", "ema_momentum", "ema_overwrite_frequency"}
NOT_OFFERED = {"self", "name", "kwargs", "loss_scale_factor", "gradient_accumulation_steps"}
# a value that each argument may have and Keras does not have by default
VALUES = {
    "momentum": 0.5, "nesterov": True, "rho": 0.5, "beta_1": 0.5, "beta_2": 0.6, "epsilon": 1e-3, "centered": True,
    "amsgrad": True, "initial_accumulator_value": 0.2, "learning_rate_power": -0.3, "l1_regularization_strength": 0.1,
    "l2_regularization_strength": 0.2, "l2_shrinkage_regularization_strength": 0.3, "beta": 0.4, "learning_rate": 0.01,
    "weight_decay": 0.02, "use_ema": True, "ema_momentum": 0.7, "ema_overwrite_frequency": 9,
}  # fmt: skip


@pytest.fixture(scope="module")
def optimizers():
    keras = pytest.importorskip("keras")
    return keras.optimizers


def refused(**arguments):
    with pytest.raises(ValidationError) as caught:
        Optimizer(**arguments)
    return str(caught.value)


@pytest.mark.parametrize("name", get_args(ElementWise))
def test_arguments_are_those_of_keras(name, optimizers):
    theirs = set(inspect.signature(getattr(optimizers, name).__init__).parameters)
    assert OWN[name] | SHARED == theirs - NOT_OFFERED
    assert {f.name for f in fields(Optimizer)} == {"name"} | SHARED | frozenset().union(*OWN.values())


@pytest.mark.parametrize("name", get_args(ElementWise))
def test_every_argument_reaches_keras(name, optimizers):
    given: dict = {k: v for k, v in VALUES.items() if k in OWN[name] | SHARED}
    config = getattr(optimizers, name)(**Optimizer(name=name, clipnorm=0.5, **given).make_arguments()).get_config()
    assert {k: pytest.approx(config[k]) for k in given} == given
    assert [config[c] for c in CLIPPINGS] == [None, None, None]


@pytest.mark.parametrize("name", get_args(ElementWise))
def test_what_is_left_out_has_keras_default(name, optimizers):
    cls = getattr(optimizers, name)
    assert Optimizer(name=name).make_arguments() == {"learning_rate": 2.621e-3, "use_ema": False}
    ours, theirs = cls(**Optimizer(name=name, learning_rate=0.001).make_arguments()), cls(learning_rate=0.001)
    assert {**ours.get_config(), "name": ""} == {**theirs.get_config(), "name": ""}


def test_every_element_wise_optimizer_of_keras_is_known(optimizers):
    """A new one in Keras must be looked at: element-wise or not?"""
    others = {"Optimizer", "OptimizerMap", "MultiOptimizer", "ScheduleFreeAdamW"}
    assert {n for n in dir(optimizers) if n[0].isupper()} - others == {*get_args(ElementWise), *COUPLING}


@pytest.mark.parametrize("name", get_args(ElementWise))
def test_an_argument_of_another_optimizer_is_refused(name):
    for key in frozenset().union(*OWN.values()) - OWN[name]:
        assert f"{key}: {name} takes: {', '.join(sorted(OWN[name]))}" in refused(name=name, **{key: VALUES[key]})


@pytest.mark.parametrize("name", COUPLING)
def test_optimizers_that_mix_entries_are_refused_with_the_reason(name, tmp_path):
    assert faults(tmp_path, SHORT, f"train.optimizer.name={name}") == [
        f"--set train.optimizer.name={name}: train.optimizer.name: got '{name}'; {COUPLING[name]}, "
        f"which would couple the stacked replicas; allowed: {', '.join(get_args(ElementWise))}"
    ]


def test_one_clipping_at_most():
    for first, second in (("clipnorm", "clipvalue"), ("clipvalue", "global_clipnorm"), ("clipnorm", "global_clipnorm")):
        assert f"{second}: must be null beside {first}" in refused(**{first: 1.0, second: 1.0})


@pytest.mark.parametrize(
    ("block", "clipnorm"),
    [
        ("{}", 6.073e-6), ("{name: Nadam}", 6.073e-6), ("{clipnorm: null}", None), ("{clipvalue: 1}", None),
        ("{clipvalue: null}", 6.073e-6), ("{global_clipnorm: 2}", None), ("{name: SGD}", None),
        ("{name: SGD, clipnorm: 3}", 3.0),
    ],
)  # fmt: skip
def test_the_default_clipping_belongs_to_nadam_alone(block, clipnorm, tmp_path):
    assert load_card(write(tmp_path, SHORT), [f"train.optimizer={block}"]).train.optimizer.clipnorm == clipnorm


def test_averaging_must_be_written_into_the_weights():
    assert "needs ema_overwrite_frequency: the best weights are chosen in training" in refused(use_ema=True)
    assert "ema_momentum: must be null unless use_ema is true" in refused(ema_momentum=0.5)
    assert Optimizer(use_ema=True, ema_overwrite_frequency=5).make_arguments()["ema_overwrite_frequency"] == 5


def test_lion_needs_a_first_moment():
    assert "must be above 0 for Lion" in refused(name="Lion", beta_1=0.0)
    assert Optimizer(name="Adam", beta_1=0.0).beta_1 == 0


def test_runcards_need_neither_tensorflow_nor_hdf5():
    code = "import sys; from tfperf.runcard import loader, dump, example; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"tensorflow", "keras", "h5py", "numpy"} & set(modules)
