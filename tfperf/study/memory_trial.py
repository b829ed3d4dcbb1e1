"""One trial of a memory study, as a program of its own: a JSON request on stdin, a JSON record on stdout.

`python -m tfperf.study.memory_trial`. A request holds `card` (as a tree), `mode` (train or predict), `device` and
`limit` (bytes; None: all) as measure/device_memory.py has them, `ram` (bytes of the host, after which no larger batch
is taken; None: all), `batch`, `length` (to which samples are padded; None: the longest), `share` (None: this batch
alone; else batches grow up to that share of the limit), `more` (seconds for which further steps of a batch are taken
where five are shorter) and `folder` (the trial's own, where batches.jsonl keeps what was measured until the process
ended). A record holds `stages` and `batches` (workloads/memory_trial.py),
`readings` during each stage (measure/counters.py), `lengths` that may be asked for, and `exhausted` with the batch that
found no memory; of a card that cannot be measured `refused`.
"""

import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tfperf.measure import parent_watch


def measure_trial(request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a request; UserError for faults of the card or its files."""
    began = time.perf_counter()
    from tfperf.measure.counters import open_counters
    from tfperf.workloads.memory_trial import measure_memory
    from tfperf.workloads.registry import WORKLOADS

    workload = WORKLOADS.get(request["card"]["workload"])
    card = workload.kind.make_card(request["card"])
    folder = Path(request["folder"])
    shutil.rmtree(folder, ignore_errors=True)  # what a trial left that was killed
    folder.mkdir(parents=True)
    with open_counters(request["device"]) as counters:
        make_trial = partial(workload.build_memory_trial, card, request["mode"])
        return measure_memory(make_trial, {**request, "began": began}, counters)


if __name__ == "__main__":
    parent_watch.answer_request(measure_trial)
