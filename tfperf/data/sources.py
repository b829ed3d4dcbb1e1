"""The source files that a module runs: its own, and those of all modules that it imports, and these import in turn.

Modules of tfperf and of the module's own package count; other packages are known by their versions elsewhere. Imports
are read from the text, those inside functions too, so that nothing is imported for it; those for types do not run.
"""

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

PACKAGE = __name__.partition(".")[0]
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]+))", re.MULTILINE
)
FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+[^\n]*\n|\n)*", re.MULTILINE)
NAME = re.compile(r"[\w.]+")


def list_source_files(module: str) -> dict[str, Path]:
    """The files of a module and of all that it imports, by the modules' names, in the order of these.

    A module that is no file, as of an interactive session, has none.
    """
    roots = {name: root for name in (PACKAGE, module.partition(".")[0]) if (root := _find_root(name)) is not None}
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        root = roots.get(name.partition(".")[0])
        if root is None:
            continue
        for part in _list_packages(name):
            path = _find_file(root, part)
            if part not in found and path is not None:
                found[part] = path
                waiting += _list_imports(path, part)
    return dict(sorted(found.items()))


def _find_root(package: str) -> Path | None:
    """The folder of a package that was imported; None for a single file."""
    file = getattr(sys.modules.get(package), "__file__", None)
    return Path(file).parent if file is not None and Path(file).name == "__init__.py" else None


def _list_packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _find_file(root: Path, name: str) -> Path | None:
    base = root.joinpath(*name.split(".")[1:])
    return next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)


@lru_cache
def _list_imports(path: Path, name: str) -> tuple[str, ...]:
    """What a file imports; of `from a import b` both a and a.b, of which one may be no module."""
    return tuple(_parse_imports(path.read_text(encoding="utf-8", errors="replace"), name, path.name == "__init__.py"))


def _parse_imports(text: str, name: str, is_package: bool) -> Iterator[str]:
    for whole, names, plain in IMPORT.findall(FOR_TYPES.sub("", text)):
        if plain:
            yield from (part.split()[0] for part in plain.split(",") if part.split())
            continue
        base = _resolve_name(whole, name, is_package)
        yield base
        yield from (f"{base}.{part}" for part in NAME.findall(re.sub(r"#[^\n]*|\bas\b\s+\w+", "", names)))


def _resolve_name(written: str, name: str, is_package: bool) -> str:
    """The full name of a module that may be written relative to the one that imports it."""
    dots = len(written) - len(written.lstrip("."))
    if not dots:
        return written
    parts = name.split(".")
    above = parts[: len(parts) - dots + is_package]
    return ".".join([*above, *filter(None, [written.lstrip(".")])])
