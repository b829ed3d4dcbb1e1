"""What the text of the user's Python files says: the names they define, the files they import; no code is run."""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfperf.sources.code import CodeReference
from tfperf.sources.modules import is_of_library

DYNAMIC = {"globals", "exec", "setattr", "vars", "locals"}  # by calls of which a module may get names


def list_code_files(reference: CodeReference) -> dict[str, Path]:
    """The file of a function as "", and those of the user's that it imports, by their places beside it.

    Empty for modules of installed packages. Imports by `importlib` are not seen.
    """
    if reference.file is not None:
        folder, file = reference.file.parent, reference.file
    else:
        parts = reference.origin.split(".")
        folders = [Path(path) for path in sys.path if not is_of_library(path)]
        places = [
            (one, files[-1]) for one in folders if (files := _find_files(one, parts)) and _is_last(files[-1], parts)
        ]
        if not places:
            return {}
        folder, file = places[0]
    found = {"": file}
    waiting = [file]
    while waiting:
        for path in _list_imports(waiting.pop(), folder):
            name = str(path.relative_to(folder))
            if path != file and name not in found:
                found[name] = path
                waiting.append(path)
    return found


def describe_missing(reference: CodeReference) -> str | None:
    """Why a file cannot have a function, in words; None where it may."""
    if reference.file is None:
        return None
    try:
        tree = ast.parse(reference.file.read_bytes(), str(reference.file))
    except SyntaxError as error:
        return f"{reference.file}, line {error.lineno}: {error.msg}"
    except (OSError, ValueError) as error:
        return str(error)
    if any(isinstance(node, ast.Call) and ast.unparse(node.func) in DYNAMIC for node in ast.walk(tree)):
        return None
    names = set[str]()
    for node in ast.walk(tree):  # at any depth: a name may be defined in an `if` or a `with`
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    if reference.function in names or not names.isdisjoint({"*", "__getattr__"}):
        return None
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return f"{reference.file} has no {reference.function}; its functions: {', '.join(functions) or 'none'}"


def _list_imports(file: Path, folder: Path) -> Iterator[Path]:
    try:
        nodes = [*ast.walk(ast.parse(file.read_bytes()))]
    except (OSError, SyntaxError, ValueError):
        return  # its import says so
    for node in nodes:
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _find_files(folder, name.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = folder if not node.level else file.parents[min(node.level, len(file.parents)) - 1]
            outer = node.module.split(".") if node.module else []
            if not base.is_relative_to(folder):
                continue
            for name in node.names:
                yield from _find_files(base, [*outer, name.name])


def _is_last(file: Path, parts: Sequence[str]) -> bool:
    """Whether a file is the module itself, not a package on the way to it; those may be without a file."""
    return parts[-1] in (file.stem, file.parent.name if file.name == "__init__.py" else "")


def _find_files(folder: Path, parts: Sequence[str]) -> list[Path]:
    """What importing a dotted name from a folder reads: packages on the way, then the module."""
    found = []
    for part in parts:
        folder = folder / part
        for file in (folder / "__init__.py", folder.with_suffix(".py")):
            if file.is_file():
                found.append(file)
                break
    return found
