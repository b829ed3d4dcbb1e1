"""Devices of one step that the others wait for."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import LEAST, Cost, Rule
from tfperf.trace.stragglers import Straggler, StragglerCause

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

SPREAD = "give all replicas the same work: batches of one size and length, and layers split evenly"
IN_TURN = 0.2  # share of the time from step to step up to which that may be why one is last
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
        if one is None or one.lag_ms < LEAST * found.period_ms:
            continue
        # the loop of `fit` starts devices in turn, which its user cannot change
        if one.cause == "later start" and found.program == "keras" and one.lag_ms < IN_TURN * found.period_ms:
            continue
        said = describe_straggler(one, [device.device for device in waits.devices])
        yield Cost(said, one.gain_ms, one.gain_ms, one.lag_ms, CHANGES[one.cause])


def describe_straggler(one: Straggler, devices: Sequence[str]) -> str:
    """What makes one of some devices the last, in words with its figures."""
    is_first = all(device.startswith(f"{one.device} replica_") for device in devices if device != one.device)
    name = f"{one.device} replica_0" if is_first else one.device
    others, waits = ("the other", "the other waits") if len(devices) == 2 else ("the others", "the others wait")
    wait = f"{waits} {one.lag_ms:.3g} ms a step for it"
    if one.cause == "later start":
        return f"{name} begins {one.delay_ms:.3g} ms later than {others}: {wait}"
    longer = f"{name} takes {one.factor:.3g} times as long as {others} for"
    if one.cause == "slower device":
        return f"{longer} the same operations, which are not larger: a slower device; {wait}"
    if one.cause == "larger or slower":
        why = "since its batch is larger or it is slower, which the profile does not tell"
        return f"{longer} each operation, {why}; {wait}"
    if one.cause == "unknown":
        return f"{name} is last in {one.last_share:.0%} of steps, the profile does not tell why: {wait}"
    work = f"{name} has {one.work_ms:.3g} ms of work a step, {others} {one.others_ms:.3g}"
    return f"{work}{_describe_more(one)}: {wait}"


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
