"""The verb that runs a model over many records."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfperf.console.options import CARD, SET
from tfperf.console.words import say, show_text
from tfperf.errors import CardError, UserError

if TYPE_CHECKING:
    from tfperf.workloads.predict.card import PredictCard

FAILED = 3  # exit code where records have failed, are damaged, are not written yet, or have no rate


@click.command()
@CARD
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="RUN", help="Folder of it.")
@SET
@click.option(
    "--on", metavar="PLACE", help="Compute on Dask workers: local:N, slurm, sge, htcondor, pbs, as slurm:4,cores=8."
)
@click.option("--resume", is_flag=True, help="Go on with what RUN has, here or at any place.")
@click.option("--verify", is_flag=True, help="Compare all checksums of RUN; nothing is computed.")
@click.option(
    "--sample",
    is_flag=True,
    help="Measure rates of a random sample, and the time that all will take; no rows are kept.",
)
@click.option("-y", "--yes", is_flag=True, help="Take more than half of the free disk without asking.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
def predict(card: Path, output: Path, overrides: tuple[str, ...], on: str | None, quiet: bool, **flags: bool) -> None:
    """Run CARD's model over all of its records, each exactly once, and write the rows to one HDF5 file in RUN.

    What was committed survives any end: --resume goes on there. Records that fail are marked in the file, and listed.
    """
    from tfperf.results.rundir import has_run
    from tfperf.workloads.cards import load_checked_card
    from tfperf.workloads.predict.card import PredictCard

    if has_run(card):
        raise UserError(
            f"{card}: is a run; predict takes a card, which names a model and records: to predict with an ensemble use "
            f"tfperf.load({str(card)!r}).predict(x)"
        )
    chosen = [name for name in ("resume", "verify", "sample") if flags[name]]
    if len(chosen) > 1:
        raise UserError(f"--{chosen[0]}: got --{chosen[1]}, too; only one of them is allowed")
    if on is not None and (flags["verify"] or flags["sample"]):
        raise UserError(f"--on: got '{on}'; must be left out with --verify and --sample, which run here")
    loaded = load_checked_card(card, overrides)
    if not isinstance(loaded, PredictCard):
        raise CardError(f"workload: got '{loaded.workload}', which does not offer predict; predict does")
    if flags["sample"]:
        _sample(loaded, output, quiet)
    elif flags["verify"]:
        _verify(loaded, output, quiet)
    else:
        _predict(loaded, output, quiet, flags["resume"], flags["yes"], on)


def _predict(card: "PredictCard", output: Path, quiet: bool, resume: bool, yes: bool, on: str | None) -> None:
    from tfperf.workloads.predict.job import PredictOptions, predict_card
    from tfperf.workloads.predict.printing import list_predict_lines, show_predicting

    def ask(told: str) -> bool:
        return yes or (sys.stdin.isatty() and click.confirm(f"{told}, more than half; go on?", err=True))

    with show_predicting(quiet) as (show, show_stage):
        summary = predict_card(card, output, PredictOptions(resume, ask, show, show_stage, on))
    for line in list_predict_lines(summary):
        show_text(line)
    for one in summary["first"]:
        say(f"record {one['record']}: {one['reason']}: {one['message']}")
    sys.exit(FAILED if summary["failed"] else 0)


def _verify(card: "PredictCard", output: Path, quiet: bool) -> None:
    from tfperf.workloads.predict.job import verify_card
    from tfperf.workloads.predict.printing import show_predicting

    with show_predicting(quiet) as (show, show_stage):
        found = verify_card(card, output, show, show_stage)
    for note in found.notes:
        say(note)
    for fault in found.faults:
        show_text(fault)
    if not found.faults:
        show_text(f"{found.done} of {found.records} records: rows, ids and statuses are as they were written")
    if found.done < found.records:
        show_text(f"{found.records - found.done} records are not written yet; --resume goes on")
    sys.exit(FAILED if found.faults or found.done < found.records else 0)


def _sample(card: "PredictCard", output: Path, quiet: bool) -> None:
    from tfperf.report.sample_page import list_sample_lines
    from tfperf.report.study_progress import show_progress
    from tfperf.workloads.predict.sampling import sample_card

    with show_progress(quiet) as show:
        report = sample_card(card, output, show)
    for line in list_sample_lines(report):
        show_text(line)
    sys.exit(FAILED if report["seconds"] is None else 0)


COMMANDS = (predict,)
