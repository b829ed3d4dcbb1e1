"""Every sentence that a recommendation can say, from rows made by hand that bear it out, and from rows that do not."""

import re

import pytest

from tests.study.sweep_records import disproved, point
from tfperf.report.placements import describe_rows, group_rows
from tfperf.report.recommendation import DIVERGED, NOT_MEASURED, NOT_PROVED, SHARED, recommend
from tfperf.study.finished_trials import FinishedTrial
from tfperf.study.placements import make_placement_rows

STRONG = "Strong scaling: the same 8 examples a step, divided among the devices, 22.5 columns a batch."
NOISE = (0.99, 1.0, 1.01, 1.005)  # of four repeats


def near(ms, order=(0, 1, 2, 3)):
    """Times of four repeats around one that is told apart from another by a few per cent."""
    return [ms * NOISE[i] for i in order]


def said(*points):
    return recommend(make_placement_rows([row for rows in points for row in rows]))


def one(*points):
    (text,) = said(*points)
    return text


ONE, TWO = point("Exp1", 1, near(40.0)), point("Exp1", 2, near(25.0, (3, 1, 0, 2)))


def test_the_fastest_is_named_with_its_speedup_and_efficiency():
    text = one(ONE, TWO, point("Exp4", 2, near(30.0)))
    assert text.startswith(f"{STRONG} Fastest: Exp1 on 2 devices, 3196 [3153, 3240] words/s.")
    assert "words/s. That is 1.60 [1.56, 1.64] times the examples per second of one device with the same" in text
    assert re.search(r"an efficiency of 0\.800 \[0\.781, 0\.819\]\.", text)


def test_without_its_one_device_nothing_is_said_of_a_speedup():
    text = one(TWO, point("Exp4", 2, near(30.0)))
    assert "Fastest: Exp1 on 2 devices" in text and "one device" not in text and "efficiency" not in text
    text = one(ONE, point("Exp4", 1, near(60.0)))
    assert "Fastest: Exp1 on 1 device," in text and "efficiency" not in text


def test_of_a_tie_the_fewest_devices_are_named():
    text = one(ONE, point("Exp4", 2, [39.0, 41.0, 37.0, 40.5]))
    assert "Recommended: Exp1 on 1 device, " in text and "Fastest" not in text
    assert "within the intervals as fast as Exp4 on 2 devices, on fewer devices." in text


def test_the_fastest_with_the_fewest_devices_is_named_beside_its_ties():
    text = one(point("Exp1", 1, [38.0, 38.0, 39.0, 38.5]), point("Exp4", 2, [39.0, 38.0, 37.0, 40.5]))
    assert "Recommended: Exp1 on 1 device, " in text
    assert "Exp4 on 2 devices cannot be told apart from it, and takes more devices." in text


def test_a_tie_on_as_many_devices_is_a_tie():
    tie = ONE, point("Exp4", 1, [41.0, 39.0, 38.0, 43.0])
    assert one(*tie) == f"{STRONG} A tie within the intervals: Exp1 on 1 device, Exp4 on 1 device."
    more = one(*tie, point("Exp2", 2, [41.0, 39.0, 43.0, 38.0]), point("Exp2", 4, [41.0, 39.0, 43.0, 38.0]))
    assert more.startswith(
        f"{STRONG} A tie within the intervals: Exp1 on 1 device, Exp4 on 1 device; so are Exp2 on 2 devices, Exp2 on 4 "
        "devices, on more devices."
    )


def test_slower_counts_of_devices_are_told_if_they_were_measured():
    text = one(ONE, TWO, point("Exp1", 4, near(50.0)), point("Exp4", 4, near(60.0)))
    limits = r"\[0\.\d+, 0\.\d+\] times the speed of Exp1 on 2 devices\."
    assert re.search(rf"On 1 device Exp1 was slower: 0\.62\d {limits}", text)
    assert re.search(rf"On 4 devices Exp1 was slower: 0\.50\d {limits}", text)
    assert "8 devices" not in text and "3 devices" not in text


def test_nothing_is_said_of_counts_that_were_not_measured():
    text = " ".join(said(ONE, TWO, point("Exp4", 2, near(30.0))))
    assert {int(n) for n in re.findall(r"(\d+) device", text)} == {1, 2}
    assert "More devices" not in text and "more devices" not in text


