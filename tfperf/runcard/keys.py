"""Values of a card's plain tree by their full keys."""

from typing import Any

Tree = dict[str, Any]


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
