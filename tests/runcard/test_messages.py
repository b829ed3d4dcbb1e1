"""The exact words of the messages."""

from dataclasses import fields

import pytest

from tests.runcard.cards import PACK, SHORT, faults
from tfperf.workloads.pdf.card_engine import Engine

ENGINE_KEYS = ", ".join(field.name for field in fields(Engine))
DATA = f"data: {{pack: {PACK}}}\n"
MIXED = f"""\
titel: a
seed: yes
replicas: 200-101
data:
  pack: {PACK}
  t0: pcak
  training_fraction: "0.5"
positivity:
  initial: 1e9
model:
  layers: [25, 20, 7, 4]
train:
  steps_per_call: 300
  optimizer: {{name: Adm, learning_rate: -1}}
engine: {{xla: on, toleranse: 1, chink: 1, speed: 1}}
engine: {{}}
"""


def test_all_faults_come_at_once_in_the_order_of_the_lines(tmp_path):
    assert faults(tmp_path, MIXED) == [
        "1: titel: unknown key; did you mean `title`?",
        "2: seed: got 'yes'; must be a whole number from 0 to 4294967295",
        "3: replicas: got '200-101'; must be a number of replicas (100) or a range of their ids (101-200), "
        "no id above 100000",
        "6: data.t0: got 'pcak'; allowed: pack, none, fit, or a run folder (there is no DIR/cards/pcak); "
        "did you mean `pack`?",
        "7: data.training_fraction: got '0.5'; must be a number above 0 and at most 1; "
        "did you mean `0.5` without quotes?",
        "8: positivity.final: 1000000.0 by default; must be at least initial = 1e+09",
        "10: model.activations: [tanh, tanh, linear] by default; must be as long as model.layers = [25, 20, 7, 4]",
        "11: model.layers: got [25, 20, 7, 4]; must end with 8, one unit per flavour",
        "12: train.steps: missing; must be a whole number from 1 to 100000000",
        "14: train.optimizer.name: got 'Adm'; allowed: SGD, RMSprop, Adam, AdamW, Adamax, Nadam, Adagrad, Adadelta, "
        "Ftrl, Lion; did you mean `Adam`?",
        "14: train.optimizer.learning_rate: got -1; must be a number from 1e-12 to 1e+06",
        "15: engine.xla: got 'on'; allowed: auto, true, false; did you mean `true`?",
        "15: engine.toleranse: unknown key; did you mean `tolerance`?",
        "15: engine.chink: unknown key; did you mean `chunk`?",
        f"15: engine.speed: unknown key; allowed: {ENGINE_KEYS}",
        "16: engine: given twice, first in line 15; a key may be given once",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ("seed: -1", "seed: got -1; must be a whole number from 0 to 4294967295"),
        ("seed: 1.0", "seed: got 1.0; must be a whole number from 0 to 4294967295; did you mean `1`?"),
        ("seed: .nan", "seed: got .nan; must be a whole number from 0 to 4294967295"),
        ("seed:", "seed: got nothing; must be a whole number from 0 to 4294967295"),
        ("title: 5", "title: got 5; must be text"),
        ("title: {a: 1}", "title: got a mapping; must be text"),
        ("engine: 3", f"engine: got 3; must be a mapping with keys out of {ENGINE_KEYS}"),
        ("engine: {form: naive}", "engine.form: got 'naive'; allowed: auto, shared, folded"),
        ("engine: {form: fold}", "engine.form: got 'fold'; allowed: auto, shared, folded; did you mean `folded`?"),
        ("engine: {tolerance: -1e-3}", "engine.tolerance: got -1e-3; must be a number from 0 to 100"),
        ("engine: {check_every: 0}", "engine.check_every: got 0; must be a whole number from 1 to 100000000"),
        ("engine: {on_violation: stop}", "engine.on_violation: got 'stop'; allowed: raise_rank, refit, fail"),
        ("engine: {xla: 'True'}",
         "engine.xla: got 'True'; allowed: auto, true, false; did you mean `True` without quotes?"),
        ("engine: {threads: 0}", "engine.threads: got 0; must be auto, measure or a whole number from 1 to 1024"),
        ("engine: {precision: bfloat16}",
         "engine.precision: got 'bfloat16'; allowed: float32, float64; did you mean `float64`?"),
        ("model: {trainable_exponents: no}",
         "model.trainable_exponents: got 'no'; allowed: true, false; did you mean `false`?"),
        ("model: {layers: [25, x, 8]}", "model.layers.1: got 'x'; must be a whole number from 1 to 4096"),
        ("model: {layers: []}", "model.layers: got []; must be a list of 1 to 32 entries"),
        ("model: {exponents: {t4: 1}}", "model.exponents.t4: unknown key; allowed: sigma, g, v, v3, v8, t3, t8, t15"),
        ("model: {exponents: {g: {alpha: [1, 2, 3], beta: [1, 2]}}}",
         "model.exponents.g.alpha: got [1, 2, 3]; must be a pair [low, high] of numbers"),
        ("model: {exponents: {g: {alpha: [2, 1], beta: [1, 2]}}}",
         "model.exponents.g.alpha: got [2, 1]; must be [low, high] with low <= high"),
        ("model: {exponents: {g: {beta: [1, 2]}}}",
         "model.exponents.g.alpha: missing; must be a pair [low, high] of numbers"),
        ("model: {exponents: {v8: {alpha: [0.5, 1], beta: [1, 2]}}}",
         "model.exponents.v8.alpha: got [0.5, 1]; must stay below 1, or "
         "the quark number integral of v8 diverges at x = 0"),
        ("model: {exponents: {sigma: {alpha: [0.5, 2], beta: [1, 2]}}}",
         "model.exponents.sigma.alpha: got [0.5, 2]; must stay below 2, or "
         "the momentum integral of sigma diverges at x = 0"),
        ("model: {exponents: {t3: {alpha: [0.5, 1], beta: [-1, 2]}}}",
         "model.exponents.t3.beta: got [-1, 2]; must not be negative, or t3 diverges at x = 1"),
        ("positivity: {sets: al}",
         "positivity.sets: got 'al'; must be all, none or a list of text; did you mean `all`?"),
        ("positivity: {sets: [A, 3]}", "positivity.sets.1: got 3; must be text"),
        ("positivity: {sets: [A, B, A]}", "positivity.sets.2: got 'A'; is in the list already"),
        ("positivity: {final: 1}", "positivity.final: got 1; must be at least initial = 100"),
        ("integrability: {final: 1}", "integrability.final: got 1; must be at least initial = 10"),
        ("closure: {level: 1}", "closure.level: got 1; allowed: 0, 2"),
        ("closure: {level: false}", "closure.level: got false; allowed: 0, 2"),
        ("closure: {law: toi}",
         "closure.law: got 'toi'; allowed: toy, or a run folder (there is no DIR/cards/toi); did you mean `toy`?"),
        ("covariance: {extra: no.h5}",
         "covariance.extra: got 'no.h5'; no such file: DIR/cards/no.h5; must be an HDF5 file"),
        ("closure: x", "closure: got 'x'; must be a mapping with keys out of level, law, replica, noise, or null"),
    ],
)  # fmt: skip
def test_one_fault(block, fault, tmp_path):
    assert faults(tmp_path, SHORT + block) == [f"4: {fault}"]


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ("sets: [{name: A}, {name: B}, {name: A}]", "data.sets.2.name: got 'A'; is in the list already"),
        ("sets: [{weight: 2}]", "data.sets.0.name: missing; must be text"),
        ("sets: [A]", "data.sets.0: got 'A'; must be a mapping with keys out of name, training_fraction, weight, cuts"),
        ("exclude: [A, A]", "data.exclude.1: got 'A'; is in the list already"),
        ("sets: [{name: A}], exclude: [B]", "data.exclude: got [B]; must be left out where data.sets names the sets"),
        ("cuts: {x_min: 0.5, x_max: 0.1}", "data.cuts.x_max: got 0.1; must be at least x_min = 0.5"),
        ("cuts: {q2_min: 5, q2_max: 1}", "data.cuts.q2_max: got 1; must be at least q2_min = 5"),
    ],
)
def test_one_fault_in_the_data(block, fault, tmp_path):
    assert faults(tmp_path, SHORT.replace(f"{PACK}", f"{PACK}, {block}")) == [f"2: {fault}"]


