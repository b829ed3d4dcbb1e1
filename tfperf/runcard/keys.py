"""Values of a card's plain tree by their full keys."""

from collections.abc import Sequence
from typing import Any

Tree = dict[str, Any]
EACH_ENTRY = "*"  # in a path of keys: of each entry of a list


def get(tree: Tree, key: str) -> Any:
    """The value of a dotted key.

    >>> get({"train": {"optimizer": {"name": "Adam"}}}, "train.optimizer.name")
    'Adam'
    """
    for name in key.split("."):
        tree = tree[name]
    return tree


def put(tree: Tree, key: str, value: Any) -> None:
    """Set the value of a dotted key.

    >>> tree = {"train": {"steps": 100}}
    >>> put(tree, "train.steps", 200)
    >>> tree
    {'train': {'steps': 200}}
    """
    *outer, last = key.split(".")
    for name in outer:
        tree = tree[name]
    tree[last] = value


def find_mappings(tree: Tree, path: Sequence[str]) -> list[Tree]:
    """The mappings at a path of keys: none, one, or those of each entry of a list.

    >>> find_mappings({"train": {"callbacks": [{"name": "CSVLogger"}]}}, ["train", "callbacks", "*"])
    [{'name': 'CSVLogger'}]
    """
    found: list[Any] = [tree]
    for key in path:
        entries = [(one or ()) if key == EACH_ENTRY else (one.get(key),) for one in found]
        found = [entry for several in entries for entry in several if isinstance(entry, dict | list)]
    return found
