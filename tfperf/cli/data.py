"""Verbs on results and data, and on the machine."""

import sys
from pathlib import Path

import click

from tfperf.cli.group import RUN, Finite, main
from tfperf.console.words import tell


@main.command()
@RUN
def postfit(run: Path) -> None:
    """Apply the usual vetoes to the replicas of RUN and name who failed."""
    from tfperf.console.screen import show
    from tfperf.workloads.pdf.results.postfit import postfit_run, table

    show(table(postfit_run(run)))


@main.command("export-lhapdf")
@RUN
@click.option("-o", "--output", type=click.Path(path_type=Path), default=".", help="Folder that the grid set goes to.")
@click.option("--name", help="Name of the set; the run directory's name by default.")
def export_lhapdf(run: Path, output: Path, name: str | None) -> None:
    """Write the PDFs of RUN as an LHAPDF grid set."""
    from tfperf.workloads.pdf.results.lhapdf import export

    tell(f"{export(run, output, name)}")


@main.command("import-nnpdf")
@click.argument("tables", type=click.Path(path_type=Path))
@click.argument("sets", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="PACK", help="Pack to write.")
@click.option(
    "--q2-min",
    type=Finite(0, 1e12),
    default=3.49,
    show_default=True,
    help="Deep-inelastic points above it [GeV2].",
)
@click.option("--w2-min", type=Finite(0, 1e12), default=12.5, show_default=True, help="The same for W2 [GeV2].")
def import_nnpdf(tables: Path, sets: tuple[str, ...], output: Path, q2_min: float, w2_min: float) -> None:
    """Make a data pack from the PineAPPL FK tables in folder TABLES and commondata SETS (NAME or NAME:VARIANT)."""
    from tfperf.workloads.pdf.data.commondata import Limits
    from tfperf.workloads.pdf.data.nnpdf import import_nnpdf as carry_out

    tell(f"{carry_out(tables, sets, output, Limits(q2_min=q2_min, w2_min=w2_min))}")


@main.command()
def doctor() -> None:
    """Tell what works on this machine and what to do about the rest."""
    from tfperf.measure.doctor import main as carry_out

    sys.exit(carry_out())
