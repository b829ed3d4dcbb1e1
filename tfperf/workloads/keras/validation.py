"""The validation of a model after each epoch."""

import time

import keras

from tfperf.console.stages import ShowStage, format_duration, show_nothing
from tfperf.errors import UserError
from tfperf.runcard.data_sources import ValidationSource
from tfperf.runcard.types import MAX_STEP
from tfperf.workloads.keras.callbacks import CallbackRunner
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.feeding import make_feed
from tfperf.workloads.keras.inputs import TrainingData, keep_order
from tfperf.workloads.keras.loops import Compilation, Logs, StepLoop, get_final_logs

CALL_STEPS = 1000  # at most: signals come through between calls
CALL_SECONDS = 1.0  # that calls are made to take, where their length may change
SHOWN_SECONDS = 5.0  # of a validation, after which it says how far it is


class EpochValidation:
    """All batches that validate, or as many as the card says, in compiled calls."""

    _loop: StepLoop

    def __init__(
        self, card: KerasCard, model: keras.Model, data: TrainingData, callbacks: CallbackRunner, show_stage: ShowStage
    ) -> None:  # fmt: skip
        """callbacks: told of it; show_stage: told how far a long one is."""
        assert data.validation is not None
        own, self._model, self._callbacks = card.data.validation, model, callbacks
        self._show_stage, self._call_steps, self._is_fixed = show_stage, CALL_STEPS // 10, False
        self._steps = own.steps if isinstance(own, ValidationSource) else None
        self.feed = make_feed(data.validation, data.batch, None, keep_order, show_nothing)

    def compile(self, compilation: Compilation) -> None:
        """As steps are, where that can be."""
        if self.feed.has_texts:
            compilation = "graph"
        elif compilation not in self.feed.compilations:
            compilation = "XLA step"
        self._is_fixed = compilation == "XLA loop"  # which is compiled for each length of a call
        self._loop = self.feed.make_loop(self._model.test_step, compilation)

    def warm_up(self) -> None:
        """Compile; the caller puts the state back."""
        self.feed.warm_up(self._loop)

    def run(self, epoch: int) -> Logs:
        """Losses and metrics."""
        self._model.reset_metrics()
        self._callbacks.call_hook("test_begin")
        logs, done, length = Logs(), 0, self._steps or self.feed.steps_per_epoch
        start = told = time.monotonic()
        while done < (length or MAX_STEP):
            asked = 1 if self._callbacks.has_test_hooks else CALL_STEPS if self._is_fixed else self._call_steps
            before, asked = time.monotonic(), min((length or MAX_STEP) - done, asked)
            count, found = self._take(epoch, done, asked)
            done, logs, now = done + count, found or logs, time.monotonic()
            if count < asked:
                break
            self._call_steps = min(CALL_STEPS, max(1, int(count * CALL_SECONDS / max(now - before, 1e-4))))
            if now - told > SHOWN_SECONDS and length != done:
                told = now
                self._show_stage(_describe(epoch, done, length, now - start))
        if not done:
            raise UserError(f"data.validation: epoch {epoch + 1} has no batch; is a generator used up?")
        logs = get_final_logs(self._model, logs)
        self._callbacks.call_hook("test_end", dict(logs))
        return logs

    def _take(self, epoch: int, done: int, asked: int) -> tuple[int, Logs]:
        if self._callbacks.has_test_hooks:
            self._callbacks.call_hook("test_batch_begin", done)
        count, logs = self.feed.run(self._loop, epoch, done, asked)
        if self._callbacks.has_test_hooks and count:
            self._callbacks.call_hook("test_batch_end", done, dict(logs))
        return count, logs


def _describe(epoch: int, done: int, length: int | None, seconds: float) -> str:
    rate = done / seconds
    left = "" if length is None else f" of {length}, {format_duration((length - done) / rate)} left"
    return f"validating epoch {epoch + 1}: batch {done}{left}, {rate:.4g} batches/s"
