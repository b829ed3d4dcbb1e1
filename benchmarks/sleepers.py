"""Workers that sleep in place of computing, so that their rates are known, and records of several lengths for them."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.infer.preparer import Columns, Prepare, PreparerSpec

INPUT = "values"
LONGEST = 13
MEAN_LENGTH = (1 + LONGEST) / 2


@dataclass(frozen=True)
class MixedLengths:
    """Records that hold their own number, 1 to LONGEST times."""

    records: int

    def read(self, first: int, last: int) -> tuple[Columns, AnyArray]:
        """Of these numbers."""
        numbers = np.arange(first, last)
        lengths = 1 + numbers * 7919 % LONGEST
        values = np.repeat(numbers, lengths)
        return {INPUT: np.split(values, np.cumsum(lengths)[:-1])}, numbers


def keep_values(columns: Columns) -> Columns:
    """As they are."""
    return columns


def get_keep_values() -> Prepare:
    """The preparation of such records."""
    return keep_values


def make_lengths(records: int, window: int) -> PreparerSpec:
    """What prepares so many."""
    return PreparerSpec(partial(MixedLengths, records), get_keep_values, window)


@dataclass
class Sleeper:
    """A model that takes so many seconds for each place of a batch; from a moment of the monotonic clock on `later`
    times as many. It gives each record its number. By what the system lets it sleep too long the next sleep is shorter,
    so that its rate is the planted one."""

    seconds: float
    moment: float = inf
    later: float = 1.0
    _late: float = 0.0

    def __call__(self, inputs: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
        """Rows (n, 1)."""
        begin = time.monotonic()
        values = inputs[INPUT]
        rows = {"rows": values[:, :1].astype(np.float32)}
        wanted = self.seconds * values.size * (self.later if begin >= self.moment else 1.0)
        if wanted:
            time.sleep(max(0.0, wanted - self._late))
            self._late += time.monotonic() - begin - wanted
        return rows


@dataclass(frozen=True)
class SleeperLoader:
    """Loads a sleeper, and writes into a folder when, by slot and process."""

    sleeper: Sleeper
    folder: Path
    slot: int

    def __call__(self) -> Sleeper:
        """The model."""
        name = f"{self.slot}-{os.getpid()}"
        (self.folder / f".{name}").write_text(repr(time.monotonic()), encoding="utf-8")
        (self.folder / f".{name}").rename(self.folder / name)
        return self.sleeper


def read_starts(folder: Path, slot: int) -> list[tuple[float, int]]:
    """When processes of a slot had loaded their model, and their numbers; the first one first."""
    found = [(float(path.read_text()), int(path.name.partition("-")[2])) for path in folder.glob(f"{slot}-*")]
    return sorted(found)
