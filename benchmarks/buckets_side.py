"""One fit of the benchmark `buckets`, as a process of its own: a JSON request on stdin, a JSON record on stdout.

A record holds the validation `losses` at even distances of target words, the last at all that were asked for, the
`steps` and `target_words` taken until each, at most one batch more than asked for, `train_seconds` and `padding_share`.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.kept import answer
from tfperf.place.devices import make_devices
from tfperf.place.engine import take
from tfperf.place.state import named
from tfperf.workloads.translate.batches import FILLING
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.corpus import Part
from tfperf.workloads.translate.feeding import epochs, training_plan
from tfperf.workloads.translate.kind import KIND
from tfperf.workloads.translate.texts import read_sentences
from tfperf.workloads.translate.trainable import make_engine
from tfperf.workloads.translate.validation import Validation


def carry_out(request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a fit."""
    card = KIND.grammar.adapter.validate_json(json.dumps(request["card"]))
    devices, sentences = make_devices(card.placement), read_sentences(card)
    part = sentences.encoded.training
    marks = [request["target_words"] * (k + 1) / request["marks"] for k in range(request["marks"])]
    until = list(steps_until(card, part, len(devices), marks))
    engine = make_engine(card, sentences.rows, devices)
    validation = Validation(card, engine.model, sentences.encoded.validation)
    iterator = iter(epochs(card, part, len(devices)))
    take(engine, iterator, 0)  # compiles
    step, seconds, losses = 0, 0.0, []
    for goal, _ in until:
        start = time.perf_counter()
        while step < goal:
            count = min(card.train.steps_per_call, goal - step)
            take(engine, iterator, count)
            step += count
        seconds += time.perf_counter() - start
        losses.append(validation.loss([np.asarray(v.numpy()) for v in named(engine.model).values()]))
    return {
        "losses": losses, "steps": [steps for steps, _ in until], "target_words": [words for _, words in until],
        "train_seconds": seconds, "padding_share": training_plan(card, part, len(devices), 0).padding_share,
    }  # fmt: skip


def steps_until(card: Translation, part: Part, devices: int, marks: list[float]) -> Iterator[tuple[int, int]]:
    """Steps after which a training has seen at least so many target words (marks, ascending), and how many it has."""
    seen = steps = epoch = 0
    left = list(marks)
    while left:
        plan = training_plan(card, part, devices, epoch)
        lengths = np.where(plan.rows == FILLING, 0, part.target.lengths[plan.rows]).sum(axis=(1, 2))
        for words in lengths.tolist():
            seen, steps = seen + words, steps + 1
            while left and seen >= left[0]:
                left.pop(0)
                yield steps, seen
        epoch += 1


if __name__ == "__main__":
    answer(carry_out)
