"""Python functions that operations of a graph call: py_function and numpy_function, with where they are written.

Looks at TensorFlow's own objects; imports it.
"""

import functools
import inspect
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

from tfperf.trace.host_watch import find_kind, shorten_path
from tfperf.trace.phases import CALLBACK


def list_python_functions(graphs: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Rows of Notes.python_functions: of each such operation its name, and file, line and name of what it calls.

    Those that TensorFlow has written itself, for gradients, are left out, and so are those that are gone.
    """
    from tensorflow.python.ops import script_ops

    for graph in graphs:
        for one in graph.get_operations():
            if CALLBACK.match(one.type):
                said = describe_function(script_ops._py_funcs.get(one.get_attr("token").decode()))
                if said:
                    yield one.name, said


def describe_function(function: Any) -> str:
    """File, line and name of a function that TensorFlow has wrapped; its name alone where it is not written in Python.

    >>> describe_function(functools.partial(describe_function, None)).endswith("in describe_function")
    True
    >>> describe_function(len), describe_function(None)
    ('builtins.len', '')
    """
    function = _find_inner(getattr(function, "_func", function))
    if not inspect.isroutine(function) and callable(function):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", "").rpartition("<locals>.")[2]
    if code is None:
        return f"{getattr(function, '__module__', '')}.{name}" if name else ""
    if _is_tensorflow(code):
        return ""
    return f"{shorten_path(code.co_filename)}:{code.co_firstlineno} in {name}"


def _find_inner(function: Any) -> Any:
    """The function that decorators, partial arguments and TensorFlow's own wrappers are around of."""
    while True:
        inner = inspect.unwrap(function)
        inner = inner.func if isinstance(inner, functools.partial) else inner
        code = getattr(inner, "__code__", None)
        if code is not None and _is_tensorflow(code) and "func" in code.co_freevars:
            inner = inspect.getclosurevars(inner).nonlocals["func"]
        if inner is function:
            return function
        function = inner


def _is_tensorflow(code: CodeType) -> bool:
    return find_kind(code.co_filename) == "library" and "/tensorflow/" in code.co_filename.replace("\\", "/")
