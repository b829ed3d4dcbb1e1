"""What the passes over a sample say: rates with their scatter, what to take, and how long all records take."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tfperf.infer.batch_choice import BETTER
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.time_left import estimate_time_left
from tfperf.measure.confidence import ConfidenceInterval, estimate_mean
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.sample_plan import describe_rule

Row = Mapping[str, Any]
KINDS = ("batch", "alone", "prepare", "own", "workers", "unit")  # in the order of the page


def summarise_sample(
    card: PredictCard, records: int, rows: Sequence[Row], rule: Mapping[str, Any], records_of_batch: float
) -> dict[str, Any]:
    """sample.json's content; rule: of the batches that all but the passes over sizes of batches were made with."""
    groups = [summarise_group(rows, kind, value) for kind, value in list_groups(rows)]
    own, preparing = (_find_group(groups, kind) for kind in ("own", "prepare"))
    slower = _find_slower(own, preparing)
    rate = None if slower is None else _get_interval(slower)
    total = card.sample.total or records
    advice = None if own is None else choose_faster_workers(groups, own, preparing)
    return {
        "title": card.title, "records": records, "total": total, "sampled": min(records, card.sample.records),
        "replicates": card.sample.replicates, "rule": dict(rule), "records_of_batch": records_of_batch,
        "groups": groups, "workers": max((len(one["devices"]) for one in rows if one["kind"] == "own"), default=None),
        "devices": list_device_rates(rows), "advice": advice,
        "limit": None if slower is None else slower["kind"], "rate": None if rate is None else asdict(rate),
        "seconds": None if rate is None else asdict(estimate_seconds(rate, total)),
    }  # fmt: skip


def list_groups(rows: Sequence[Row]) -> list[tuple[str, Any]]:
    """What was measured, in the order of kinds, then of their first passes."""
    found = {(one["kind"], json.dumps(one["value"])): one["value"] for one in rows}
    return sorted(((kind, value) for (kind, _), value in found.items()), key=lambda one: KINDS.index(one[0]))


def summarise_group(rows: Sequence[Row], kind: str, value: Any) -> dict[str, Any]:
    """All replicates of a pass. mean, sd [records/s]; low, high: of the mean, 95 %."""
    mine = [one for one in rows if one["kind"] == kind and one["value"] == value]
    rates = [float(one["rate"]) for one in mine if one["rate"] is not None]
    mean = estimate_mean(rates) if rates else ConfidenceInterval(float("nan"))
    shares = [one["useful_share"] for one in mine if one["useful_share"] is not None]
    return {
        "kind": kind, "value": value, "words": describe_value(kind, value), "rates": rates,
        "mean": mean.value if rates else None, "sd": _compute_deviation(rates),
        "low": mean.low, "high": mean.high, "useful_share": float(np.mean(shares)) if shares else None,
        "failed": max((one.get("failed", 0) for one in mine), default=0),
        "errors": sorted({one["error"] for one in mine if one["error"] is not None}),
    }  # fmt: skip


def describe_value(kind: str, value: Any) -> str:
    """What a pass was made with."""
    if kind == "batch":
        return describe_rule(value)
    told = {"workers": f"{value}", "unit": f"{value} records", "own": "as the card says", "alone": "one process"}
    return told.get(kind, "reading and preparing")


def choose_batch(rows: Sequence[Row]) -> BatchRule:
    """The smallest batches that no others beat by more than a twentieth."""
    groups = [summarise_group(rows, kind, value) for kind, value in list_groups(rows) if kind == "batch"]
    found = _choose(groups)
    return BatchRule(**(groups[0] if found is None else found)["value"])


def choose_faster_workers(groups: Sequence[Row], own: Row, preparing: Row | None) -> dict[str, float] | None:
    """The number of workers per device that is surely more than BETTER times as fast as the card's: the fewest that no
    other number beats by as much. times: how much, where preparation allows it. None: no number is."""
    found = _choose([one for one in groups if one["kind"] == "workers"])
    if found is None or own["mean"] is None or found["low"] is None or own["high"] is None:
        return None
    most = found["mean"] if preparing is None or preparing["mean"] is None else min(found["mean"], preparing["mean"])
    if found["low"] <= own["high"] or most < own["mean"] * BETTER:
        return None
    return {"workers": int(found["value"]), "times": most / own["mean"]}


def _choose(groups: Sequence[Row]) -> Row | None:
    good = [one for one in groups if one["mean"] is not None]
    best = max((one["mean"] for one in good), default=0.0)
    return next((one for one in good if one["mean"] * BETTER >= best), None)


def _find_group(groups: Sequence[Row], kind: str) -> Row | None:
    return next((one for one in groups if one["kind"] == kind), None)


def _find_slower(own: Row | None, preparing: Row | None) -> Row | None:
    """What all records wait for: both happen at the same time. None: the workers' rate is not known."""
    if own is None or own["mean"] is None:
        return None
    is_slower = preparing is not None and preparing["mean"] is not None and preparing["mean"] < own["mean"]
    return preparing if is_slower else own


def _get_interval(group: Row) -> ConfidenceInterval:
    return ConfidenceInterval(group["mean"], group["low"], group["high"])


def estimate_seconds(rate: ConfidenceInterval, total: int) -> ConfidenceInterval:
    """For so many records, at a rate that the sample has."""
    return estimate_time_left(rate, float(total), 0, ConfidenceInterval(1.0))


def list_device_rates(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Records/s of each device while the card's workers compute: mean and standard deviation over replicates."""
    mine = [one for one in rows if one["kind"] == "own" and one["rate"] is not None]
    found: dict[str, list[float]] = {}
    for row in mine:
        sums: dict[str, float] = {}
        for device, rate in zip(row["devices"], row["slot_rates"], strict=True):
            sums[device] = sums.get(device, 0.0) + rate
        for device, rate in sums.items():
            found.setdefault(device, []).append(rate)
    return [
        {"device": device, "mean": float(np.mean(rates)), "sd": _compute_deviation(rates)}
        for device, rates in found.items()
    ]


def _compute_deviation(rates: Sequence[float]) -> float | None:
    """Of replicates; None: there is only one."""
    return float(np.std(rates, ddof=1)) if len(rates) > 1 else None
