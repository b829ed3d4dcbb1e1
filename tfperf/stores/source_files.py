"""The files that a pipeline reads, as far as its graph names them: paths with sizes and times of change."""

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
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
TOLD = 3  # changed files that a message names

FileStates = Mapping[str, str]  # by absolute path: size and time of change


def find_source_files(copy: GraphCopy, more: Iterable[str] = ()) -> dict[str, str]:
    """The states of all files whose paths stand as texts in a graph, or among `more`; of folders, of all in them."""
    found: dict[str, str] = {}
    for text in dict.fromkeys((*_list_texts(copy), *more)):
        found.update(_list_states(text))
    return found


def _list_texts(copy: GraphCopy) -> Iterator[str]:
    for node in iterate_nodes(copy):
        if node.op == "Const" and node.attr["value"].tensor.dtype == tf.string.as_datatype_enum:
            text = node.attr["value"].tensor.SerializeToString()
            for one in np.asarray(tf.io.parse_tensor(text, tf.string).numpy()).flat:
                if 0 < len(one) < LONGEST and b"\0" not in one:
                    yield os.fsdecode(one)


def _list_states(text: str) -> Iterator[tuple[str, str]]:
    try:
        if os.path.isdir(text):
            for folder, _, names in os.walk(text):
                yield from (_read_state(os.path.join(folder, name)) for name in names)
        elif os.path.exists(text):
            yield _read_state(text)
    except OSError:
        return  # a name that is no path


def _read_state(path: str) -> tuple[str, str]:
    found = os.stat(path)
    return os.path.abspath(path), f"{found.st_size} bytes, changed {found.st_mtime_ns}"


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
