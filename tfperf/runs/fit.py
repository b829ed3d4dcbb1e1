"""`tfperf.fit`: a replica fit from Python."""

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tfperf.console.stages import stages
from tfperf.console.streams import open_descriptors
from tfperf.measure.memory import release_memory
from tfperf.runs.flow import carry_out
from tfperf.workloads.options import Options
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.cards import as_card
from tfperf.workloads.pdf.results.record import FitResult


def fit(
    card: Card | Path | str,
    output: Path | str | None = None,
    *,
    overrides: Sequence[str] = (),
    options: Options | None = None,
    quiet: bool = True,
) -> FitResult:
    """Carry out a card in the run directory `output` and return the result record.

    Without `output` only the record remains. A run that is finished already is returned as it is. Raises UserError
    for a faulty card, pack or directory, Interrupted when a signal stopped the training after a checkpoint.
    """
    open_descriptors()
    with stages(quiet) as progress, ExitStack() as after:
        card = as_card(card, overrides)
        if output is None:
            output = after.enter_context(tempfile.TemporaryDirectory(prefix="tfperf-")) + "/run"
        after.callback(release_memory)
        result: FitResult = carry_out(card, Path(output), options or Options(), progress).result
        return result
