"""The log of the process that proved a batch: memory, time and samples, a line each, and what counters say."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfperf.report.numbers import MISSING, format_bytes, format_count, format_seconds
from tfperf.report.proof import compute_proof_memory, get_gpu, split_stages

UNITS = {"power_watts": " W", "sm_clock_mhz": " MHz", "memory_clock_mhz": " MHz", "temperature_celsius": " C"}
LOADS = {
    "power_watts": "power", "sm_clock_mhz": "SM clock", "memory_clock_mhz": "memory clock",
    "utilisation": "utilisation", "memory_utilisation": "memory's utilisation", "temperature_celsius": "temperature",
}  # fmt: skip
TRAFFIC = {"sent_bytes_per_s": "sent to the host", "received_bytes_per_s": "received from it"}


def list_log_lines(proof: Mapping[str, Any], room: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What each line is of, and its figure; n/a where it cannot be had."""
    memory, found, step = compute_proof_memory(proof, room), split_stages(proof), proof["step"]
    stages = [*found.before, *([found.first] if found.first else []), *found.steady, *found.rest]
    yield "total memory", format_bytes(memory.total)
    yield "used before", format_bytes(memory.used_before)
    yield "model", format_bytes(memory.model)
    yield "batch peak", format_bytes(memory.batch)
    yield "overall peak", format_bytes(memory.peak)
    yield "peak RAM", format_bytes(memory.ram_peak)
    yield "total time", format_seconds(sum(stage["seconds"] for stage in stages) if stages else None)
    yield "time a batch", format_seconds(step["seconds_per_step"])
    yield "samples", _format_samples(proof)


def _format_samples(proof: Mapping[str, Any]) -> str:
    samples = (proof.get("work") or {}).get("samples")
    found = split_stages(proof)
    count = len(found.steady) + (found.first is not None)
    return f"{MISSING if samples is None else samples} of an epoch; {count} batches of {proof['batch']} were taken"


def list_counter_lines(proof: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What NVML says of the GPU that steps run on, and what the thread read during its steps."""
    steady = split_stages(proof).steady
    gpu = get_gpu(steady[-1] if steady else None)
    yield "energy", _format_energy(proof)
    if gpu is None:
        yield "GPU's counters", f"{MISSING} (memory by process, power, clocks, utilisation, PCIe, memory errors)"
    else:
        yield from _list_gpu_lines(proof, gpu)
        for number, other in enumerate(steady[-1]["nvml"][1:], 1):
            power = _format_load("power_watts", other["power_watts"])
            used = format_bytes(other["memory"]["used"])
            yield f"GPU {number}, without steps", f"{other['name'] or MISSING}: {used} in use, power {power}"
    yield from _list_readings(proof, steady)


def _list_gpu_lines(proof: Mapping[str, Any], gpu: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "GPU", gpu["name"] or MISSING
    own, context, others = (format_bytes(gpu["memory"][key]) for key in ("own", "context", "others"))
    yield "its memory", f"this process {own}, of which its context {context}; other processes {others}"
    yield "at the last step's end", ", ".join(f"{what} {_format_load(key, gpu[key])}" for key, what in LOADS.items())
    yield "clocks held back by", _format_reasons(proof, gpu)
    generation, width = (format_count(gpu[f"pcie_{key}"]) for key in ("generation", "width"))
    yield "PCIe", f"generation {generation}, lanes {width}"
    corrected, uncorrected = (format_count(gpu[f"{key}_errors"]) for key in ("corrected", "uncorrected"))
    yield "memory errors", f"corrected {corrected}, uncorrected {uncorrected}"


def measure_energy(proof: Mapping[str, Any]) -> tuple[float, int] | None:
    """Joules from the end of the batch's first step to that of the last steady one, and the samples of these steps.

    The counter's difference over all of them: it moves too seldom for one step. What was read in between is in it.
    """
    found = split_stages(proof)
    begin, end = get_gpu(found.first), get_gpu(found.steady[-1] if found.steady else None)
    if begin is None or end is None:
        return None
    before, after = begin["energy_counter_joules"], end["energy_counter_joules"]
    if before is None or after is None or after <= before:
        return None
    return after - before, len(found.steady) * proof["batch"]


def _format_energy(proof: Mapping[str, Any]) -> str:
    energy = measure_energy(proof)
    if energy is None:
        return f"{MISSING} a sample"
    joules, samples = energy
    seconds = sum(stage["seconds"] for stage in split_stages(proof).steady)
    return (
        f"{joules / samples:.4g} J a sample ({joules:.4g} J of {samples} samples in {format_seconds(seconds)} of steps)"
    )


def _format_load(key: str, value: float | None) -> str:
    if value is None:
        return MISSING
    if key in TRAFFIC:
        return f"{format_bytes(value)}/s"
    return f"{value:.0%}" if key not in UNITS else f"{value:.4g}{UNITS[key]}"


def _format_reasons(proof: Mapping[str, Any], gpu: Mapping[str, Any]) -> str:
    """Of the readings during the steps and of the last step's end: a device at rest holds its clocks back, too."""
    if gpu["held_back"] is None:
        return MISSING
    words = set(gpu["held_back"])
    for one in _find_readings(proof, split_stages(proof).steady):
        words |= {word.removeprefix("gpu0: ") for word in one["share_of_readings"] if word.startswith("gpu0: ")}
    return ", ".join(sorted(words)) or "nothing"


def _find_readings(proof: Mapping[str, Any], stages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    names = {stage["name"] for stage in stages}
    return [one for one in (proof.get("readings") or {}).get("stages", ()) if one["stage"] in names]


def _list_readings(proof: Mapping[str, Any], steady: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Means over all steady steps, and the extremes of the readings, which are no peaks."""
    if (readings := proof.get("readings")) is None:
        return
    found = _find_readings(proof, steady)
    count = sum(one["readings"] for one in found)
    texts = [
        f"{what} {_format_readings(found, key)}"
        for key, what in {
            "ram_bytes": "RAM",
            **{f"gpu0.{key}": what for key, what in (LOADS | TRAFFIC).items()},
        }.items()
        if any(key in one["figures"] for one in found)
    ]
    told = "; ".join(texts) or MISSING
    yield (
        f"sampled every {readings['period_seconds']:g} s",
        f"{told} (means of {count} readings in the steps, no peaks)",
    )


def _format_readings(found: Sequence[Mapping[str, Any]], key: str) -> str:
    known = [one["figures"][key] for one in found if one["figures"].get(key) is not None]
    if not known:
        return MISSING
    count = sum(one["readings"] for one in known)
    mean = sum(one["mean_of_readings"] * one["readings"] for one in known) / count
    low, high = min(one["lowest_reading"] for one in known), max(one["highest_reading"] for one in known)
    if key == "ram_bytes":
        return f"{format_bytes(mean)} ({format_bytes(low)} to {format_bytes(high)})"
    key = key.removeprefix("gpu0.")
    return f"{_format_load(key, mean)} ({_format_load(key, low)} to {_format_load(key, high)})"
