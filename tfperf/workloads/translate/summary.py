"""report.json of a translation: what was trained on, how long it took, where, and how good it is."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from platform import platform
from typing import Any

from tfperf.measure.clock import compute_quartiles
from tfperf.measure.environment import get_package_version, list_versions, measure_peak_rss_bytes
from tfperf.place.devices import Devices
from tfperf.place.variable_copies import VariableCopy
from tfperf.workloads.translate.batches import BatchPlan
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.evaluation import Evaluation
from tfperf.workloads.translate.results import LossHistory
from tfperf.workloads.translate.sizes import count_pairs, count_parameters, describe_gradient_merge
from tfperf.workloads.translate.state import TranslationPart
from tfperf.workloads.translate.texts import Sentences
from tfperf.workloads.translate.trainer import Call
from tfperf.workloads.translate.training import Training

PACKAGES = "tokenizers", "sacrebleu"


def summarise_translation(
    card: TranslationCard, sentences: Sentences, training: Training, evaluation: Evaluation, part: TranslationPart,
    seconds: Mapping[str, float],
) -> dict[str, Any]:  # fmt: skip
    """All of report.json."""
    trainer, every = training.trainer, card.train.validate_every
    return {
        "title": card.title, "workload": card.workload, "steps": trainer.step,
        "resumed_from_steps": part.resumed_from_steps, "loss": summarise_losses(trainer.history, every),
        **asdict(evaluation), "data": _summarise_data(card, sentences, trainer.piece_counts.first),
        "seconds": dict(seconds), **summarise_speed(trainer.calls), "peak_rss_bytes": measure_peak_rss_bytes(),
        "placement": _summarise_placement(card, training.engine.devices, training.engine.list_copies()),
        "engine": asdict(card.engine), "machine": part.machine,
        "versions": list_versions() | {name: get_package_version(name) for name in PACKAGES} | {"platform": platform()},
    }  # fmt: skip


def summarise_losses(history: LossHistory, window: int) -> dict[str, Any]:
    """Per label: the training's mean over the first and last `window` steps; the validation's first, last, lowest."""
    found, best = history.validation_loss, history.best
    assert best is not None  # the last step is always validated
    return {
        "training_first": float(history.loss[:window].mean()), "training_last": float(history.loss[-window:].mean()),
        "validation_first": float(found[0]), "validation_last": float(found[-1]),
        "validation_best": float(found[best]), "best_step": int(history.validation_step[best]),
    }  # fmt: skip


def summarise_speed(calls: Sequence[Call]) -> dict[str, Any]:
    """Of this process: milliseconds a step over its calls, and words per second; the first call may still compile."""
    timed = calls[1:] or calls
    seconds = sum(call.seconds for call in timed)
    return {
        "ms_per_step": compute_quartiles([call.seconds / call.steps for call in timed]),
        "words_per_second": sum(call.pieces for call in timed) / seconds if timed else None,
    }


def _summarise_data(card: TranslationCard, sentences: Sentences, epoch: BatchPlan) -> dict[str, Any]:
    return {
        "pairs": count_pairs(sentences.encoded), "max_length": card.data.max_length,
        "vocabulary": {side: one.size for side, one in sentences.vocabularies.items()},
        "rows": sentences.rows, "parameters": count_parameters(card, sentences.rows),
        "buckets": card.data.buckets, "batch_per_device": epoch.rows.shape[2], "steps_per_epoch": len(epoch.pieces),
        "dropped_per_epoch": epoch.dropped, "padding_share": epoch.padding_share,
        "straggler_waste": epoch.straggler_waste, "unequal_steps": epoch.unequal_steps,
    }  # fmt: skip


def _summarise_placement(card: TranslationCard, devices: Devices, copies: Sequence[VariableCopy]) -> dict[str, Any]:
    variables, embeddings, slots, updates = card.placement.places
    where: dict[str, list[str]] = {}
    bytes_on: dict[str, int] = {}
    for one in copies:
        device = devices.get_short_name(one.device)
        where.setdefault(one.what, []).append(device)
        bytes_on[device] = bytes_on.get(device, 0) + one.size
    return {
        "engine": card.placement.engine, "devices": len(devices), "logical": devices.logical,
        "variables": variables, "embeddings": embeddings, "slots": slots, "updates": updates,
        "merge": describe_gradient_merge(card.placement), "bytes": bytes_on,
        "where": {what: ", ".join(there) for what, there in where.items()},
    }  # fmt: skip
