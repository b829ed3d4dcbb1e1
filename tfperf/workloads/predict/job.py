"""`tfperf predict`: from a card to a finished file, or to the point where it was stopped."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tfperf.console.stages import ShowStage
from tfperf.errors import RunDirectoryError, StorageError
from tfperf.infer.dispatch_records import DispatchHooks, DispatchRule
from tfperf.infer.length_sampler import LengthSampler
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.pace import UnitRule
from tfperf.infer.prediction import (
    MANIFEST,
    PredictionFolder,
    PredictionResult,
    VerifiedPrediction,
    has_rows,
    refuse_wrong_start,
    run_prediction,
    verify_prediction,
)
from tfperf.measure.environment import collect_environment
from tfperf.results.contents import CARD, ENVIRONMENT
from tfperf.results.files import write_atomically
from tfperf.results.lock import DirectoryLock
from tfperf.results.reading import read_json
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import dump_card
from tfperf.signals import Signals
from tfperf.workloads.predict.batch_rule import settle_rule
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.folders import SAMPLE_FILES, refuse_strange_files
from tfperf.workloads.predict.places import open_place, parse_place
from tfperf.workloads.predict.plan import plan_with_rule, read_plan
from tfperf.workloads.predict.progress import PredictionProgress, PredictionState, ShowRecords
from tfperf.workloads.predict.report import write_report
from tfperf.workloads.predict.slots import get_unit

SHARE_OF_DISK = 0.5  # of what is free, that is taken without asking
RESUMED = "the same command with --resume goes on"
UNBEGUN = "nothing was written yet; the same command begins again"


@dataclass(frozen=True)
class PredictOptions:
    """What a command asks for. ask: whether more than half of the free disk may be taken; its text says how much. on:
    the place of the workers; None: this machine."""

    resume: bool
    ask: Callable[[str], bool]
    show: ShowRecords
    show_stage: ShowStage
    on: str | None = None


def predict_card(card: PredictCard, output: Path, options: PredictOptions) -> dict[str, Any]:
    """Run what a card asks for; its summary, as report.json has it.

    Raises: UserError for faults of card, files, model and folder; StorageError for the disk; Interrupted when a signal
    came: what is committed stays.
    """
    if has_run(output):
        raise RunDirectoryError(f"{output}: holds a run of another kind; choose another folder")
    began, site = time.monotonic(), parse_place(options.on)
    signals = Signals()
    with (
        signals.listen(), DirectoryLock(output) as held, signals.defer(), ExitStack() as stack,
    ):  # fmt: skip
        try:
            refuse_wrong_start(held.path, options.resume)
            refuse_strange_files(held.path, (MANIFEST,), SAMPLE_FILES)
            signals.advice = RESUMED if (held.path / MANIFEST).exists() else UNBEGUN
            plan, preparer = read_plan(card, options.show_stage, signals.stop_if_asked)
            place = stack.enter_context(open_place(card, site, has_rows(held.path)))
            slots = place.slots
            folder = PredictionFolder(held.path, plan)
            rule, measured = settle_rule(
                card, folder, place.launcher, preparer, options.show_stage, signals.stop_if_asked
            )
            folder = PredictionFolder(held.path, plan_with_rule(plan, rule))
            folder.open(options.resume)
        except BaseException:
            if not (held.path / MANIFEST).exists():
                held.discard()
            raise
        signals.advice = RESUMED
        _write_text(held.path / CARD, dump_card(card))
        _write_text(held.path / ENVIRONMENT, json.dumps(collect_environment(), indent=1))
        progress = PredictionProgress(folder, slots, rule, options.show)
        outlook = progress.outlook
        hooks = DispatchHooks(
            lambda *_: None, outlook.note_batch, progress.say, lambda: signals.received is not None, outlook.note_window
        )
        dispatch = DispatchRule(rule, UnitRule(card.queue.unit_seconds, batches=get_unit(card)), card.queue.timeout)
        where = "" if options.on is None else f" on {options.on}"
        result = PredictionResult()
        if not folder.progress.is_complete:
            options.show_stage(f"loading the model in {len(slots)} workers{where}")
            ask = partial(refuse_full_disk, held.path, ask=options.ask)
            with closing(LengthSampler(preparer, folder.plan.records, dispatch.timeout, outlook.set_groups)):
                result = run_prediction(
                    folder, slots, preparer, dispatch, ask, progress.show_commit, hooks, launcher=place.launcher
                )
        folder.finish_if_complete()
        summary = write_report(folder, result, slots, measured, began, options.on)
        signals.stop_if_asked()
    return summary


def refuse_full_disk(folder: Path, size: int, ask: Callable[[str], bool]) -> None:
    """StorageError where so many bytes do not fit, or are more than half of what is free and `ask` forbids it."""
    import shutil

    free = shutil.disk_usage(folder).free
    told = f"{folder}: the rows take {size / 1e9:.3g} GB of {free / 1e9:.3g} GB that are free"
    if size >= free:
        raise StorageError(f"{told}; choose a folder on another disk, or output.dtype: float16")
    if size > SHARE_OF_DISK * free and not ask(told):
        raise StorageError(f"{told}, more than half; nothing was written; --yes allows it")


def verify_card(card: PredictCard, output: Path, show: ShowRecords, show_stage: ShowStage) -> VerifiedPrediction:
    """What a prediction's file has, compared with its journal. Raises: UserError, RunDirectoryError as predict_card."""
    path = output / MANIFEST
    if not path.is_file():
        raise RunDirectoryError(f"{output}: has no prediction")
    plan, _ = read_plan(card, show_stage)
    rule = BatchRule(**read_json(path)["identity"]["batch"])
    folder = PredictionFolder(output, plan_with_rule(plan, rule))
    folder.open_existing()
    return verify_prediction(
        folder, lambda done, total: show(PredictionState(done, total, words="comparing checksums"))
    )


def _write_text(path: Path, text: str) -> None:
    with write_atomically(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
