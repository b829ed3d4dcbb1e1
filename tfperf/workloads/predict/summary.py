"""What a prediction came to, as report.json has it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tfperf.infer.batch_choice import MeasuredRule
from tfperf.infer.dispatch_records import Slot
from tfperf.infer.prediction import PredictionFolder, PredictionResult, summarise_failures


def summarise(
    folder: PredictionFolder, result: PredictionResult, slots: Sequence[Slot], measured: Sequence[MeasuredRule],
    seconds: float,
) -> dict[str, Any]:  # fmt: skip
    """What report.json has. rate: records a second from the first lease to the last commit of this life."""
    shares = [sum(one.records for one in result.events if one.slot == slot) for slot in range(len(slots))]
    busy = [sum(one.seconds for one in result.events if one.slot == slot) for slot in range(len(slots))]
    costs = [sum(one.cost for one in result.events if one.slot == slot) for slot in range(len(slots))]
    rates = [cost / time if time else 0.0 for cost, time in zip(costs, busy, strict=True)]
    capacity = result.seconds * sum(rates)
    return {
        "records": folder.plan.records, "committed": folder.progress.count, "file": str(folder.path),
        "is_finished": folder.progress.is_complete, **summarise_failures(folder),
        "seconds": result.seconds, "seconds_in_all": seconds, "records_of_this_life": result.records,
        "rate": result.records / result.seconds if result.seconds else None,
        "useful_share": sum(costs) / capacity if capacity else None,
        "workers": [
            {"name": slot.name, "records": share, "busy_seconds": time, "rate": share / time if time else None}
            for slot, share, time in zip(slots, shares, busy, strict=True)
        ],
        "batch": dict(folder.plan.identity["batch"]), "said": result.said,
        "batches_tried": [{**asdict(one.rule), "rate": one.rate} for one in measured],
    }  # fmt: skip
