"""One trial of a translation: steps timed, and in the first repeat the proof of the placement and a trace."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.measure.environment import peak_rss_bytes
from tfperf.measure.timing import Rule, Timing, time_steps
from tfperf.place.devices import make_devices
from tfperf.place.graphs import run_step
from tfperf.place.local_workers import Others, UnprovedError, workers
from tfperf.place.policy import merge_done
from tfperf.place.proof import PlacementError, Proof, prove_engine
from tfperf.place.tracing import look_into
from tfperf.workloads.translate.batches import Plan
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.ceilings import bound
from tfperf.workloads.translate.corpus import Part
from tfperf.workloads.translate.forward import time_forward
from tfperf.workloads.translate.texts import read_sentences
from tfperf.workloads.translate.trainable import TranslationEngine, make_engine
from tfperf.workloads.translate.window import Window, describe, first_steps, losses_of, whole_calls

TRACE = "trace"
BUDGET = 60.0  # seconds of a request that names none


def measure(card: Translation, request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a trial; with `unproved` where the placement is not what the card asks for.

    request: `steps` that are timed over and over again, in whole calls of train.steps_per_call, for at most `seconds`,
    after `warmup` steps and each of them once at least; `first`: with proof and trace, which goes to `folder`; `began`:
    when the trial did. Raises: UserError for faults of the card or its files.
    """
    began = float(request.get("began", time.perf_counter()))
    record: dict[str, Any] = {}
    try:
        with workers(card.placement, request) as others:
            record = _measure(card, request, began, others)
    except UnprovedError as error:  # this one's own stand in its record
        return record | {"unproved": [*record.get("unproved", ()), *error.faults]}
    return record


def _measure(card: Translation, request: Mapping[str, Any], began: float, others: Others) -> dict[str, Any]:
    seconds: dict[str, float] = {}
    devices = make_devices(card.placement)
    with _timed(seconds, "data"):
        sentences = read_sentences(card)
    with _timed(seconds, "build"):
        engine = make_engine(card, sentences.rows, devices)
        part, per_call = sentences.encoded.training, card.train.steps_per_call
        plan = first_steps(card, part, len(devices), whole_calls(int(request["steps"]), per_call))
        window = Window(engine, part, plan, per_call)
    with _timed(seconds, "warmup"):
        warm = [window.run() for _ in range(max(1, -(-int(request["warmup"]) // window.steps)))]
    starting, most = time.perf_counter() - began, float(request.get("seconds", BUDGET))
    timing = time_steps(window.sample, others.agree(Rule(1, starting, most)), most)
    work = describe(card, part, plan)
    record = timing.record(starting) | _speed(work, timing) | {
        "seconds": seconds, "losses": losses_of(warm), "work": work, "steps_per_call": per_call,
        "fixed_length": card.fixed_length, "devices": len(devices), "logical": devices.logical,
        "memory": memory(engine),
        "merge": merge_done(card.placement) if card.placement.engine == "tower" else card.placement.merge,
    }  # fmt: skip
    if not request["first"]:
        return record
    try:
        return record | _looked_into(card, window, part, plan, Path(request["folder"]), record["ms_per_step"]["median"])
    except PlacementError as error:
        return record | {"unproved": list(error.faults)}


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


def _speed(work: Mapping[str, Any], timing: Timing) -> dict[str, Any]:
    """Of the median pass: sentence pairs, and words: source and target pieces without padding and marks."""
    seconds = 1e-3 * float(np.median(timing.samples)) * work["steps"]
    return {
        "steps": timing.steps, "total_s": timing.seconds, "words_per_second": work["words"] / seconds,
        "pairs_per_second": work["pairs"] * work["steps"] / seconds,
    }  # fmt: skip


def memory(engine: TranslationEngine) -> dict[str, Any]:
    """Bytes: of the process at most; on each device of variables and slots, and of all at most where it is told."""
    kept: dict[str, int] = {}
    for one in engine.kept():
        name = engine.devices.short(one.device)
        kept[name] = kept.get(name, 0) + one.size
    peak = {}
    if not engine.devices.logical:
        for device in engine.devices.each:
            peak[engine.devices.short(device)] = tf.config.experimental.get_memory_info(device)["peak"]
    return {"peak_rss_bytes": peak_rss_bytes(), "kept_bytes": kept, "peak_bytes": peak}


def _grouped(proof: Proof) -> dict[str, dict[str, int]]:
    """How many variables' or devices' parts of each kind ran on each device."""
    out: dict[str, dict[str, int]] = {}
    for what, devices in proof.devices.items():
        group = out.setdefault(re.split(" (?:of|in) ", what)[0], {})
        for device in devices:
            group[device] = group.get(device, 0) + 1
    return out


def _looked_into(
    card: Translation, window: Window, part: Part, plan: Plan, folder: Path, timed_ms: float
) -> dict[str, Any]:  # fmt: skip
    """Where the time of the timed steps goes, from a trace; proof of the placement, kernels, and the bound."""
    phases = look_into(window, folder / TRACE, timed_ms)
    forward = time_forward(card, window.engine, part, plan) if window.engine.devices.workers == 1 else {}
    proof = prove_engine(window.engine, run_step(window.apart())).hold()
    kernels = {"lstm" if name == "recurrent" else name: value for name, value in proof.kernels.items()}
    return {
        "proof": {"places": _grouped(proof), "elsewhere": proof.elsewhere, "copies": proof.copies}, "kernels": kernels,
        "phases": phases, "forward": forward, "bound": bound(card, window.engine, plan, kernels["lstm"]),
    }  # fmt: skip
