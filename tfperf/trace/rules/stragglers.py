"""Devices of one step that the others wait for."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import LEAST, Cost, Rule
from tfperf.trace.stragglers import Straggler, StragglerCause

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

SPREAD = "give all replicas the same work: batches of one size and length, and layers split evenly"
CHANGES: dict[StragglerCause, str] = {
    "more work": SPREAD,
    "slower device": "look for what else runs on it, and for lower clocks; or give it as small a share of the batch as "
                     "it is slower",
    "later start": "look at what it waits for before its first operation: its share of the input, and the order in "
                   "which the program starts devices",
    "larger or slower": "compare the sizes of the devices' batches: where they are the same, the device is slower",
    "unknown": "compare its row with those of the others in trace.json.gz",
}  # fmt: skip


def find(found: "Attribution") -> Iterator[Cost]:
    """The device that is last in most steps, by LEAST of the time from step to step, and why."""
    for waits in found.device_waits:
        one = waits.straggler
        if one is not None and one.lag_ms >= LEAST * found.period_ms:
            yield Cost(describe_straggler(one), one.gain_ms, one.gain_ms, one.lag_ms, CHANGES[one.cause])


def describe_straggler(one: Straggler) -> str:
    """What makes a device the last, in words with its figures."""
    wait = f"the others wait {one.lag_ms:.3g} ms a step for it"
    if one.cause == "later start":
        return f"{one.device} begins {one.delay_ms:.3g} ms later than the others: {wait}"
    if one.cause == "slower device":
        return (
            f"{one.device} takes {one.factor:.3g} times as long as the others for the same operations, which are not "
            f"larger: a slower device; {wait}"
        )
    if one.cause == "larger or slower":
        return (
            f"{one.device} takes {one.factor:.3g} times as long as the others for each operation, since its batch is "
            f"larger or it is slower, which the profile does not tell; {wait}"
        )
    if one.cause == "unknown":
        return f"{one.device} is last in {one.last_share:.0%} of steps, the profile does not tell why: {wait}"
    work = f"{one.device} has {one.work_ms:.3g} ms of work a step, the others {one.others_ms:.3g}"
    return f"{work}{_describe_more(one)}: they wait for it"


def _describe_more(one: Straggler) -> str:
    if not one.operation and one.larger is not None:
        return f", all operations {one.factor:.3g} times as long, since they are {one.larger:.3g} times as large"
    if not one.operation:
        return f", all operations {one.factor:.3g} times as long, but for those that no batch makes longer"
    if one.times > 1.1 * one.others_times:
        return f", with {one.times:.3g} of {one.operation} and {one.others_times:.3g}"
    return f", most of it {one.operation} with {one.operation_ms:.3g} and {one.others_operation_ms:.3g} ms"


RULE = Rule(
    "straggler", "One device holds up the others", find,
    {
        "engine": SPREAD, "card": SPREAD, "keras": SPREAD, "loop": SPREAD,
        "jax": SPREAD,
    },
    before="data = data.batch(64)  # the longest sample of a replica decides",
    after="data = data.bucket_by_sequence_length(len_of, [32, 64, 128], [64] * 4)",
)  # fmt: skip
