"""report.json of a translation: what was trained on, how long it took, where, and how good it is."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tfperf.measure.clock import quartiles
from tfperf.measure.environment import package_version, peak_rss_bytes, versions
from tfperf.place.devices import Devices
from tfperf.place.held import Kept
from tfperf.workloads.translate.batches import Plan
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.part import Training
from tfperf.workloads.translate.plan import merge_words, pair_counts, parameters
from tfperf.workloads.translate.results import Losses
from tfperf.workloads.translate.state import TranslationPart
from tfperf.workloads.translate.texts import Sentences
from tfperf.workloads.translate.trainer import Call
from tfperf.workloads.translate.translated import Translated

PACKAGES = "tokenizers", "sacrebleu"


def summarise_translation(
    card: Translation, sentences: Sentences, training: Training, translated: Translated, part: TranslationPart,
    seconds: Mapping[str, float],
) -> dict[str, Any]:  # fmt: skip
    """All of report.json."""
    trainer = training.trainer
    return {
        "title": card.title, "workload": card.workload, "steps": trainer.step,
        "resumed_from_steps": part.resumed_from_steps, "loss": losses(trainer.history, card.train.validate_every),
        **asdict(translated), "data": _data(card, sentences, trainer.words.first),
        "seconds": dict(seconds), **speed(trainer.calls), "peak_rss_bytes": peak_rss_bytes(),
        "placement": _placement(card, training.engine.devices, training.engine.kept()),
        "engine": asdict(card.engine), "machine": part.machine,
        "versions": versions() | {name: package_version(name) for name in PACKAGES} | {"platform": platform.platform()},
    }  # fmt: skip


def losses(history: Losses, window: int) -> dict[str, Any]:
    """Per label: the training's mean over the first and last `window` steps; the validation's first, last, lowest."""
    found, best = history.validation_loss, history.best
    assert best is not None  # the last step is always validated
    return {
        "training_first": float(history.loss[:window].mean()), "training_last": float(history.loss[-window:].mean()),
        "validation_first": float(found[0]), "validation_last": float(found[-1]),
        "validation_best": float(found[best]), "best_step": int(history.validation_step[best]),
    }  # fmt: skip


def speed(calls: Sequence[Call]) -> dict[str, Any]:
    """Of this process: milliseconds a step over its calls, and words per second; the first call may still compile."""
    timed = calls[1:] or calls
    seconds = sum(call.seconds for call in timed)
    return {
        "ms_per_step": quartiles([call.seconds / call.steps for call in timed]),
        "words_per_second": sum(call.words for call in timed) / seconds if timed else None,
    }


def _data(card: Translation, sentences: Sentences, epoch: Plan) -> dict[str, Any]:
    return {
        "pairs": pair_counts(sentences.encoded), "max_length": card.data.max_length,
        "vocabulary": {side: one.size for side, one in sentences.vocabularies.items()},
        "rows": sentences.rows, "parameters": parameters(card, sentences.rows),
        "buckets": card.data.buckets, "batch_per_device": epoch.rows.shape[2], "steps_per_epoch": len(epoch.words),
        "dropped_per_epoch": epoch.dropped, "padding_share": epoch.padding_share,
        "straggler_waste": epoch.straggler_waste, "unequal_steps": epoch.unequal_steps,
    }  # fmt: skip


def _placement(card: Translation, devices: Devices, kept: Sequence[Kept]) -> dict[str, Any]:
    variables, embeddings, slots, updates = card.placement.places
    where: dict[str, list[str]] = {}
    bytes_on: dict[str, int] = {}
    for one in kept:
        device = devices.short(one.device)
        where.setdefault(one.what, []).append(device)
        bytes_on[device] = bytes_on.get(device, 0) + one.size
    return {
        "engine": card.placement.engine, "devices": len(devices), "logical": devices.logical,
        "variables": variables, "embeddings": embeddings, "slots": slots, "updates": updates,
        "merge": merge_words(card.placement), "bytes": bytes_on,
        "where": {what: ", ".join(there) for what, there in where.items()},
    }  # fmt: skip
