"""The steps of a trial: the same batches over and over again, so that each sample is of the same work."""

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfperf.arrays import FloatArray, Int64Array
from tfperf.measure.timing import Sample, TraceCounter
from tfperf.place.engine import take_steps
from tfperf.workloads.translate.batches import BatchPlan
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import Split
from tfperf.workloads.translate.feeding import build_dataset, plan_training
from tfperf.workloads.translate.trainable import TranslationEngine

EVENTS_A_COLUMN = 300  # in a trace, of a layer, forward and backward, about


def plan_window(card: TranslationCard, split: Split, devices: int, count: int) -> BatchPlan:
    """So many batches from the first of the training on, in one plan, over as many epochs as hold them."""
    plans: list[BatchPlan] = []
    while sum(len(plan.rows) for plan in plans) < count:
        plans.append(plan_training(card, split, devices, len(plans)))
    rows, lengths, pieces = (np.concatenate(arrays)[:count] for arrays in zip(*map(_select_arrays, plans), strict=True))
    return BatchPlan(rows, lengths, pieces, plans[0].dropped)


def _select_arrays(plan: BatchPlan) -> tuple[Int64Array, Int64Array, Int64Array]:
    return plan.rows, plan.lengths, plan.pieces


def summarise_work(card: TranslationCard, split: Split, plan: BatchPlan) -> dict[str, Any]:
    """What the steps of a plan compute: rows of a sweep are set beside each other only where that is alike.

    batches: digest of the global batches; lengths: digest of the columns and pairs of a device. columns: of source and
    target together, mean over devices and steps; words: source and target pieces in all of the steps.
    """
    steps, _, batch = plan.rows.shape
    pairs = plan.rows.reshape(steps, -1)
    pieces = [side.lengths[pairs] for side in (split.source, split.target)]
    equal = plan.lengths[:, :1] if not plan.unequal_steps else plan.lengths
    return {
        "scaling": card.data.scaling, "steps": steps, "pairs": int(pairs.shape[1]), "batch": batch,
        "batches": _digest(pairs, *pieces, equal), "lengths": _digest(np.array([batch]), equal),
        "columns": float(plan.lengths.sum(axis=2).mean()), "words": int(plan.pieces.sum()),
        "padding_share": plan.padding_share, "straggler_waste": plan.straggler_waste,
    }  # fmt: skip


def _digest(*arrays: Int64Array) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(str(array.shape).encode() + np.ascontiguousarray(array, np.int64).tobytes())
    return found.hexdigest()


class Window:
    """An engine that takes the steps of a plan, from the first to the last, and then again from the first on."""

    def __init__(self, engine: TranslationEngine, split: Split, plan: BatchPlan, per_call: int) -> None:
        """The plan has a multiple of `per_call` steps."""
        self.engine, self.steps, self.per_call = engine, len(plan.rows), per_call
        columns = plan.lengths.sum(axis=2)  # of both sides of a device
        self.events = EVENTS_A_COLUMN * engine.model.card.model.layers * float(columns.mean(axis=1).sum())
        self.lengths = columns.mean(axis=0).tolist()
        self.alike = bool((plan.lengths == plan.lengths[:1]).all())
        self._steps = build_dataset(split, plan).repeat()
        self.iterator = iter(self._steps)
        self._traces = TraceCounter()

    @property
    def calls(self) -> int:
        """Of one pass."""
        return self.steps // self.per_call

    def call(self, count: int | None = None) -> FloatArray:
        """The next call; its losses. After as many as `calls` the window begins again.

        count: of fewer steps, where all are alike.
        """
        return take_steps(self.engine, self.iterator, self.per_call if count is None else count)

    def run(self) -> FloatArray:
        """One pass: the losses of all its steps."""
        return np.concatenate([self.call() for _ in range(self.calls)])

    def make_step_function(self) -> Callable[[], FloatArray]:
        """A function that takes one step more at each call, from the first on; passes go on where they are."""
        iterator = iter(self._steps)
        return lambda: take_steps(self.engine, iterator, 1)

    def measure_pass(self) -> Sample:
        """One pass, timed. Every shape is warm once a pass has been made before."""
        self._traces.mark()
        start, processor = time.perf_counter(), time.process_time()
        self.run()
        seconds, spent = time.perf_counter() - start, time.process_time() - processor
        return Sample(self.steps, seconds, self._traces.is_unchanged(), spent)


def count_whole_steps(steps: int, per_call: int) -> int:
    """The steps of so many whole calls as hold these."""
    return -(-steps // per_call) * per_call


def select_losses(passes: Sequence[FloatArray]) -> dict[str, float]:
    """The first and the last of all losses of some passes."""
    return {"first": float(passes[0][0]), "last": float(passes[-1][-1])}
