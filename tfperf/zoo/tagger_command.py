"""`python -m tfperf.zoo.tagger`: what a text names, by the model of a finished run."""

import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import click
from rich.table import Table

from tfperf.console.screen import show
from tfperf.console.stages import Stages, open_stages
from tfperf.errors import UserError
from tfperf.measure.environment import measure_peak_rss_bytes, read_rss_bytes
from tfperf.measure.quiet import drop_native_logs, silence_tensorflow
from tfperf.zoo.book import BookSentence, NamedThing, cut_book, label_book, read_book, write_things
from tfperf.zoo.command_line import run_command

if TYPE_CHECKING:  # takes seconds
    from tfperf.zoo.tagger_layers import LabellingModel

BEST = "best.keras"  # of a run: the model of its best epoch
BATCH = 50
WANTED = "must be the folder of a finished run of runcards/tagger.yaml"


def main() -> None:
    """Carry out the command line; what a user can mend is told without a traceback, with exit code 2."""
    silence_tensorflow()
    run_command(label_text, "tfperf.zoo.tagger")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("text", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="OUT.tsv", help="Table to write."
)
@click.option("--batch", type=click.IntRange(1, 1_000_000), default=BATCH, show_default=True,
              help="Sentences that are labelled at once.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the figures.")
def label_text(run: Path, text: Path, output: Path, batch: int, quiet: bool) -> None:
    """List what TEXT names, by the best model of RUN.

    RUN is the folder of a finished run of runcards/tagger.yaml; TEXT is plain text in UTF-8, with blank lines between
    paragraphs. The table has a line for each thing: number of its paragraph, from 1 on, its text and label, and where
    it begins and ends, in characters of the paragraph; the end is the place after the last.
    """
    start = time.perf_counter()
    if output.absolute() in (text.absolute(), (run / BEST).absolute()):
        raise UserError(f"-o: got {output}; must be another file than what is read")
    with open_stages(quiet) as stages:
        stages.show_stage("reading the text")
        book = list(cut_book(read_book(text)))
        stages.show_stage("loading the model")
        model, before = read_model(run), read_rss_bytes()
        found, seconds = label_book(model, book, batch, _Progress(stages, len(book), batch).show)
        write_things(found, output)
    show(make_table(book, found, batch, seconds, time.perf_counter() - start, before))


class _Progress:
    """How many batches are done, how fast, and for how long still."""

    def __init__(self, stages: Stages, count: int, batch: int) -> None:
        self._stages, self._count, self._batch = stages, count, batch
        self._total, self._start = -(-count // batch), time.perf_counter()

    def show(self, done: int) -> None:
        """done: batches."""
        rate = min(done * self._batch, self._count) / (time.perf_counter() - self._start)
        left = None if done == self._total else (self._count - done * self._batch) / rate
        self._stages.show_steps(done, self._total, lambda: f"{rate:.4g} sentences/s", left)


def read_model(run: Path) -> "LabellingModel":
    """The best model of a run. Raises: UserError where there is none, or another one."""
    path = run / BEST
    if not path.is_file():
        raise UserError(f"{run}: has no {BEST}; {WANTED}")
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path}: is damaged; {WANTED}")
    with drop_native_logs():
        import keras

        from tfperf.zoo.tagger_layers import LabellingModel

    try:
        found = keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:
        raise UserError(f"{path}: cannot be loaded: {' '.join(str(error).split())[:1000]}; {WANTED}") from None
    if not isinstance(found, LabellingModel):
        raise UserError(f"{path}: is a {type(found).__name__}; {WANTED}")
    return found


def make_table(
    book: Sequence[BookSentence], found: Sequence[NamedThing], batch: int, seconds: Sequence[float], total: float,
    before: int | None,
) -> Table:  # fmt: skip
    """What was done, and what it took; seconds: of each batch; before: bytes of RAM held when the first one began."""
    table = Table("figure", "value", show_header=False, box=None)
    later = seconds[1:] or seconds
    rows = {
        "paragraphs": len({one.number for one in book}), "samples (sentences)": len(book), "things found": len(found),
        "batch": batch, "total time": f"{total:.2f} s", "first batch, with tracing": f"{seconds[0]:.3f} s",
        "time a batch, median of the others": f"{median(later):.3f} s",
        "all batches": f"{sum(seconds):.2f} s, {len(book) / sum(seconds):.4g} sentences/s",
        "RAM before the first batch": "n/a" if before is None else f"{before / 1e9:.2f} GB",
        "peak RAM": f"{measure_peak_rss_bytes() / 1e9:.2f} GB",
    }  # fmt: skip
    for name, value in rows.items():
        table.add_row(name, str(value))
    return table
