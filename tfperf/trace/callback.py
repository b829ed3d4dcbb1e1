"""A Keras callback that records a window of a `fit`, for programs that are not tfperf's."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from tfperf.errors import TraceError
from tfperf.scopes import PREFIX
from tfperf.trace.capture import Capture, parse_folder
from tfperf.trace.hooks import Hooks, list_other_callbacks

LOSSES = ("compile_loss", "loss", "compile_metrics", "metrics")  # scopes that Keras gives losses and metrics
ORIGINAL = "_tfperf_original"


class ProfileCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Records `steps` executions after `skip` others, each a batch, or `steps_per_execution` batches.

    Only the first window of a callback is recorded, in whichever `fit` it is whole. A profile that cannot be recorded
    or written is a warning at the end, as is a training too short for any to be recorded.
    group: as `tfperf.capture` has it. UserError is raised for numbers out of the RANGES of trace/capture.py.

    >>> from tempfile import TemporaryDirectory
    >>> model = keras.Sequential([keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> with TemporaryDirectory() as logs:
    ...     callback = ProfileCallback(logs, steps=2, skip=1)
    ...     trained = model.fit(np.zeros((8, 2)), np.zeros((8, 1)), batch_size=2, verbose=0, callbacks=[callback])
    >>> callback.capture.done
    True
    """

    recording: ClassVar[Capture | None] = None  # of any callback: TensorFlow records one profile at a time
    marked: ClassVar[keras.Model | None] = None  # whose functions have marks
    hooks: ClassVar[Hooks | None] = None

    def __init__(
        self, logdir: Path | str, steps: int = 10, skip: int = 3, host_level: int = 2, group: str = ""
    ) -> None:  # fmt: skip
        super().__init__()
        self.logdir, self.window = parse_folder(logdir), (steps, skip, host_level)
        self.capture = self._make_capture()
        self.capture.series = group
        self.ranges: dict[str, Any] = {}

    def _make_capture(self) -> Capture:
        return Capture(self.logdir, *self.window, program="keras")

    def on_train_begin(self, logs: Any = None) -> None:
        """Note the names by which operations are told apart, and mark executions from now on."""
        self._end()  # of a training that ended by an exception
        if self.capture.done:
            return
        series = self.capture.series
        self.capture = self._make_capture()
        self.capture.series = series
        self.capture.optimizers = [optimizer.name for optimizer in _list_optimizers(self.model)]
        layers = {layer.name for layer in self.model._flatten_layers()}
        self.capture.forward = layers | {self.model.name, *LOSSES} | {m.name for m in self.model.metrics}
        self.capture.turns = int(self.model.steps_per_execution)
        if steps := (self.params or {}).get("steps"):  # None: an epoch's end is not known
            self.capture.calls_per_epoch = -(-int(steps) // self.capture.turns)
        self._mark()
        self._mark_what_is_made()
        ProfileCallback.hooks = Hooks(list_other_callbacks(self), self._end)

    @staticmethod
    def _end() -> None:
        """End what is recorded, and leave the other callbacks alone."""
        if (recording := ProfileCallback.recording) is not None:
            try:
                recording.finish()
            except TraceError as error:
                recording.failed = str(error)
        if ProfileCallback.hooks is not None:
            ProfileCallback.hooks.restore()
        if ProfileCallback.marked is not None:
            _restore_functions(ProfileCallback.marked)
        ProfileCallback.recording = ProfileCallback.hooks = ProfileCallback.marked = None

    def _mark(self) -> None:
        """Put a mark around Keras' compiled function, so that it holds that and no other callback."""
        function: Callable[[Any], Any] = getattr(self.model.train_function, ORIGINAL, self.model.train_function)
        written = getattr(function, "python_function", function)
        self.capture.own_train_function = not str(getattr(written, "__module__", "")).startswith("keras.")

        def run_marked(iterator: Any) -> Any:
            self._close("epoch")
            with self.capture.step_safely(len(self.capture.seconds)):
                ProfileCallback.recording = self.capture if self.capture.recording else None
                try:
                    logs = function(iterator)
                except BaseException:
                    self._end()  # what was recorded is written
                    raise
                if not self.capture.done:  # what runs on a device has to end inside
                    for value in tf.nest.flatten(logs):
                        np.asarray(value)
            ProfileCallback.recording = self.capture if self.capture.recording else None
            return logs

        setattr(run_marked, ORIGINAL, function)
        self.model.train_function = run_marked

    def _mark_what_is_made(self) -> None:
        """Mark what a callback has Keras compile anew, too."""
        own, make = self.model.__dict__.get("make_train_function"), self.model.make_train_function

        def make_marked(*arguments: Any, **settings: Any) -> Any:
            make(*arguments, **settings)
            self._mark()
            return self.model.train_function

        setattr(make_marked, ORIGINAL, own)
        self.model.__dict__["make_train_function"] = make_marked  # no part of what Keras saves
        ProfileCallback.marked = self.model

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """What follows up to the first execution lies between epochs."""
        self._open("epoch")

    def on_test_begin(self, logs: Any = None) -> None:
        """A validation begins."""
        self._open("validation")

    def on_test_end(self, logs: Any = None) -> None:
        """A validation ends."""
        self._close("validation")

    def _open(self, name: str) -> None:
        self._close(name)
        self.ranges[name] = tf.profiler.experimental.Trace(f"{PREFIX}{name}")
        self.ranges[name].__enter__()

    def _close(self, name: str) -> None:
        if (trace := self.ranges.pop(name, None)) is not None:
            trace.__exit__(None, None, None)

    def on_train_end(self, logs: Any = None) -> None:
        """The recording ends where the training does."""
        self._close("epoch")
        self._end()
        try:
            self.capture.finish()
        except TraceError as error:
            self.capture.failed = str(error)
        if self.capture.failed:
            warnings.warn(self.capture.failed, stacklevel=2)
            self.capture.failed = ""
        if not self.capture.done:
            done, skip = len(self.capture.seconds), self.capture.skip
            told = f"{self.logdir}: nothing was recorded in this fit: {done} executions ran, {skip} are skipped"
            warnings.warn(f"{told}; give a smaller skip, or go on with a longer fit", stacklevel=2)


def _restore_functions(model: keras.Model) -> None:
    """Leave a model's functions as they were."""
    model.train_function = getattr(model.train_function, ORIGINAL, model.train_function)
    made = model.__dict__.get("make_train_function")
    if hasattr(made, ORIGINAL):
        own = getattr(made, ORIGINAL)
        model.__dict__.pop("make_train_function")
        if own is not None:
            model.__dict__["make_train_function"] = own


def _list_optimizers(model: keras.Model) -> Iterator[keras.optimizers.Optimizer]:
    """All optimizers of a model, also its own ones, and those inside of others."""
    for one in vars(model).values():
        while isinstance(one, keras.optimizers.Optimizer):
            yield one
            one = getattr(one, "inner_optimizer", None)