def test_other_work_is_not_weighed():
    fast = point("Exp5", 4, near(1.0), content="other")
    texts = said(ONE, TWO, fast, point("Exp1", 1, near(0.1), values={"model.units": 8}))
    assert len(texts) == 3 and any("Fastest: Exp1 on 2 devices" in text for text in texts)
    alone = [text for text in texts if "there is nothing to choose from" in text]
    assert len(alone) == 2 and any("Only Exp5 on 4 devices was measured and proved, 79" in text for text in alone)
    assert any(text.startswith(f"{STRONG[:-1]}, units 8.") for text in alone)
    assert not any("Fastest: Exp5" in text or "efficiency" in text for text in alone)


def test_weak_scaling_weighs_placements_on_as_many_devices():
    rows = [
        point(name, devices, near(ms), scaling="weak")
        for name, devices, ms in (("Exp1", 1, 40.0), ("Exp4", 1, 30.0), ("Exp1", 2, 50.0), ("Exp4", 2, 70.0))
    ]
    texts = said(*rows)
    assert len(texts) == 2 and all(text.startswith("Weak scaling: 8 examples on each device") for text in texts)
    assert "1 device. Fastest: Exp4 on 1 device" in texts[0] + texts[1]
    (two,) = [text for text in texts if "Fastest: Exp1 on 2 devices" in text]
    assert re.search(r"That is 1\.60 \[1\.60, 1\.60\] times .* an efficiency of 0\.800", two)
    assert "slower" not in two, "the two devices did twice the work of one"


def test_batches_drawn_for_each_number_of_devices_are_not_weighed():
    rows = [point("Exp1", n, near(40.0 / n), scaling=None) for n in (1, 2)]
    texts = said(*rows)
    assert len(texts) == 2 and all("nothing to choose from" in text for text in texts)


@pytest.mark.parametrize("repeats", [[30.0], []])
def test_one_repeat_recommends_nothing(repeats):
    text = one(point("Exp1", 1, [40.0]), point("Exp4", 1, [30.0, *repeats]))
    assert "Exp4 on 1 device had the most words per second" in text and "nothing is recommended" in text
    assert "tell nothing of chance for Exp1 on 1 device" in text and "sweep.repeats: 3 or more" in text
    assert "Fastest" not in text and "Recommended" not in text


def test_a_row_with_one_repeat_does_not_keep_others_from_being_weighed():
    text = one(ONE, TWO, point("Exp4", 2, [30.0]), point("Exp4", 4, [30.0]))
    assert "Fastest: Exp1 on 2 devices" in text and "On 1 device Exp1 was slower" in text
    assert text.endswith("Not weighed, with fewer than two repeats beside it: Exp4 on 2 devices, Exp4 on 4 devices.")
    assert "On 4 devices" not in text


def test_a_single_point_is_not_praised():
    text = one(point("Exp1", 2, near(40.0)))
    assert "Only Exp1 on 2 devices was measured and proved, 1998 [" in text
    assert text.endswith("there is nothing to choose from.")
    assert one(point("Exp1", 2, near(40.0)), [disproved("Exp2", 2)]) == text, "Exp2 was measured, too"


def test_where_the_time_goes_is_told_where_the_trace_is_of_such_steps():
    traced = (
        "A traced step took 40.0 ms. The largest part is the steps of recurrent layers, one after the other: 18.0 ms "
        "(45%). The bound of a step is 22.0 ms."
    )
    assert traced in one(ONE, point("Exp4", 1, near(60.0)))
    assert "bound" not in one(point("Exp1", 1, near(40.0), step_ms=45.0), point("Exp4", 1, near(60.0)))
    assert "bound" not in one(point("Exp1", 1, near(20.0), step_ms=20.0), point("Exp4", 1, near(60.0))), "it is longer"
    assert "bound" not in one(*[point(name, 1, [41.0, 39.0, 38.0, 43.0]) for name in ("Exp1", "Exp4")]), "a tie"


def test_what_is_not_proved_cannot_win():
    fast = [disproved("Exp2", 2), *point("Exp2", 2, near(1.0))[1:]]
    text = one(ONE, TWO, fast)
    assert "Exp2" not in text and "Fastest: Exp1 on 2 devices" in text
    assert said(fast) == [NOT_PROVED]


def test_nothing_measured_recommends_nothing():
    failed = [FinishedTrial({"placement.preset": "Exp2"}, 1, 1.0, error="its process was killed")]
    assert recommend(make_placement_rows(failed)) == [NOT_MEASURED]
    assert said([*failed, *ONE[1:]]) == [NOT_PROVED], "no trial with a proof"
    both = [*failed, *point("Exp1", 1, [40.0])]
    assert "was measured" in one(both)


