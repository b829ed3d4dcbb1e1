"""The optimizer of a translation against Keras' own classes."""

import inspect
from dataclasses import fields
from typing import get_args

import pytest

from tests.runcard.cards import write
from tests.runcard.test_optimizers import NOT_OFFERED, VALUES
from tests.workloads.translate.cards import SHORT
from tests.workloads.translate.test_card import faults
from tfperf.runcard.dump import dump_card
from tfperf.runcard.model_optimizer import NO_RULES, SHARED, TAKES, ModelOptimizer, Rule
from tfperf.runcard.optimizers import CLIPPINGS
from tfperf.workloads.translate.cards import load_card

NAMES = get_args(Rule)
EMA = {"use_ema", "ema_momentum", "ema_overwrite_frequency"}
MORE = VALUES | {
    "warmup_steps": 3, "beta_2_decay": -0.5, "epsilon_1": 1e-20, "epsilon_2": 1e-2, "clip_threshold": 2.0,
    "relative_step": False, "ns_steps": 4, "muon_a": 3.0, "muon_b": -4.0, "muon_c": 2.5, "rms_rate": 0.3,
    "exclude_layers": ("a.b",), "exclude_embeddings": False, "adam_beta_1": 0.8, "adam_beta_2": 0.9,
    "adam_weight_decay": 0.1, "adam_lr_ratio": 0.5,
}  # fmt: skip


@pytest.fixture(scope="module")
def optimizers():
    keras = pytest.importorskip("keras")
    return keras.optimizers


def test_every_rule_of_keras_is_known(optimizers):
    others = {"Optimizer", "OptimizerMap"}
    assert {n for n in dir(optimizers) if n[0].isupper()} - others == {*NAMES, *NO_RULES}


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_those_of_keras(name, optimizers):
    theirs = set(inspect.signature(getattr(optimizers, name).__init__).parameters)
    assert TAKES[name] | SHARED | {*CLIPPINGS} == theirs - NOT_OFFERED - EMA
    ours = {field.name for field in fields(ModelOptimizer)}
    assert ours == {"name", *CLIPPINGS} | SHARED | frozenset().union(*TAKES.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_reaches_keras(name, optimizers):
    given: dict = {k: v for k, v in MORE.items() if k in TAKES[name] | SHARED}
    optimizer = getattr(optimizers, name)(**ModelOptimizer(name=name, clipnorm=0.5, **given).make_arguments())
    config = optimizer.get_config()
    for key, value in given.items():
        want = ["a\\.b"] if key == "exclude_layers" else pytest.approx(value)  # a word, where Keras takes patterns
        assert config.get(key, getattr(optimizer, key, None)) == want, key
    assert [config[c] for c in CLIPPINGS] == [None, None, None]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_out_has_keras_default(name, optimizers):
    assert ModelOptimizer(name=name).make_arguments() == {"learning_rate": 1e-3}
    theirs = getattr(optimizers, name)(learning_rate=0.001).get_config()
    assert {**getattr(optimizers, name)(learning_rate=1e-3).get_config(), "name": ""} == {**theirs, "name": ""}


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_of_another_optimizer_is_refused(name, tmp_path):
    for key in ("nesterov", "warmup_steps", "muon_a"):
        if key not in TAKES[name]:
            block = f"train.optimizer={{name: {name}, {key}: {str(MORE[key]).lower()}}}"
            assert any(
                f"{name} takes: {', '.join(sorted(TAKES[name]))}" in f for f in faults(tmp_path, overrides=[block])
            )


@pytest.mark.parametrize("name", NO_RULES)
def test_wrappers_are_refused_with_the_reason(name, tmp_path):
    (fault,) = faults(tmp_path, overrides=[f"train.optimizer.name={name}"])
    assert NO_RULES[name] in fault and f"allowed: {', '.join(NAMES)}" in fault


def test_one_clipping_at_most(tmp_path):
    (fault,) = faults(tmp_path, overrides=["train.optimizer={clipnorm: 1, clipvalue: 1}"])
    assert "train.optimizer.clipvalue: got 1" in fault and "must be null beside clipnorm" in fault


def test_no_momentum_is_an_argument_of_none(tmp_path):
    card = load_card(write(tmp_path, SHORT), ["train.optimizer={name: Adam, momentum: 0}"])
    assert card.train.optimizer.make_arguments() == {"learning_rate": 1e-3}
    assert any("Adam takes" in fault for fault in faults(tmp_path, overrides=["train.optimizer.momentum=0.5"]))


def test_first_moments_that_cannot_be_zero(tmp_path):
    for name in ("Lion", "ScheduleFreeAdamW"):
        (fault,) = faults(tmp_path, overrides=[f"train.optimizer={{name: {name}, beta_1: 0}}"])
        assert f"must be above 0 for {name}" in fault


def test_a_card_with_all_arguments_survives_being_written(tmp_path):
    block = "{name: Muon, exclude_layers: [projection], nesterov: false, rms_rate: 0.3, clipvalue: 2.0}"
    card = load_card(write(tmp_path, SHORT), [f"train.optimizer={block}"])
    again = tmp_path / "again"
    again.mkdir()
    assert load_card(write(again, dump_card(card))) == card
