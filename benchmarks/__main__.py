"""List and run benchmarks; results go to the screen and, as JSON with the environment, to a file."""

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks import stacking as stacking
from benchmarks.registry import REGISTRY, Row
from tfperf.measure.environment import environment
from tfperf.measure.quiet import native_logs_dropped


@click.group()
def main() -> None:
    """The ratios that the README quotes."""


@main.command("list")
def list_() -> None:
    """Name, claim, sweep and unit of each benchmark."""
    for b in REGISTRY.values():
        click.echo(f"{b.name}: {b.claim}\n  sweep: {b.sweep}\n  unit: {b.unit}")


def _table(rows: list[Row]) -> Table:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    return table


@main.command()
@click.argument("name", type=click.Choice(sorted(REGISTRY)))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="JSON file for the results.")
def run(name: str, output: Path | None) -> None:
    """Measure one benchmark."""
    chosen = REGISTRY[name]
    with native_logs_dropped():
        rows = list(chosen.measure())
    Console().print(_table(rows))
    click.echo(f"{chosen.claim}; {chosen.unit}")
    if output is not None:
        record = {"name": name, "claim": chosen.claim, "unit": chosen.unit, "rows": rows, "environment": environment()}
        output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


main()
