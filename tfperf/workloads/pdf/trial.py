"""What a trial of a replica fit measures: the time of a step, as a fit of the card would take it."""

from collections.abc import Mapping
from typing import Any

from tfperf.measure.environment import measure_peak_rss_bytes
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import get, put
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.kind import KIND
from tfperf.workloads.pdf.runners import EnsembleRunner, measure_by_rule, refuse_untimable
from tfperf.workloads.pdf.switches import DECIDED
from tfperf.workloads.pdf.variant_trial import decide, read_problem


def measure_trial(card: Card, request: Mapping[str, Any]) -> dict[str, Any]:
    """Milliseconds per step over `request["steps"]` steps at least, after `request["warmup"]` others; memory; threads.

    request: also `seconds` at most, and when the trial `began`.

    What the card leaves open is measured first and told under `choices`; each trial does so anew, as each fit would.
    Raises: UserError for faults of the card or its files.
    """
    from tfperf.workloads.pdf.training import choose_cores, start_tensorflow

    refuse_untimable(card, "a sweep")
    problem = read_problem(card, card.replicas)
    cores = start_tensorflow(card, choose_cores(card, problem))
    tree = to_json_tree(card)
    choices = decide(card, problem, cores) if "auto" in (get(tree, key) for key in DECIDED) else {}
    for key, value in choices.items():
        put(tree, key, value)
    decided: Card = KIND.make_card(tree)
    warmup, steps, most, began = (request[key] for key in ("warmup", "steps", "seconds", "began"))
    record = measure_by_rule(lambda: EnsembleRunner(decided, problem, cores), warmup, steps, most, began)
    used = {"threads": cores.threads, "stacks": cores.stacks, "peak_rss_bytes": measure_peak_rss_bytes()}
    return record | used | {"choices": choices}
