"""The verdict of an input study in three lines: who waits for whom, how many workers, what to prepare ahead."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfperf.inputs.bound import SURE, Bound, compute_own_wait, has_own_cores, has_shared_cores
from tfperf.inputs.chain import KNEE_SHARE
from tfperf.report.input_ahead import StoreGain
from tfperf.report.input_code import Cure
from tfperf.report.input_rates import PARALLEL, list_before
from tfperf.report.input_stages import NOTABLE, PYTHON, StageRow, find_costliest, list_binding
from tfperf.report.numbers import format_bytes, format_seconds

CAPS = {
    "workers": "their number", "cores": "free cores", "step": "the step",
    "calls": "a stage whose number of calls the code says",
    "shared": "what one of them has at a time, as Python's lock, a disk, or the thread that makes batches",
}  # fmt: skip
NOTHING = 0.005  # of the rate
NAMES = {
    "input": "input-bound", "turns": "input-bound", "cores": "short of cores", "model": "compute-bound",
    "unknown": "undecided",
}  # fmt: skip


def name_bound(bound: Bound) -> str:
    """In words."""
    return NAMES[bound]


def describe_waiting(found: Mapping[str, Any], bound: Bound, free_cores: float) -> str:
    """Who waits for whom."""
    step, batch, both = (found[side]["rate"] for side in ("model", "data", "both"))
    waits = found["waits"]
    share = f"{max(0.0, waits['value']):.0%}{_format_shares(waits)}"
    told = (
        f"{NAMES[bound]}: a step needs {format_period(step)}, input delivers a batch in {format_period(batch)}, "
        f"together they take {format_period(both)}"
    )
    if bound == "cores":
        cpu = [1e3 * found[side]["processor_seconds"] for side in ("model", "data", "both")]
        return (
            f"{told}: both compete for {free_cores:.2g} free cores (CPU ms: step {cpu[0]:.3g}, batch {cpu[1]:.3g}, "
            f"both {cpu[2]:.3g}), which costs {share} of the time; a step with cores of its own would not wait"
        )
    if bound == "turns":
        return f"{told}: they do not overlap, so that the device waits {share} of the time, though cores are free"
    if bound == "model":
        return f"{told}: input waits for the device"
    shared = ""
    if bound == "input" and has_shared_cores(found, free_cores) and waits["value"] > compute_own_wait(found) + SURE:
        shared = (
            f"; a step with cores of its own would wait {compute_own_wait(found):.0%}, the rest is that both share "
            f"{free_cores:.2g} free cores"
        )
    told = f"{told}: the device waits {share} of the time{shared}"
    return f"{told}; whether that is more than {SURE:.0%} is not known" if bound == "unknown" else told


def describe_workers(report: Mapping[str, Any], rows: Sequence[StageRow], cures: Sequence[Cure]) -> str:
    """How many workers would do, what keeps more from helping, and what one costs."""
    workers = report["workers"]
    if workers is None:
        if report["as_it_is"]["source"]["kind"] == "arrays":
            return "samples are in memory: no workers make them"
        return "one thread makes all batches, whatever number of workers is asked for: none is predicted"
    word = "threads" if rows else "workers"
    fixed = list_binding(rows, report["as_it_is"]["data"]["rate"]["value"])
    parts = [_describe_fixed(fixed, cures) if fixed else _describe_knee(report, word)]
    parts.append(f"the rule of cores minus one says {max(1, report['cores'] - 1)}")
    return "; ".join([*parts, _describe_ram(workers.get("ram"), word)])


def _describe_knee(report: Mapping[str, Any], word: str) -> str:
    workers, step = report["workers"], report["as_it_is"]["model"]["rate"]["value"]
    rates, at = [one["rate"] for one in workers["with_step"]], workers["knee_with_step"]
    rate, who = rates[at - 1], f"{at} {word if at > 1 else word.removesuffix('s')}"
    told = f"{who} {'give' if at > 1 else 'gives'} {rate:.4g} steps/s, {rate / step:.0%} of the step's rate"
    if at == len(rates):
        return told if rate >= KNEE_SHARE * step else f"{told}, more were not looked at"
    cap = workers["with_step"][at]["cap"]
    more = rates[at] / rate - 1
    adds = "nothing" if more < NOTHING else f"{more:.0%}"
    also = " of step and data together" if cap == "cores" and has_own_cores(report["as_it_is"]) else ""
    return f"{told}, the {_format_ordinal(at + 1)} adds {adds}: limited by {CAPS[cap]}{also}"


def _describe_fixed(fixed: Sequence[StageRow], cures: Sequence[Cure]) -> str:
    """Where more threads do not help, since the code says how many calls there are."""
    calls = ", ".join(
        dict.fromkeys(f"{one.name} has {one.calls if isinstance(one.calls, int) else 1} at a time" for one in fixed)
    )
    told = f"more threads give nothing, since the code says how many calls there are: {calls}"
    cure = next((one for one in cures if one.kind in PARALLEL and one.rate is not None), None)
    return told if cure is None else f"{told}; with the code below {cure.rate:.4g} steps/s are expected"


def _format_ordinal(number: int) -> str:
    words = ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
    return words[number] if number < len(words) else f"{number}th"


def _describe_ram(ram: Mapping[str, Any] | None, word: str) -> str:
    if ram is None or ram["each"] is None:
        return f"RAM of each of the {word} n/a"
    each = "no more RAM was seen for each" if ram["each"] <= 0 else f"each takes {format_bytes(ram['each'])} of RAM"
    return f"{each} (in all {format_bytes(ram['one'])} with 1, {format_bytes(ram['many'])} with {ram['workers']})"


def describe_ahead(report: Mapping[str, Any], rows: Sequence[StageRow], bound: Bound, gain: StoreGain | None) -> str:
    """What preparing the data ahead would give."""
    if report["as_it_is"]["source"]["kind"] == "arrays":
        return "nothing to prepare ahead: samples are in memory"
    if not rows:
        return "what to prepare ahead is not told: these data have no stages"
    if bound == "model":
        return "nothing to prepare ahead: the device does not wait"
    if gain is None:
        if (point := report["as_it_is"]["source"].get("ahead")) is not None and _needs_long(
            report, rows, point["position"]
        ):
            return "storing is not advised: reading what is stored would take about as long as making it"
        return _describe_chance(rows)
    made = format_seconds(gain.preparation_seconds)
    what = f"storing what comes before {gain.before} ({format_bytes(gain.stored_bytes)}, made in {made})"
    if gain.epochs is None or gain.stored_epoch_seconds > KNEE_SHARE * gain.epoch_seconds:
        return f"{what} would make an epoch hardly shorter"
    epochs = max(1, -(-gain.epochs // 1))
    told = (
        f"{what} pays after {epochs:.0f} epoch{'s' if epochs > 1 else ''}: an epoch then takes "
        f"{format_seconds(gain.stored_epoch_seconds)} in place of {format_seconds(gain.epoch_seconds)}"
    )
    if not gain.python:
        return told
    return f"{told}; that holds if Python in {', '.join(gain.python)} always gives the same, as it did in two passes"


def _needs_long(report: Mapping[str, Any], rows: Sequence[StageRow], place: int) -> bool:
    """Whether a stage and those before it take a tenth of the time."""
    before = list_before(report["as_it_is"]["source"]["pipeline"]["stages"], place)
    return sum(rows[one].seconds for one in before) >= NOTABLE * sum(one.seconds for one in rows)


def _describe_chance(rows: Sequence[StageRow]) -> str:
    """Why there is no point behind which storing pays."""
    first = next((one for one in rows if {"random", PYTHON} & {*one.notes}), None)
    if first is None:
        return "storing is not advised: no stage that makes elements of one shape takes a tenth of the time"
    if first.has_python:
        return (
            f"storing is not advised: {first.name} calls Python, and no stage behind it gave elements of one shape, "
            "the same in two passes"
        )
    most = find_costliest(rows, [one for one in rows[first.position + 1 :] if "random" not in one.notes])
    tail = "" if most is None else f"; {most} could be stored if it came before that and took none of its numbers"
    return f"storing does not pay: what comes before {first.name}, the first random stage, takes hardly any time{tail}"


def format_period(rate: Mapping[str, Any]) -> str:
    """A rate with limits as ms a step.

    >>> format_period({"value": 100.0, "low": 80.0, "high": 125.0}), format_period({"value": 2.0, "low": None})
    ('10.0 ms [8.00, 12.5]', '500 ms')
    """
    if rate["low"] is None:
        return f"{_format_ms(rate['value'])} ms"
    return f"{_format_ms(rate['value'])} ms [{_format_ms(rate['high'])}, {_format_ms(rate['low'])}]"


def _format_ms(rate: float) -> str:
    ms = 1e3 / rate
    return f"{ms:#.3g}".rstrip(".") if ms < 1000 else f"{ms:.0f}"


def _format_shares(waits: Mapping[str, Any]) -> str:
    return "" if waits["low"] is None else f" [{max(0.0, waits['low']):.0%}, {waits['high']:.0%}]"
