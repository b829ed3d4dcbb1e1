"""tfperf's way to hand out records beside others, with the same workers, model and texts on one machine."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import click

from benchmarks.predict_side import INPUT, OURS, save_texts
from benchmarks.record_store import Record, RecordStore
from benchmarks.registry import Row, register_benchmark
from tfperf.errors import UserError
from tfperf.infer.prepared import join_column, measure_lengths

ROUNDS, SECONDS, PASSAGES = 3, 30.0, 12_000
UNITS = (1, 10, 100, 1000)  # records, of the study's queue
PLANTINGS: Mapping[str, tuple[float, ...] | None] = {"50:1": (1.0, 50.0), "3:1:1": (1.0, 3.0, 3.0), "batches": None}
BATCH = 1024  # places of a micro-batch, padding counted
# kinds of micro-batches: records, or None for as many as BATCH says; whether they are sorted by length
FORMS = {
    "sorted": (None, True), "as they come": (None, False), "32 sorted": (32, True), "32 as they come": (32, False),
    "one by one": (1, True),
}  # fmt: skip
BUILD = "tfperf.zoo.encoder:build_encoder"
MODELS: Mapping[str, Mapping[str, int]] = {
    "small": {"layers": 2, "width": 128, "heads": 4, "inner": 512},
    "full": {"layers": 6, "width": 384, "heads": 12, "inner": 1536},
}


@register_benchmark(
    "predict",
    claim="workers 50 times apart do at least 1.2 times as many records a second as with equal chunks (pool), and 0.97 "
    "times as many as with a queue whose units are the best for them; at 3:1:1 not fewer than with either",
    sweep=f"{', '.join(PLANTINGS)} (--only; --slowness 1,3,3 for others): workers as fast; tfperf, queues of units "
    f"of {', '.join(map(str, UNITS))} records, ten equal chunks for each worker (pool), and rounds of equal units; "
    f"batches: one worker, with batches of several kinds; {ROUNDS} rounds (--rounds) of as many texts as tfperf takes "
    f"{SECONDS:.0f} s for (--seconds, or --records); --model {' or '.join(MODELS)}; --folder keeps what is measured",
    unit="records/s from the first that is handed out to the last rows: median and quartiles; ratio: tfperf's over it, "
    "in each round; useful share: what was computed over what all workers could in that time",
)
def measure_predictions(
    only: str = ",".join(PLANTINGS), rounds: int = ROUNDS, folder: Path | None = None, slowness: str | None = None,
    records: int | None = None, seconds: float = SECONDS, model: str = "small",
) -> Iterator[Row]:  # fmt: skip
    """A row for each rule at each planting. Rounds take turns in who begins."""
    plantings = select_plantings(only) if slowness is None else {slowness: parse_slowness(slowness)}
    if model not in MODELS:
        raise UserError(f"--model: got {model!r}; allowed: {', '.join(MODELS)}")
    found: dict[str, list[Record]] = {name: [] for name in plantings}
    with tempfile.TemporaryDirectory(prefix="tfperf-") as temporary, RecordStore(folder) as store:
        texts = (Path(temporary) if folder is None else folder.resolve()) / "texts.npz"
        if not texts.exists():
            prepare_passages(texts)
        common = {
            "texts": str(texts), "records": records, "seconds": seconds, "batch": BATCH, "units": [*UNITS],
            "forms": {name: [*form] for name, form in FORMS.items()},
            "model": {"build": BUILD, "arguments": dict(MODELS[model])},
        }  # fmt: skip
        for number in range(rounds):
            for name, planting in plantings.items():
                request = {**common, "planting": None if planting is None else [*planting], "round": number}
                part = f"{name.replace(':', '-')}_round-{number + 1:02}"
                found[name].append(store.get_record(part, "benchmarks.predict_side", request)["parts"])
                click.echo(describe_round(number, rounds, name, found[name][-1]), err=True)
    for name in plantings:
        yield from make_rows(name, found[name])


def select_plantings(only: str) -> dict[str, tuple[float, ...] | None]:
    """Those that are named."""
    unknown = [name for name in only.split(",") if name not in PLANTINGS]
    if unknown:
        raise UserError(f"--only: got {unknown[0]!r}; allowed: {', '.join(PLANTINGS)}")
    return {name: PLANTINGS[name] for name in only.split(",")}


def parse_slowness(text: str) -> tuple[float, ...]:
    """Of each worker, how many times as long as its own time it takes. Raises: UserError."""
    try:
        found = tuple(map(float, text.split(",")))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise UserError(f"--slowness: got {text!r}; must be numbers of at least 1, as 1,3,3")
    return found


def prepare_passages(path: Path) -> None:
    """Write the texts of the benchmark, as numbers."""
    from tfperf.workloads.predict.card import RecordPreparation
    from tfperf.workloads.predict.loading import build_tokenizer
    from tfperf.zoo.passages import collect_passages
    from tfperf.zoo.passages_tokenizer import write_tokenizer

    click.echo("making passages", err=True)
    passages = collect_passages(PASSAGES)
    tokenizer = path.with_name("tokenizer.json")
    write_tokenizer(passages, tokenizer)
    values = join_column(build_tokenizer(RecordPreparation(tokenizer=tokenizer))({"text": passages})[INPUT])
    lengths = measure_lengths({INPUT: values}, len(passages))
    click.echo(f"{len(passages)} passages of {lengths.mean():.1f} tokens, {lengths.max()} at most", err=True)
    save_texts(values, path)  # type: ignore[arg-type]  # texts have several lengths


def describe_round(number: int, rounds: int, name: str, parts: Mapping[str, Any]) -> str:
    """Progress."""
    told = ", ".join(f"{part} {compute_rate(one):.0f}/s" for part, one in parts.items())
    return f"round {number + 1} of {rounds}, {name}: {told}"


def compute_rate(part: Mapping[str, Any]) -> float:
    """Records a second."""
    return float(sum(part["records"]) / part["seconds"])


def make_rows(planting: str, rounds: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """What rounds say of each rule, or kind of batches; the ratio is that of the first one over it."""
    slowness = PLANTINGS[planting] if planting in PLANTINGS else parse_slowness(planting)
    first = OURS if slowness is not None else next(iter(rounds[0]))
    for name in rounds[0]:
        parts = [one[name] for one in rounds]
        rates, ratios = [compute_rate(one) for one in parts], [compute_rate(one[first]) for one in rounds]
        each = [
            1e3 * sum(one["computing"][worker] for one in parts) / max(1, sum(one["records"][worker] for one in parts))
            for worker in range(len(parts[0]["records"]))
        ]
        yield {
            "workers": planting, "handed out": name, "records": sum(parts[0]["records"]),
            "seconds": median(one["seconds"] for one in parts), "records/s": describe_spread(rates),
            "ratio": describe_spread([ours / its for ours, its in zip(ratios, rates, strict=True)]),
            "useful share": median(compute_useful_share(one, slowness or (1.0,)) for one in parts),
            "own ms a record": ", ".join(f"{one:.3g}" for one in each),
            "largest difference of rows": max(one["difference"] for one in parts),
        }  # fmt: skip


def compute_useful_share(part: Mapping[str, Any], slowness: Sequence[float]) -> float:
    """Computing that was done, over what workers could have done in that time; both in seconds of their own."""
    return float(sum(part["computing"]) / (part["seconds"] * sum(1 / one for one in slowness)))


def describe_spread(values: Sequence[float]) -> str:
    """Median, and quartiles where there are several."""
    if len(values) == 1:
        return f"{values[0]:.4g}"
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return f"{middle:.4g} [{low:.4g}, {high:.4g}]"
