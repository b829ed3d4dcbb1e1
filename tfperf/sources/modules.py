"""Modules of the user's own files: each folder has its own, which are read again once one of them has changed."""

import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tfperf.errors import UserError
from tfperf.results.reading import hash_file

PACKAGES = {"site-packages", "dist-packages"}  # folders that pip installs into
_MODULES: dict[Path, dict[str, ModuleType]] = {}  # by folder and name
_DIGESTS: dict[Path, str] = {}  # of their files, as they were read
_SEEN: dict[Path, str] = {}  # of modules that the program imported itself, as they were when first used


def import_file(file: Path) -> ModuleType:
    """The module of a Python file, with its own folder first on the path, as Python has it for a script."""
    _forget_changed(file.parent)
    with use_folder(file.parent):
        known = sys.modules.get(file.stem)
        if known is not None and _is_of_file(known, file):
            return known
        name = file.stem if known is None else f"tfperf_user_{file.stem}"  # a library's name stays the library's
        own = sys.modules.get(name)
        if own is not None and _is_of_file(own, file):
            return own
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module


@contextmanager
def use_folder(folder: Path) -> Iterator[None]:
    """Import modules beside a file: of one name in two folders, each file has its own."""
    mine = _MODULES.setdefault(folder, {})
    others = [item for place, found in _MODULES.items() if place != folder for item in found.items()]
    hidden = {name: sys.modules.pop(name) for name, one in others if sys.modules.get(name) is one}
    sys.modules.update(mine)
    before = {*sys.modules}
    sys.path[:] = [str(folder), *(path for path in sys.path if path != str(folder))]
    try:
        yield
    finally:
        for name in {*sys.modules} - before:
            module = sys.modules[name]
            file = _find_place(module)
            if file is not None and Path(file).is_relative_to(folder) and not is_of_library(file):
                mine[name], _DIGESTS[Path(file)] = module, _digest(Path(file))
        for name, module in hidden.items():
            sys.modules.setdefault(name, module)


def _forget_changed(folder: Path) -> None:
    """Modules of a folder are read again, all of them, once the file of one has changed."""
    mine = _MODULES.get(folder, {})
    files = [Path(str(_find_place(module))) for module in mine.values()]
    if all(_digest(file) == _DIGESTS[file] for file in files):
        return
    for name, module in mine.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    importlib.invalidate_caches()
    mine.clear()


def find_folder(kind: type[Any]) -> Path | None:
    """The folder of the user's whose module defines a class; None where another module does."""
    for folder, found in _MODULES.items():
        if getattr(found.get(kind.__module__), kind.__name__, None) is kind:
            return folder
    return None


def refuse_changed(module: ModuleType, key: str) -> None:
    """UserError for a module that the program imported itself, whose file has changed since it was first used here."""
    place = _find_place(module)
    if place is None or is_of_library(place) or Path(place) in _DIGESTS:
        return
    if _SEEN.setdefault(Path(place), _digest(Path(place))) != _digest(Path(place)):
        raise UserError(f"{key}: {place} was changed after this process had imported it; start the process again")


def _is_of_file(module: ModuleType, file: Path) -> bool:
    place = getattr(module, "__file__", None)
    return place is not None and Path(place).resolve() == file.resolve()


def _find_place(module: ModuleType) -> str | None:
    """Its file, or the first folder of a package that has no __init__.py."""
    return getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)


def _digest(file: Path) -> str:
    return hash_file(file) if file.is_file() else ""


def is_of_library(file: str) -> bool:
    """Whether code is of Python, tfperf or an installed package, rather than the user's."""
    folders = (str(Path(__file__).parents[1]), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib", "scripts")))
    return file.startswith((*folders, "<")) or not PACKAGES.isdisjoint(Path(file).parts)
