"""`tfperf.memory`, `tfperf.largest_batch`: what a model costs, and the largest batch that fits."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tfperf.api.fitting import is_card
from tfperf.api.given_cards import refuse_output, write_given_card
from tfperf.api.records import MemoryResult
from tfperf.errors import CardError
from tfperf.report.study_progress import show_progress
from tfperf.study.memory import run_memory_study
from tfperf.workloads.cards import load_checked_card

Mode = Literal["train", "predict"]
MOST_SECONDS = 86_400  # of a trial


def memory(
    build: Any,
    data: Any = None,
    output: Path | str | None = None,
    *,
    modes: Sequence[Mode] = ("train",),
    budget: float | None = None,
    margin: float | None = None,
    device: Literal["gpu", "cpu-arena"] | None = None,
    settings: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    timeout: float = 600.0,
    quiet: bool = True,
) -> MemoryResult:
    """Measure a model's memory stage by stage, fit a line to its peaks, and find the largest batch.

    build: a function that returns a keras.Model, or how a card names one; or the path of a card. data: a function that
    returns arrays or a dataset, or arrays (x, y) or (x, y, sample weights). output: the folder of results; the same
    call goes on where it was. budget: GiB, by default all of the device. margin: share of it that stays free, by
    default 0.05. settings: values of other keys of a card. timeout: seconds of a trial.

    Example:
        found = tfperf.memory(build_model, (x, y), "studies/memory", budget=8)
        found.largest["train"], found.to_pandas()

    Raises: UserError for what no fresh process can have, faulty cards and folders, and steps that fail for another
    reason than memory; Stopped when a signal came.
    """
    refuse_output(output)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 1 <= timeout <= MOST_SECONDS:
        raise CardError(f"timeout: got {timeout!r}; must be seconds from 1 to {MOST_SECONDS}")
    wanted = {"memory.budget": budget, "memory.margin": margin, "memory.device": device}
    given = {key: value for key, value in wanted.items() if value is not None}
    if is_card(build):
        folder = Path(output if output is not None else data if data is not None else tempfile.mkdtemp())
        card = load_checked_card(Path(build), [*overrides, *(f"{key}={value}" for key, value in given.items())])
    else:
        folder = Path(output) if output is not None else Path(tempfile.mkdtemp(prefix="tfperf-")) / "memory"
        card = load_checked_card(write_given_card(build, data, folder, {**(settings or {}), **given}), overrides)
    with show_progress(quiet) as show:
        report = run_memory_study(card, folder, show, modes, timeout)
    return MemoryResult(report, folder)


def largest_batch(
    build: Any,
    data: Any,
    *,
    budget: float | None = None,
    margin: float | None = None,
    mode: Mode = "train",
    quiet: bool = True,
) -> int:
    """The largest batch that passed in three fresh processes: see `memory` for what is given, and what is raised."""
    return memory(build, data, modes=(mode,), budget=budget, margin=margin, quiet=quiet).largest[mode]
