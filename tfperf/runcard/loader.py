"""A runcard from its file: every fault at once, each with its place."""

import glob
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from tfperf.errors import CardError
from tfperf.runcard import overrides as setting
from tfperf.runcard.explain import explain, suggest_nearest
from tfperf.runcard.keys import EACH_ENTRY
from tfperf.runcard.kinds import AnyCard, CardKind, Kinds
from tfperf.runcard.nodes import CardNode, LocatedFault, format_key
from tfperf.runcard.places import FaultyCard, attach_node, make_card_error
from tfperf.runcard.tree import parse_tree
from tfperf.runcard.types import CODE_FILE

MAX_BYTES = 256 * 1024


def load_card(path: Path, kinds: Kinds, overrides: Sequence[str] = ()) -> AnyCard:
    """The validated card of a YAML file, of one of the kinds, with `key.sub=value` overrides put in.

    Paths in it, overrides included, are relative to the card's folder; they come back absolute. Raises CardError with
    all faults, a line each: `file:line: full.key: what was given; what is allowed`.
    """
    root, found = read_root(path, overrides)
    return validate_card(root, found, Path(path).parent, kinds)


def read_root(path: Path, overrides: Sequence[str]) -> tuple[CardNode, list[LocatedFault]]:
    """The card's tree with the overrides put in, and what is wrong with it so far. Raises: CardError."""
    setting.refuse_too_many(overrides)
    root, found = parse_tree(_read(path), lambda line: (line, f"{path}:{line}"))
    if root is None:
        empty = LocatedFault(1, f"{path}:1", "the card is empty; `tfperf init` writes an example")
        raise make_card_error(found or [empty])
    for number, override in enumerate(overrides if isinstance(root.value, dict) else ()):
        found += setting.apply(root, override, number)
    return root, found


def validate_card(root: CardNode, found: list[LocatedFault], folder: Path, kinds: Kinds) -> AnyCard:
    """The card of a tree, whose paths are relative to a folder. Raises: CardError with these and all further faults."""
    kind, unknown = _find_kind(root, kinds)
    if kind is None:
        raise make_card_error([*found, *unknown])
    found = [*found, *unknown]
    if isinstance(root.value, dict):
        found += [*_resolve_paths(kind, root, folder), *_resolve_code(kind, root, folder)]
        _resolve_globs(kind, root, folder)
    try:
        card: AnyCard = kind.grammar.adapter.validate_json(json.dumps(root.to_plain()))
    except ValidationError as error:
        found += explain(kind.grammar, root, error.errors(include_url=False))
        raise FaultyCard(found, kind, root).make_error() from None
    if found:
        raise FaultyCard(found, kind, root).make_error()
    return attach_node(card, root)


def _find_kind(root: CardNode, kinds: Kinds) -> tuple[CardKind | None, list[LocatedFault]]:
    """The kind of the card, or what is wrong with its word for it. Raises: CardError where it cannot be loaded."""
    node = root.get_child("workload")
    if node is None or node.broken:
        return kinds.get_kind(kinds.default), []
    names = kinds.list_names()
    if isinstance(node.value, str) and node.value in names:
        return kinds.get_kind(node.value), []
    why = f"allowed: {', '.join(names)}"
    if isinstance(node.value, str):
        new = kinds.renamed.get(node.value)
        why = f"is called {new} now" if new in names else why + suggest_nearest(node.value, names)
    return None, [LocatedFault(node.order, node.location, f"workload: got {node.quote()}; {why}", ("workload",))]


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


def _resolve_paths(kind: CardKind, root: CardNode, folder: Path) -> Iterator[LocatedFault]:
    """Make the card's paths absolute; yields those that lead nowhere."""
    for key in (*kind.files, *kind.folders):
        node = next(_find_nodes(root, key), None)
        if node is None or not isinstance(node.value, str) or node.value in kind.folders.get(key, ()):
            continue
        target = os.path.realpath(os.path.join(folder, node.value))
        if not (os.path.isfile(target) if key in kind.files else os.path.isdir(target)):
            why = _describe_missing(kind, key, node.value, target)
            yield LocatedFault(node.order, node.location, f"{format_key(key)}: got {node.quote()}; {why}", key)
        node.value = target


def _resolve_globs(kind: CardKind, root: CardNode, folder: Path) -> None:
    """Make globs of files absolute; what they match is for others to say."""
    for node in [node for key in kind.globs for node in _find_nodes(root, key)]:
        if isinstance(node.value, str) and node.value:
            node.value = os.path.join(glob.escape(os.path.realpath(folder)), node.value)


def _resolve_code(kind: CardKind, root: CardNode, folder: Path) -> Iterator[LocatedFault]:
    """Make paths of files with code absolute; yields those that lead nowhere."""
    for node in [node for key in kind.code for node in _find_nodes(root, key)]:
        if not isinstance(node.value, str):
            continue
        origin, colon, function = node.value.rpartition(":")
        if not colon or not origin.endswith(CODE_FILE):
            continue
        target = os.path.realpath(os.path.join(folder, origin))
        if not os.path.isfile(target):
            text = f"{format_key(node.path)}: got {node.quote()}; no such file: {target}; must be a Python file"
            yield LocatedFault(node.order, node.location, text, node.path)
        node.value = f"{target}:{function}"


def _find_nodes(root: CardNode, key: tuple[str, ...]) -> Iterator[CardNode]:
    """The value of a key; of one with EACH_ENTRY in it one for each entry of the list."""
    if not key:
        yield root
        return
    name, *rest = key
    children = root.value if name == EACH_ENTRY and isinstance(root.value, list) else [root.get_child(name)]
    for child in children:
        if child is not None:
            yield from _find_nodes(child, tuple(rest))


def _describe_missing(kind: CardKind, key: tuple[str, ...], given: str, target: str) -> str:
    if key in kind.files:
        what = "a folder" if os.path.isdir(target) else "no such file"
        return f"{what}: {target}; must be {kind.files[key]}"
    words = kind.folders[key]
    if not words:
        return f"{'is no folder' if os.path.exists(target) else 'no such folder'}: {target}; must be a folder"
    return f"allowed: {', '.join(words)}, or a run folder (there is no {target}){suggest_nearest(given, words)}"
