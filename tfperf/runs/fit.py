"""`tfperf.fit`: what `tfperf fit` does, from Python."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfperf.console.stages import open_stages
from tfperf.console.streams import open_descriptors
from tfperf.measure.memory import release_memory
from tfperf.runcard.kinds import AnyCard
from tfperf.runs.flow import fit_card
from tfperf.workloads.cards import resolve_card
from tfperf.workloads.options import Options


def fit(
    card: AnyCard | Path | str,
    output: Path | str | None = None,
    *,
    overrides: Sequence[str] = (),
    options: Options | None = None,
    quiet: bool = True,
    decided: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Carry out a card in the run directory `output` and return the result record of its workload.

    Without `output` only the record remains. With Options(resume=True) a run goes on where it was, and one that is
    finished is returned as it is. decided: as `fit_card` has it. Raises: UserError for a faulty card, its data or
    directory, Interrupted when a signal stopped the training after a checkpoint.
    """
    open_descriptors()
    with open_stages(quiet) as progress, ExitStack() as after:
        card = resolve_card(card, overrides)
        if output is None:
            output = after.enter_context(tempfile.TemporaryDirectory(prefix="tfperf-")) + "/run"
        after.callback(release_memory)
        return fit_card(card, Path(output), options or Options(), progress, decided).result
