"""What the passes over a sample say: rates with their scatter, what to take, and how long all records take."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tfperf.infer.batch_choice import BETTER
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.time_left import estimate_time_left
from tfperf.measure.confidence import ConfidenceInterval, estimate_mean
from tfperf.measure.environment import count_cores
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.sample_plan import describe_rule

Row = Mapping[str, Any]
KINDS = ("batch", "alone", "prepare", "own", "workers", "unit")  # in the order of the page


def summarise_sample(
    card: PredictCard, records: int, rows: Sequence[Row], rule: Mapping[str, Any], records_of_batch: float
) -> dict[str, Any]:
    """sample.json's content; rule: of the batches that all but the passes over sizes of batches were made with.

    Passes that were made with another one, by an earlier life of the command, are left out.
    """
    rows = [one for one in rows if one.get("rule") in (None, rule)]
    groups = [summarise_group(rows, kind, value) for kind, value in list_groups(rows)]
    own, preparing = (_find_group(groups, kind) for kind in ("own", "prepare"))
    slower = _find_slower(own, preparing)
    devices = next((one["devices"] for one in rows if one["kind"] == "own"), None)
    rate = None if own is None else estimate_rate(own, preparing, devices or ())
    total = card.sample.total or records
    advice = None if own is None else choose_faster_workers(groups, own, preparing)
    return {
        "title": card.title, "records": records, "total": total, "sampled": min(records, card.sample.records),
        "replicates": card.sample.replicates, "rule": dict(rule), "rule_words": describe_rule(rule),
        "records_of_batch": records_of_batch, "groups": groups, "workers": None if devices is None else len(devices),
        "failed": max((one["failed"] for one in groups), default=0),
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
    mean = ConfidenceInterval(float("nan"))
    if rates:
        mean = estimate_rate_of_parts(rates) if kind == "prepare" else estimate_mean(rates)
    shares = [one["useful_share"] for one in mine if one["useful_share"] is not None]
    return {
        "kind": kind, "value": value, "words": describe_value(kind, value), "rates": rates,
        "mean": mean.value if rates else None, "sd": _compute_deviation(rates),
        "low": mean.low, "high": mean.high, "useful_share": float(np.mean(shares)) if shares else None,
        "failed": max((one.get("failed", 0) for one in mine), default=0),
        "errors": sorted({one["error"] for one in mine if one["error"] is not None}),
    }  # fmt: skip


def estimate_rate_of_parts(rates: Sequence[float]) -> ConfidenceInterval:
    """Records/s through all parts of a source, of which each was measured at one place: the mean of their times.

    >>> estimate_rate_of_parts([50.0, 100.0]).value  # 20 ms and 10 ms a record
    66.66666666666667
    """
    found = estimate_mean([1 / one for one in rates])
    if found.low is None or found.high is None:
        return ConfidenceInterval(1 / found.value)
    half = (found.high - found.low) / 2 / found.value
    return ConfidenceInterval(1 / found.value, math.exp(-half) / found.value, math.exp(half) / found.value)


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


def estimate_rate(own: Row, preparing: Row | None, devices: Sequence[str]) -> ConfidenceInterval | None:
    """Records/s of workers and preparation, which happen at the same time: the lower mean, and the lower limits.

    devices: of the workers. Where they compute on the cores on which records are prepared, the rate may be as low as
    if a pass had hidden all of that: each record takes its time of both, shared by all cores. None: it is not known.
    """
    if own["mean"] is None:
        return None
    if preparing is None or preparing["mean"] is None:
        return ConfidenceInterval(own["mean"], own["low"], own["high"])
    value = min(own["mean"], preparing["mean"])
    if own["low"] is None or preparing["low"] is None:
        return ConfidenceInterval(value)
    low, high = (min(own[limit], preparing[limit]) for limit in ("low", "high"))
    cores = count_cores()
    if sum(one.startswith("cpu") for one in devices) >= cores:
        low = min(low, cores / (cores / own["mean"] + 1 / preparing["mean"]))
    return ConfidenceInterval(value, low, high)


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
