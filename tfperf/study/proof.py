"""The process in which a batch has passed: what a report shows of it."""

from collections.abc import Sequence
from typing import Any

from tfperf.study.child import Record


def find_proof(records: Sequence[Record], batch: int) -> dict[str, Any] | None:
    """What the last process that took steps of a batch has measured; None where none was kept.

    A process that took this batch alone goes before one that took smaller ones first.
    """
    found = None
    for record in records:
        batches = [one["batch"] for one in record.get("batches", [])]
        if batch in batches and (found is None or len(batches) <= len(found["batches"])):
            found = record
    if found is None:
        return None
    step = next(one for one in found["batches"] if one["batch"] == batch)
    return {
        "batch": batch,
        "step": step,
        **{key: found.get(key) for key in ("stages", "readings", "work", "address_space")},
    }
