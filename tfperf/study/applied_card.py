"""The card that `--apply` writes: the given one with what won beyond chance."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfperf.results.files import write_atomically
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import Tree
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.scalars import dump
from tfperf.study.input_levers import InputCandidate


def write_applied_card(card: AnyCard, applied: Mapping[str, Any], folder: Path) -> str | None:
    """The name of the card of `tfperf input --apply` in the folder; None where nothing is changed.

    Raises: StorageError.
    """
    if not applied["changed"]:
        return None
    tree = InputCandidate(applied["settings"], applied["arguments"]).change(to_json_tree(card))
    told = [f"{one['key']}: {one['after']}, was {one['before']}" for one in applied["changed"]]
    same = "Batches" if applied["repeatable"] else "Types and shapes of batches"
    head = [
        f"{same} are those of the card itself, as compared in two passes; on the machine it was measured on, sooner:"
    ]
    return write_changed_card(card, tree, [*head, *told], folder / f"{find_stem(card)}_applied.yaml")


def write_changed_card(card: AnyCard, tree: Tree, told: Sequence[str], path: Path) -> str:
    """Write the changed tree of a card, below lines that say what is told of it; its name.

    All paths in it are absolute. Raises: StorageError.
    """
    text = "".join(f"# {' '.join(line.split())}\n" for line in told)
    with write_atomically(path) as temporary:
        temporary.write_text(text + dump(tree), encoding="utf-8")
    return path.name


def find_stem(card: AnyCard) -> str:
    """The name of the card's file, without what stands after the dot."""
    location = "" if card.card_node is None else card.card_node.location
    return Path(location.rpartition(":")[0] or location or "card").stem
