"""What a trial of a replica fit measures: the time of a step, as a fit of the card would take it."""

from collections.abc import Mapping
from typing import Any

from tfperf.measure.environment import peak_rss_bytes
from tfperf.runcard.dump import as_json_tree
from tfperf.runcard.keys import get, put
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.form_trial import decide, read_problem
from tfperf.workloads.pdf.kind import KIND
from tfperf.workloads.pdf.runners import Engine, refuse, stepped
from tfperf.workloads.pdf.switches import DECIDED


def measure(card: Card, request: Mapping[str, Any]) -> dict[str, Any]:
    """Milliseconds per step over `request["steps"]` steps at least, after `request["warmup"]` others; memory; threads.

    request: also `seconds` at most, and when the trial `began`.

    What the card leaves open is measured first and told under `choices`; each trial does so anew, as each fit would.
    Raises: UserError for faults of the card or its files.
    """
    from tfperf.workloads.pdf.training import cores_of, start_machine

    refuse(card, "a sweep")
    problem = read_problem(card, card.replicas)
    cores = start_machine(card, cores_of(card, problem))
    tree = as_json_tree(card)
    choices = decide(card, problem, cores) if "auto" in (get(tree, key) for key in DECIDED) else {}
    for key, value in choices.items():
        put(tree, key, value)
    decided: Card = KIND.card(tree)
    warmup, steps, most, began = (request[key] for key in ("warmup", "steps", "seconds", "began"))
    record = stepped(lambda: Engine(decided, problem, cores), warmup, steps, most, began)
    used = {"threads": cores.threads, "stacks": cores.stacks, "peak_rss_bytes": peak_rss_bytes()}
    return record | used | {"choices": choices}
