"""The files that a pipeline reads, as far as its graph names them: paths with sizes and times of change."""

import ast
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.errors import RunDirectoryError
from tfperf.inputs.graph_copy import GraphCopy
from tfperf.results.files import write_atomically
from tfperf.results.reading import read_text
from tfperf.stores.fingerprint import iterate_nodes

FILE = "sources.txt"  # of a store
MOST_BYTES = 2**30  # of it
LONGEST = 4096  # characters of a path
MOST_FILES = 1_000_000  # of a folder, the first ones by name, that are looked at
TOLD = 3  # changed files that a message names

FileStates = Mapping[str, str]  # by absolute path: size and time of change


def find_source_files(copy: GraphCopy, store: Path, more: Iterable[str] = ()) -> dict[str, str]:
    """The states of all files whose paths stand as texts in a graph, or among `more`; of folders, of all in them.

    Of a folder that holds the store only what is named by another text: a program writes there, too. What paths are
    put together with, as `/` and `.`, is no folder.
    """
    home = os.path.realpath(store)
    texts = [one for one in dict.fromkeys((*_list_texts(copy), *more)) if one.strip("./")]
    folders = [one for one in texts if os.path.isdir(one)]
    found = dict(_list_states(texts))
    for folder in folders:
        inside = (os.path.join(folder, one) for one in texts) if _is_above(folder, home) else _walk(folder, home)
        found.update(_list_states(islice(inside, MOST_FILES)))
    return found


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
