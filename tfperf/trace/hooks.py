"""Trace ranges around what callbacks of a Keras training do."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tfperf.scopes import CALLBACK

HOOKS = (
    "on_epoch_begin", "on_epoch_end", "on_train_batch_begin", "on_train_batch_end", "on_test_begin", "on_test_end",
    "on_test_batch_begin", "on_test_batch_end",
)  # fmt: skip


class Hooks:
    """The hooks of callbacks while ranges are around them; `restore` takes those away.

    on_error: called where one of them raises, which ends the training.
    """

    def __init__(self, callbacks: Iterable[keras.callbacks.Callback], on_error: Callable[[], None]) -> None:
        self.replaced: list[tuple[Any, str, Any]] = []
        for one in callbacks:
            for name in filter(lambda hook: _is_overridden(one, hook), HOOKS):
                self.replaced.append((one, name, vars(one).get(name)))
                setattr(one, name, _wrap_hook(getattr(one, name), f"{CALLBACK}{type(one).__name__}.{name}", on_error))

    def restore(self) -> None:
        """Give the callbacks their own hooks back."""
        for other, name, original in reversed(self.replaced):
            if original is None:
                delattr(other, name)
            else:
                setattr(other, name, original)
        self.replaced.clear()


@contextmanager
def mark_hooks(callbacks: Iterable[keras.callbacks.Callback]) -> Iterator[None]:
    """Have ranges around the hooks of callbacks, which have their own again afterwards."""
    hooks = Hooks(callbacks, lambda: None)
    try:
        yield
    finally:
        hooks.restore()


def list_other_callbacks(mine: keras.callbacks.Callback) -> Iterator[keras.callbacks.Callback]:
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
