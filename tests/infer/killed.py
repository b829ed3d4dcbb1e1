"""A prediction as a program of its own, which can be told to kill itself at a point of a commit.

python -m tests.infer.killed FOLDER RECORDS [POINT COUNT]: ends by SIGKILL at that point, the COUNT-th time it is there.
Prints the most memory that it had [kB].
"""

import os
import resource
import signal
import sys
from pathlib import Path

from tests.infer.programs import make_preparer, make_worker
from tfperf.infer import commit_thread, prediction, writer
from tfperf.infer.dispatch_records import DispatchHooks, DispatchRule, Slot
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.pace import UnitRule
from tfperf.infer.prediction import MANIFEST, PredictionFolder, PredictionPlan, run_prediction
from tfperf.results import files, line_journal

FILE, WINDOW = "out.h5", 512
POINTS = (
    "before rows", "half of rows", "after rows", "before sync", "after sync", "half of journal", "after journal"
)  # fmt: skip


class Aim:
    """Kills this process at a point of a commit."""

    def __init__(self, point, count):
        self.point, self.left = point, count

    def pass_by(self, point):
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def set_traps(self):
        write, sync, append = os.pwrite, os.fdatasync, files.append

        def write_trapped(file, content, offset):
            self.pass_by("before rows")
            if self.point == "half of rows" and self.left == 1:
                write(file, bytes(content)[: len(content) // 2], offset)
            self.pass_by("half of rows")
            done = write(file, content, offset)
            self.pass_by("after rows")
            return done

        def sync_trapped(file):
            self.pass_by("before sync")
            sync(file)
            self.pass_by("after sync")

        def append_trapped(path, text):
            if self.point == "half of journal" and self.left == 1:
                append(path, text[: len(text) // 2])
            self.pass_by("half of journal")
            append(path, text)
            self.pass_by("after journal")

        os.pwrite, os.fdatasync = write_trapped, sync_trapped
        vars(line_journal)["append"] = append_trapped


def run(folder, records, seconds=0.0):
    """Begin, or go on; 2 workers."""
    for module in (writer, commit_thread):
        vars(module)["SYNC_SECONDS"] = 0.05
    plan = PredictionPlan(records, WINDOW, FILE, "float32", "<i8", {"records": records})
    found = PredictionFolder(folder, plan)
    found.open((folder / MANIFEST).exists())
    slots = [Slot(f"worker {number}", make_worker(of_batch=seconds)) for number in range(2)]
    rule = DispatchRule(BatchRule(records=64), UnitRule(0.1))
    hooks = DispatchHooks(lambda *_: None)
    if not found.progress.is_complete:
        run_prediction(found, slots, make_preparer(records, WINDOW), rule, lambda size: None, lambda *_: None, hooks)
    found.finish_if_complete()
    verified = prediction.verify_prediction(found, lambda *_: None)
    assert not verified.faults and verified.done == records, verified


if __name__ == "__main__":
    if len(sys.argv) > 4:
        Aim(sys.argv[3], int(sys.argv[4])).set_traps()
    Path(sys.argv[1]).mkdir(exist_ok=True)
    run(Path(sys.argv[1]), int(sys.argv[2]), float(os.environ.get("BATCH_SECONDS", "0")))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
