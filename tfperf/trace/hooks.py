"""Trace ranges around what the other callbacks of a Keras `fit` do."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfperf.scopes import CALLBACK

HOOKS = (
    "on_epoch_begin", "on_epoch_end", "on_train_batch_begin", "on_train_batch_end", "on_test_begin", "on_test_end",
    "on_test_batch_begin", "on_test_batch_end",
)  # fmt: skip


class Hooks:
    """The hooks of other callbacks while ranges are around them; `restore` takes those away.

    on_error: called where one of them raises, which ends the training.
    """

    def __init__(self, mine: keras.callbacks.Callback, on_error: Callable[[], None]) -> None:
        self.replaced: list[tuple[Any, str, Any]] = []
        for other in _list_other_callbacks(mine):
            for name in filter(lambda hook: _is_overridden(other, hook), HOOKS):
                self.replaced.append((other, name, vars(other).get(name)))
                setattr(
                    other, name, _wrap_hook(getattr(other, name), f"{CALLBACK}{type(other).__name__}.{name}", on_error)
                )

    def restore(self) -> None:
        """Give the callbacks their own hooks back."""
        for other, name, original in self.replaced:
            if original is None:
                delattr(other, name)
            else:
                setattr(other, name, original)
        self.replaced.clear()


def _list_other_callbacks(mine: keras.callbacks.Callback) -> Iterator[keras.callbacks.Callback]:
    """The callbacks in the same list of a `fit`; Keras gives no way to it but by looking for the list."""
    seen = {id(mine)}
    for one in gc.get_objects():
        if type(one) is keras.callbacks.CallbackList and any(c is mine for c in one.callbacks):
            for other in one.callbacks:
                if id(other) not in seen:
                    seen.add(id(other))
                    yield other


def _is_overridden(callback: keras.callbacks.Callback, hook: str) -> bool:
    return hook in vars(callback) or getattr(type(callback), hook) is not getattr(keras.callbacks.Callback, hook)


def _wrap_hook(hook: Callable[..., Any], name: str, on_error: Callable[[], None]) -> Callable[..., Any]:
    def run_ranged(*arguments: Any, **named: Any) -> Any:
        try:
            with tf.profiler.experimental.Trace(name):
                return hook(*arguments, **named)
        except BaseException:
            on_error()
            raise

    return run_ranged
