"""Functions of the user's own code, which a card names as `file.py:function` or `module:function`."""

import importlib
import importlib.util
import inspect
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tfperf.errors import Interrupted, UserCodeError, UserError
from tfperf.runcard.types import CODE_FILE
from tfperf.sources.given import ORIGIN, find_object

COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # that Keras' messages have


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
    if reference.origin == ORIGIN:
        function = find_object(reference.function, key)
        if not inspect.isroutine(function):
            return function
    else:
        function = _import_function(reference, key)
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
    return run_user_code(lambda: function(**arguments), f"{key}: {reference}", file)


def list_own_objects(file: Path, key: str) -> dict[str, Any]:
    """Classes and functions that a Python file defines, by name. Raises: UserCodeError for what its import raises."""
    what = f"{key}: {file.name}: its import"
    module = run_user_code(lambda: _import_module(CodeReference(str(file), "")), what, file)
    return {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}


def run_user_code(call: Callable[[], Any], what: str, file: Path | None) -> Any:
    """What a call of the user's code returns. Raises: UserCodeError with his traceback, from his file on."""
    try:
        return call()
    except (KeyboardInterrupt, Interrupted, UserError):
        raise
    except BaseException as error:
        raise UserCodeError(f"{what}: raised {type(error).__name__}", *_list_lines(error, file)) from error


def _import_function(reference: CodeReference, key: str) -> Callable[..., Any]:
    module = run_user_code(lambda: _import_module(reference), f"{key}: {reference}: its import", reference.file)
    found = getattr(module, reference.function, None)
    if not callable(found):
        names = sorted(n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__)
        what = "is no function" if hasattr(module, reference.function) else "there is no such function"
        raise UserError(f"{key}: got {reference}; {what}; {reference.origin} has: {', '.join(names) or 'none'}")
    return found  # type: ignore[no-any-return]


def _import_module(reference: CodeReference) -> ModuleType:
    """The module, a file's with its own folder first on the path, as Python has it for a script."""
    if reference.file is None:
        return importlib.import_module(reference.origin)
    folder, name = str(reference.file.parent), reference.file.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(reference.file):
        return known
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = name if known is None else f"tfperf_user_{name}"
    spec = importlib.util.spec_from_file_location(name, reference.file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _list_lines(error: BaseException, file: Path | None) -> list[str]:
    """The traceback from the user's file on, or from his first code; of an error that reaches none, the error alone."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [number for number, frame in enumerate(frames) if file is not None and frame.filename == str(file)]
    mine = mine or [number for number, frame in enumerate(frames) if not is_of_library(frame.filename)]
    told = frames[mine[0] :] if mine else []
    texts = [*traceback.format_list(told), *traceback.format_exception_only(error)]
    lines = [COLOURS.sub("", line).rstrip() for text in texts for line in text.splitlines()]
    return [line for line in lines if line]


def is_of_library(file: str) -> bool:
    """Whether code is of Python, tfperf or an installed package, rather than the user's."""
    folders = (str(Path(__file__).parents[1]), *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
    return file.startswith((*folders, "<"))
