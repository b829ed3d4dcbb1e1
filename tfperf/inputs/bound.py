"""What bounds a training of which model and data were measured alone and together: who waits for whom."""

from collections.abc import Mapping
from typing import Any, Literal

Bound = Literal["input", "turns", "cores", "model", "unknown"]
SURE = 0.05  # share of the time that a model waits, from which on it is worth a word
FULL = 0.85  # share of the free cores in use from which on model and data take them from each other
OWN = 0.1  # share of all CPU time that is the model's, from which on it takes cores from its data


def find_bound(found: Mapping[str, Any], free_cores: float) -> Bound:
    """Of a record of `measure_ceilings`; free_cores: for model and data together.

    "model": the step does not wait, or so little that it does not matter. "input": the data alone are slower than the
    model alone. "cores": each alone is fast enough, and together they use all cores, so that neither waits for the
    other, but both for a core. "turns": each alone is fast enough, and cores are free: what is made for the next step
    is not made during this one. "unknown": chance may make as much of a difference.
    """
    waits = found["waits"]
    if waits["high"] is not None and waits["high"] < 2 * SURE:
        return "model"
    if waits["low"] is None or waits["low"] <= SURE:
        return "unknown"
    if has_shared_cores(found, free_cores):
        return "cores" if compute_own_wait(found) < SURE else "input"
    return "input" if compute_own_wait(found) > 0 else "turns"


def has_shared_cores(found: Mapping[str, Any], free_cores: float) -> bool:
    """Whether model and data both need cores, and use all that are free when they run together."""
    used = found["both"]["processor_seconds"] * found["both"]["rate"]["value"]
    return bool(has_own_cores(found) and used >= FULL * free_cores)


def has_own_cores(found: Mapping[str, Any]) -> bool:
    """Whether the model needs a notable part of the CPU time, as without a GPU."""
    model, data = found["model"]["processor_seconds"], found["data"]["processor_seconds"]
    return bool(model >= OWN * (model + data))


def compute_own_wait(found: Mapping[str, Any]) -> float:
    """Share of the time that the step would wait for these data if it took no core from them."""
    return max(0.0, 1 - float(found["data"]["rate"]["value"] / found["model"]["rate"]["value"]))


def estimate_step_seconds(found: Mapping[str, Any], free_cores: float) -> float:
    """How long a step takes that never waits for its data.

    As it was measured alone; where model and data together use all free cores, no longer than its part of their CPU
    time says of the time that they took, as far as that is within the interval of what was measured: on a machine that
    is disturbed, rates of the model alone may be far off, and CPU time is not.
    """
    rate, both = found["model"]["rate"], found["both"]
    measured = 1 / rate["value"]
    if rate["high"] is None or not has_shared_cores(found, free_cores) or not both["processor_seconds"]:
        return float(measured)
    share = found["model"]["processor_seconds"] / both["processor_seconds"]
    return float(min(measured, max(1 / rate["high"], share / both["rate"]["value"])))
