"""One variant of a card measured, as a program of its own: a JSON request on stdin, a JSON record on stdout.

`python -m tfperf.study.variant`. A request is workloads/switches.py's Request. A record holds `choices` (what `auto`
stands for, by key) where that is asked for, else `ms_per_step` (median, q1, q3), `steps_per_call`, `peak_rss_bytes`,
`seconds`, and `losses` after one step (by name, of each replica that is checked), with `points` of those that are sums
over points; of a card that cannot be measured `refused`. A fresh process, so that memory is this variant's alone and
none profits from another.
"""

from typing import Any

from tfperf.measure import parent_watch


def measure_variant(request: dict[str, Any]) -> dict[str, Any]:
    """The record of a request; UserError where the card asks for what this variant cannot do."""
    from tfperf.workloads.registry import WORKLOADS
    from tfperf.workloads.switches import Request

    wanted = Request(**request | {"checked": tuple(request["checked"])})
    workload = WORKLOADS.get(wanted.card["workload"])
    return workload.measure_variant(workload.kind.make_card(wanted.card), wanted)


if __name__ == "__main__":
    parent_watch.answer_request(measure_variant)
