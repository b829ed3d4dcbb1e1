"""A runcard from its file: every fault at once, each with its place."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from tfperf.errors import CardError
from tfperf.runcard import overrides as setting
from tfperf.runcard.config import Card
from tfperf.runcard.explain import explain, full, nearest
from tfperf.runcard.schema import adapter
from tfperf.runcard.tree import Found, Node, read_tree

MAX_BYTES = 256 * 1024
MAX_FAULTS = 100
# keys that name something on disk -> the words that may stand there instead
FILES: dict[tuple[str, ...], str] = {("data", "pack"): "an HDF5 data pack", ("covariance", "extra"): "an HDF5 file"}
FOLDERS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("data", "t0"): ("pack", "none", "fit"),
    ("closure", "law"): ("toy",),
}


def load_card(path: Path, overrides: Sequence[str] = ()) -> Card:
    """The validated card of a YAML file, with `key.sub=value` overrides put in.

    Paths in it, overrides included, are relative to the card's folder; they come back absolute. Raises CardError with
    all faults, a line each: `file:line: full.key: what was given; what is allowed`.
    """
    root, found = read_tree(_read(path), lambda line: (line, f"{path}:{line}"))
    if root is None:
        raise _refused(found or [Found(1, f"{path}:1", "the card is empty; `tfperf init` writes an example")])
    if isinstance(root.value, dict):
        for number, override in enumerate(overrides):
            found += setting.apply(root, override, number)
        found += _absolute(root, Path(path).parent)
    try:
        card = adapter().validate_json(json.dumps(root.plain()))
    except ValidationError as error:
        raise _refused(found + explain(root, error.errors(include_url=False))) from None
    if found:
        raise _refused(found)
    return card


def _read(path: Path) -> str:
    """The file's text, no more than MAX_BYTES of it."""
    try:
        if not os.path.isfile(path):
            what = "a folder" if os.path.isdir(path) else "no plain file" if os.path.exists(path) else "no such file"
            raise CardError(f"{path}: {what}; a runcard is a YAML file")
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CardError(f"{path}: cannot be read ({error.strerror})") from None
    if len(raw) > MAX_BYTES:
        raise CardError(f"{path}: longer than {MAX_BYTES} bytes; a runcard is a short text")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise CardError(f"{path}:{line}: got the byte 0x{raw[error.start]:02x}; a card is UTF-8 text") from None


def _absolute(root: Node, folder: Path) -> Iterator[Found]:
    """Make the card's paths absolute; yields those that lead nowhere."""
    for key in (*FILES, *FOLDERS):
        node: Node | None = root
        for part in key:
            node = None if node is None else node.child(part)
        if node is None or not isinstance(node.value, str) or node.value in FOLDERS.get(key, ()):
            continue
        target = os.path.realpath(os.path.join(folder, node.value))
        if not (os.path.isfile(target) if key in FILES else os.path.isdir(target)):
            yield Found(node.rank, node.place, f"{full(key)}: got {node.given()}; {_nowhere(key, node.value, target)}")
        node.value = target


def _nowhere(key: tuple[str, ...], given: str, target: str) -> str:
    if key in FILES:
        return f"no such file: {target}; must be {FILES[key]}"
    words = FOLDERS[key]
    return f"allowed: {', '.join(words)}, or a run folder (there is no {target}){nearest(given, words)}"


def _refused(found: list[Found]) -> CardError:
    lines = [f"{f.place}: {f.text}" for f in sorted(found, key=lambda f: f.rank)]
    more = [f"... and {len(lines) - MAX_FAULTS} more"] if len(lines) > MAX_FAULTS else []
    return CardError(*lines[:MAX_FAULTS], *more)
