"""`python -m tfperf.zoo.passages`: a folder with passages of text and a tokenizer for them."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click
from rich.table import Table

from tfperf.console.screen import show
from tfperf.console.stages import open_stages
from tfperf.results.files import make_folder
from tfperf.zoo.command_line import run_command
from tfperf.zoo.passages import COUNT, write_passages
from tfperf.zoo.passages_tokenizer import SPECIAL, VOCABULARY, write_tokenizer

Layout = Literal["lines", "hdf5"]
FILES: dict[Layout, str] = {"lines": "passages.txt", "hdf5": "passages.h5"}
TOKENIZER = "tokenizer.json"


def main() -> None:
    """Carry out the command line."""
    run_command(make_passages, "tfperf.zoo.passages", "the same command begins anew")


@click.command("make", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path), metavar="OUT")
@click.option("--count", type=click.IntRange(1, 10_000_000), default=COUNT, show_default=True, help="Passages.")
@click.option("--layout", type=click.Choice(list(FILES)), default="lines", show_default=True,
              help="passages.txt with one in each line, or passages.h5 with batches/0/text and so on.")  # fmt: skip
@click.option("--vocabulary", type=click.IntRange(len(SPECIAL) + 1, 1_000_000), default=VOCABULARY, show_default=True,
              help="Tokens at most.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the figures.")
def make_passages(folder: Path, count: int, layout: Layout, vocabulary: int, quiet: bool) -> None:
    """Write passages of text to OUT, and OUT/tokenizer.json, a tokenizer that is trained on them.

    The texts are topics of Python's help and docstrings of its library and of packages that tfperf needs, as they are
    installed here: nothing is downloaded. runcards/embed.yaml is a prediction for them.
    """
    start = time.perf_counter()
    path = folder / FILES[layout]
    with open_stages(quiet) as stages:
        stages.show_stage("reading documentation")
        make_folder(folder)
        passages = write_passages(path, count, stages.show_stage)
        stages.show_stage("training the tokenizer")
        tokens = write_tokenizer(passages, folder / TOKENIZER, vocabulary)
    show(make_table(path, passages, tokens, time.perf_counter() - start))


def make_table(path: Path, passages: Sequence[str], tokens: int, seconds: float) -> Table:
    """What was written; tokens: that the tokenizer knows."""
    words = sum(one.count(" ") + 1 for one in passages)
    table = Table("figure", "value", show_header=False, box=None)
    rows = {
        "passages": f"{len(passages)} in {path}", "words": f"{words}, {words / len(passages):.1f} a passage",
        "bytes": f"{path.stat().st_size / 1e6:.1f} MB", "tokens": f"{tokens} in {path.with_name(TOKENIZER)}",
        "time": f"{seconds:.1f} s",
    }  # fmt: skip
    for name, value in rows.items():
        table.add_row(name, value)
    return table
