"""What goes along with a training on the host, between its calls: data that come in pieces, callbacks."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tfperf.arrays import ArraysByName, Float32Array

PREFIX = "companions/"  # of what they know, in a checkpoint


class Companion(Protocol):
    """One of them. What it knows is part of a checkpoint."""

    def prepare(self, step: int) -> int:
        """Be ready for the steps from number `step` on; how many of them one call may take."""

    def end_call(self, before: int, step: int, metrics: Mapping[str, Float32Array]) -> None:
        """After a call from step `before` to `step`; metrics: rows of the history that it added (n, R)."""

    def finish(self, step: int) -> None:
        """After the last step."""

    def snapshot(self) -> ArraysByName:
        """What it knows."""

    def restore(self, snapshot: ArraysByName) -> None:
        """Know that again. Raises: ValueError, LookupError for what another one knew."""


class Companions:
    """All that go along with a training, by names that do not change between processes."""

    def __init__(self, companions: Mapping[str, Companion]) -> None:
        self._all = dict(companions)

    def prepare(self, step: int, most: int) -> int:
        """Steps that a call may take, `most` at most."""
        return min([most, *(one.prepare(step) for one in self._all.values())])

    def end_call(self, before: int, step: int, metrics: Mapping[str, Sequence[Float32Array]]) -> None:
        """After a call; metrics: the rows that it added to the history."""
        rows = {name: np.array(values, np.float32) for name, values in metrics.items()}
        for one in self._all.values():
            one.end_call(before, step, rows)

    def finish(self, step: int) -> None:
        """After the last step."""
        for one in self._all.values():
            one.finish(step)

    def snapshot(self) -> ArraysByName:
        """What all of them know."""
        found = {name: one.snapshot() for name, one in self._all.items()}
        return {f"{PREFIX}{name}/{key}": array for name, arrays in found.items() for key, array in arrays.items()}

    def restore(self, snapshot: ArraysByName) -> None:
        """Let each know what it knew."""
        for name, one in self._all.items():
            prefix = f"{PREFIX}{name}/"
            one.restore({key.removeprefix(prefix): a for key, a in snapshot.items() if key.startswith(prefix)})
