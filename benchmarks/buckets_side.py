"""One fit of the benchmark `buckets`, as a process of its own: a JSON request on stdin, a JSON record on stdout.

A record holds the validation `losses` at even distances of target words, the last at all that were asked for, the
`steps` and `target_words` taken until each, at most one batch more than asked for, `train_seconds` and `padding_share`.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.record_store import answer_request
from tfperf.place.devices import make_devices
from tfperf.place.engine import take_steps
from tfperf.place.state import list_trained_variables
from tfperf.workloads.translate.batches import FILLING
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import Split
from tfperf.workloads.translate.feeding import build_training_dataset, plan_training
from tfperf.workloads.translate.kind import KIND
from tfperf.workloads.translate.texts import read_sentences
from tfperf.workloads.translate.trainable import build_engine
from tfperf.workloads.translate.validation import Validation


def measure_fit(request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a fit."""
    card = KIND.grammar.adapter.validate_json(json.dumps(request["card"]))
    devices, sentences = make_devices(card.placement), read_sentences(card)
    split = sentences.encoded.training
    marks = [request["target_words"] * (k + 1) / request["marks"] for k in range(request["marks"])]
    until = list(count_steps(card, split, len(devices), marks))
    engine = build_engine(card, sentences.rows, devices)
    validation = Validation(card, engine.model, sentences.encoded.validation)
    iterator = iter(build_training_dataset(card, split, len(devices)))
    take_steps(engine, iterator, 0)  # compiles
    step, seconds, losses = 0, 0.0, []
    for goal, _ in until:
        start = time.perf_counter()
        while step < goal:
            take_steps(engine, iterator, count := min(card.train.steps_per_call, goal - step))
            step += count
        seconds += time.perf_counter() - start
        variables = list_trained_variables(engine.model).values()
        losses.append(validation.evaluate_loss([np.asarray(v.numpy()) for v in variables]))
    return {
        "losses": losses, "steps": [steps for steps, _ in until], "target_words": [words for _, words in until],
        "train_seconds": seconds, "padding_share": plan_training(card, split, len(devices), 0).padding_share,
    }  # fmt: skip


def count_steps(card: TranslationCard, split: Split, devices: int, marks: list[float]) -> Iterator[tuple[int, int]]:
    """Steps after which a training has seen at least so many target words (marks, ascending), and how many it has."""
    seen = steps = epoch = 0
    left = list(marks)
    while left:
        plan = plan_training(card, split, devices, epoch)
        lengths = np.where(plan.rows == FILLING, 0, split.target.lengths[plan.rows]).sum(axis=(1, 2))
        for words in lengths.tolist():
            seen, steps = seen + words, steps + 1
            while left and seen >= left[0]:
                left.pop(0)
                yield steps, seen
        epoch += 1


if __name__ == "__main__":
    answer_request(measure_fit)
