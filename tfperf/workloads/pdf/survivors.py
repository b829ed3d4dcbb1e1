"""The report of a finished run on the replicas that its postfit has chosen."""

from dataclasses import replace
from pathlib import Path

from tfperf.arrays import Float64Array
from tfperf.errors import CardError, RunDirectoryError
from tfperf.results.contents import CARD, EVENTS, RESULTS
from tfperf.results.reading import describe_error, read_text
from tfperf.results.rundir import load_state
from tfperf.runcard.tree import parse_plain
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.inputs import average_pdf, read_inputs
from tfperf.workloads.pdf.kind import KIND, NAME, T0
from tfperf.workloads.pdf.mean_results import evaluate_survivors
from tfperf.workloads.pdf.operators.problem import build_problem
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.postfit import read_survivors
from tfperf.workloads.pdf.results.record import FitResult
from tfperf.workloads.replica_chunks import ReplicaChunk

MOST_BYTES = 2**20  # of a card that was written


def write_survivor_report(run: Path) -> FitResult:
    """Write report.html, report.json and events of RUN anew: means, bands and chi2 are of those that postfit chose.

    results.h5 stays as it is. Raises: RunDirectoryError where postfit has not been applied or left nobody, or the data
    of the run are not those that it was fitted to; UserError for its card and files; StorageError.
    """
    from tfperf.workloads.pdf.report.events import write_events
    from tfperf.workloads.pdf.report.html import write_report

    result = store.read(run / RESULTS)
    survivors = read_survivors(run, result)
    if survivors is None or not survivors.any():
        raise RunDirectoryError(f"{run}: postfit has chosen no replica: there is nothing to report")
    card = read_run_card(run)
    inputs = read_inputs(card)
    known = load_state(run, ReplicaChunk).inputs
    if changed := [key for key, digest in inputs.hashes.items() if known.get(key) != digest]:
        raise RunDirectoryError(*(f"{run}: {key}: not the file that the run was fitted to" for key in changed))
    first = [int(result.replicas.id[survivors][0])]  # no replica's own data enter a mean
    problem = build_problem(card, inputs.selection, first, _read_t0(run, card, inputs.t0_pdf), inputs.law)
    if [d.name for d in problem.datasets] != [d.name for d in result.datasets]:
        raise RunDirectoryError(f"{run}: {card.data.pack} has other sets than the run was fitted to")
    found = evaluate_survivors(problem, result, survivors)
    postfit = {"chosen": int(survivors.sum()), "replicas": result.replicas.id[survivors].tolist()}
    found = replace(found, summary={**found.summary, "postfit": postfit})
    write_events(run / EVENTS, found)
    write_report(run, found)
    return found


def read_run_card(run: Path) -> Card:
    """The card of a run, of any version. Raises: RunDirectoryError where it is damaged."""
    try:
        tree = parse_plain(read_text(run / CARD, MOST_BYTES))
        card: Card = KIND.make_card({**tree, "workload": NAME})
    except (OSError, ValueError, TypeError, CardError) as error:
        raise RunDirectoryError(f"{run / CARD}: damaged: {describe_error(error)}") from None
    return card


def _read_t0(run: Path, card: Card, given: Float64Array | None) -> Float64Array | None:
    """PDF of the t0 predictions, of the fit that was made first where the card says so."""
    return average_pdf(store.read(run / T0 / RESULTS)) if card.data.t0 == "fit" else given
