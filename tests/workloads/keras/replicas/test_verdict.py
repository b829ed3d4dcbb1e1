"""The sentences at the top of an ensemble's page, and what it says of settings, choices and times."""

import html
import re

import numpy as np
import pytest

from tfperf.report.style import apply_style
from tfperf.workloads.keras.replicas import page
from tfperf.workloads.keras.replicas.calibration import compare_classes, compare_numbers
from tfperf.workloads.keras.replicas.outcome import EnsembleOutcome, ReplicaTable
from tfperf.workloads.keras.replicas.settings import list_settings
from tfperf.workloads.keras.replicas.summary import describe_ensemble
from tfperf.workloads.keras.replicas.verdict import list_verdicts

SETTINGS = {
    "seed": 7, "data": "bootstrap", "epochs": 40, "batch": 32, "patience": 5, "learning_rate": 1e-3,
    "loss_weight": None, "callbacks": 0,
}  # fmt: skip
TIMINGS = [
    {"form": "lanes", "products": "whole", "xla": False, "ms_of_all": 30.0},
    {"form": "stacked", "products": "whole", "xla": True, "ms_of_all": 14.7},
    {"form": "stacked", "products": "parts", "xla": True, "ms_of_all": 9.0},
]


def make_summary(calibration, settings=SETTINGS, **changes):
    ends = dict.fromkeys(("least", "q1", "median", "q3", "most"), 12.0)
    return {
        "replicas": {
            "total": 6, "usable": 5, "failed": [4], "by_status": {"stopped": 3, "all_epochs": 2, "quarantined": 1},
        },
        "monitored": "val_loss", "best": ends, "epochs": ends, "stop_epochs": ends, "parameters": 9,
        "calibration": calibration, "settings": settings, "not_stacked": [],
        "choices": {
            "form": "stacked", "products": "whole", "xla": False, "threads": 4, "cpu_stacks": 1, "steps_per_call": 90,
            "tried": TIMINGS,
        },
        "ms_per_step": {"median": 10.2, "q1": 9.23, "q3": 10.7}, "seconds": {"train": 2.0, "write": 0.0, "total": 3.5},
    } | changes  # fmt: skip


def list_texts(summary):
    return [(one.text, one.warns) for one in list_verdicts(summary)]


def judge_numbers(shift, spread):
    """Targets -1 and 1, five replicas that lie this far apart, whose mean is off by `shift`."""
    targets = np.array([[-1.0], [1.0]])
    found = targets + shift + spread * np.array([-1, -1, 0, 1, 1])[:, None, None]
    return compare_numbers(found, targets).figures | {"unweighted": False}


def test_narrow_spreads_and_means_as_bad_as_a_constant_are_warned_of():
    beside, bands, ends = list_texts(make_summary(judge_numbers(0.5, 0.1)))
    assert "by 0.5 (root mean square)" in beside[0] and "would miss them by 1." in beside[0] and not beside[1]
    assert bands == (
        "The replicas differ by 0.1 (standard deviation), 0.2 times that error: the bands do not show the errors of "
        "predictions.",
        True,
    )
    assert ends == ("3 of 6 replicas stopped early (patience 5), after epoch 12 in the median; 1 broke.", False)
    beside, bands, _ = list_texts(make_summary(judge_numbers(1.0, 0.6)))
    assert beside[0].endswith("The mean is no better than the constant.") and beside[1]
    assert bands == ("The replicas differ by 0.6 (standard deviation), 0.6 times that error.", False)


@pytest.mark.parametrize(("right", "worse"), [(3, True), (4, False)])
def test_accuracies_are_beside_that_of_the_most_frequent_class(right, worse):
    classes = np.array([0, 0, 0, 1, 1])
    sure = np.eye(2)[np.where(np.arange(5) < right, classes, 1 - classes)]
    said, _ = list_texts(make_summary(compare_classes(np.stack([sure, sure]), classes).figures))
    assert said[1] is worse
    assert f"has {20 * right}.0 %" in said[0] and "most frequent class: 60.0 %" in said[0]


