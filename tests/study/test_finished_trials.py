import json

import numpy as np
import pytest
from scipy.stats import t as student

from tfperf.errors import RunDirectoryError
from tfperf.study.finished_trials import RESULTS, FinishedTrial, make_point_key, read_finished_trials, summarise_points


def row(values, repeat, ms):
    return FinishedTrial(values, repeat, 1.0, {"ms_per_step": {"median": ms, "q1": ms, "q3": ms}})


def unchecked(one):
    """What a line holds beside its checksum."""
    return {key: value for key, value in json.loads(one.format_line()).items() if key != "sha256"}


def test_repeats_are_summed_up_by_their_medians():
    times = [1.0, 1.2, 2.0]
    found = [row({"a": 1}, i, ms) for i, ms in enumerate(times, 1)]
    (point,) = summarise_points(
        [*found, FinishedTrial({"a": 1}, 4, 0.1, error="boom"), FinishedTrial({"a": 1}, 5, 0.1, error="boom")]
    )
    middle, half = np.mean(np.log(times)), student.ppf(0.975, 2) * np.std(np.log(times), ddof=1) / np.sqrt(3)
    assert (point.median, point.repeats, point.failures) == (1.2, 3, 2) and point.mean == pytest.approx(np.exp(middle))
    assert (point.low, point.high) == pytest.approx((np.exp(middle - half), np.exp(middle + half)))
    assert point.errors == ("boom",)


def test_one_repeat_has_no_interval_and_none_no_time():
    one, none = summarise_points([row({"a": 1}, 1, 2.0), FinishedTrial({"a": 2}, 1, 0.1, error="boom")])
    assert one.median == one.mean == 2.0 and one.low is None and one.high is None
    assert none.median is None and none.repeats == 0 and none.failures == 1


def test_values_of_different_types_are_different_points():
    assert len({make_point_key({"a": value}) for value in (1, 1.0, True, "1", None)}) == 5
    assert make_point_key({"a": 1, "b": 2}) == make_point_key({"b": 2, "a": 1})


def test_rows_survive_the_file_and_the_last_line_of_a_trial_counts(tmp_path):
    first, second = row({"a": "é\u2028\n"}, 1, 2.0), FinishedTrial({"a": None}, 1, 0.5, error="boom")
    lines = [first.format_line(), second.format_line(), row({"a": None}, 1, 3.0).format_line()]
    (tmp_path / RESULTS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert (
        read_finished_trials(tmp_path) == [first, row({"a": None}, 1, 3.0)]
        and read_finished_trials(tmp_path / "none") == []
    )
    (tmp_path / RESULTS).write_text("\n".join(lines), encoding="utf-8")
    assert read_finished_trials(tmp_path) == [first, second], "the last line has no end"


@pytest.mark.parametrize(
    "line", ["{}", "[1]", "nan", json.dumps({"values": {}, "repeat": 1, "seconds": 1, "record": {}, "error": ""})]
)
def test_damage_is_told_with_its_line(tmp_path, line):
    (tmp_path / RESULTS).write_text(row({"a": 1}, 1, 2.0).format_line() + "\n" + line + "\n")
    with pytest.raises(RunDirectoryError, match=r"results\.jsonl:2: damaged"):
        read_finished_trials(tmp_path)


@pytest.mark.parametrize(("old", "new"), [(" 2.0", " 3.0"), ('"sha256": "', '"sha256": "0'), ('"a": 1', '"a": 2')])
def test_a_line_that_was_changed_is_not_taken(tmp_path, old, new):
    line = row({"a": 1}, 1, 2.0).format_line()
    (tmp_path / RESULTS).write_text(line.replace(old, new, 1) + "\n")
    with pytest.raises(RunDirectoryError, match=r"results\.jsonl:1: damaged \(its checksum does not fit"):
        read_finished_trials(tmp_path)


def test_a_line_without_a_checksum_is_one_of_an_earlier_time(tmp_path):
    (tmp_path / RESULTS).write_text(json.dumps(unchecked(row({"a": 1}, 1, 2.0))) + "\n")
    assert read_finished_trials(tmp_path) == [row({"a": 1}, 1, 2.0)]


def test_what_is_no_text_is_told_with_its_line(tmp_path):
    lines = [row({"a": k}, 1, 2.0).format_line().encode() for k in range(3)]
    (tmp_path / RESULTS).write_bytes(
        lines[0] + b"\n" + lines[1][:20] + b"\xff" + lines[1][20:] + b"\n" + lines[2] + b"\n"
    )
    with pytest.raises(RunDirectoryError, match=r"results\.jsonl:2: damaged"):
        read_finished_trials(tmp_path)


HOSTILE = [
    {"repeat": [1]}, {"repeat": "1"}, {"repeat": 0}, {"seconds": "x"}, {"seconds": -5.0}, {"error": 5},
    {"error": ["a"]},
    {"values": [["a", 1]]}, {"values": {"a": [1]}}, {"more": 1},
    *({"record": {"ms_per_step": {"median": 2.0}} | {key: value}} for key, value in (
        ("pairs_per_second", 0.0), ("words_per_second", -1.0), ("pairs_per_second", float("inf")),
        ("words_per_second", "a"), ("left_out", "x"), ("left_out", -1),
        ("samples_ms", "abc"), ("samples_ms", [-1.0]), ("machine", "x"), ("ms_per_step", {"median": -5.0}),
        ("ms_per_step", {"median": 1e308}), ("ms_per_step", {"median": float("inf")}),
        ("ms_per_step", {"median": float("nan")}), ("ms_per_step", {"median": 1.0, "q1": "z"}),
    )),
]  # fmt: skip


@pytest.mark.parametrize("change", HOSTILE, ids=str)
def test_figures_that_cannot_be_are_damage(tmp_path, change):
    line = json.dumps(unchecked(row({"a": 1}, 1, 2.0)) | change)
    (tmp_path / RESULTS).write_text(line + "\n")
    with pytest.raises(RunDirectoryError, match=r"results\.jsonl:1: damaged"):
        read_finished_trials(tmp_path)


def test_half_a_letter_is_damage(tmp_path):
    (tmp_path / RESULTS).write_text(
        json.dumps(unchecked(FinishedTrial({"a": 1}, 1, 1.0, error="boom"))).replace("boom", "\\ud800") + "\n"
    )
    with pytest.raises(RunDirectoryError, match="damaged"):
        read_finished_trials(tmp_path)
