"""The files that a pipeline reads, as far as its graph names them: paths with sizes and times of change."""

import ast
import glob
import hashlib
import os
import stat
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.errors import RunDirectoryError, UserError
from tfperf.inputs.graph_copy import GraphCopy
from tfperf.inputs.graph_nodes import iterate_function_nodes, list_functions
from tfperf.inputs.operations import FILES, PYTHON
from tfperf.inputs.pipeline import GENERATOR
from tfperf.results.files import write_atomically
from tfperf.results.reading import read_text
from tfperf.stores.fingerprint import iterate_nodes
from tfperf.stores.split import list_datasets

FILE = "sources.txt"  # of a store
MOST_BYTES = 2**30  # of it
SCHEME = "file://"  # that TensorFlow takes before a path of this machine
LONGEST = 4096  # characters of a path
MOST_FILES = 1_000_000  # of a folder, the first ones by name, that are looked at
TOLD = 3  # changed files that a message names

FileStates = Mapping[str, str]  # by absolute path: size and time of change


def find_source_files(copy: GraphCopy, store: Path, more: Iterable[str] = ()) -> dict[str, str]:
    """The states of all files whose paths stand as texts in a graph, or among `more`; of folders, of all in them; of
    patterns, and beginnings of paths, of those that fit.

    Of a folder that holds the store only what is named by another text: a program writes there, too. What paths are
    put together with, as `/` and `.`, is no folder.
    """
    home = os.path.realpath(store)
    given = (one.removeprefix(SCHEME) for one in (*_list_texts(copy), *more) if "\0" not in one)
    texts = [one for one in dict.fromkeys(given) if one.strip("./*?")]
    folders = [one for one in texts if os.path.isdir(one)]
    found = dict(_list_states(texts))
    for folder in folders:
        inside = (os.path.join(folder, one) for one in texts) if _is_above(folder, home) else _walk(folder, home)
        found.update(_list_states(islice(inside, MOST_FILES)))
    others = (one for one in texts if "/" in one and not os.path.exists(one))
    outside = (one for one in _match(others) if not Path(os.path.realpath(one)).is_relative_to(home))
    found.update(_list_states(islice(outside, MOST_FILES)))
    return found


def _match(texts: Iterable[str]) -> Iterator[str]:
    """Paths that fit a pattern, or begin with a text."""
    known: dict[str, list[str]] = {}
    for text in texts:
        if glob.has_magic(text):
            yield from sorted(glob.iglob(text))
            continue
        folder, beginning = os.path.split(text)
        if folder not in known:
            known[folder] = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        names = known[folder]
        for place in range(bisect_left(names, beginning), len(names)):
            if not names[place].startswith(beginning):
                break
            yield os.path.join(folder, names[place])


def has_names_from_data(copy: GraphCopy) -> bool:
    """Whether a stage reads files whose names may come from other files, or from Python, and not from the graph."""
    return any(
        _has_any(copy, one, FILES, with_own=False)
        and any(_has_any(copy, before, (*FILES, *PYTHON, GENERATOR)) for before in list_datasets(copy, one)[:-1])
        for one in list_datasets(copy)
    )


def _has_any(copy: GraphCopy, name: str, kinds: Iterable[str], with_own: bool = True) -> bool:
    """Whether a stage's functions, or it itself, have an operation in whose name one of these stands."""
    node = copy.nodes[name]
    found = {inner.op for one in list_functions(node) for inner in iterate_function_nodes(one, copy.library)}
    return any(kind in op for op in (found | {node.op} if with_own else found) for kind in kinds)


def refuse_unseen(paths: Iterable[Path], store: Path) -> None:
    """UserError where a path that is to be watched is not there, or is a folder with the store in it."""
    for path in paths:
        if not path.exists():
            raise UserError(f"watch: {path}: no such file or folder")
        if _is_above(str(path), os.path.realpath(store)):
            raise UserError(f"watch: {path}: holds the store, whose files change; put the store into another folder")


def _list_texts(copy: GraphCopy) -> Iterator[str]:
    for node in iterate_nodes(copy):
        if node.op == "Const" and node.attr["value"].tensor.dtype == tf.string.as_datatype_enum:
            text = node.attr["value"].tensor.SerializeToString()
            for one in np.asarray(tf.io.parse_tensor(text, tf.string).numpy()).flat:
                if 0 < len(one) < LONGEST and b"\0" not in one:
                    yield os.fsdecode(one)


def _is_above(folder: str, home: str) -> bool:
    """Whether a store lies in a folder, somewhere below it, or is it; home: the store, without links."""
    return Path(home).is_relative_to(os.path.realpath(folder))


def _walk(top: str, home: str) -> Iterator[str]:
    """All files in a folder, in an order of names; through links, but nothing twice."""
    seen = set[str]()
    for folder, inner, names in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen or _is_above(real, home):
            inner.clear()
            continue
        seen.add(real)
        inner.sort()
        yield from (os.path.join(folder, name) for name in sorted(names))


def _list_states(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of those paths that lead to a file."""
    for path in paths:
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            continue  # a text that is no path, a link to nothing
        if stat.S_ISREG(found.st_mode):
            yield os.path.abspath(path), f"{found.st_size} bytes, changed {found.st_mtime_ns}"


def write_states(folder: Path, states: FileStates) -> None:
    """Keep them in a store. Raises: StorageError."""
    with write_atomically(folder / FILE) as temporary:
        temporary.write_text(_format(states), encoding="utf-8", errors="surrogateescape")


def hash_states(states: FileStates) -> str:
    """Their digest."""
    return _hash_text(_format(states))


def _format(states: FileStates) -> str:
    return "".join(f"{path!r}\t{state}\n" for path, state in sorted(states.items()))


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def read_states(folder: Path, digest: str) -> dict[str, str]:
    """Those that were kept. Raises: RunDirectoryError for a damaged file."""
    text = read_text(folder / FILE, MOST_BYTES, errors="surrogateescape")
    if _hash_text(text) != digest:
        raise RunDirectoryError(f"{folder / FILE}: damaged: its checksum does not fit; store again elsewhere")
    return {ast.literal_eval(path): state for path, _, state in (line.partition("\t") for line in text.splitlines())}


def describe_changes(before: FileStates, now: FileStates) -> str | None:
    """What differs, in words; None: nothing.

    >>> describe_changes({"a.jpg": "3 bytes", "b.jpg": "4 bytes"}, {"a.jpg": "5 bytes", "c.jpg": "4 bytes"})
    'changed a.jpg; missing b.jpg; new c.jpg'
    """
    kinds: dict[str, Any] = {
        "changed": [path for path in before if path in now and now[path] != before[path]],
        "missing": [path for path in before if path not in now],
        "new": [path for path in now if path not in before],
    }
    parts = [f"{kind} {_name(paths)}" for kind, paths in kinds.items() if paths]
    return "; ".join(parts) or None


def _name(paths: list[str]) -> str:
    more = f" and {len(paths) - TOLD} more" if len(paths) > TOLD else ""
    return ", ".join(paths[:TOLD]) + more
