"""What `tfperf input --apply` makes of the shipped photographs, beside pipelines tuned by hand and by AUTOTUNE."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.registry import Row, make_ratio_columns, register_benchmark

CARD = Path(__file__).parents[1] / "runcards" / "photos.yaml"
WAITING = {"seconds": 0.01, "records": 20_000, "batch": 8, "parallel_calls": -1}
# as one writes it who knows tf.data: all that leaves batches as they are, and AUTOTUNE for the rest
EXPERT = {"parallel_calls": -1, "prefetch": -1, "fused": True, "batch_first": True}
AUTOTUNED = {"parallel_calls": -1, "prefetch": -1}


def run_apply(card: Path, folder: Path, seconds: float, sets: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a study that applies; what is in the folder already is not measured again."""
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "tfperf", "input", str(card), "-o", str(folder), "--apply", "-q"]
    subprocess.run([*command, "--seconds", str(seconds), *words], check=True, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads((folder / "input.json").read_text(encoding="utf-8"))
    return found


def compare_cards(
    first: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]], step: float, turns: int, seconds: float,
    processes: int,
) -> Iterator[Row]:  # fmt: skip
    """How many times as fast the first card's batches come as those of each other card: alone, and for such a step."""
    from tfperf.study.child import run_subprocess
    from tfperf.study.input import COMMAND

    cards = [first, *others.values()]
    request = {"cards": cards, "steps": [0.0, step], "turns": turns, "seconds": seconds}
    rates: list[list[list[float]]] = [[[], []] for _ in cards]
    for _ in range(processes):
        record = run_subprocess(COMMAND, request, lambda: False, 900.0)
        assert record is not None and "candidates" in record, record
        for mine, one in zip(rates, record["candidates"], strict=True):
            for place, found in enumerate(one["rates"]):
                mine[place] += found
    for name, theirs in zip(others, rates[1:], strict=True):
        for place, consumer in enumerate(("none", f"a step that waits {1e3 * step:.3g} ms")):
            yield {
                "beside": name, "consumer": consumer, **make_ratio_columns("faster", rates[0][place], theirs[place]),
                "batches_per_second": sum(rates[0][place]) / len(rates[0][place]),
            }  # fmt: skip


def _read_tree(path: Path, **arguments: Any) -> dict[str, Any]:
    """A card's tree as a fresh process takes it, with other arguments of its function."""
    from tfperf.runcard.dump import to_json_tree
    from tfperf.workloads.cards import load_checked_card

    sets = [f"data.arguments.{key}={json.dumps(value)}" for key, value in arguments.items()]
    tree: dict[str, Any] = to_json_tree(load_checked_card(path, sets))
    return tree


@register_benchmark(
    "photo-input",
    claim="tfperf input --apply makes input at least as fast as a pipeline tuned by hand, or by AUTOTUNE alone",
    sweep="the shipped card of photographs, alone and for a step that waits; a map that waits 10 ms",
    unit="ratio of batches a second, by turns",
)
def measure_applied(
    photos: Path | None = None, folder: Path | None = None, seconds: float = 5.0, processes: int = 4
) -> Iterator[Row]:
    """A row for each pipeline and consumer; folder: of studies."""
    folder = Path(tempfile.mkdtemp(prefix="tfperf-")) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    place = {} if photos is None else {"data.arguments.folder": photos.resolve()}
    report = run_apply(CARD, folder / "photos", seconds, place)
    step = 1 / report["as_it_is"]["model"]["rate"]["value"]
    where = {} if photos is None else {"folder": str(photos.resolve())}
    applied = report["applied"]["card"]
    tuned = _read_tree(CARD, **where) if applied is None else _read_tree(folder / "photos" / applied)
    others = {
        "the card as shipped": _read_tree(CARD, **where), "AUTOTUNE everywhere": _read_tree(CARD, **where, **AUTOTUNED),
        "tuned by hand": _read_tree(CARD, **where, **EXPERT),
    }  # fmt: skip
    yield from compare_cards(tuned, others, step, 4, 2.0, processes)
    waiting = folder / "waiting.yaml"
    waiting.write_text(yaml.safe_dump(_make_waiting_card()), encoding="utf-8")
    report = run_apply(waiting, folder / "waiting", seconds, {})
    applied = report["applied"]["card"]
    tuned = _read_tree(waiting if applied is None else folder / "waiting" / applied)
    step = 1 / report["as_it_is"]["model"]["rate"]["value"]
    for row in compare_cards(tuned, {"AUTOTUNE, a map that waits": _read_tree(waiting)}, step, 4, 2.0, processes):
        yield row | {"examples_per_second": 8 * row["batches_per_second"]}


def _make_waiting_card() -> dict[str, Any]:
    return {
        "workload": "keras", "title": "waits", "model": {"build": "tfperf.zoo.photos:build_model"},
        "data": {"build": "tfperf.zoo.photos_waiting:load_waiting", "arguments": WAITING}, "train": {"epochs": 10},
        "engine": {"xla": False},
    }  # fmt: skip
