"""What AUTOTUNE made of a pipeline beside what its stages' times ask for, and how the pipeline is put together."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfperf.report.input_rates import AIM
from tfperf.report.input_stages import NOTABLE, StageRow, format_small, get_free_cores


def list_tuning_lines(report: Mapping[str, Any], rows: Sequence[StageRow]) -> Iterator[str]:
    """Parallel stages with fewer calls than they need for the rate that cores and step allow."""
    if not rows:
        return
    step, cores = report["as_it_is"]["model"]["rate"]["value"], get_free_cores(report)
    cpu = sum(max(0.0, one.cpu or 0.0) for one in rows)
    total = sum(one.seconds for one in rows)
    shared = (report["workers"] or {}).get("costs", {}).get("shared_seconds") or 0.0
    rate = min(step, cores / cpu if cpu else math.inf, 1 / shared if shared else math.inf)
    what = "the step's rate" if rate == step else f"{rate:.4g} batches/s, which cores and what is shared allow,"
    for one in rows:
        needed = math.ceil(AIM * rate * one.seconds)
        if one.chosen is None or one.seconds < NOTABLE * total or isinstance(one.calls, int):
            continue
        if one.chosen < needed:
            yield f"{one.name}: AUTOTUNE took {one.chosen:.0f} calls at once; for {what} it needs at least {needed}"


def list_structure(source: Mapping[str, Any], rows: Sequence[StageRow]) -> list[tuple[str, str]]:
    """How a pipeline is put together, as pairs of words."""
    if not rows:
        return []
    options = source["pipeline"]["options"]
    return [
        ("prefetch at the end", _describe_end(rows, options)),
        ("order of elements", "kept" if options["keeps_order"] else "given up"),
        ("AUTOTUNE", "on" if options["autotune"] else "off"),
        ("threads", str(options["threads"] or "as many as cores")),
        ("Python", _list_names(one for one in rows if "Python" in one.notes)),
        ("batch", ", ".join(_list_batches(rows)) or "none"),
        ("cache", ", ".join(_list_caches(rows)) or "none"),
        ("shuffle", ", ".join(_list_shuffles(rows)) or "none"),
        ("repeat and take", _list_names(one for one in rows if one.kind in ("repeat", "take"))),
        ("held in buffers", format_small(sum(one.held_bytes or 0 for one in rows))),
    ]  # fmt: skip


def _describe_end(rows: Sequence[StageRow], options: Mapping[str, Any]) -> str:
    if rows[-1].kind == "prefetch":
        return "yes"
    return "TensorFlow adds one" if options["autotune"] and options["inject_prefetch"] else "no"


def _list_names(rows: Iterator[StageRow]) -> str:
    return ", ".join(one.name for one in rows) or "none"


def _list_batches(rows: Sequence[StageRow]) -> Iterator[str]:
    """Which maps are before a batch, which after it."""
    for one in rows:
        if one.kind.endswith("batch") and one.inputs:
            before = [row.name for row in rows[: one.position] if row.kind == "map"]
            after = [row.name for row in rows[one.position + 1 :] if row.kind == "map"]
            yield f"{one.name}: after {', '.join(before) or 'no map'}; before {', '.join(after) or 'no map'}"


def _list_caches(rows: Sequence[StageRow]) -> Iterator[str]:
    for one in rows:
        if one.kind == "cache":
            drawn = [row.name for row in rows[: one.position] if "random" in row.notes]
            yield (
                f"{one.name}: after {', '.join(drawn)}, which is random"
                if drawn
                else f"{one.name}: before anything random"
            )


def _list_shuffles(rows: Sequence[StageRow]) -> Iterator[str]:
    for one in rows:
        if one.kind.startswith("shuffle"):
            length = rows[one.inputs[0]].cardinality if one.inputs else None
            of = "an unknown number of" if length is None or not math.isfinite(length) else f"{length:.0f}"
            yield f"{one.name}: buffer {one.buffer or 'n/a'} of {of} elements"
