"""Which batches a prediction is made of: as its card says, as an earlier life has measured, or as is measured now."""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

from tfperf.console.stages import ShowStage
from tfperf.errors import UserError
from tfperf.infer.batch_choice import BatchCalibration, MeasuredRule, choose_rule, list_rules
from tfperf.infer.launchers import Launcher, WorkerProcess
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.prediction import MANIFEST, PredictionFolder, has_rows
from tfperf.infer.prepared import PreparedWindow
from tfperf.infer.preparer import PreparerSpec
from tfperf.infer.preparer_watch import prepare_first
from tfperf.results.reading import read_json
from tfperf.workloads.predict.card import PredictCard

CALIBRATION_SECONDS = 2.0  # of each size of batches that is tried
WAIT_SECONDS = 0.2  # between two looks for a machine


def settle_rule(
    card: PredictCard, folder: PredictionFolder, launcher: Launcher, preparer: PreparerSpec, show_stage: ShowStage,
    check: Callable[[], None],
) -> tuple[BatchRule, list[MeasuredRule]]:  # fmt: skip
    """How records are put together: as the card says, as an earlier life has measured, or as is measured now.

    check: called between two measurements; raises where the command is to end.
    """
    if card.queue.batch != "auto":
        return BatchRule(card.queue.batch.records, card.queue.batch.tokens, card.queue.sort), []
    if has_rows(folder.folder):
        return BatchRule(**read_json(folder.folder / MANIFEST)["identity"]["batch"]), []
    show_stage("measuring sizes of batches")
    found = measure_rules(launcher, preparer, card.queue.sort, card.queue.timeout, check)
    return choose_rule(found), found


def start_first(launcher: Launcher, check: Callable[[], None]) -> WorkerProcess:
    """A worker on the first slot, as soon as there is a machine for it."""
    while (worker := launcher.start(0)) is None:
        check()
        time.sleep(WAIT_SECONDS)
    return worker


def measure_rules(
    launcher: Launcher, preparer: PreparerSpec, is_sorted: bool, timeout: float, check: Callable[[], None]
) -> list[MeasuredRule]:
    """Records a second of a worker with each size that is tried. Raises: UserError where the model fails or hangs."""
    window = prepare_first(preparer, timeout, check)
    refuse_unprepared(window)
    found: list[MeasuredRule] = []
    with closing(BatchCalibration(partial(start_first, launcher, check), window, timeout, check)) as calibration:
        for rule in list_rules(window, is_sorted):
            check()
            measured = calibration.measure(rule, CALIBRATION_SECONDS)
            found += [] if measured is None else [measured]
    if not found:
        raise UserError(
            f"model: gives no result for any batch of the first records: {calibration.first_error}; "
            "queue.batch: {records: 1} measures nothing, and passes over records that fail"
        )
    return found


def refuse_unprepared(window: PreparedWindow) -> None:
    """UserError where no record of a window could be prepared."""
    if not window.columns:
        raise UserError(f"preprocess: no record could be prepared: {window.failures[0].message}")
