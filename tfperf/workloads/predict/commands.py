"""The verb that runs a model over many records."""

import sys
from pathlib import Path

import click

from tfperf.console.options import CARD, SET
from tfperf.console.words import say, show_text
from tfperf.errors import CardError, UserError

FAILED = 3  # exit code where records have failed


@click.command()
@CARD
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="RUN", help="Folder of it.")
@SET
@click.option(
    "--on", metavar="PLACE", help="Compute on Dask workers: local:N, slurm, sge, htcondor, pbs, as slurm:4,cores=8."
)
@click.option("--resume", is_flag=True, help="Go on with what RUN has, here or at any place.")
@click.option("--verify", is_flag=True, help="Compare all checksums of RUN; nothing is computed.")
@click.option("-y", "--yes", is_flag=True, help="Take more than half of the free disk without asking.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
def predict(
    card: Path, output: Path, overrides: tuple[str, ...], on: str | None, resume: bool, verify: bool, yes: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Run CARD's model over all of its records, each exactly once, and write the rows to one HDF5 file in RUN.

    What was committed survives any end: --resume goes on there. Records that fail are marked in the file, and listed.
    """
    from tfperf.workloads.cards import load_checked_card
    from tfperf.workloads.predict.card import PredictCard
    from tfperf.workloads.predict.job import PredictOptions, predict_card, verify_card
    from tfperf.workloads.predict.printing import list_predict_lines, show_predicting

    def ask(told: str) -> bool:
        return yes or (sys.stdin.isatty() and click.confirm(f"{told}, more than half; go on?", err=True))

    if verify and on is not None:
        raise UserError(f"--on: got '{on}'; must be left out with --verify, which computes nothing")
    loaded = load_checked_card(card, overrides)
    if not isinstance(loaded, PredictCard):
        raise CardError(f"workload: got '{loaded.workload}', which does not offer predict; predict does")
    with show_predicting(quiet) as (show, show_stage):
        if verify:
            wrong = verify_card(loaded, output, show, show_stage)
        else:
            summary = predict_card(loaded, output, PredictOptions(resume, ask, show, show_stage, on))
    if verify:
        for line in wrong or ["all rows, ids, statuses and journal lines are as they were written"]:
            show_text(line)
        sys.exit(FAILED if wrong else 0)
    for line in list_predict_lines(summary):
        show_text(line)
    for one in summary["first"]:
        say(f"record {one['record']}: {one['reason']}: {one['message']}")
    sys.exit(FAILED if summary["failed"] else 0)


COMMANDS = (predict,)
