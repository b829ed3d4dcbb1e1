"""Programs: traced under names that stay the same, shared by all that are the same, gone with their last user.

TensorFlow names functions by a counter of the process, and keeps what XLA compiled under these names, in memory for as
long as the process lives and on disk for the next one. A program that is traced again, for another stack of the same
shape, by another fit or in another process, is found there only if all its names are what they were.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Lock, get_ident
from typing import Any, Self
from weakref import WeakValueDictionary

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager.polymorphic_function.atomic_function import AtomicFunction
from tensorflow.python.framework import ops

ONE_AT_A_TIME = Lock()  # names and registries are the process's: what one thread changes, another must not see
# the name that was asked for -> digest of what a program does -> the name that it got
NAMES: dict[str, dict[str, str]] = {}
NUMBERS: dict[str, Iterator[int]] = defaultdict(partial(count, 2))  # behind a name; each is tried once
DIGITS = 6  # of numbers behind names: of one width, so that but for the number equal programs have equal bytes
ALIVE: WeakValueDictionary[str, AtomicFunction] = WeakValueDictionary()


class _NamedNumber(int):
    """A number that is written as a name."""

    def __new__(cls, number: int, name: str) -> Self:
        named = super().__new__(cls, number)
        named.name = name
        return named

    name: str

    def __str__(self) -> str:
        return self.name


class Program:
    """A traced function together with the tensors and variables that it works on."""

    def __init__(self, function: AtomicFunction, captures: Sequence[tf.Tensor]) -> None:
        self.function, self.captures = function, list(captures)

    @property
    def function_def(self) -> Any:
        """TensorFlow's record of the function."""
        return self.function.cached_definition

    def __call__(self, *args: tf.Tensor) -> Any:
        """Carry it out; tensors or a dict of them, as traced."""
        return self.function.call_preflattened([*args, *self.captures])


def trace(
    python: Callable[..., Any], signature: Sequence[tf.TensorSpec], xla: bool, name: str,
    check: Callable[[Any], None] = lambda function: None,
) -> Program:  # fmt: skip
    """Trace a function of tensors; what else it uses is captured.

    name: of letters, digits and underscores. Programs of other content may have the same one: they get a number behind
    it, and which one then depends on what was traced in the process before. check: looks at TensorFlow's concrete
    function, of which nothing is kept.
    """
    with ONE_AT_A_TIME:
        names, content = NAMES.setdefault(name, {}), ""
        try:
            function, captures = _trace(python, signature, xla, name, check)
            content = _digest_content(function, name)
        except tf.errors.InvalidArgumentError:  # one of this name and other content may still be there
            if not names:
                raise
        if names and names.get(content) != name:
            full = f"{name}_{next(NUMBERS[name]):0{DIGITS}}"
            function, captures = _trace(python, signature, xla, full, check)
            content = _digest_content(function, full)
            if names.setdefault(content, full) != full:
                function, captures = _trace(python, signature, xla, names[content], check)
        return Program(ALIVE.setdefault(names.setdefault(content, name), function), captures)


def _trace(
    python: Callable[..., Any], signature: Sequence[tf.TensorSpec], xla: bool, name: str, check: Callable[[Any], None]
) -> tuple[AtomicFunction, Sequence[tf.Tensor]]:
    """The function without what it captured, and that."""
    with _name_functions(name), _forget_gradients():
        concrete = tf.function(python, jit_compile=xla, autograph=False).get_concrete_function(*signature)
        check(concrete)
        found = concrete.inference_fn
        options = found.call_options
        return AtomicFunction(
            found.name, found._bound_context, found.function_type, found.children, options
        ), concrete.captured_inputs


def _digest_content(function: AtomicFunction, name: str) -> str:
    """Digest of all that the function does, whatever its own name of that length."""
    total = hashlib.sha256()
    todo, seen = [function], set[bytes]()
    while todo:
        one = todo.pop()
        if one.name not in seen:
            seen.add(one.name)
            definition = one.definition.SerializeToString(deterministic=True)
            total.update(definition.replace(name.encode(), b""))
            todo += one.children
    return total.hexdigest()


@contextmanager
def _name_functions(name: str) -> Iterator[None]:
    """Have TensorFlow number the functions that this thread traces from 1 on, with the name before the number."""
    thread, numbers, unique = get_ident(), count(1), pywrap_tfe.TFE_Py_UID

    def uid() -> int:
        number: int = unique()
        return number if get_ident() != thread else _NamedNumber(number, f"{name}_{next(numbers)}")

    ops.get_default_graph()  # is made by the process's first tracing, and would be numbered there
    pywrap_tfe.TFE_Py_UID = uid
    try:
        yield
    finally:
        pywrap_tfe.TFE_Py_UID = unique


@contextmanager
def _forget_gradients() -> Iterator[None]:
    """Remove the gradients from TensorFlow's registry that were registered in between.

    It keeps each tf.custom_gradient that was ever traced, with all that it refers to: tables and matrices of every
    stack. Once traced, nobody asks for it again.
    """
    registered: dict[str, Any] = ops.gradient_registry._registry
    before = set(registered)
    try:
        yield
    finally:
        for name in registered.keys() - before:
            if name.startswith("CustomGradient"):
                del registered[name]
