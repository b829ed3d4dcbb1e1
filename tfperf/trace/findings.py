"""What a profile says should be changed, the costliest first."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tfperf.trace.attribution import Attribution
from tfperf.trace.launches import SHORT_US
from tfperf.trace.notes import ProgramKind
from tfperf.trace.phases import PHASES

# shares of a step from which something is told
GAP, HOLES, INPUT, CONSTANT, COPIES, ALONE, VALIDATION = 0.05, 0.2, 0.05, 0.02, 0.1, 0.05, 0.1
SHORT = 0.5  # share of kernels that are short where launches decide

LONGER_CALLS = {
    "engine": "raise train.steps_per_call",
    "card": "raise train.steps_per_call where epochs are longer", "keras": "raise steps_per_execution of compile()",
    "loop": "take several steps in one tf.function, in a loop over tf.range",
}  # fmt: skip
MORE_WORK = {
    "engine": "train more replicas at once", "card": "raise the batch", "keras": "raise the batch size",
    "loop": "give operations more to do",
}  # fmt: skip
FUSE = {
    "engine": "set engine.xla: true", "card": "set engine.xla: true", "keras": "set jit_compile of compile()",
    "loop": "compile with jit_compile=True",
}  # fmt: skip
VALIDATE = {
    "engine": "raise train.steps_per_call: losses of all points are made once a call",
    "card": "validate less often or with fewer samples",
    "keras": "raise validation_freq of fit(), or take the validation loss from the training's forward pass",
    "loop": "validate less often, or take the validation loss from the training's forward pass",
}  # fmt: skip
OVERLAP = (
    "end a tf.data pipeline by .apply(tf.data.experimental.prefetch_to_device('/GPU:0')), which has to come last; "
    "under a strategy leave experimental_fetch_to_device of tf.distribute.InputOptions at True"
)
FEED = "prepare the data in parallel, cache() and prefetch() it; steps wait for it"
SHAPES = "keep shapes and Python arguments the same from step to step; the ledger names what changed"


@dataclass(frozen=True)
class Finding:
    """`what` was found, its share of the time from step to step (0 to 1), and what to `change`."""

    what: str
    share: float
    change: str


def list_findings(found: Attribution) -> list[Finding]:
    """All that is worth a change, by share."""
    return sorted(_check_all(found, found.notes.program), key=lambda finding: -finding.share)


def _check_all(found: Attribution, program: ProgramKind) -> Iterator[Finding]:
    period = found.mean_ms
    if not period:
        return
    yield from _check_gaps(found, program, len(found.gaps) / len(found.steps) / period)
    yield from _check_launches(found, program)
    waits = (found.waits_ms + found.idle_inside["input"]) / period
    if waits > INPUT:
        yield Finding(f"steps wait for input for {waits:.0%} of their time", waits, FEED)
    constant = _find_largest_sum((cost.device, cost.ms) for cost in found.constant) / period
    if constant > CONSTANT:
        names = ", ".join(dict.fromkeys(cost.layer or cost.name for cost in found.constant[:3]))
        yield Finding(
            f"operations that depend on constants alone take {constant:.0%} ({names})", constant,
            "compute them once, before training",
        )  # fmt: skip
    copies = _find_largest_sum((one.device, one.ms) for one in found.transfers) / period
    alone = max((use.copies.alone for use in found.device_use if use.copies is not None), default=0.0)
    if alone > ALONE:
        yield Finding(f"for {alone:.0%} of the time a device copies from the host and runs no kernel", alone, OVERLAP)
    elif copies > COPIES:
        yield Finding(f"copies from and to a device take {copies:.0%}", copies, "keep data and losses on the device")


def _find_largest_sum(times: Iterable[tuple[str, float]]) -> float:
    """The largest sum over devices: they work at the same time."""
    sums: dict[str, float] = {}
    for device, ms in times:
        sums[device] = sums.get(device, 0.0) + ms
    return max(sums.values(), default=0.0)


def _check_launches(found: Attribution, program: ProgramKind) -> Iterator[Finding]:
    """Kernels too short for their launches, on the device that works most; a host beside accelerators only launches."""
    accelerators = {d: a for d, a in found.any.items() if "CPU" not in d} or found.any
    busiest = max(accelerators, key=lambda device: float(accelerators[device].sum()))
    short = found.launches[busiest].short
    inside = (found.idle_inside["launch"] + found.idle_inside["host"]) / found.mean_ms
    if inside > HOLES and short > SHORT:
        advice = MORE_WORK[program] if found.compiled else f"{FUSE[program]}, or {MORE_WORK[program]}"
        yield Finding(
            f"launch-bound: nothing runs for {inside:.0%} of the time, and {short:.0%} of the kernels take less than "
            f"{SHORT_US:g} us", inside, advice,
        )  # fmt: skip


def _check_gaps(found: Attribution, program: ProgramKind, per_step: float) -> Iterator[Finding]:
    """What is lost between calls, in shares of the time from step to step; `per_step` turns ms a gap into those."""
    advice: Mapping[str, tuple[str, str]] = {
        "launch": ("calls are started and ended", LONGER_CALLS[program]),
        "host": ("Python code runs" if program == "keras" else "the host does other things",
                 f"{LONGER_CALLS[program]}, or do less between batches" if program == "keras" else
                 LONGER_CALLS[program]),
        "epoch": ("an epoch ends and another begins", LONGER_CALLS[program] if program != "keras" else
                  "take more steps in an epoch (steps_per_epoch), or raise steps_per_execution"),
        "callback": ("callbacks run", "let callbacks do less, or less often"),
        "input": ("the next batch is awaited", FEED), "compilation": ("functions are traced and compiled", SHAPES),
    }  # fmt: skip
    shares = {cause: ms * per_step for cause, ms in found.idle_between.items()}
    same = [cause for cause in ("launch", "host", "epoch") if advice[cause][1].startswith(LONGER_CALLS[program])]
    together = sum(shares[cause] for cause in same)
    if together > GAP:
        words, change = advice[max(same, key=lambda cause: shares[cause])]
        yield Finding(f"between calls nothing runs for {together:.0%}, mostly while {words}", together, change)
    for cause in (c for c in advice if c not in same and shares[c] > GAP):
        yield Finding(f"between calls {advice[cause][0]} for {shares[cause]:.0%}", shares[cause], advice[cause][1])
    column = PHASES.index("validation")
    inside = max(float(np.median(busy[:, column])) for busy in found.busy.values()) / found.mean_ms
    validation = (found.gap_phases["validation"] + found.idle_between["validation"]) * per_step + inside
    if validation > VALIDATION:
        yield Finding(f"validation takes {validation:.0%}", validation, VALIDATE[program])