def test_of_nothing_to_compare_the_ends_are_told():
    count = {"total": 4, "failed": [], "by_status": {"all_epochs": 4}}
    settings = SETTINGS | {"patience": None}
    assert list_texts(make_summary({"n/a": "why"}, settings, replicas=count)) == [
        ("None of 4 replicas stopped early; none broke.", False)
    ]


def test_the_page_has_verdicts_settings_and_what_was_measured():
    ids = np.arange(1, 7)
    status = ("stopped",) * 3 + ("all_epochs",) * 2 + ("quarantined",)
    history = {"loss": np.ones((4, 6)), "val_loss": np.ones((4, 6))}
    summary = make_summary(judge_numbers(0.5, 0.1))
    found = EnsembleOutcome("", ReplicaTable(ids, ids, ids, ids, ids, status), {}, history, b"", summary)
    text = page.render_report("title", found, None)
    assert 'class="warning">The replicas differ' in text
    assert text.index("misses the validation targets") < text.index("<table")
    for row in (
        ("stopped early (patience 5)", "3"), ("patience, validations", "5"), ("epochs at most", "40"), ("seed", "7"),
        ("learning rate at the start", "0.001"), ("form", "stacked, TensorFlow graph"),
        ("in the training, a step of all replicas", "10.2 ms (quartiles 9.23 to 10.7)"),
        ("all before this page was written", "3.50"), ("steps per compiled call", "90"),
        (
            "measured before training, ms a step of all replicas",
            "lanes, TensorFlow graph: 30; stacked, one stack, XLA: 14.7; stacked, 4 stacks side by side, XLA: 9",
        ),
    ):  # fmt: skip
        cells = [re.escape(html.escape(cell)) for cell in row]
        wanted = "</td>".join(f"<td[^>]*>{cell}" for cell in cells)
        assert re.search(wanted, text.replace("<wbr>", "")), row
    assert "<td>write</td>" not in text


def test_settings_of_each_replica_are_told_by_their_range():
    rows = dict(list_settings(SETTINGS | {"learning_rate": [0.1, 0.3, 0.2], "loss_weight": 2.0, "data": "masks"}))
    assert rows["learning rate at the start"] == "0.1 to 0.3, one for each replica"
    assert rows["weight of the samples' loss"] == "2" and rows["training samples of each replica"] == "by masks"
    assert "schedule" in dict(list_settings(SETTINGS | {"learning_rate": None}))["learning rate at the start"]
    assert dict(list_settings(SETTINGS | {"callbacks": 2}))["callbacks of each replica"] == "2"


def test_reports_of_earlier_versions_are_printed():
    summary = make_summary({})
    del summary["settings"]
    assert "3 stopped early, 2 all epochs" in describe_ensemble(summary)[0]
    assert "90 steps per compiled call" in describe_ensemble(summary)[-1]


def test_curves_are_marked_from_where_fewer_than_half_are_left():
    losses = np.ones((5, 4))
    losses[2:, :2] = np.nan  # two of four are left, which is half
    losses[3:, 2] = np.nan
    assert page.find_last_of_half(losses) == 3
    with apply_style():
        (axis,) = page.draw_curves({"loss": losses}).axes
    (mark,) = (one for one in axis.lines if one.get_label() == "fewer than half left")
    np.testing.assert_array_equal(mark.get_xdata(), [3.5, 3.5])
    assert page.find_last_of_half(np.ones((5, 4))) is None and page.find_last_of_half(None) is None
    assert len(page.draw_curves({"loss": np.ones((5, 4))}).axes[0].lines) == 1
    legend = axis.get_legend()
    assert legend is not None and axis.figure is not None
    place = legend.get_window_extent()
    assert axis.get_window_extent().x1 <= place.x0 < place.x1 <= axis.figure.bbox.x1  # beside the curves
