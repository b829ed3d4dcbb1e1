"""Whether batches of like length harm learning."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from benchmarks.record_store import Record, RecordStore
from benchmarks.registry import Row, register_benchmark
from tfperf.measure.confidence import MOST_VALUES, ConfidenceInterval, estimate_mean, estimate_repeats
from tfperf.runcard.dump import to_tree
from tfperf.workloads.cards import load_card

CARD = Path(__file__).parents[1] / "runcards" / "translate.yaml"
NONE = "none"
WAYS = {
    NONE: ["data.buckets=none"],
    "shared": ["data.buckets=shared"],
    "narrow": ["data.buckets=shared", "data.bucket_width=1"],
    "per_device": ["data.buckets=per_device"],
}
SEEDS, WORDS, MARKS = 10, 400_000, 4  # target words of a fit; validations on the way, at even distances
COMMON = ["placement.devices=4", "data.batch=16"]
CLOSE = 0.05  # nats a label: what larger differences the seeds have to rule out


@register_benchmark(
    "buckets",
    claim="validation loss at equal target words tells whether batches of sentences of like length harm learning",
    sweep=f"four ways to form batches for 4 devices of 16 pairs, {SEEDS} seeds (--rounds), the shipped translation up "
    f"to {WORDS} target words; 30 to 60 minutes on 2 cores; --folder keeps finished fits, and an interrupted benchmark "
    "goes on from there",
    unit="nats a label of validation pairs, mean over seeds; differences to batches of any length [95 % interval], "
    "paired by seed: same initial weights, pairs and target words; narrow: buckets of one length; each interval misses "
    "the truth once in 20 times, some of the three about once in 8",
)
def measure_buckets(rounds: int = SEEDS, folder: Path | None = None) -> Iterator[Row]:
    """A row for each way, with what its interval bears out."""
    found: dict[str, list[Record]] = {way: [] for way in WAYS}
    with RecordStore(folder) as store:
        for seed in range(1, rounds + 1):
            for way, overrides in WAYS.items():
                card = load_card(CARD, [*COMMON, f"seed={seed}", *overrides])
                request = {"card": to_tree(card), "target_words": WORDS, "marks": MARKS}
                found[way].append(store.get_record(f"{way}_seed-{seed:02}", "benchmarks.buckets_side", request))
                click.echo(f"seed {seed} of {rounds}, {way}: validation loss {get_loss(found[way][-1]):.4f}", err=True)
    for way in WAYS:
        yield make_row(way, found)


def get_loss(record: Record) -> float:
    """The loss at the end."""
    return float(record["losses"][-1])


def make_row(way: str, found: Mapping[str, Sequence[Record]]) -> Row:
    """One way beside batches of any length."""
    own, pairs = found[way], list(zip(found[way], found[NONE], strict=True))
    half, full = (
        estimate_mean([a["losses"][k] - b["losses"][k] for a, b in pairs]) for k in (MARKS // 2 - 1, MARKS - 1)
    )
    speeds = [math.log(b["train_seconds"] / a["train_seconds"]) for a, b in pairs]
    other = way != NONE
    return {
        "buckets": way, "seeds": len(own), "padding": math.fsum(r["padding_share"] for r in own) / len(own),
        "validation loss": math.fsum(map(get_loss, own)) / len(own),
        "difference": format_interval(full) if other else "",
        "at half the words": format_interval(half) if other else "",
        "target words/s, ratio": format_interval(estimate_mean(speeds).exponentiate()) if other else "",
        "conclusion": conclude(way, [get_loss(a) - get_loss(b) for a, b in pairs]) if other else "",
    }  # fmt: skip


def format_interval(interval: ConfidenceInterval) -> str:
    """With its limits."""
    limits = "" if interval.low is None else f" [{interval.low:.3f}, {interval.high:.3f}]"
    return f"{interval.value:.3f}{limits}"


def conclude(way: str, differences: Sequence[float]) -> str:
    """What differences to batches of any length, one for each seed, say of a way; never more than their interval."""
    lost = sum(not math.isfinite(one) for one in differences)
    if lost:
        return f"nothing can be said: {lost} of {len(differences)} seeds have a loss that is no number"
    found = estimate_mean(differences)
    if found.low is None or found.high is None:
        return "not enough seeds: one tells nothing of chance"
    limits = f"95 % interval {found.low:.3f} to {found.high:.3f}"
    if found.low > 0:
        return f"{way} harms learning: validation loss higher by {found.value:.3f}, {limits}"
    if found.high < 0:
        return f"{way} helps learning: validation loss lower by {-found.value:.3f}, {limits}"
    most = max(abs(found.low), abs(found.high))
    if most <= CLOSE:
        return f"no difference seen, and none larger than {most:.3f}, {limits}"
    needed = estimate_repeats(differences, 2 * math.sinh(CLOSE))  # half of the interval is then CLOSE
    more = f"more than {MOST_VALUES}" if needed is None else f"about {needed}"
    return f"not enough seeds: {limits}; {more} would narrow it to {CLOSE} either way, with even odds"
