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

from tfperf.measure import lifeline

Request = Mapping[str, Any]


def carry_out(request: Request) -> dict[str, Any]:
    """The record of a request; UserError for faults of the card or its files."""
    began = time.perf_counter()
    from tfperf.measure.environment import available_cores, cpu_model, program_digest
    from tfperf.runcard.kinds import AnyCard
    from tfperf.workloads.registry import WORKLOADS

    code, tree = program_digest(), request["card"]
    workload = WORKLOADS.find(tree["workload"])
    card: AnyCard = workload.kind.card(tree)
    folder = Path(request["folder"])
    shutil.rmtree(folder, ignore_errors=True)  # what a trial left that was killed
    folder.mkdir(parents=True)
    record = workload.measure(card, {**request, "began": began})
    with suppress(OSError):
        folder.rmdir()  # nothing was put there
    return {"machine": {"cpu": cpu_model(), "cores": available_cores()}, "code": code} | record


if __name__ == "__main__":
    lifeline.answer(carry_out)
