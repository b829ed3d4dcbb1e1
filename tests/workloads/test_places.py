"""Faults of a card that only its data tell: all at once, each with its place, among those of the card itself."""

import re
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import tfperf
from tests.make_hadronic import make_pack as make_hadronic_pack
from tests.make_pack import X, make_pack
from tests.make_result import make_result
from tests.workloads.translate.cards import SHORT as TRANSLATION
from tests.workloads.translate.cards import TABLE
from tfperf.cli import main
from tfperf.errors import CardError
from tfperf.study.sweep_plan import plan_sweep
from tfperf.workloads.pdf.card import Card, Data, Train
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.results import store
from tfperf.workloads.translate.cards import load_card as load_translation
from tfperf.workloads.translate.texts import read_sentences

pytestmark = pytest.mark.usefixtures("blank_pictures")

CARD = """\
title: faults
replicas: 3
data:
  pack: pack.h5
  sets:
    - name: AAA_F2
    - name: AAA_FX
    - name: BBB_RATIO
      cuts: {x_min: 0.99}
    - {name: DDD_SM}
  cuts: {q2_min: 1e9}
  t0: none
positivity:
  sets: [POS, POSS]
covariance:
  extra: extra.h5
closure:
  law: run
  replica: 77
train: {steps: 20}
"""
NAMES = "AAA_F2, AAA_FL, BBB_RATIO, CCC_ADD, CCC_ASY, DDD_SMN, EEE_COM"
HAVE = "the pack does not have it"
FAULTS = [
    f"7: data.sets.1.name: got 'AAA_FX'; {HAVE}; did you mean `AAA_FL`?",
    "9: data.sets.2.cuts: got a mapping; no point of BBB_RATIO passes; widen the cuts or leave the set out",
    f"10: data.sets.3.name: got 'DDD_SM'; {HAVE}; did you mean `DDD_SMN`?",
    "11: data.cuts: got a mapping; no point of AAA_F2 passes; widen the cuts or leave the set out",
    f"14: positivity.sets.1: got 'POSS'; {HAVE}; did you mean `POS`?",
    "16: covariance.extra: got 'DIR/extra.h5'; DIR/extra.h5: covmat: got shape (2,); must have 2 dimensions (M, M)",
    "19: closure.replica: got 77; DIR/run has no converged replica of that number",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pack, runs on its grid (`run`), on another (`grid`) and at another scale (`scale`), an extra covariance."""
    folder = tmp_path_factory.mktemp("places")
    make_pack(folder / "pack.h5")
    made = make_result()
    here = replace(made, x=X, pdf=made.pdf[:, :, : len(X)], q0=1.65)
    for name, result in (("run", here), ("grid", made), ("scale", replace(here, q0=2.0))):
        (folder / name).mkdir()
        store.write(folder / name / "results.h5", result)
    with h5py.File(folder / "extra.h5", "w") as file:
        file["covmat"], file["sets"], file["rows"] = np.ones(2), ["A", "B"], [0, 1]
    return folder


def check(folder, text, *overrides):
    """The faults that `tfperf check` prints, paths left out: `7: data.sets.1.name: ...`."""
    path = folder / "card.yaml"
    path.write_text(text)
    sets = [word for one in overrides for word in ("--set", one)]
    result = CliRunner().invoke(main, ["check", str(path), *sets])
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result.output
    # but those of the stages
    told = [line for line in result.output.splitlines() if not re.match(r"\d:\d\d:\d\d ", line)]
    lines = [line.removeprefix(f"error: {path}:").removeprefix("error: ") for line in told]
    return [line.replace(str(folder), "DIR") for line in lines]


def test_all_faults_that_the_data_tell_come_at_once_in_the_order_of_the_lines(folder):
    assert check(folder, CARD) == FAULTS


def test_faults_of_the_card_itself_stand_among_them(folder):
    text = CARD.replace("title", "titel").replace("replicas: 3", "replicas: many").replace("steps: 20", "stps: 20")
    found = check(folder, text, "engine.xla=maybe")
    assert found[0] == "1: titel: unknown key; did you mean `title`?"
    assert found[1].startswith("2: replicas: got 'many'; must be a number of replicas")
    assert found[2:-3] == FAULTS
    assert [one.split(";")[0] for one in found[-3:]] == [
        "20: train.steps: missing", "20: train.stps: unknown key", "--set engine.xla=maybe: engine.xla: got 'maybe'",
    ]  # fmt: skip


def test_what_rests_on_a_refused_value_is_not_told(folder):
    """Without the misspelt keys of data other points would be fitted; names are wrong whatever was meant."""
    found = check(folder, CARD.replace("  t0: none", "  t00: none").replace("- name: AAA_F2", "- 7"))
    assert [one.split(": got")[0] for one in found] == [
        "6: data.sets.0", "7: data.sets.1.name", "9: data.sets.2.cuts", "10: data.sets.3.name",
        "12: data.t00: unknown key; did you mean `t0`?", "14: positivity.sets.1", "19: closure.replica",
    ]  # fmt: skip


def test_overrides_are_named_as_their_place(folder):
    text = "replicas: 3\ndata: {pack: pack.h5}\ntrain: {steps: 20}\n"
    assert check(folder, text, "data.exclude=[AAA_F2, CCC]", "positivity.sets=[NEG]") == [
        f"--set data.exclude=[AAA_F2, CCC]: data.exclude.1: got 'CCC'; {HAVE}; did you mean `CCC_ASY`?",
        f"--set positivity.sets=[NEG]: positivity.sets.0: got 'NEG'; {HAVE}; allowed: POS",
    ]
    assert check(folder, text, "data.exclude=[AAA_F2]", "data.exclude.0=nothing") == [
        f"--set data.exclude.0=nothing: data.exclude.0: got 'nothing'; {HAVE}; allowed: {NAMES}"
    ]
    everything = f"data.exclude=[{NAMES}]"
    assert check(folder, text, everything) == [
        f"--set {everything[:70]}...: data.exclude: got [AAA_F2, AAA_FL, BBB_RATIO, CCC_ADD, CCC_ASY, DDD_SMN, EE...; "
        "no dataset is left to fit"
    ]


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ("closure: {law: grid}", "4: closure.law: got 'DIR/grid'; DIR/grid was fitted on another x grid than that of"),
        (
            "closure: {law: scale}",
            "4: closure.law: got 'DIR/scale'; DIR/scale was fitted at Q0 = 2 GeV, DIR",
        ),
        ("closure: {law: run, replica: 100}", "4: closure.replica: got 100; DIR/run has no converged replica"),
        ("closure: {law: .}", "4: closure.law: got 'DIR'; DIR/results.h5 does not exist or is no file"),
        (
            "covariance: {extra: pack.h5}",
            "4: covariance.extra: got 'DIR/pack.h5'; DIR/pack.h5: has no covmat and no rows and no sets; must be HDF5",
        ),
    ],
)
def test_files_that_do_not_fit_the_pack(folder, block, fault):
    (found,) = check(folder, f"replicas: 3\ndata: {{pack: pack.h5}}\ntrain: {{steps: 20}}\n{block}\n")
    assert found.startswith(fault)


def test_a_run_for_t0_on_another_grid(folder):
    (found,) = check(folder, "replicas: 3\ndata:\n  pack: pack.h5\n  t0: grid\ntrain: {steps: 20}\n")
    assert found.startswith("4: data.t0: got 'DIR/grid'; DIR/grid was fitted on another x grid")


def test_an_extra_covariance_of_other_sets_is_told_with_the_nearest(folder):
    with h5py.File(folder / "other.h5", "w") as file:
        file["covmat"], file["sets"], file["rows"] = np.eye(2), ["AAA_F22", "BBB"], [0, 1]
    text = "replicas: 3\ndata: {pack: pack.h5}\ntrain: {steps: 20}\ncovariance: {extra: other.h5}\n"
    (found,) = check(folder, text)
    assert found.startswith("4: covariance.extra: ") and found.endswith("did you mean AAA_F22?")


def test_cuts_of_a_hadronic_set(tmp_path):
    make_hadronic_pack(tmp_path / "pack.h5")
    text = "replicas: 3\ndata:\n  pack: pack.h5\n  sets:\n  - {name: DY, cuts: {q2_min: 40}}\ntrain: {steps: 20}\n"
    assert check(tmp_path, text) == [
        "5: data.sets.0.cuts: got a mapping; the tables of DY are hadronic: it has no x and Q2 to cut on; "
        "`columns` cuts on rapidity, mass"
    ]


@pytest.mark.parametrize("verb", ["fit", "closure", "ablate"])
def test_every_verb_tells_the_place(folder, tmp_path, verb):
    path = folder / "verbs.yaml"
    path.write_text("replicas: 3\ndata:\n  pack: pack.h5\n  exclude: [AAA]\ntrain: {steps: 20}\n")
    result = CliRunner().invoke(main, [verb, str(path), "-o", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert f"error: {path}:4: data.exclude.0: got 'AAA'; {HAVE}; did you mean `AAA_FL`?\n" in result.output


def test_a_swept_name_is_told_at_the_key_of_the_sweep(folder):
    path = folder / "sweep.yaml"
    keys = "sweep:\n  keys:\n    positivity.sets.0: [POS, POSS]\n    seed: [1, 2, 3]\n"
    path.write_text(f"replicas: 3\ndata: {{pack: pack.h5}}\ntrain: {{steps: 20}}\npositivity: {{sets: [POS]}}\n{keys}")
    with pytest.raises(CardError) as caught:
        plan_sweep(path, [])
    assert str(caught.value) == f"{path}:7: positivity.sets.0: got 'POSS'; {HAVE}; did you mean `POS`?"


def test_columns_that_a_table_does_not_have(tmp_path):
    text = TRANSLATION.replace("german", "germn").replace("steps", "stps") + "title: [1]\n"
    assert check(tmp_path, text)[:2] == [
        f"3: data.training.columns.1: got 'germn'; {TABLE} has no such column; did you mean `german`?",
        "4: train.steps: missing; must be a whole number from 1 to 100000000",
    ]
    path = tmp_path / "card.yaml"
    path.write_text(TRANSLATION.replace(", columns: [english, german]", ""))
    with pytest.raises(CardError) as caught:
        read_sentences(load_translation(path))
    first = f"{path}:3: data.training.columns.0: source by default; {TABLE} has no such column; allowed: "
    assert caught.value.faults[0].startswith(first) and len(caught.value.faults) == 2


def test_a_card_made_in_python_has_no_places(folder):
    data = Data(pack=(folder / "pack.h5").resolve(), exclude=("CCC",))
    with pytest.raises(CardError) as caught:
        tfperf.fit(Card(replicas=(1,), data=data, train=Train(steps=20)))
    assert str(caught.value) == f"data.exclude.0: got 'CCC'; {HAVE}; did you mean `CCC_ASY`?"


def test_where_a_card_came_from_is_no_part_of_its_value(folder):
    path = folder / "same.yaml"
    path.write_text("replicas: 3\ndata: {pack: pack.h5}\ntrain: {steps: 20}\n")
    (folder / "again.yaml").write_text("\n\n" + path.read_text())
    one, other = load_card(path), load_card(folder / "again.yaml")
    assert one == other and repr(one) == repr(other) and "source" not in repr(one)
    assert replace(one, seed=0) == one


def test_a_faulty_pack_is_told_by_itself(tmp_path):
    (tmp_path / "pack.h5").write_bytes(b"no pack")
    (found,) = check(tmp_path, "replicas: 3\nsede: 1\ndata: {pack: pack.h5, exclude: [A]}\ntrain: {steps: 20}\n")
    assert found.startswith("2: sede: unknown key")


@pytest.mark.parametrize("card", [None, 5, b"card.yaml", [], "a\0b", Path])
def test_fit_takes_a_card_or_a_path(card):
    with pytest.raises(CardError, match=r"card: got .*; must be a card of a workload, or the path"):
        tfperf.fit(card)


def test_fit_takes_no_overrides_beside_a_card(folder):
    card = Card(replicas=(1,), data=Data(pack=folder / "pack.h5"), train=Train(steps=20))
    with pytest.raises(CardError, match="overrides: given with a card"):
        tfperf.fit(card, overrides=["seed=2"])


def test_a_pack_without_t0_is_told_with_the_rest(folder):
    (folder / "no_t0.h5").write_bytes((folder / "pack.h5").read_bytes())
    with h5py.File(folder / "no_t0.h5", "a") as file:
        del file["AAA_F2/t0"]
    text = "replicas: 3\ndata:\n  pack: no_t0.h5\n  t0: pack\n  exclude: [CCC]\ntrain: {steps: 20}\n"
    assert check(folder, text) == [
        "4: data.t0: got 'pack'; the pack has no t0 for AAA_F2; allowed: none, fit, a run folder",
        f"5: data.exclude.0: got 'CCC'; {HAVE}; did you mean `CCC_ASY`?",
    ]
