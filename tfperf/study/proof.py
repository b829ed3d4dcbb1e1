"""The process in which a batch has passed: what a report shows of it."""

from collections.abc import Mapping
from typing import Any

from tfperf.study.child import Record


def find_proof(trials: Mapping[str, Record], mode: str, batch: int) -> dict[str, Any] | None:
    """What the last process of a mode that took steps of a batch has measured; None where none was kept.

    A process that took this batch alone goes before one that took smaller ones first.
    """
    found = None
    for name, record in trials.items():
        batches = [one["batch"] for one in record.get("batches", [])]
        if (
            name.startswith(f"{mode} ")
            and batch in batches
            and (found is None or len(batches) <= len(found["batches"]))
        ):
            found = record
    if found is None:
        return None
    step = next(one for one in found["batches"] if one["batch"] == batch)
    return {"batch": batch, "step": step, **{key: found.get(key) for key in ("stages", "readings", "work")}}
