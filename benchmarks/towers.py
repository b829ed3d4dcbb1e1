"""tfperf's towers beside a plain Keras program with MirroredStrategy."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from benchmarks.record_store import Record, RecordStore
from benchmarks.registry import Row, register_benchmark
from tfperf.errors import UserError
from tfperf.measure.confidence import ConfidenceInterval, estimate_mean
from tfperf.runcard.dump import to_tree
from tfperf.workloads.cards import load_card

CARD = Path(__file__).parents[1] / "runcards" / "translate_placement.yaml"
PLAIN, TUNED, OURS = PROGRAMS = ("plain", "tuned", "tfperf")
GOALS = {1: 1.2, 2: 1.3, 4: None}  # by devices: words/s over the plain program's, at least
ALL = ",".join(map(str, GOALS))
ROUNDS, PAIRS, EPOCHS, PER_CALL = 10, 2048, 2, 10


@register_benchmark(
    "towers",
    claim="towers train at least 1.2 (1 device) and 1.3 times (2 devices) the words a second of a plain Keras program",
    sweep=f"devices {', '.join(map(str, GOALS))} (--only), {ROUNDS} rounds (--rounds) of three programs in turn, each "
    "in a fresh process; --folder keeps what is measured, and an interrupted benchmark goes on from there",
    unit="words/s: source and target pieces, geometric means; ratios [95 % interval], paired by round: over the plain "
    f"program, {PER_CALL} steps an execution as in tfperf, and over a tuned one, whose batches are formed once and "
    "store, and which has no strategy around one device",
)
def measure_towers(only: str = ALL, rounds: int = ROUNDS, folder: Path | None = None) -> Iterator[Row]:
    """The same pairs, model and optimizer, and as many steps; a row for each number of devices."""
    counts = _select_counts(only)
    found: dict[int, list[dict[str, Record]]] = {count: [] for count in counts}
    with RecordStore(folder) as store:
        for number in range(1, rounds + 1):
            for count in counts:
                found[count].append(_measure_round(store, number, count))
                click.echo(_describe_progress(number, rounds, count, found[count][-1]), err=True)
    for count in counts:
        yield make_row(count, found[count])


def _select_counts(only: str) -> list[int]:
    """Numbers of devices."""
    for name in only.split(","):
        if name not in map(str, GOALS):
            raise UserError(f"--only: got {name!r}; allowed: {', '.join(map(str, GOALS))}")
    return [count for count in GOALS if str(count) in only.split(",")]


def _measure_round(store: RecordStore, number: int, devices: int) -> dict[str, Record]:
    """The record of each program, which take turns in who begins."""
    tree = to_tree(load_card(CARD, ["placement.preset=null", "data.scaling=null", "data.scaling_devices=null"]))
    tree["sweep"], tree["placement"]["devices"] = None, devices
    tree["train"]["steps_per_call"] = PER_CALL
    begin, out = number % len(PROGRAMS), {}
    for program in (*PROGRAMS[begin:], *PROGRAMS[:begin]):
        request = {"program": program, "card": tree, "pairs": PAIRS, "epochs": EPOCHS, "most_devices": max(GOALS)}
        name = f"devices-{devices}_round-{number:02}_{program}"
        out[program] = store.get_record(name, "benchmarks.towers_side", request)
    return out


def _describe_progress(number: int, rounds: int, devices: int, records: Mapping[str, Record]) -> str:
    speeds = ", ".join(f"{name} {compute_speed(records[name]):.0f} words/s" for name in PROGRAMS)
    return f"round {number} of {rounds}, {devices} device{'s' if devices > 1 else ''}: {speeds}"


def compute_speed(record: Record) -> float:
    """Words a second."""
    return float(record["words"] / record["seconds"])


def make_row(devices: int, rounds: Sequence[Mapping[str, Record]]) -> Row:
    """What the rounds say of so many devices. Raises: UserError where the programs did unlike work."""
    for records in rounds:
        if len({(records[name]["words"], records[name]["steps"]) for name in PROGRAMS}) > 1:
            work = "; ".join(f"{n}: {records[n]['words']} words, {records[n]['steps']} steps" for n in PROGRAMS)
            raise UserError(f"{devices} devices: the programs did not do the same work: {work}")
    speeds = {name: [compute_speed(records[name]) for records in rounds] for name in PROGRAMS}
    cpu = {name: [records[name]["words"] / records[name]["cpu_seconds"] for records in rounds] for name in PROGRAMS}
    ratio = estimate_ratio(speeds[OURS], speeds[PLAIN])
    return {
        "devices": devices, "rounds": len(rounds),
        **{f"{name} words/s": math.exp(estimate_mean([math.log(s) for s in speeds[name]]).value) for name in PROGRAMS},
        "ratio": format_interval(ratio), "goal": describe_goal(GOALS[devices], ratio),
        "over tuned": format_interval(estimate_ratio(speeds[OURS], speeds[TUNED])),
        "words per CPU second, ratio": format_interval(estimate_ratio(cpu[OURS], cpu[PLAIN])),
        "over tuned, per CPU second": format_interval(estimate_ratio(cpu[OURS], cpu[TUNED])),
    }  # fmt: skip


def estimate_ratio(ours: Sequence[float], theirs: Sequence[float]) -> ConfidenceInterval:
    """The ratio of figures that belong together round by round."""
    return estimate_mean([math.log(a / b) for a, b in zip(ours, theirs, strict=True)]).exponentiate()


def format_interval(ratio: ConfidenceInterval) -> str:
    """With its limits."""
    return f"{ratio.value:.3f}" + ("" if ratio.low is None else f" [{ratio.low:.3f}, {ratio.high:.3f}]")


def describe_goal(goal: float | None, ratio: ConfidenceInterval) -> str:
    """Whether the whole interval is on one side of a goal."""
    if goal is None:
        return "none"
    if ratio.low is None or ratio.high is None:
        return f"at least {goal}: one round cannot tell"
    if ratio.low >= goal:
        return f"at least {goal}: reached"
    return f"at least {goal}: missed" if ratio.high < goal else f"at least {goal}: these rounds cannot tell"
