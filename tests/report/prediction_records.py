"""Reports of predictions that nobody made."""

import numpy as np

from tfperf.infer.batch_choice import MeasuredRule
from tfperf.infer.dispatch_records import BatchEvent, Slot, UnitEvent
from tfperf.infer.event_log import EventLog
from tfperf.infer.leases import RecordFailure
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.prediction import PredictionFolder, PredictionPlan, PredictionResult
from tfperf.infer.worker import WorkerSpec
from tfperf.workloads.predict.summary import summarise

WINDOW = 100
RULE = BatchRule(records=20)


def make_folder(folder, records, done, failed=0):
    """A prediction with some records that are done, the first of which failed."""
    identity = {"batch": {"records": 20, "total_length": None, "is_sorted": True}}
    plan = PredictionPlan(records, WINDOW, "predictions.h5", "float32", "<i8", identity, {"title": "A prediction"})
    found = PredictionFolder(folder, plan)
    found.progress.count = done
    found.progress.failures = [
        RecordFailure(n // WINDOW, n % WINDOW, "raised", "ValueError: bad") for n in range(failed)
    ]
    return found


def make_log(workers, seconds, batches=50, cost=20.0, ends=None):
    """Batches of 20 records, one after the other; worker k has as many seconds of work as ends[k], by default all."""
    log = EventLog(workers)
    for slot in range(workers):
        end = seconds if ends is None else ends[slot]
        for number in range(batches):
            at = end * (number + 1) / batches
            if number % 5 == 0:
                log.add_unit(
                    UnitEvent(slot, end * number / batches, 5, 5 * cost, 5 * end / batches if number else None)
                )
            log.add_batch(BatchEvent(slot, at, end / batches, 20, cost))
            log.add_end(slot, at)
    return log


def load_nothing():
    """These workers are never started."""


def make_slots(workers, devices=1):
    """Workers on devices by turns."""
    places = [f"gpu:{number % devices}" for number in range(workers)]
    return [Slot(f"worker {n} on {one}", WorkerSpec(load_nothing), {}, one) for n, one in enumerate(places)]


def make_report(
    folder, workers=2, devices=1, seconds=20.0, log=None, records=None, done=None, failed=0, measured=False, lives=1
):  # fmt: skip
    """As a run writes it; by default all of its records are done."""
    log = make_log(workers, seconds) if log is None else log
    made = sum(one.records for one in log.totals)
    records = made if records is None else records
    done = records if done is None else done
    result = PredictionResult(log, seconds, made or done, 103.0)
    tried = [MeasuredRule(BatchRule(records=1), 20.0), MeasuredRule(RULE, 90.0)] if measured else []
    report = summarise(make_folder(folder, records, done, failed), result, make_slots(workers, devices), tried, 100.0)
    life = {key: report[key] for key in ("seconds", "rate", "useful_share", "startup_seconds")}
    return report | {
        "lives": [{**dict.fromkeys(life), "records": 40}] * (lives - 1) + [life | {"records": made}],
        "versions": {"tensorflow": "2.21.0"}, "machine": {"cpu": {"model": "AMD", "cores": 2}, "gpus": []},
        "seconds_in_all": seconds + 3,
    }  # fmt: skip


def make_array(report, key):
    """A figure of the course (workers, bins)."""
    return np.array(report["course"][key])
