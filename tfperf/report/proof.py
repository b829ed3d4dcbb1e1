"""The process that proved a batch: its stages, its memory, and how long a job with that batch takes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfperf.report.numbers import format_seconds

RESERVE = 1.5  # times the time that was measured, to ask a queue for


@dataclass(frozen=True)
class ProofStages:
    """Stages of a process by what they did: what came before the first step, the first step of the batch, and those
    after it that took steps; rest: validation."""

    before: Sequence[Mapping[str, Any]]
    first: Mapping[str, Any] | None
    steady: Sequence[Mapping[str, Any]]
    rest: Sequence[Mapping[str, Any]]


def split_stages(proof: Mapping[str, Any]) -> ProofStages:
    """Stages of the batch that was proved; those of smaller batches, which the process may have had before, are left
    out."""
    of_batch = [stage for stage in proof["stages"] if stage["name"].endswith(f", batch {proof['batch']}")]
    before = [stage for stage in proof["stages"] if ", batch " not in stage["name"]]
    first = next((stage for stage in of_batch if stage["name"].startswith("first ")), None)
    rest = [stage for stage in of_batch if stage["name"].startswith("validation")]
    return ProofStages(before, first, [one for one in of_batch if one is not first and one not in rest], rest)


def get_gpu(stage: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What NVML said of the GPU that steps run on, at a stage's end."""
    nvml = None if stage is None else stage.get("nvml")
    return nvml[0] if nvml else None


@dataclass(frozen=True)
class ProofMemory:
    """Bytes of the device, and of RAM; None: cannot be had. The peak is `used_before + model + batch`."""

    total: int | None
    used_before: int | None
    model: int | None
    batch: int | None
    peak: int | None
    ram_peak: int | None


def compute_proof_memory(proof: Mapping[str, Any], room: Mapping[str, Any]) -> ProofMemory:
    """used_before: what others use, and the samples that lie on the device; model: variables, the optimizer's too.

    On the processor, which stands in for a GPU, the total is the region's, of which no other program uses any.
    """
    found = split_stages(proof)
    stages = {stage["name"]: stage for stage in found.before}
    used_by_others: int | None = 0
    total: int | None = room["limit"]
    if room["device"] == "gpu":
        gpu = get_gpu(stages.get("TensorFlow imported"))
        total, used_by_others = (None if gpu is None else gpu["memory"][key] for key in ("total", "used"))
    data = stages["data read"]["device"] if "data read" in stages else None
    held = found.before[-1]["device"] if found.before else None
    every = [stage for stage in (found.first, *found.steady, *found.rest) if stage is not None]
    peak = max((one["device_peak"] for one in every if one["device_peak"] is not None), default=None)
    rams = [one["ram_peak"] for one in (*found.before, *every) if one["ram_peak"] is not None]
    return ProofMemory(
        total, _add(used_by_others, data), _subtract(held, data), _subtract(peak, held), _add(used_by_others, peak),
        max(rams, default=None),
    )  # fmt: skip


def estimate_seconds(proof: Mapping[str, Any], mode: str) -> tuple[float, str] | None:
    """How long all work of the card takes with the batch, and in words how that was counted, with the reserve.

    Whole batches count; those of an epoch's validation as if they were trained on. None where the number of samples is
    unknown, or that of the epochs.
    """
    work = proof.get("work") or {}
    samples, batch, each = work.get("samples"), proof["batch"], proof["step"]["seconds_per_step"]
    if not samples:
        return None
    found, of_epoch = split_stages(proof), math.ceil(samples / batch)
    start = sum(stage["seconds"] for stage in (*found.before, *([found.first] if found.first else [])))
    held = math.ceil((work.get("held_samples") or 0) / batch)
    if mode == "predict":
        count, told = of_epoch, f"{samples} samples, {of_epoch} batches"
    elif work.get("steps") is not None:
        count = work["steps"] + held * math.ceil(work["steps"] / of_epoch)
        told = f"{work['steps']} steps"
    elif work.get("epochs") is not None:
        count = work["epochs"] * (of_epoch + held)
        told = f"{work['epochs']} epochs of {samples} samples, {of_epoch} batches each"
    else:
        return None
    if mode != "predict" and held:
        told += f", and {held} that validate after each epoch"
    return RESERVE * (start + count * each), (
        f"{told}, at {format_seconds(each)} a batch of {batch}, after {format_seconds(start)} until the first step has "
        f"ended; times {RESERVE:g} as a reserve"
    )


def format_limit(seconds: float) -> str:
    """Hours, minutes and seconds, as SLURM and SGE read them, rounded up to a minute.

    >>> format_limit(5400.5), format_limit(59)
    ('01:31:00', '00:01:00')
    """
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:00"


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _subtract(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other
