"""One trial of a translation: steps timed, and in the first repeat the proof of the placement and a trace."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfperf.data.batches import Plan
from tfperf.data.feeding import epochs
from tfperf.measure.environment import peak_rss_bytes
from tfperf.place.devices import make_devices
from tfperf.place.engine import Engine, make_engine, take
from tfperf.place.policy import merge_done
from tfperf.place.proof import PlacementError, Proof, prove_engine, run_operations
from tfperf.runcard.translation import Translation
from tfperf.runs.summary import quartiles
from tfperf.runs.texts import read_sentences
from tfperf.study.ceilings import bound
from tfperf.study.local_cluster import workers
from tfperf.study.spans import phases
from tfperf.trace.capture import Capture
from tfperf.train.words import Words

TRACED_CALLS = 2
TRACE = "trace"


def measure(card: Translation, request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a trial; with `error` where the placement is not what the card asks for.

    request: steps for `warmup`, then `steps` that are timed, in calls of train.steps_per_call; `first`: with proof and
    trace, which goes to `folder`. Raises: UserError for faults of the card or its files.
    """
    with workers(card.placement, request):
        return _measure(card, request)


def _measure(card: Translation, request: Mapping[str, Any]) -> dict[str, Any]:
    seconds: dict[str, float] = {}
    devices = make_devices(card.placement)
    with _timed(seconds, "data"):
        sentences = read_sentences(card)
    with _timed(seconds, "build"):
        engine = make_engine(card, sentences.rows, devices)
        iterator = iter(epochs(card, sentences.encoded.training, len(devices)))
    per_call = card.train.steps_per_call
    with _timed(seconds, "first_call"):
        begin = take(engine, iterator, per_call)
    for _ in range(per_call, int(request["warmup"]), per_call):
        take(engine, iterator, per_call)
    calls = -(-int(request["steps"]) // per_call)
    samples = [_call(engine, iterator, per_call) for _ in range(calls)]
    losses = samples[-1][1]
    words = Words(card, sentences.encoded.training, len(devices))
    record = _speed(card, words, request, [ms for ms, _ in samples]) | {
        "seconds": seconds, "losses": {"first": float(begin[0]), "last": float(losses[-1])},
        "devices": len(devices), "logical": devices.logical, "memory": memory(engine),
        "merge": merge_done(card.placement) if card.placement.engine == "tower" else card.placement.merge,
    }  # fmt: skip
    if not request["first"]:
        return record
    try:
        return record | _looked_into(card, engine, iterator, words.first, Path(request["folder"]))
    except PlacementError as error:
        return record | {"error": "; ".join(error.faults)}


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


def _call(engine: Engine, iterator: Any, count: int) -> tuple[float, Any]:
    """Milliseconds a step of a call, and its losses."""
    start = time.perf_counter()
    losses = take(engine, iterator, count)
    return 1e3 * (time.perf_counter() - start) / count, losses


def _speed(
    card: Translation, words: Words, request: Mapping[str, Any], samples: list[float]
) -> dict[str, Any]:  # fmt: skip
    """Time of the timed steps, and the words in them: source and target pieces without padding and marks."""
    per_call = card.train.steps_per_call
    first = per_call * max(1, -(-int(request["warmup"]) // per_call))
    count = per_call * len(samples)
    in_them = words.between(first, first + count)
    total = 1e-3 * per_call * sum(samples)
    return {
        "ms_per_step": quartiles([1e-3 * ms for ms in samples]), "samples_ms": samples, "steps": count,
        "steps_per_call": per_call, "total_s": total, "words": in_them, "words_per_second": in_them / total,
        "batch": card.data.batch, "fixed_length": card.fixed_length,
        "padding_share": words.first.padding_share, "straggler_waste": words.first.straggler_waste,
    }  # fmt: skip


def memory(engine: Engine) -> dict[str, Any]:
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
    card: Translation, engine: Engine, iterator: Any, plan: Plan, folder: Path
) -> dict[str, Any]:  # fmt: skip
    """Proof of the placement, kernels, times of phases from a trace, and the bound."""
    per_call = card.train.steps_per_call
    proof = prove_engine(engine, run_operations(lambda: take(engine, iterator, per_call))).hold()
    capture = Capture(folder / TRACE, TRACED_CALLS, 1, host_level=2, turns=per_call, optimizers=("optimizer",))
    for number in range(1 + TRACED_CALLS):
        with capture.step(number):
            take(engine, iterator, per_call)
    return {
        "proof": {"places": _grouped(proof), "elsewhere": proof.elsewhere}, "kernels": dict(proof.kernels),
        "phases": phases(folder / TRACE, engine.devices),
        "bound": bound(card, engine, plan),
    }  # fmt: skip
