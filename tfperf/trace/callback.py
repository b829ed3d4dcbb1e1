"""A Keras callback that records a window of a `fit`, for programs that are not tfperf's."""

from pathlib import Path
from typing import Any

import keras

from tfperf.scopes import PREFIX
from tfperf.trace.capture import Capture
from tfperf.trace.planes import TraceError

LOSSES = ("compile_loss", "loss", "compile_metrics", "metrics")  # scopes that Keras gives losses and metrics


class ProfileCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Records `steps` executions after `skip` others, each a batch, or `steps_per_execution` batches.

    Raises TraceError at the end of a training too short for any to be recorded.
    """

    def __init__(self, logdir: Path | str, steps: int = 10, skip: int = 3, host_level: int = 2) -> None:
        super().__init__()
        self.taken = Capture(Path(logdir), steps, skip, host_level, program="keras")
        self.ranges: dict[str, Any] = {}

    def on_train_begin(self, logs: Any = None) -> None:
        """Note the names by which operations are told apart."""
        self.taken.optimizers = [self.model.optimizer.name]
        layers = {layer.name for layer in self.model._flatten_layers()}
        self.taken.forward = layers | {self.model.name, *LOSSES} | {m.name for m in self.model.metrics}

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A mark begins."""
        self.step = self.taken.step(batch)
        self.step.__enter__()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """A mark ends, once the values of the logs have come from the device."""
        if not self.taken.done:
            for value in (logs or {}).values():
                float(value)
        self.step.__exit__(None, None, None)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """What follows lies between epochs."""
        self._open("epoch")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """The next epoch's steps follow."""
        self._close("epoch")

    def on_test_begin(self, logs: Any = None) -> None:
        """A validation begins."""
        self._open("validation")

    def on_test_end(self, logs: Any = None) -> None:
        """A validation ends."""
        self._close("validation")

    def _open(self, name: str) -> None:
        import tensorflow as tf

        self.ranges[name] = tf.profiler.experimental.Trace(f"{PREFIX}{name}")
        self.ranges[name].__enter__()

    def _close(self, name: str) -> None:
        if (opened := self.ranges.pop(name, None)) is not None:
            opened.__exit__(None, None, None)

    def on_train_end(self, logs: Any = None) -> None:
        """The recording ends where the training does."""
        self._close("epoch")
        self.taken.stop()
        if not self.taken.done:
            done, skip = len(self.taken.seconds), self.taken.skip
            raise TraceError(f"{self.taken.logdir}: nothing was recorded: {done} executions ran, {skip} are skipped")
