"""One point of a sweep measured once, as a program of its own: a JSON request on stdin, a JSON record on stdout.

`python -m tfperf.study.point`. A request holds `card` (the point's card as a tree), `warmup`, `steps` and `seconds`
(how they are timed: runcard/sweep.py), `first` (whether no trial of the point has succeeded yet, which asks for the
costly proof and trace) and `folder` (the trial's own, for files). A record holds at least `ms_per_step` (median, q1,
q3) and `samples_ms`; of a card that cannot be measured `refused`, of a placement whose proof failed `unproved`.
"""

import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tfperf.measure import parent_watch

PointRequest = Mapping[str, Any]


def measure_point(request: PointRequest) -> dict[str, Any]:
    """The record of a request; UserError for faults of the card or its files."""
    began = time.perf_counter()
    from tfperf.measure.environment import count_cores, digest_program, read_cpu_model
    from tfperf.runcard.kinds import AnyCard
    from tfperf.workloads.registry import WORKLOADS

    code, tree = digest_program(), request["card"]
    workload = WORKLOADS.get(tree["workload"])
    card: AnyCard = workload.kind.make_card(tree)
    folder = Path(request["folder"])
    shutil.rmtree(folder, ignore_errors=True)  # what a trial left that was killed
    folder.mkdir(parents=True)
    record = workload.measure_trial(card, {**request, "began": began})
    with suppress(OSError):
        folder.rmdir()  # nothing was put there
    return {"machine": {"cpu": read_cpu_model(), "cores": count_cores()}, "code": code} | record


if __name__ == "__main__":
    parent_watch.answer_request(measure_point)
