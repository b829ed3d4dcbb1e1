"""One measurement of an input study, as a program of its own: a JSON request on stdin, a JSON record on stdout.

`python -m tfperf.study.input_trial`. A request holds `card` (as a tree), `seconds`, and `workers`: None for the card as
it is: model and data alone and together, and stages, each for so many seconds; a number for the data alone, made by so
many. A record holds what workloads/input_trial.py makes; of a card that cannot be measured `refused`. A request with
`cards` in place of all these asks for their data side by side, as `--apply` does: Workload.compare_inputs.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

from tfperf.measure import parent_watch
from tfperf.runcard.kinds import AnyCard

DEVICE_BLOCKS = 2  # of steps as they are, each as long as those that were timed, in which the device is watched


def measure_input(request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a request; UserError for faults of the card or its files."""
    from tfperf.workloads.registry import WORKLOADS

    if "cards" in request:
        workload = WORKLOADS.get(request["cards"][0]["workload"])
        return workload.compare_inputs([workload.kind.make_card(one) for one in request["cards"]], request)
    card = WORKLOADS.get(request["card"]["workload"]).kind.make_card(request["card"])
    return measure_card(card, float(request["seconds"]), request["workers"])


def measure_card(card: AnyCard, seconds: float, workers: int | None) -> dict[str, Any]:
    """The same of a card. Raises: UserError."""
    from tfperf.workloads.device_trial import measure_device
    from tfperf.workloads.input_trial import measure_ceilings, measure_loader
    from tfperf.workloads.registry import WORKLOADS

    workload = WORKLOADS.get_for_card(card)
    if workers is not None:
        return measure_loader(workload.build_loader(card, workers), workers, seconds)
    trial = workload.build_input_trial(card)
    found = measure_ceilings(trial, seconds)
    device = measure_device(trial, DEVICE_BLOCKS * found["both"]["steps"])
    return found | {"device": device, "source": trial.describe_source(seconds)}


if __name__ == "__main__":
    parent_watch.answer_request(measure_input)
    sys.stdout.flush()
    os._exit(0)  # iterators that run Python in their threads may keep the interpreter from ending
