"""The points of a sweep."""

import pytest

from tests.runcard.cards import TRANSLATIONS, write
from tests.workloads.translate.cards import SHORT
from tfperf.errors import CardError
from tfperf.runcard.sweep import list_values
from tfperf.workloads.cards import load_points


def points(folder, sweep):
    return load_points(write(folder, SHORT + sweep))[1]


def test_the_product_of_all_values_in_the_order_of_the_card(tmp_path):
    found = points(tmp_path, "sweep:\n  keys:\n    placement.preset: [Exp1, Exp4]\n    placement.devices: [1, 2]\n")
    assert [tuple(p.values.values()) for p in found] == [("Exp1", 1), ("Exp1", 2), ("Exp4", 1), ("Exp4", 2)]
    assert [p.card.placement.devices for p in found] == [1, 2, 1, 2]
    assert all(p.card.sweep is None for p in found)


def test_zip_takes_values_side_by_side(tmp_path):
    sweep = "sweep:\n  mode: zip\n  keys:\n    data.batch: [8, 16]\n    train.steps: {from: 10, to: 20, step: 10}\n"
    assert [p.values for p in points(tmp_path, sweep)] == [
        {"data.batch": 8, "train.steps": 10}, {"data.batch": 16, "train.steps": 20},
    ]  # fmt: skip


def test_points_are_left_out_that_have_a_value_of_each_key(tmp_path):
    keys = "{placement.preset: [Exp1, Exp4, Exp5], data.batch: [8, 16], train.steps: [10, 20]}"
    without = "[{placement.preset: [Exp1, Exp4], data.batch: [16]}, {train.steps: [20]}]"
    found = points(tmp_path, f"sweep:\n  keys: {keys}\n  without: {without}\n")
    assert [tuple(p.values.values()) for p in found] == [
        ("Exp1", 8, 10), ("Exp4", 8, 10), ("Exp5", 8, 10), ("Exp5", 16, 10),
    ]  # fmt: skip


def test_zip_leaves_out_too_and_true_is_not_one(tmp_path):
    sweep = "mode: zip\n  keys: {engine.xla: [true, false], seed: [1, 2]}\n  without: [{engine.xla: [true]}]\n"
    assert [p.values for p in points(tmp_path, f"sweep:\n  {sweep}")] == [{"engine.xla": False, "seed": 2}]
    with pytest.raises(CardError, match=r"no point has engine\.xla 1; sweep\.keys has True, False"):
        points(tmp_path, f"sweep:\n  {sweep}".replace("[true]}", "[1]}"))


def test_the_shipped_sweep_has_two_batches_of_exp5(tmp_path):
    text = TRANSLATIONS["translate_placement.yaml"]
    found = [p.values for p in load_points(write(tmp_path, text))[1]]
    assert len(found) == (5 + 1) * 4 * 2
    batches = {name: {v["data.batch"] for v in found if v["placement.preset"] == name} for name in ("Exp4", "Exp5")}
    assert batches == {"Exp4": {16}, "Exp5": {16, 45}}


@pytest.mark.parametrize(
    ("limits", "values"),
    [((1, 4, 1), (1, 2, 3, 4)), ((1, 4, 2), (1, 3)), ((0.1, 0.3, 0.1), (0.1, 0.2, 0.3)), ((5, 5, 9), (5,))],
)
def test_ranges_include_their_end(limits, values):
    assert list_values(dict(zip(("from", "to", "step"), limits, strict=True))) == pytest.approx(values)


@pytest.mark.parametrize(
    ("sweep", "fault"),
    [
        ("", "sweep: missing"),
        ("sweep: {keys: {}}", "sweep.keys: got a mapping"),
        ("sweep: {keys: {data.batch: []}}", "sweep.keys.data.batch: got []"),
        ("sweep: {keys: {data.batch: {from: 1, to: 2}}}", "needs from, to and step; step is missing"),
        ("sweep: {keys: {data.batch: {from: 3, to: 2, step: 1}}}", "must have from <= to and a step above 0"),
        ("sweep: {mode: zip, keys: {data.batch: [1], seed: [1, 2]}}", "there are: data.batch 1, seed 2"),
        ("sweep: {keys: {data.bach: [1]}}", "data.bach: unknown key; did you mean `batch`?"),
        ("sweep: {keys: {data.batch: [1, 0, -1]}}", "card.yaml:6: data.batch: got 0; must be auto or a whole number"),
        (
            "sweep: {keys: {seed: [1]}, without: [{sed: [1]}]}",
            "sed is not swept; must name keys of sweep.keys: seed",
        ),
        (
            "sweep: {keys: {seed: [1]}, without: [{seed: [2]}]}",
            "sweep.without.0: got a mapping; no point has seed 2;",
        ),
        ("sweep: {keys: {seed: [1, 2]}, without: [{seed: [1, 2]}]}", "sweep.without: got a list; must leave a point"),
        ("sweep: {keys: {sweep.repeats: [1]}}", "sweep.keys.sweep.repeats: cannot be swept"),
        ("sweep: {keys: {placement.preset: [Exp1, Exp9]}}", "placement.preset: got 'Exp9'; "),
    ],
)
def test_what_is_wrong_with_any_point_is_said_at_its_place(sweep, fault, tmp_path):
    with pytest.raises(CardError) as caught:
        points(tmp_path, sweep)
    assert fault in str(caught.value)
