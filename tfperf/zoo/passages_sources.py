"""Documentation that is installed with Python and with tfperf: topics of Python's help, and docstrings of source files.

Source files are parsed, never imported.
"""

import ast
import os
import sysconfig
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

# what tfperf needs, so that it is on every machine; those with much to read and little to parse first
PACKAGES = (
    "keras", "numpy", "scipy", "matplotlib", "h5py", "pydantic", "click", "rich", "yaml", "tensorboard", "tensorflow",
)  # fmt: skip
SKIPPED = frozenset(("test", "tests", "site-packages", "dist-packages", "__pycache__"))


def iterate_texts() -> Iterator[str]:
    """All texts, in an order that depends on installed versions alone: topics, Python's library, then packages."""
    yield from list_topics()
    for folder in list_folders():
        for path in list_source_files(folder):
            yield from iterate_docstrings(path)


def list_topics() -> list[str]:
    """Of Python's help, by name; none where Python was installed without it."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return []
    return [topics[name] for name in sorted(topics)]


def list_folders() -> list[Path]:
    """Of Python's library, and of those of PACKAGES that are installed."""
    found = [Path(sysconfig.get_path("stdlib"))]
    for name in PACKAGES:
        spec = find_spec(name)  # of a name without dots, which imports nothing
        if spec is not None and spec.submodule_search_locations:
            found.append(Path(spec.submodule_search_locations[0]))
    return found


def list_source_files(folder: Path) -> list[Path]:
    """Python files below a folder, those of tests left out, in an order that no file system changes."""
    found = []
    for top, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one not in SKIPPED]
        found += [Path(top, name) for name in names if name.endswith(".py")]
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def iterate_docstrings(path: Path) -> Iterator[str]:
    """Of a module, its classes and functions; none of a file that this Python cannot parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in other people's strings
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield text
