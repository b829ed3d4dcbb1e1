"""`tfperf predict`: from a card to a finished file, or to the point where it was stopped."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tfperf.console.stages import ShowStage
from tfperf.errors import RunDirectoryError, StorageError, UserError
from tfperf.infer.batch_choice import BatchCalibration, MeasuredRule, choose_rule, list_rules
from tfperf.infer.dispatch_records import DispatchHooks, DispatchRule, Slot
from tfperf.infer.length_sampler import LengthSampler
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.pace import UnitRule
from tfperf.infer.prediction import (
    MANIFEST,
    PredictionFolder,
    PredictionResult,
    run_prediction,
    verify_prediction,
)
from tfperf.infer.preparer import PreparerSpec
from tfperf.infer.preparer_watch import prepare_first
from tfperf.infer.subprocesses import MessageProcess
from tfperf.infer.worker import run_worker
from tfperf.measure.environment import collect_environment
from tfperf.results.contents import CARD, ENVIRONMENT
from tfperf.results.files import write_atomically
from tfperf.results.lock import DirectoryLock
from tfperf.results.reading import read_json
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import dump_card
from tfperf.signals import Signals
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.plan import plan_with_rule, read_plan
from tfperf.workloads.predict.progress import PredictionProgress, PredictionState, ShowRecords
from tfperf.workloads.predict.report import write_report
from tfperf.workloads.predict.slots import make_slots

SHARE_OF_DISK = 0.5  # of what is free, that is taken without asking
CALIBRATION_SECONDS = 2.0  # of each size of batches that is tried
ADVICE = "the same command with --resume goes on"


@dataclass(frozen=True)
class PredictOptions:
    """What a command asks for. ask: whether more than half of the free disk may be taken; its text says how much."""

    resume: bool
    ask: Callable[[str], bool]
    show: ShowRecords
    show_stage: ShowStage


def predict_card(card: PredictCard, output: Path, options: PredictOptions) -> dict[str, Any]:
    """Run what a card asks for; its summary, as report.json has it.

    Raises: UserError for faults of card, files, model and folder; StorageError for the disk; Interrupted when a signal
    came: what is committed stays.
    """
    if has_run(output):
        raise RunDirectoryError(f"{output}: holds a run of another kind; choose another folder")
    began = time.monotonic()
    with Signals(advice=ADVICE).listen() as signals, DirectoryLock(output) as held, signals.defer():
        try:
            plan, preparer = read_plan(card, options.show_stage)
            slots = make_slots(card)
            folder = PredictionFolder(held.path, plan)
            rule, measured = settle_rule(card, folder, slots, preparer, options, signals.stop_if_asked)
            folder = PredictionFolder(held.path, plan_with_rule(plan, rule))
            folder.open(options.resume)
        except BaseException:
            if not (held.path / MANIFEST).exists():
                held.discard()
            raise
        _write_text(held.path / CARD, dump_card(card))
        _write_text(held.path / ENVIRONMENT, json.dumps(collect_environment(), indent=1))
        progress = PredictionProgress(folder, slots, options.show)
        outlook = progress.outlook
        hooks = DispatchHooks(
            lambda *_: None, outlook.note_batch, progress.say, lambda: signals.received is not None, outlook.note_window
        )
        dispatch = DispatchRule(rule, UnitRule(card.queue.unit_seconds, batches=_get_unit(card)), card.queue.timeout)
        options.show_stage(f"loading the model in {len(slots)} workers")
        result = PredictionResult()
        if not folder.progress.is_complete:
            ask = partial(refuse_full_disk, held.path, ask=options.ask)
            with closing(LengthSampler(preparer, folder.plan.records, dispatch.timeout, outlook.set_groups)):
                result = run_prediction(folder, slots, preparer, dispatch, ask, progress.show_commit, hooks)
        folder.finish_if_complete()
        summary = write_report(folder, result, slots, measured, began)
        signals.stop_if_asked()
    return summary


def settle_rule(
    card: PredictCard, folder: PredictionFolder, slots: Sequence[Slot], preparer: PreparerSpec,
    options: PredictOptions, check: Callable[[], None],
) -> tuple[BatchRule, list[MeasuredRule]]:  # fmt: skip
    """How records are put together: as the card says, as an earlier life has measured, or as is measured now.

    check: called between two measurements; raises where the command is to end.
    """
    if card.queue.batch != "auto":
        return BatchRule(card.queue.batch.records, card.queue.batch.tokens, card.queue.sort), []
    path = folder.folder / MANIFEST
    if path.is_file():
        return BatchRule(**read_json(path)["identity"]["batch"]), []
    options.show_stage("measuring sizes of batches")
    found = measure_rules(slots[0], preparer, card.queue.sort, card.queue.timeout, check)
    return choose_rule(found), found


def measure_rules(
    slot: Slot, preparer: PreparerSpec, is_sorted: bool, timeout: float, check: Callable[[], None]
) -> list[MeasuredRule]:
    """Records a second of a worker with each size that is tried. Raises: UserError where the model fails or hangs."""
    window = prepare_first(preparer, timeout)
    if not window.columns:
        raise UserError(f"preprocess: no record could be prepared: {window.failures[0].message}")
    start_worker = partial(MessageProcess, run_worker, slot.spec, slot.environment)
    found: list[MeasuredRule] = []
    with closing(BatchCalibration(start_worker, window, timeout)) as calibration:
        for rule in list_rules(window, is_sorted):
            check()
            measured = calibration.measure(rule, CALIBRATION_SECONDS)
            found += [] if measured is None else [measured]
    if not found:
        raise UserError("model: gives no result for any batch of the first records; queue.batch says how many to take")
    return found


def refuse_full_disk(folder: Path, size: int, ask: Callable[[str], bool]) -> None:
    """StorageError where so many bytes do not fit, or are more than half of what is free and `ask` forbids it."""
    import shutil

    free = shutil.disk_usage(folder).free
    told = f"{folder}: the rows take {size / 1e9:.3g} GB of {free / 1e9:.3g} GB that are free"
    if size >= free:
        raise StorageError(f"{told}; choose a folder on another disk, or output.dtype: float16")
    if size > SHARE_OF_DISK * free and not ask(told):
        raise StorageError(f"{told}, more than half; nothing was written; --yes allows it")


def verify_card(card: PredictCard, output: Path, show: ShowRecords, show_stage: ShowStage) -> list[str]:
    """What is wrong with a prediction's file, a line each."""
    plan, _ = read_plan(card, show_stage)
    path = output / MANIFEST
    if not path.is_file():
        raise RunDirectoryError(f"{output}: has no prediction")
    rule = BatchRule(**read_json(path)["identity"]["batch"])
    folder = PredictionFolder(output, plan_with_rule(plan, rule))
    folder.open_existing()
    return verify_prediction(
        folder, lambda done, total: show(PredictionState(done, total, words="comparing checksums"))
    )


def _get_unit(card: PredictCard) -> int | None:
    return None if card.queue.unit == "auto" else card.queue.unit


def _write_text(path: Path, text: str) -> None:
    with write_atomically(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
