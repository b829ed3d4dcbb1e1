"""Trace ranges around Keras' methods that go over data, where a loop of the program's own calls them."""

import sys
import threading
from collections.abc import Callable
from typing import Any

from tfperf.scopes import METHOD
from tfperf.trace.host_watch import describe_places, read_places

METHODS = ("fit", "evaluate", "predict")


class MethodMarks:
    """Ranges that tell which method is called at which line, from `start` to `stop`; of nested calls the outer one."""

    def __init__(self) -> None:
        self.replaced: list[tuple[Any, str, Any]] = []
        self._inside, self._thread = False, 0

    def start(self) -> None:
        """Begin, in a program that has loaded Keras; what other threads call is not marked."""
        self._thread = threading.get_ident()
        keras = sys.modules.get("keras")
        for name in METHODS if keras is not None else ():
            kind = keras.Model  # type: ignore[union-attr]
            self.replaced.append((kind, name, vars(kind).get(name)))
            setattr(kind, name, self._wrap_method(getattr(kind, name), name))

    def stop(self) -> None:
        """Give the class its own methods back."""
        for kind, name, original in self.replaced:
            if original is None:
                delattr(kind, name)
            else:
                setattr(kind, name, original)
        self.replaced.clear()

    def _wrap_method(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        import tensorflow as tf

        def run_marked(*arguments: Any, **named: Any) -> Any:
            if self._inside or threading.get_ident() != self._thread:
                return method(*arguments, **named)
            self._inside = True
            line = describe_places(read_places(sys._getframe(1)))
            try:
                with tf.profiler.experimental.Trace(f"{METHOD}{name} at {line}"):
                    return method(*arguments, **named)
            finally:
                self._inside = False

        return run_marked
