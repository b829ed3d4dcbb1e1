"""Every sentence about where the time of a step goes, from traces made by hand that bear it out, and that do not."""

import pytest

from tests.study.sweep_records import COURSE, point
from tfperf.report.course import PARTS, describe_wait, explain, select_largest
from tfperf.study.placements import make_placement_rows


def row(ms=40.0, devices=2, **more):
    """A row with a trace."""
    return make_placement_rows(point("Exp1", devices, [ms, ms], **more))[0]


def said(**more):
    return " ".join(explain(row(**more)))


def said_of(one):
    return " ".join(explain(one))


def spread(**parts):
    """A course of 40 ms with these parts, the rest even among the others."""
    rest = (40.0 - sum(parts.values())) / (len(COURSE) - len(parts))
    return {name: parts.get(name, rest) for name in COURSE}


NAMED = {
    "chain": "The largest part is the steps of recurrent layers, one after the other: 22.0 ms (55%).",
    "computation": "The largest part is what the passes compute outside of recurrent layers: 22.0 ms (55%).",
    "merge": "The largest part is sums of gradients: 22.0 ms (55%).",
    "update": "The largest part is updates: 22.0 ms (55%).",
    "transfer": "The largest part is reads of variables, look-ups and copies: 22.0 ms (55%).",
    "input": "The largest part is the input: 22.0 ms (55%).",
    "runtime": "The largest part is the runtime's way from one operation to the next: 22.0 ms (55%).",
    "host": "The largest part is the host's work around calls and outside of phases: 22.0 ms (55%).",
}


@pytest.mark.parametrize("part", NAMED)
def test_the_largest_part_is_named_with_its_time_and_share(part):
    text = said(course=spread(**{part: 22.0}))
    assert "A traced step took 40.0 ms. " + NAMED[part] in text
    assert not any(other in text for name, other in NAMED.items() if name != part)


@pytest.mark.parametrize(("logical", "what"), [(True, "a core"), (False, "a stream or a core")])
def test_shared_cores_are_named_as_what_they_are(logical, what):
    text = said(course=spread(queue=22.0), logical=logical)
    want = f"operations that could have begun, but had to wait for {what}, which others had: 22.0 ms (55%)."
    assert f"The largest part is {want}" in text


def test_every_part_can_be_named():
    assert set(NAMED) | {"queue"} == set(PARTS) == set(COURSE)


def test_parts_that_are_about_as_long_are_named_together():
    text = said(course=spread(chain=15.0, queue=14.0), logical=True)
    assert (
        "The largest parts, about as long, are the steps of recurrent layers, one after the other: 15.0 ms (38%), and "
        "operations that could have begun, but had to wait for a core, which others had: 14.0 ms (35%)."
    ) in text
    assert select_largest(spread(chain=15.0, queue=13.0)) == ["chain"]
    assert select_largest(spread(chain=13.6, queue=15.0, merge=14.0)) == ["queue", "merge", "chain"]


def test_traced_steps_that_agree_with_the_timed_ones_are_not_excused():
    for step_ms in (36.1, 40.0, 43.9):
        assert "another run" not in said(step_ms=step_ms)


OTHER = (
    "This explains another run: traced steps took {:.1f} ms, the timed ones 40.0 ms, and those beside the traced ones "
    "that were not recorded {:.1f} ms"
)


@pytest.mark.parametrize(
    ("traced", "beside", "slower", "reason"),
    [
        (50.0, 40.0, 1.22, ": recording made them slower than those, and cost 22% more processor time."),
        (50.0, 40.0, 1.04, ": recording made them slower than those."),  # it waits, and computes nothing
        (60.0, 58.0, 1.04, ": the machine was slower then."),
        (30.0, 31.0, 1.04, ": the machine was faster then."),
        (30.0, 31.0, 1.22, ": the machine was faster then."),  # recording costs time: it is no reason to be faster
        (44.5, 41.0, 1.0, "."), (30.0, 40.0, 1.0, "."), (35.0, 41.0, 1.0, "."),
    ],
)  # fmt: skip
def test_why_a_trace_is_of_other_steps_is_told_by_those_beside(traced, beside, slower, reason):
    text = said(step_ms=traced, beside_ms=beside, slower=slower)
    assert text.startswith(OTHER.format(traced, beside) + reason + " A traced step took")


def test_the_longest_chain_is_told_beside_the_step():
    text = said()
    assert (
        "The longest chain of operations that wait for each other takes 24.0 ms (60%) of a step, most of it backward, "
        "14.0 ms; 16.0 ms are steps of recurrent layers."
    ) in text
    one = row()
    parts = {"forward": 8.0, "backward": 10.0, "update": 6.0}
    one.phases["critical"].update(phases=parts)
    assert "of a step, the largest part backward, 10.0 ms; 16.0 ms are" in said_of(one), "less than half"
    one.phases["critical"].update(phases=parts | {"forward": 9.5})
    assert "of a step, the largest parts backward, 10.0 ms and forward, 9.50 ms; 16.0" in said_of(one)
    one.phases["critical"].update(loops_ms=0.0, phases={})
    assert any(line.endswith("takes 24.0 ms (60%) of a step.") for line in explain(one))


WAITS = {
    "passes": "for passes that run elsewhere.", "merge": "for sums of gradients.", "update": "for updates.",
    "transfer": "for reads of variables, look-ups and copies.", "input": "for the input.",
    "queue": "for a core, which others had.", "runtime": "for the runtime's way from one operation to the next.",
    "host": "for the host's work around calls and outside of phases.",
    "unknown": "for something that the trace does not show.",
}  # fmt: skip


@pytest.mark.parametrize("what", WAITS)
def test_what_the_device_that_waits_longest_waits_for(what):
    text = said(waits={what: 12.0, "host" if what != "host" else "merge": 4.0}, logical=True)
    assert (
        "device:0 has nothing running for 16.0 ms (40%) of a step, about as long as device:1, 12.0 ms of it "
        f"{WAITS[what]}"
    ) in text
    one = row()
    one.phases["devices"]["device:1"] = one.phases["devices"]["device:1"] | {"waiting": 10.0}
    assert "device:0 has nothing running for 12.0 ms (30%) of a step, longest of the devices, 9" in said_of(one)


def test_a_single_device_is_the_longest_of_none_and_the_host_is_no_device():
    text = said(devices=1)
    assert "device:0 has nothing running for 12.0 ms (30%) of a step, 9.00 ms of it" in text
    assert "host has nothing" not in text


def test_a_device_that_never_waits_is_not_said_to():
    assert "nothing running" not in said(waits={})


def test_time_that_nobody_can_tell_is_said():
    assert said(unattributed=0.15).endswith("On device:0 it is not known what 15% of a step go to.")
    one = row(unattributed=0.15)
    one.phases["devices"]["host"] = one.phases["devices"]["host"] | {"unattributed": 8.0}
    one.phases["unattributed"] = 0.2
    assert said_of(one).endswith("On the host it is not known what 20% of a step go to.")
    assert "not known" not in said(unattributed=0.05)


def test_a_row_without_a_trace_explains_nothing():
    (bad,) = make_placement_rows(point("Exp1", 2, [10.0] * 3)[1:])
    assert explain(bad) == []


def test_names_that_are_not_known_are_shown_as_they_are():
    assert describe_wait("new", row()) == "new"
