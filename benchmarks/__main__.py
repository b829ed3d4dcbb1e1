"""List and run benchmarks; results go to the screen and, as JSON with the environment, to a file."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks import batch_finders as batch_finders
from benchmarks import buckets as buckets
from benchmarks import ensembles as ensembles
from benchmarks import handing_out as handing_out
from benchmarks import hostile as hostile
from benchmarks import input_truth as input_truth
from benchmarks import input_verdicts as input_verdicts
from benchmarks import keras_fit as keras_fit
from benchmarks import memory_truth as memory_truth
from benchmarks import photo_input as photo_input
from benchmarks import predict_queue as predict_queue
from benchmarks import predict_writer as predict_writer
from benchmarks import profile_against as profile_against
from benchmarks import profiling as profiling
from benchmarks import stacking as stacking
from benchmarks import starting as starting
from benchmarks import steps as steps
from benchmarks import store_break_even as store_break_even
from benchmarks import tagger_book as tagger_book
from benchmarks import towers as towers
from benchmarks import useful_share as useful_share
from benchmarks import worker_study as worker_study
from benchmarks import xla_kinds as xla_kinds
from benchmarks.diagnosis import applied as applied
from benchmarks.diagnosis import score as score
from benchmarks.peer import observables as observables
from benchmarks.peer import side_by_side as side_by_side
from benchmarks.registry import REGISTRY, Row
from tfperf.errors import UserError
from tfperf.measure.environment import collect_environment
from tfperf.measure.quiet import drop_native_logs

WIDEST = 8  # columns of a table on the screen
PIPED = 200  # characters of a line that is not on a terminal
LONGEST = 32  # characters that stay in one line


@click.group()
def main() -> None:
    """The ratios that the README quotes."""


@main.command("list")
def list_() -> None:
    """Name, claim, sweep and unit of each benchmark."""
    for b in REGISTRY.values():
        click.echo(f"{b.name}: {b.claim}\n  sweep: {b.sweep}\n  unit: {b.unit}")


def _make_table(rows: list[Row]) -> Table:
    """A column for each key; where that gets too wide, a column for each row, where these are fewer."""
    cells = [[key, *(_format_value(row[key]) for row in rows)] for key in rows[0]]
    lines = cells if max(WIDEST, len(rows)) < len(cells) else [list(line) for line in zip(*cells, strict=True)]
    table = Table()
    longest = max(len(line[0]) for line in lines)
    for i, title in enumerate(lines[0]):
        table.add_column(title, no_wrap=i == 0 and longest <= LONGEST)
    for line in lines[1:]:
        table.add_row(*line)
    return table


def _format_value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _measure_rows(measure: Callable[..., Iterator[Row]], options: Mapping[str, Any]) -> list[Row]:
    """All rows, with those of the options that were given; UserError when the benchmark does not take one."""
    given = {key: value for key, value in options.items() if value}
    parameters = inspect.signature(measure).parameters
    for key in given:
        if key not in parameters:
            raise UserError(f"--{key}: this benchmark does not take it")
    missing = [k for k, p in parameters.items() if p.default is p.empty and k not in given]
    if missing:
        raise UserError(f"--{missing[0]}: this benchmark needs it")
    return list(measure(**given))


def _drop_logs(measure: Callable[..., Iterator[Row]]) -> AbstractContextManager[None]:
    """Holds back what native code logs; not for parts that are processes of their own, whose progress would wait."""
    return nullcontext() if "folder" in inspect.signature(measure).parameters else drop_native_logs()


@main.command()
@click.argument("name", type=click.Choice(sorted(REGISTRY)))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="JSON file for the results.")
@click.option("--only", help="Parts of the sweep, where the benchmark has some, as `dis` or `dis:10,global:1`.")
@click.option("--pack", multiple=True, type=click.Path(path_type=Path), help="HDF5 pack to measure on; repeatable.")
@click.option("--against", type=click.Path(path_type=Path), help="Another checkout of the program, to compare with.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keeps what is measured; go on there when interrupted.")
@click.option(
    "--photos", type=click.Path(path_type=Path), help="Folder that `python -m tfperf.zoo.photos` made; else its own."
)
@click.option("--rounds", type=click.IntRange(min=1), help="How often each part is measured.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="About so many for each measurement.")
@click.option("--records", type=click.IntRange(min=1), help="So many in each measurement.")
@click.option("--slowness", help="Of each worker, how many times its own time it takes, as 1,3,3.")
@click.option("--model", help="Which one, where the benchmark has several.")
@click.option("--jax", type=click.Path(path_type=Path), help="Python that has Keras and JAX, to compare with.")
@click.option("--forms", is_flag=True, help="Measure each form, too.")
@click.option("--turns", type=click.IntRange(min=1), help="How often both versions are measured in a round.")
def run(name: str, output: Path | None, **options: Any) -> None:
    """Measure one benchmark."""
    b = REGISTRY[name]
    try:
        with _drop_logs(b.measure):
            rows = _measure_rows(b.measure, options)
    except UserError as error:
        click.echo(str(error), err=True)
        raise SystemExit(error.exit_code) from None
    console = Console()
    (console if console.is_terminal else Console(width=PIPED)).print(_make_table(rows))
    click.echo(f"{b.claim}; {b.unit}")
    if output is not None:
        record = {"name": name, "claim": b.claim, "unit": b.unit, "rows": rows, "environment": collect_environment()}
        output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


main()
