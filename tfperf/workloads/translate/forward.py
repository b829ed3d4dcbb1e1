"""What devices cost each other in a forward pass: the same pass on one alone, on all in turn, and on all at once.

Of one process, without placement: each device has weights, sentences and their vectors of its own, all of them equal.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.results.placements import ALONE, AT_ONCE, IN_TURN
from tfperf.workloads.translate.batches import BatchPlan
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import Split
from tfperf.workloads.translate.feeding import build_dataset
from tfperf.workloads.translate.trainable import TranslationEngine
from tfperf.workloads.translate.translator import Translator, select_input_ids

ROUNDS = 7  # in each of which all ways are timed, in another order
SECONDS = 0.1  # of each timing, at least

Run = Callable[[], Any]


def measure_forward(card: TranslationCard, engine: TranslationEngine, split: Split, plan: BatchPlan) -> dict[str, Any]:
    """Milliseconds of forward passes, without dropout, of the first device's local batch in a step of median length.

    ms, processor_ms: ROUNDS figures of each way: `alone` is one pass, `in_turn` and `at_once` are one on each device of
    this process. processor_ms: of this process, empty where devices are no CPUs. columns: of source and target.
    """
    columns = plan.lengths[:, 0].sum(axis=1)
    middle = int(np.argsort(columns, kind="stable")[len(columns) // 2])
    batches, _ = next(iter(build_dataset(split, plan, middle)))
    source, target = batches[0]
    ways = _compile(card, engine, source, target)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(ROUNDS):
        for name in _rotate(list(ways), turn):
            found[name].append(_measure_ms(ways[name]))
    clock, processor = ({name: [each[i] for each in every] for name, every in found.items()} for i in (0, 1))
    return {
        "devices": len(engine.devices.mine), "batch": int(source.shape[0]), "columns": int(columns[middle]),
        "ms": clock, "processor_ms": processor if engine.devices.logical else {},
    }  # fmt: skip


def _rotate(names: Sequence[str], turn: int) -> list[str]:
    at = turn % len(names)
    return [*names[at:], *names[:at]]


def _compile(card: TranslationCard, engine: TranslationEngine, source: tf.Tensor, target: tf.Tensor) -> dict[str, Run]:
    """Compiled functions; with one device there is but one way."""
    devices = [device for _, device in engine.devices.mine]
    passes = [_build_forward(card, engine.model, device, source, target) for device in devices]

    def sum_losses(losses: list[tf.Tensor]) -> tf.Tensor:
        """As in a step; TensorFlow takes devices whose subgraphs are apart one after the other."""
        with tf.device(engine.devices.host):
            return tf.add_n(losses)

    def alone() -> tf.Tensor:
        return sum_losses([passes[0]()])

    def in_turn() -> tf.Tensor:
        losses: list[tf.Tensor] = []
        for one in passes:
            with tf.control_dependencies(losses[-1:]):
                losses.append(one())
        return sum_losses(losses)

    def at_once() -> tf.Tensor:
        return sum_losses([one() for one in passes])

    ways = {ALONE: alone, IN_TURN: in_turn, AT_ONCE: at_once}
    return {name: tf.function(run, autograph=False) for name, run in ways.items() if len(devices) > 1 or name == ALONE}


def _build_forward(card: TranslationCard, model: Translator, device: str, source: tf.Tensor, target: tf.Tensor) -> Run:
    """A function of nothing that takes the pass on a device, where all that it needs lies."""
    with tf.device(device):
        ids = [tf.identity(source), tf.identity(target)]
        values = [tf.identity(tf.constant(np.asarray(v))) for v in model.weights]
        tables = [np.asarray(v) for v in model.embeddings]
        rows = [tf.constant(t[i.numpy()]) for t, i in zip(tables, select_input_ids(source, target), strict=True)]

    def loss(values: Sequence[tf.Tensor], rows: Sequence[tf.Tensor], ids: Sequence[tf.Tensor]) -> tf.Tensor:
        return model.compute_loss(values, rows, *ids)

    run = tf.function(loss, jit_compile=True, autograph=False) if card.engine.xla else loss

    def run_forward() -> tf.Tensor:
        with tf.device(device):
            return run(values, rows, ids)

    return run_forward


def _measure_ms(run: Run) -> tuple[float, float]:
    """Milliseconds of a call, by the clock and of the processor; the first call, which may be traced, is none."""
    run()
    calls, clock, processor = 0, time.perf_counter(), time.process_time()
    while not calls or time.perf_counter() - clock < SECONDS:
        run().numpy()
        calls += 1
    return 1e3 * (time.perf_counter() - clock) / calls, 1e3 * (time.process_time() - processor) / calls
