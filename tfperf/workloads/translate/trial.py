"""One trial of a translation: steps timed, and in the first repeat the proof of the placement and a trace."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.errors import PlacementError, UnprovedError
from tfperf.measure.environment import measure_peak_rss_bytes
from tfperf.measure.timing import Timing, TimingRule, time_steps
from tfperf.place.devices import make_devices
from tfperf.place.graphs import record_step
from tfperf.place.local_workers import Peers, start_workers
from tfperf.place.policy import describe_merge
from tfperf.place.proof import Proof, prove_engine
from tfperf.place.tracing import trace_steps
from tfperf.workloads.translate.batches import BatchPlan
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.ceilings import estimate_bound
from tfperf.workloads.translate.corpus import Split
from tfperf.workloads.translate.forward import measure_forward
from tfperf.workloads.translate.texts import read_sentences
from tfperf.workloads.translate.trainable import TranslationEngine, build_engine
from tfperf.workloads.translate.window import Window, count_whole_steps, plan_window, select_losses, summarise_work

TRACE = "trace"
BUDGET = 60.0  # seconds of a request that names none


def measure_trial(card: TranslationCard, request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a trial; with `unproved` where the placement is not what the card asks for.

    request: `steps` that are timed over and over again, in whole calls of train.steps_per_call, for at most `seconds`,
    after `warmup` steps and each of them once at least; `first`: with proof and trace, which goes to `folder`; `began`:
    when the trial did. Raises: UserError for faults of the card or its files.
    """
    began = float(request.get("began", time.perf_counter()))
    record: dict[str, Any] = {}
    try:
        with start_workers(card.placement, request) as others:
            record = _measure_worker(card, request, began, others)
    except UnprovedError as error:  # this one's own stand in its record
        return record | {"unproved": [*record.get("unproved", ()), *error.faults]}
    return record


def _measure_worker(card: TranslationCard, request: Mapping[str, Any], began: float, others: Peers) -> dict[str, Any]:
    seconds: dict[str, float] = {}
    devices = make_devices(card.placement)
    with _measure_stage(seconds, "data"):
        sentences = read_sentences(card)
    with _measure_stage(seconds, "build"):
        engine = build_engine(card, sentences.rows, devices)
        split, per_call = sentences.encoded.training, card.train.steps_per_call
        plan = plan_window(card, split, len(devices), count_whole_steps(int(request["steps"]), per_call))
        window = Window(engine, split, plan, per_call)
    with _measure_stage(seconds, "warmup"):
        warm = [window.run() for _ in range(max(1, -(-int(request["warmup"]) // window.steps)))]
    starting, most = time.perf_counter() - began, float(request.get("seconds", BUDGET))
    timing = time_steps(window.measure_pass, others.agree(TimingRule(1, starting, most)), most)
    work = summarise_work(card, split, plan)
    record = timing.make_record(starting) | _compute_speed(work, timing) | {
        "seconds": seconds, "losses": select_losses(warm), "work": work, "steps_per_call": per_call,
        "fixed_length": card.fixed_length, "devices": len(devices), "logical": devices.logical,
        "memory": measure_memory(engine),
        "merge": describe_merge(card.placement) if card.placement.engine == "tower" else card.placement.merge,
    }  # fmt: skip
    if not request["first"]:
        return record
    try:
        return record | _analyse(card, window, split, plan, Path(request["folder"]), record["ms_per_step"]["median"])
    except PlacementError as error:
        return record | {"unproved": list(error.faults)}


@contextmanager
def _measure_stage(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


def _compute_speed(work: Mapping[str, Any], timing: Timing) -> dict[str, Any]:
    """Of the median pass: sentence pairs, and words: source and target pieces without padding and marks."""
    seconds = 1e-3 * float(np.median(timing.samples)) * work["steps"]
    return {
        "steps": timing.steps, "total_s": timing.seconds, "words_per_second": work["words"] / seconds,
        "pairs_per_second": work["pairs"] * work["steps"] / seconds,
    }  # fmt: skip


def measure_memory(engine: TranslationEngine) -> dict[str, Any]:
    """Bytes: of the process at most; on each device of variables and slots, and of all at most where it is told."""
    kept: dict[str, int] = {}
    for one in engine.list_copies():
        name = engine.devices.get_short_name(one.device)
        kept[name] = kept.get(name, 0) + one.size
    peak = {}
    if not engine.devices.logical:
        for device in engine.devices.each:
            peak[engine.devices.get_short_name(device)] = tf.config.experimental.get_memory_info(device)["peak"]
    return {"peak_rss_bytes": measure_peak_rss_bytes(), "kept_bytes": kept, "peak_bytes": peak}


def _summarise_proof(proof: Proof) -> dict[str, Any]:
    """Of a proof; places: how many variables' or devices' operations of each kind ran on each device."""
    out: dict[str, dict[str, int]] = {}
    for what, devices in proof.devices.items():
        found = out.setdefault(re.split(" (?:of|in) ", what)[0], {})
        for device in devices:
            found[device] = found.get(device, 0) + 1
    return {"places": out, "elsewhere": proof.elsewhere, "copies": proof.transfers}


def _analyse(
    card: TranslationCard, window: Window, split: Split, plan: BatchPlan, folder: Path, timed_ms: float
) -> dict[str, Any]:  # fmt: skip
    """Where the time of the timed steps goes, from a trace; proof of the placement, kernels, and the bound."""
    phases = trace_steps(window, folder / TRACE, timed_ms)
    forward = measure_forward(card, window.engine, split, plan) if window.engine.devices.workers == 1 else {}
    proof = prove_engine(window.engine, record_step(window.make_step_function())).refuse_faults()
    kernels = {"lstm" if name == "recurrent" else name: value for name, value in proof.kernels.items()}
    return {
        "proof": _summarise_proof(proof), "kernels": kernels, "phases": phases, "forward": forward,
        "bound": estimate_bound(card, window.engine, plan, kernels["lstm"]),
    }  # fmt: skip