def test_a_pack_that_is_not_there(tmp_path):
    text = SHORT.replace(PACK, "../no.h5")
    assert faults(tmp_path, text) == [
        "2: data.pack: got '../no.h5'; no such file: DIR/no.h5; must be an HDF5 data pack"
    ]


def test_what_must_be_given_names_the_line_of_its_parent(tmp_path):
    assert faults(tmp_path, "# a card\n\nseed: 1\ntrain: {}\n") == [
        "3: replicas: missing; must be a whole number from 1 to 100000 or a range of ids such as 101-200",
        "3: data: missing; must be a mapping with keys out of pack, sets, exclude, training_fraction, cuts, t0",
        "4: train.steps: missing; must be a whole number from 1 to 100000000",
    ]


@pytest.mark.parametrize("text", ["[1, 2]", "- a", "hello", "7", "---"])
def test_a_card_is_a_mapping(text, tmp_path):
    assert "must be a mapping with keys out of workload, title, seed, replicas, " in faults(tmp_path, text)[0]


def test_nothing_is_said_twice_about_a_refused_value(tmp_path):
    assert faults(tmp_path, SHORT + "seed: !!int 3\ntitle: &t x\nengine: {xla: *t}") == [
        "4: seed: got the tag tag:yaml.org,2002:int; values have no tags",
        "5: title: got the anchor &t; write values out where they are used",
        "6: engine.xla: got the alias *t; write the value out",
    ]


def test_long_values_are_cut(tmp_path):
    (fault,) = faults(tmp_path, SHORT + f"seed: {'x' * 1000}")
    assert fault == f"4: seed: got '{'x' * 56}...; must be a whole number from 0 to 4294967295"