def test_nothing_is_recommended_where_devices_share_cores():
    rows = [point("Exp1", n, near(40.0), logical=True) for n in (1, 2)]
    assert said(*rows) == [SHARED] and "nothing is recommended" in SHARED


def test_rows_on_logical_cpus_are_not_weighed_with_others():
    shared = point("Exp1", 2, near(10.0), logical=True)
    first, last = said(ONE, point("Exp4", 1, near(60.0)), shared)
    assert "Fastest: Exp1 on 1 device" in first and "2 devices" not in first
    assert last == f"Of the other rows: t{SHARED[1:]}"
    (row,) = [row for row in make_placement_rows([*ONE, *shared]) if row.logical]
    assert row.speedup is row.against_best is None and "on logical CPUs" in dict(group_rows([row])).popitem()[0]


@pytest.mark.parametrize("loss", [None, float("nan"), float("inf")])
def test_what_computes_no_numbers_cannot_win(loss):
    fast = point("Exp4", 2, near(1.0))
    fast[2].record["losses"] = {"first": 8.3, "last": loss}
    assert one(ONE, TWO, fast) == one(ONE, TWO) and said(fast) == [DIVERGED]
    found = make_placement_rows([*ONE, *fast, *point("Exp4", 1, near(2.0))])
    assert [title.endswith("with losses that are no numbers") for title, _ in group_rows(found)] == [False, True]
    (bad,) = [row for row in found if row.diverged]
    assert bad.speedup is bad.against_best is None
    told = describe_rows(found)
    assert "warning: losses that are no numbers, so weighed against no other: Exp4, strong on 2" in told
    fast[2].record["losses"]["last"] = 4.0
    assert "Fastest: Exp4" in one(ONE, TWO, fast)


def repeated(name, devices, times):
    """A point that failed in the repeats of which it has no time; the first that succeeded was looked into."""
    rows = point(name, devices, [time or 1.0 for time in times])
    kept = [row for row, time in zip(rows, times, strict=True) if time]
    kept[0].record.update(point(name, devices, [kept[0].ms])[0].record)
    return kept


def test_rows_with_too_few_repeats_are_left_out_and_said_to_be_faster():
    text = one(ONE, point("Exp4", 1, near(60.0)), repeated("Exp2", 1, [30.0, 0, 0, 0]))
    assert "Fastest: Exp1 on 1 device" in text
    assert text.endswith(
        "Not weighed, with fewer than two repeats beside it: Exp2 on 1 device; Exp2 on 1 device had more words per "
        "second than Exp1 on 1 device."
    )


def test_repeats_side_by_side_count_not_means_over_other_repeats():
    # the first two repeats were slow for all; Exp2 failed in them, and is slower in the others
    one_, other = [80.0, 81.0, 40.0, 40.2], [0, 0, 44.0, 44.2]
    text = one(point("Exp1", 1, one_), repeated("Exp2", 1, other))
    assert "Fastest: Exp1 on 1 device" in text


def test_repeats_that_contradict_each_other_recommend_nothing():
    rows = [
        repeated("A", 1, [10, 10.01, 0, 0, 20, 20.01]), repeated("B", 1, [20, 20.01, 10, 10.01, 0, 0]),
        repeated("C", 1, [0, 0, 20, 20.01, 10, 10.01]),
    ]  # fmt: skip
    text = one(*rows)
    want = "Each is slower than another in repeats that both have, so nothing is recommended: some failed."
    assert text.endswith(want)


def test_a_row_slower_than_one_that_ties_with_the_fastest_is_no_tie():
    """Exp4 scatters: nobody is told apart from it. Exp2 is faster than Exp1 in each repeat."""
    even, faster, wild = [40.0, 40.2, 39.9, 40.1], [38.0, 38.2, 37.9, 38.1], [20.0, 60.0, 25.0, 70.0]
    text = one(point("Exp1", 1, even), point("Exp2", 1, faster), point("Exp4", 2, wild))
    assert "Recommended: Exp2 on 1 device" in text and "A tie" not in text and "Exp1" not in text
    room = "These repeats leave room for a difference: Exp4 on 2 devices has 0.9"
    assert room in one(point("Exp1", 2, even), point("Exp4", 2, [20.0, 90.0, 25.0, 80.0]))
    assert "leave room" not in one(ONE, point("Exp4", 2, [40.0, 40.1, 39.9, 40.2]))
