"""Functions of the user's own code, which a card names as `file.py:function` or `module:function`."""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from tfperf.errors import UserError
from tfperf.runcard.types import CODE_FILE
from tfperf.sources.given import ORIGIN, find_object
from tfperf.sources.modules import import_file, is_of_library, refuse_changed, use_folder
from tfperf.sources.user_errors import run_user_code


@dataclass(frozen=True)
class CodeReference:
    """A function: `origin` is the absolute path of a Python file, or the name of a module.

    >>> CodeReference.parse("nets/mlp.py:build_model")
    CodeReference(origin='nets/mlp.py', function='build_model')
    """

    origin: str
    function: str

    @staticmethod
    def parse(text: str) -> "CodeReference":
        """Of a card's text, which `runcard/types.py: CodeName` has checked."""
        origin, _, function = text.rpartition(":")
        return CodeReference(origin, function)

    @property
    def file(self) -> Path | None:
        """The file; None of a module."""
        return Path(self.origin) if self.origin.endswith(CODE_FILE) else None

    @property
    def text(self) -> str:
        """As a card names it, a file by its whole path."""
        return f"{self.origin}:{self.function}"

    def __str__(self) -> str:
        """As a card names it, a file by its name alone."""
        return f"{self.origin if self.file is None else self.file.name}:{self.function}"


def call_function(reference: CodeReference, arguments: Mapping[str, Any], key: str) -> Any:
    """What a function of the user's returns for keyword arguments; `key`: the card's, for messages.

    Raises: UserError where there is no such function or it does not take the arguments; UserCodeError for what it
    raises.
    """
    function = find_function(reference, key)
    if reference.origin == ORIGIN and not isinstance(function, type | partial) and not inspect.isroutine(function):
        return function
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        signature = f"{reference.function}{inspect.signature(function)}"
        raise UserError(
            f"{key}: {reference}: {error}; it is {signature}; its arguments stand under `arguments`"
        ) from None
    except ValueError:
        pass  # of some callables nobody knows what they take
    source = inspect.getsourcefile(function) if inspect.isfunction(function) else None
    file = reference.file or (None if source is None else Path(source))
    with nullcontext() if reference.file is None else use_folder(reference.file.parent):
        return run_user_code(lambda: function(**arguments), f"{key}: {reference}", file)


def find_function(reference: CodeReference, key: str) -> Any:
    """The function, or the object that a program gave in its place; `key`: the card's, for messages.

    Raises: UserError where there is none; UserCodeError for what the import of its file raises.
    """
    return find_object(reference.function, key) if reference.origin == ORIGIN else _import_function(reference, key)


def describe_misuse(what: str, kind: Callable[..., Any], error: Exception) -> str:
    """That a call of Keras' own class with a card's arguments has failed, and which it takes."""
    takes = [name for name in inspect.signature(kind).parameters if name != "kwargs"]
    return f"{what}: {' '.join(str(error).split())[:300].rstrip('.')}; its arguments: {', '.join(takes)}"


def list_own_objects(file: Path, key: str) -> dict[str, Any]:
    """Classes and functions of the user's that a Python file defines or imports, by name.

    Raises: UserCodeError for what its import raises.
    """
    what = f"{key}: {file.name}: its import"
    module = run_user_code(lambda: _import_module(CodeReference(str(file), "")), what, file)
    return {name: value for name, value in vars(module).items() if _is_users(value)}


def _is_users(value: Any) -> bool:
    """Whether a class or function is of a file of the user's, perhaps another one that his file imports."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    return (inspect.isclass(value) or inspect.isroutine(value)) and file is not None and not is_of_library(file)


def _import_function(reference: CodeReference, key: str) -> Callable[..., Any]:
    module = run_user_code(lambda: _import_module(reference), f"{key}: {reference}: its import", reference.file)
    refuse_changed(module, f"{key}: {reference}")
    found = getattr(module, reference.function, None)
    if not callable(found):
        names = sorted(n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__)
        what = "is no function" if hasattr(module, reference.function) else "there is no such function"
        raise UserError(f"{key}: got {reference}; {what}; {reference.origin} has: {', '.join(names) or 'none'}")
    return found  # type: ignore[no-any-return]


def _import_module(reference: CodeReference) -> ModuleType:
    return importlib.import_module(reference.origin) if reference.file is None else import_file(reference.file)
