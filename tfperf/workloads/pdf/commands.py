"""Verbs that only replica fits have. Loaded by `tfperf --help`, so all that takes long is imported inside."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfperf.console.options import RUN, FiniteRange, add_training_options
from tfperf.console.words import say, show_text
from tfperf.errors import UserError

if TYPE_CHECKING:
    from tfperf.workloads.pdf.card import Card


@click.command()
@add_training_options
@click.option("--level", type=click.Choice(["0", "2"]), help="0: no noise; 2: noise of the truth and of each replica.")
@click.option("--law", help="`toy`, or a run directory whose mean PDF is the truth.")
@click.option("--replica", type=int, help="The run's replica that is the truth; the mean by default.")
@click.option("--noise", type=int, help="Number of the truth's noise draw (level 2).")
@click.pass_context
def closure(
    context: click.Context, /, level: str | None, law: str | None, replica: int | None, noise: int | None,
    overrides: tuple[str, ...], **options: Any,
) -> None:  # fmt: skip
    """Fit pseudo-data made from a known law with the operators of CARD, so that the truth is known."""
    given = {"level": level, "law": law and str(_resolve_law(law)), "replica": replica, "noise": noise}
    sets = tuple(f"closure.{key}={value}" for key, value in given.items() if value is not None)
    root = context.find_root().command
    assert isinstance(root, click.Group)
    fit = root.get_command(context, "fit")
    assert fit is not None
    context.invoke(fit, overrides=(*sets, *overrides), open_card=load_closure_card, **options)


def _resolve_law(text: str) -> Path | str:
    return Path(text).resolve() if Path(text).exists() else text


def load_closure_card(path: Path, overrides: Sequence[str]) -> "Card":
    """The card of a closure test."""
    from tfperf.workloads.pdf.cards import load_checked_card, to_closure

    return to_closure(load_checked_card(path, overrides))


@click.command()
@RUN
@click.option("-n", "count", type=click.IntRange(1), help="Take exactly so many of those that pass, the first ones.")
def postfit(run: Path, count: int | None) -> None:
    """Apply NNPDF's vetoes to the replicas of RUN and name who failed; its report, and export-lhapdf, then leave these
    out."""
    from tfperf.console.screen import show
    from tfperf.workloads.pdf.report.chi2 import describe_run
    from tfperf.workloads.pdf.results.postfit import apply_postfit, make_veto_table
    from tfperf.workloads.pdf.survivors import write_survivor_report

    report = apply_postfit(run, count=count)
    show(make_veto_table(report))
    if not report.chosen:
        return
    try:
        show_text(describe_run(write_survivor_report(run).summary))
    except UserError as error:  # the vetoes count all the same
        say(f"warning: the report is not written anew on these replicas: {error}")


@click.command("export-lhapdf")
@RUN
@click.option("-o", "--output", type=click.Path(path_type=Path), default=".", help="Folder that the grid set goes to.")
@click.option("--name", help="Name of the set; the run directory's name by default.")
@click.option(
    "--theory", multiple=True, metavar="KEY=VALUE",
    help="order, alphas_mz, mc, mb, mz or mt [GeV], where the data pack does not say them.",
)  # fmt: skip
def export_lhapdf(run: Path, output: Path, name: str | None, theory: tuple[str, ...]) -> None:
    """Write the PDFs of RUN as an LHAPDF grid set."""
    from tfperf.workloads.pdf.results.lhapdf import export

    given = dict(one.partition("=")[::2] for one in theory)
    show_text(f"{export(run, output, name, theory=given)}")


_add_cut_option = partial(click.option, type=FiniteRange(0, 1e12), show_default=True)


@click.command("import-nnpdf")
@click.argument("tables", type=click.Path(path_type=Path))
@click.argument("sets", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="PACK", help="Pack to write.")
@_add_cut_option("--q2-min", default=3.49, help="Deep-inelastic points above it [GeV2]; of charm, above 8, too.")
@_add_cut_option("--w2-min", default=12.5, help="The same for W2 [GeV2].")
@click.option("--drop-photon", is_flag=True, help="Take the photon density as zero where tables need it.")
def import_nnpdf(
    tables: Path, sets: tuple[str, ...], output: Path, q2_min: float, w2_min: float, drop_photon: bool
) -> None:
    """Make a data pack from the PineAPPL FK tables in folder TABLES and commondata SETS (NAME or NAME:VARIANT).

    Correction factors are named after a set: NAME:VARIANT+QCD+NRM.
    """
    from tfperf.workloads.pdf.data.commondata import KinematicCuts
    from tfperf.workloads.pdf.data.nnpdf import import_nnpdf as import_tables
    from tfperf.workloads.pdf.data.pack import count_points

    charm = max(q2_min, KinematicCuts.q2_min_charm)
    cuts = KinematicCuts(q2_min=q2_min, w2_min=w2_min, q2_min_charm=charm)
    import_tables(tables, sets, output, cuts, drop_photon)
    for name, points in count_points(output).items():
        say(f"{name}: {points} points")
    show_text(f"{output}")


@click.command("join-packs")
@click.argument("packs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="PACK", help="Pack to write.")
def join_packs(packs: tuple[Path, ...], output: Path) -> None:
    """Make one data pack of several PACKS on one grid; systematic errors of one name are correlated between them."""
    from tfperf.workloads.pdf.data.join import describe_mixture
    from tfperf.workloads.pdf.data.join import join_packs as join

    join(packs, output)
    if (mixture := describe_mixture(output)) is not None:
        say(f"warning: {mixture}")
    show_text(f"{output}")


COMMANDS = (closure, postfit, export_lhapdf, import_nnpdf, join_packs)
