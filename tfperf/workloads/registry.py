"""The kinds of cards there are, by the word under `workload`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfperf.runcard.schema import Grammar
from tfperf.runcard.types import MAX_STEP
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.translate.card import Translation

Key = tuple[str, ...]
AnyCard = Card | Translation
PACK, TEXT = "an HDF5 data pack", "a text file"


@dataclass(frozen=True)
class Workload:
    """What a card may say, and which of its keys name something on disk.

    files: what a key's file is; folders: words that may stand there instead; must: a value for each number that a card
    must give.
    """

    grammar: Grammar[Any]
    files: Mapping[Key, str]
    must: Mapping[Key, int]
    folders: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)


REPLICAS = Workload(
    Grammar(Card),
    {("data", "pack"): PACK, ("covariance", "extra"): "an HDF5 file"},
    {("replicas",): 1, ("train", "steps"): MAX_STEP},
    {("data", "t0"): ("pack", "none", "fit"), ("closure", "law"): ("toy",)},
)
TRANSLATE = Workload(
    Grammar(Translation),
    {
        ("data", part, key): "an HDF5 file" if key == "hdf5" else TEXT
        for part in ("training", "validation", "test")
        for key in ("source", "target", "table", "hdf5")
    },
    {("train", "steps"): MAX_STEP},
)
WORKLOADS = {"replicas": REPLICAS, "translate": TRANSLATE}
