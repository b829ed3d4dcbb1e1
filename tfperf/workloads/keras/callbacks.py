"""Callbacks of a training: told what Keras' own `fit` would tell them, and what they know is part of a checkpoint."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import keras
import numpy as np

from tfperf.arrays import ArraysByName
from tfperf.errors import CardError, RunDirectoryError, UserCodeError, UserError
from tfperf.results.files import make_folder
from tfperf.sources.code import CodeReference, call_function, describe_misuse
from tfperf.sources.user_errors import run_user_code
from tfperf.trace.capture import Capture
from tfperf.trace.hooks import mark_hooks
from tfperf.workloads.keras.callback_state import can_keep_state, get_state, prepare_resume, set_state
from tfperf.workloads.keras.card import CallbackSource
from tfperf.workloads.keras.loops import Logs

T = TypeVar("T")
FOLDER = "callbacks/"  # of a run: what relative paths of callbacks are below
PATHS = {"ModelCheckpoint": "filepath", "CSVLogger": "filename", "TensorBoard": "log_dir"}
TRAIN_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
TEST_HOOKS = ("on_test_batch_begin", "on_test_batch_end")


def make_callbacks(sources: Sequence[CallbackSource], folder: Path) -> list[keras.callbacks.Callback]:
    """The callbacks of a card. Raises: UserError for what cannot be one, UserCodeError for what a function raises."""
    return [_make_callback(source, f"train.callbacks.{i}", folder) for i, source in enumerate(sources)]


def _make_callback(source: CallbackSource, key: str, folder: Path) -> keras.callbacks.Callback:
    if source.build is not None:
        reference = CodeReference.parse(source.build)
        found = call_function(reference, source.arguments, f"{key}.build")
        if not isinstance(found, keras.callbacks.Callback):
            what = f"returned {type(found).__name__}; must return a keras.callbacks.Callback"
            raise UserError(f"{key}.build: {reference}: {what}")
        if isinstance(found, keras.callbacks.BackupAndRestore):
            raise UserError(f"{key}.build: {reference}: BackupAndRestore is not needed: a run goes on with --resume")
        return found
    assert source.name is not None
    arguments, path = dict(source.arguments), PATHS.get(source.name)
    if path is not None and isinstance(given := arguments.get(path, "logs"), str):
        arguments[path] = str(folder / given)
    kind = getattr(keras.callbacks, source.name)
    try:
        return kind(**arguments)
    except (TypeError, ValueError) as error:
        raise CardError(describe_misuse(f"{key}: {source.name}", kind, error)) from None


class CallbackRunner:
    """Tells callbacks how a training goes."""

    def __init__(
        self, callbacks: Sequence[keras.callbacks.Callback], model: keras.Model, params: dict[str, Any], folder: Path
    ) -> None:
        """params: `epochs` and `steps`, as Keras gives them; folder: made when the training begins."""
        self.callbacks, self._model, self._folder = callbacks, model, folder
        # without the model, which some write of at once, though the run's directory is not there yet
        self._list = keras.callbacks.CallbackList(list(callbacks), add_history=True, verbose=0, **params)
        self.batch_hooks = tuple(type(one).__name__ for one in callbacks if _has_hooks(one, TRAIN_HOOKS))
        self.has_test_hooks = any(_has_hooks(one, TEST_HOOKS) for one in callbacks)
        self.has_begun, self._states = False, list[ArraysByName]()

    def __bool__(self) -> bool:
        return bool(self.callbacks)

    def call_hook(self, event: str, *arguments: Any) -> None:
        """Call `on_<event>` of each. Raises: UserCodeError for what one of them raises."""
        if self.callbacks:
            with mark_hooks(self.callbacks if Capture.active else ()):
                self._run(lambda: getattr(self._list, f"on_{event}")(*arguments), f"on_{event}")

    def _run(self, call: Callable[[], Any], hook: str) -> None:
        """Call all of them. Raises: UserCodeError, which names the one that fails."""
        try:
            run_user_code(call, hook, None)
        except UserCodeError as error:
            frames = traceback.walk_tb(error.__cause__.__traceback__ if error.__cause__ else None)
            called = [f.f_locals.get("callback") for f, _ in frames if f.f_locals.get("self") is self._list]
            names = [
                f".{i} ({type(one).__name__})" for i, one in enumerate(self.callbacks) if any(one is c for c in called)
            ]
            raise UserCodeError(f"train.callbacks{''.join(names)}: {error.faults[0]}", *error.faults[1:]) from error

    def begin(self, history: Mapping[str, Sequence[float]]) -> None:
        """Tell that the training begins, once in a process; each knows then what it knew before.

        history: of the epochs before, as callbacks may read it of the model.
        """
        self.has_begun = True
        if self.callbacks:
            make_folder(self._folder)
        self._model.stop_training = False
        for callback, arrays in zip(self.callbacks, self._states, strict=bool(self._states)):
            prepare_resume(callback, arrays)
        if self.callbacks:
            self._run(lambda: self._list.set_model(self._model), "set_model")
        self.call_hook("train_begin")
        if self.callbacks:
            recorded = self._model.history
            recorded.history = {name: list(values) for name, values in history.items()}
            recorded.epoch = list(range(max(map(len, history.values()), default=0)))
        for callback, arrays in zip(self.callbacks, self._states, strict=bool(self._states)):
            if arrays:
                self._guard(partial(set_state, callback, arrays), callback, "set_state")
        self.snapshot()  # what has no state that can be kept must not be found out later

    def _guard(self, call: Callable[[], T], callback: keras.callbacks.Callback, name: str) -> T:
        found: T = run_user_code(call, f"train.callbacks: {type(callback).__name__}.{name}", None)
        return found

    def end(self, logs: Logs) -> None:
        """Tell that the training is over."""
        self.call_hook("train_end", logs)

    @property
    def wants_end(self) -> bool:
        """Whether one of them has asked to stop."""
        return bool(self._model.stop_training)

    def end_epoch(self, epoch: int, logs: Logs) -> Logs:
        """Tell that an epoch is over; figures that callbacks have added to its logs, as Keras' history has them."""
        history = self._model.history.history if self.callbacks else {}
        before = {name: len(values) for name, values in history.items()}
        self.call_hook("epoch_end", epoch, logs)
        new = {name: values[-1] for name, values in history.items() if len(values) > before.get(name, 0)}
        return {
            name: float(value)
            for name, value in new.items()
            if name not in logs and isinstance(value, int | float | np.number)
        }

    def describe_end(self, epoch: int) -> str:
        """Which of them has ended the training after so many epochs, and whose weights it has; empty: none, the last.

        Keras' EarlyStopping gives back the best weights also where it stops nothing; of several the last has its way.
        """
        stoppers = [one for one in self.callbacks if getattr(one, "stopped_epoch", 0)]
        names = ", ".join(type(one).__name__ for one in stoppers) or "a callback"
        restored = [
            one.best_epoch + 1
            for one in self.callbacks
            if getattr(one, "restore_best_weights", False) and one.best_weights is not None
        ]
        weights = f"; its weights are those of epoch {restored[-1]}" if restored else ""
        if self.wants_end:
            return f"ended by {names} after epoch {epoch}{weights}"
        return f"complete after epoch {epoch}{weights}" if restored and restored[-1] != epoch else ""

    def describe_stateless(self) -> str:
        """Which of them cannot say what they know, and what they need: a run with them cannot be resumed."""
        names = ", ".join(type(one).__name__ for one in self.callbacks if not can_keep_state(one))
        return names and f"{names}: a callback of your own needs get_state (returns a dict) and set_state"

    def refuse_stateless(self, step: int) -> None:
        """RunDirectoryError where one of them has forgotten what it knew when a run of so many steps ended."""
        if names := ", ".join(type(one).__name__ for one in self.callbacks if not can_keep_state(one)):
            lost = f"train.callbacks: {names}: what it knew at step {step} is lost"
            raise RunDirectoryError(
                f"{lost}; one with get_state and set_state can go on, others begin again with --force"
            )

    def snapshot(self) -> ArraysByName:
        """What they know, by number and name."""
        if not self.has_begun:
            states = self._states
        else:
            states = [self._get_state(one) if can_keep_state(one) else {} for one in self.callbacks]
        return {f"{i}/{name}": array for i, arrays in enumerate(states) for name, array in arrays.items()}

    def _get_state(self, callback: keras.callbacks.Callback) -> ArraysByName:
        return self._guard(partial(get_state, callback), callback, "get_state")

    def restore(self, snapshot: ArraysByName) -> None:
        """What they will know when the training begins, or at once where it has."""
        self._states = []
        for i, callback in enumerate(self.callbacks if snapshot else ()):
            prefix = f"{i}/"
            state = {name.removeprefix(prefix): a for name, a in snapshot.items() if name.startswith(prefix)}
            self._states.append(state)
            if self.has_begun and state:
                set_state(callback, state)


def _has_hooks(callback: keras.callbacks.Callback, names: Sequence[str]) -> bool:
    """Whether it has something to do at each step."""
    kind = type(callback)
    if kind is keras.callbacks.ModelCheckpoint:
        return bool(callback.save_freq != "epoch")
    if kind is keras.callbacks.TensorBoard:
        return bool(callback.update_freq != "epoch" or callback._should_trace)
    if kind is keras.callbacks.SwapEMAWeights:
        return not callback.swap_on_epoch
    base = keras.callbacks.Callback
    known = [name for name in names if hasattr(base, name)]
    return any(name in vars(callback) or getattr(kind, name) is not getattr(base, name) for name in known)
