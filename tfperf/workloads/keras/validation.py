"""The validation of a model after each epoch."""

import keras

from tfperf.console.stages import show_nothing
from tfperf.errors import UserError
from tfperf.runcard.data_sources import ValidationSource
from tfperf.runcard.types import MAX_STEP
from tfperf.workloads.keras.callbacks import CallbackRunner
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.feeding import make_feed
from tfperf.workloads.keras.inputs import TrainingData, keep_order
from tfperf.workloads.keras.loops import Compilation, Logs, StepLoop, get_final_logs

CALL_STEPS = 1000


class EpochValidation:
    """All batches that validate, or as many as the card says, in compiled calls."""

    _loop: StepLoop

    def __init__(self, card: KerasCard, model: keras.Model, data: TrainingData, callbacks: CallbackRunner) -> None:
        """callbacks: told of it."""
        assert data.validation is not None
        own, self._model, self._callbacks = card.data.validation, model, callbacks
        self._steps = own.steps if isinstance(own, ValidationSource) else None
        self.feed = make_feed(data.validation, data.batch, None, keep_order, show_nothing)

    def compile(self, compilation: Compilation) -> None:
        """As steps are, where that can be."""
        if self.feed.has_texts:
            compilation = "graph"
        elif compilation not in self.feed.compilations:
            compilation = "XLA step"
        self._loop = self.feed.make_loop(self._model.test_step, compilation)

    def warm_up(self) -> None:
        """Compile; the caller puts the state back."""
        self.feed.warm_up(self._loop)

    def run(self, epoch: int) -> Logs:
        """Losses and metrics."""
        self._model.reset_metrics()
        self._callbacks.call_hook("test_begin")
        logs, done = Logs(), 0
        most = self._steps or self.feed.steps_per_epoch or MAX_STEP
        while done < most:
            # calls of some steps, so that signals come through where the data have no end
            asked = 1 if self._callbacks.has_test_hooks else min(most - done, CALL_STEPS)
            count, found = self._take(epoch, done, asked)
            done, logs = done + count, found or logs
            if count < asked:
                break
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
