"""One program of the benchmark `towers`, as a process of its own: a JSON request on stdin, a JSON record on stdout.

A record holds `words` and `target_words` of the timed epochs, their `steps`, `seconds` and `cpu_seconds`, and the mean
loss of the `last_epoch`. The epoch before them, which compiles and sees every length, is not timed.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import plain_keras
from benchmarks.record_store import answer_request
from tfperf.arrays import Int32Array, Int64Array
from tfperf.errors import UserError
from tfperf.place.devices import Devices, make_devices
from tfperf.place.engine import take_steps
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import Ragged, Split
from tfperf.workloads.translate.feeding import build_training_dataset, count_epoch_steps
from tfperf.workloads.translate.kind import KIND
from tfperf.workloads.translate.texts import read_sentences
from tfperf.workloads.translate.trainable import build_engine

Record = dict[str, Any]


@dataclass(frozen=True)
class EpochTimes:
    """Wall and CPU time in seconds and steps so far at the end of each epoch, and the mean loss of the last one."""

    wall: Sequence[float]
    cpu: Sequence[float]
    steps: Sequence[int]
    loss: float


def measure_program(request: Mapping[str, Any]) -> Record:
    """The record of a program. Raises: UserError where it left pairs out."""
    card = KIND.grammar.adapter.validate_json(json.dumps(request["card"]))
    devices, sentences = make_devices(card.placement), read_sentences(card)
    size, timed = card.data.known_batch * len(devices), int(request["epochs"])
    most = card.data.known_batch * int(request["most_devices"])
    split = select_whole_buckets(select_few(sentences.encoded.training, request["pairs"]), card.data.bucket_width, most)
    if request["program"] == "tfperf":
        found = train_ours(card, split, sentences.rows, devices, 1 + timed)
    else:
        found = train_plain(card, split, sentences.rows, devices, 1 + timed, request["program"] == "tuned")
    if any(steps * size != (i + 1) * len(split) for i, steps in enumerate(found.steps)):
        raise UserError(f"{request['program']}: {found.steps} steps of {size} pairs; an epoch has {len(split)} pairs")
    return {
        "words": timed * int(split.source.lengths.sum() + split.target.lengths.sum()),
        "target_words": timed * int(split.target.lengths.sum()), "steps": found.steps[-1] - found.steps[0],
        "seconds": found.wall[-1] - found.wall[0], "cpu_seconds": found.cpu[-1] - found.cpu[0],
        "last_epoch": found.loss,
    }  # fmt: skip


def select_few(split: Split, count: int) -> Split:
    """So many pairs, from all over a part."""
    return select_pairs(split, np.unique(np.linspace(0, len(split) - 1, count).astype(np.int64)))


def select_whole_buckets(split: Split, width: int, size: int) -> Split:
    """Of each bucket as many pairs as fill batches of `size`: programs then form batches of the same lengths."""
    limits = -(-np.maximum(split.source.lengths, split.target.lengths) // width)
    places = [np.flatnonzero(limits == limit) for limit in np.unique(limits)]
    return select_pairs(split, np.sort(np.concatenate([some[: len(some) // size * size] for some in places])))


def select_pairs(split: Split, rows: Int64Array) -> Split:
    """The pairs of these numbers."""
    return Split(*(make_ragged([get_sentence(side, i) for i in rows]) for side in (split.source, split.target)))


def get_sentence(side: Ragged, i: int) -> Int32Array:
    """The pieces of a sentence."""
    return side.flat[side.offsets[i] : side.offsets[i + 1]]


def make_ragged(rows: list[Int32Array]) -> Ragged:
    """Sentences in one array."""
    return Ragged(np.concatenate(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64))


def train_ours(card: TranslationCard, split: Split, rows: int, devices: Devices, count: int) -> EpochTimes:
    """So many epochs of tfperf's."""
    engine, size = build_engine(card, rows, devices), len(devices)
    iterator, steps = iter(build_training_dataset(card, split, size)), count_epoch_steps(card, split, size)
    wall, cpu, losses = [], [], [np.empty(0)]
    for _ in range(count):
        losses = [take_steps(engine, iterator, min(card.train.steps_per_call, steps - done))
                  for done in range(0, steps, card.train.steps_per_call)]  # fmt: skip
        wall.append(time.perf_counter())
        cpu.append(time.process_time())
    return EpochTimes(wall, cpu, [steps * (i + 1) for i in range(count)], float(np.concatenate(losses).mean()))


def train_plain(
    card: TranslationCard, split: Split, rows: int, devices: Devices, count: int, tuned: bool
) -> EpochTimes:
    """So many epochs of a plain Keras program's."""
    tf.config.set_soft_device_placement(True)  # as everywhere but in tfperf
    width = card.data.bucket_width
    longest = int(max(split.source.lengths.max(), split.target.lengths.max()))
    source, target = ([get_sentence(side, i) for i in range(len(split))] for side in (split.source, split.target))
    limits = range(width, longest + width, width)
    data = plain_keras.make_batches(source, target, card.data.known_batch * len(devices), limits, card.seed, tuned)
    stamps = plain_keras.train(
        plain_keras.make_strategy(devices.each, tuned), (rows, card.model.units, card.model.layers), data,
        card.train.optimizer.learning_rate, card.train.steps_per_call, count,
    )  # fmt: skip
    return EpochTimes(stamps.wall, stamps.cpu, stamps.steps, stamps.losses[-1])


if __name__ == "__main__":
    answer_request(measure_program)
