"""`--set key.sub=value`."""

import pytest

from tests.runcard.cards import FULL, PACK, ROOT, SHORT, faults, write
from tfperf.workloads.pdf.cards import load_card


def loaded(folder, text, *overrides):
    return load_card(write(folder, text), overrides)


def test_values_are_replaced_and_added(tmp_path):
    card = loaded(
        tmp_path, FULL, "seed=9", "replicas=5", "train.optimizer.learning_rate=1e-4", "engine.xla=auto",
        "data.sets.1.weight=3", "model.exponents.g={alpha: [0.5, 0.6], beta: [1, 2]}", "title=", "positivity.final=2e6",
        "train.stopping.patience=null", "positivity.sets=[A, B]", "integrability.nodes=2", "seed=10", "title=a=b",
    )  # fmt: skip
    assert (card.seed, card.replicas, card.title) == (10, (1, 2, 3, 4, 5), "a=b")
    assert (card.train.optimizer.learning_rate, card.train.stopping.patience) == (1e-4, None)
    assert [s.weight for s in card.data.sets] == [2.0, 3.0]
    assert card.model.exponents["g"].alpha == (0.5, 0.6)
    assert (card.positivity.sets, card.positivity.final, card.integrability.nodes) == (("A", "B"), 2e6, 2)
    assert card.engine.xla == "auto"


def test_blocks_that_are_absent_or_null_are_made(tmp_path):
    assert loaded(tmp_path, SHORT, "closure.level=2").closure.level == 2
    assert loaded(tmp_path, SHORT + "closure: null", "closure={level: 2, noise: 4}").closure.noise == 4


def test_paths_are_relative_to_the_card(tmp_path):
    card = loaded(tmp_path, SHORT, f"covariance.extra={PACK}", "data.t0=.")
    assert card.covariance.extra == card.data.pack == ROOT / "data/dis_nlo/dis_nlo.h5"
    assert card.data.t0 == str((tmp_path / "cards").resolve())
    assert loaded(tmp_path, SHORT, "closure.law=../data").closure.law == str(ROOT / "data")


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("train.stepz=5", "train.stepz: unknown key; did you mean `steps`?"),
        ("training.steps=5", "training: unknown key; did you mean `train`?"),
        ("train.steps=0", "train.steps: got 0; must be a whole number from 1 to 100000000"),
        ("train.steps=", "train.steps: got nothing; must be a whole number from 1 to 100000000"),
        ("train.steps=2e3", "train.steps: got 2e3; must be a whole number from 1 to 100000000; did you mean `2000`?"),
        ("train.steps_per_call=99", "train.steps_per_call: got 99; must be at most train.steps = 10"),
        ("train={}", "train.steps: missing; must be a whole number from 1 to 100000000"),
        ("data.pack=x.h5", "data.pack: got 'x.h5'; no such file: DIR/cards/x.h5; must be an HDF5 data pack"),
        ("engine.xla=no", "engine.xla: got 'no'; allowed: auto, true, false; did you mean `false`?"),
        ("engine.xla.a=1", "engine.xla: got a mapping; allowed: auto, true, false"),
        ("seed", "must be key.sub=value"),
        ("=3", "must be key.sub=value"),
        ("train..steps=3", "must be key.sub=value"),
        ("title=a: b", "title: got a block of YAML; a value is one word or number, [a, b] or {key: value}"),
        ("title=- b", "title: got a block of YAML; a value is one word or number, [a, b] or {key: value}"),
        ("title=*x", "title: got the alias *x; write the value out"),
        ('title="\\0"', "title: got the control character '\\x00'; text is printable"),
        ("title=" + "[" * 20, "title.0.0.0.0.0.0.0.0.0.0: nested deeper than 10 levels"),
    ],
)
def test_bad_overrides_are_refused_at_their_place(override, fault, tmp_path):
    assert faults(tmp_path, SHORT, override) == [f"--set {override}: {fault}"]


def test_lists_have_entries_by_number(tmp_path):
    for index, name in (("5", "model.layers.5"), ("x", "model.layers.x"), ("-1", "model.layers.-1")):
        assert faults(tmp_path, FULL, f"model.layers.{index}=3") == [
            f"--set model.layers.{index}=3: {name}: no such entry; model.layers is a list of 2, counted from 0"
        ]
    assert faults(tmp_path, FULL, "seed.low=3") == ["--set seed.low=3: seed.low: no such entry; seed is 7"]


def test_faults_of_card_and_overrides_come_together(tmp_path):
    assert faults(tmp_path, SHORT + "sede: 1", "train.steps=0", "x", "engine.toleranc=1") == [
        "4: sede: unknown key; did you mean `seed`?",
        "--set train.steps=0: train.steps: got 0; must be a whole number from 1 to 100000000",
        "--set x: must be key.sub=value",
        "--set engine.toleranc=1: engine.toleranc: unknown key; did you mean `tolerance`?",
    ]


def test_an_override_mends_the_card(tmp_path):
    assert loaded(tmp_path, SHORT + "seed: wrong", "seed=3").seed == 3
