"""A static estimate, as a program of its own: a JSON request on stdin, a JSON record on stdout.

`python -m tfperf.study.static_estimate`. A request holds `card` (as a tree), `mode` (train or predict), `batches`
(None: two that are small), `limit` (bytes; None: no largest batch is looked for) and `savings` (whether changed steps
are estimated, too). A record holds what workloads/static_memory.py makes; of a card that cannot be estimated `refused`.
"""

import os
from collections.abc import Mapping
from typing import Any

from tfperf.errors import CardError
from tfperf.measure import parent_watch


def estimate_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a request; UserError for faults of the card or its files."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # what is estimated are kernels for the processor
    from tfperf.workloads.registry import WORKLOADS
    from tfperf.workloads.static_memory import estimate_memory

    workload = WORKLOADS.get(request["card"]["workload"])
    card = workload.kind.make_card(request["card"])
    tracer = workload.build_step_tracer(card, request["mode"])
    if tracer is None:
        raise CardError(f"--static: workload {workload.name} has no step that is traced alone; leave it out")
    return estimate_memory(tracer, request)


if __name__ == "__main__":
    parent_watch.answer_request(estimate_request)
