"""A book that the tagger labels with two batch sizes: memory of the device, RAM and time of both."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.batch_finders import CARDS
from benchmarks.registry import Row, register_benchmark

CARD = CARDS / "tagger.yaml"
PARAGRAPHS, BATCHES = 881, (50, 300)
GIB = 2**30
LIMIT = 2 * GIB  # of the stand-in for a GPU
FIGURE = re.compile(r"^\s*(?P<name>.+?)\s{2,}(?P<value>[\d.]+)")
FIGURES = {
    "total_s": "total time", "batch_s": "time a batch, median of the others", "samples": "samples (sentences)",
    "paragraphs": "paragraphs", "ram_before_gb": "RAM before the first batch", "ram_peak_gb": "peak RAM",
}  # fmt: skip


@register_benchmark(
    "tagger-book",
    claim="what a batch of 300 costs beside one of 50, counted from what the model holds",
    sweep=f"batches of {' and '.join(map(str, BATCHES))} sentences; {PARAGRAPHS} paragraphs of the shipped sentences",
    unit="the command's own figures: seconds in all and of a batch, samples, RAM in GB; of predictions in the stand-in "
    "for a GPU: MB used before, by the model, by the batch at its peak, in all",
)
def measure_book(folder: Path) -> Iterator[Row]:
    """folder: keeps the fitted run and the book."""
    run, book = folder / "run", folder / "book.txt"
    if not (run / "best.keras").is_file():
        subprocess.run([sys.executable, "-m", "tfperf", "fit", str(CARD), "-o", str(run)], check=True)
    write_book(book)
    for batch in BATCHES:
        command = [sys.executable, "-m", "tfperf.zoo.tagger", str(run), str(book), "-o", str(folder / f"{batch}.tsv")]
        done = subprocess.run([*command, "--batch", str(batch), "-q"], check=True, capture_output=True, text=True)
        said = {
            found["name"]: float(found["value"]) for line in done.stdout.splitlines() if (found := FIGURE.match(line))
        }
        yield {"batch": batch, **{key: said[name] for key, name in FIGURES.items()}, **measure_arena(batch, folder)}


def write_book(path: Path) -> None:
    """The shipped sentences, in their order, as so many paragraphs of about the same number."""
    from tfperf.zoo.entities import read_sentences

    every = [" ".join(one.words) for part in ("train", "held") for one in read_sentences(None, part)]
    each, more = divmod(len(every), PARAGRAPHS)
    start, paragraphs = 0, []
    for number in range(PARAGRAPHS):
        end = start + each + (number < more)
        paragraphs.append("\n".join(every[start:end]))
        start = end
    path.write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")


def measure_arena(batch: int, folder: Path) -> Row:
    """MB of the device in a process that predicts such a batch, of the longest sentences."""
    from tfperf.runcard.dump import to_json_tree
    from tfperf.study.child import run_subprocess
    from tfperf.study.memory import COMMAND
    from tfperf.workloads.cards import load_checked_card

    request = {
        "card": to_json_tree(load_checked_card(CARD, ())), "mode": "predict", "device": "cpu-arena", "limit": LIMIT,
        "batch": batch, "length": None, "share": None, "more": 0, "folder": str(folder / f"trial-{batch}"),
    }  # fmt: skip
    record = run_subprocess(COMMAND, request, lambda: False, 600.0)
    assert record is not None and "batches" in record, record
    stages = {stage["name"]: stage for stage in record["stages"]}
    read, built = (stages[name]["device"] for name in ("data read", "model built"))
    most = record["batches"][0]["most"]
    figures = {"used_before": read, "model": built - read, "batch_peak": most - built, "overall_peak": most}
    return {f"{name}_mb": value / 1e6 for name, value in figures.items()}
