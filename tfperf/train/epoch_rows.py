"""What the history keeps of the epochs of stacks. R replicas, n epochs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tfperf.arrays import Float32Array, Int64Array, ReplicaIndices


@dataclass(frozen=True)
class EpochRows:
    """What the history keeps of the epochs that ended after step `before`, up to `step`."""

    before: int
    step: int
    epoch: int  # steps; 0: there are none
    metrics: Mapping[str, Float32Array] = field(default_factory=dict)  # (R, n) each; nan once a replica had stopped

    @property
    def ends(self) -> range:
        """The steps at which they ended."""
        every = self.epoch
        return range((self.before // every + 1) * every, self.step + 1, every) if every else range(0)

    def fill(self, metrics: Mapping[str, Float32Array], stop_steps: Int64Array) -> "EpochRows":
        """The same with metrics; stop_steps: after which a replica has none (R)."""
        late = np.array(self.ends) > stop_steps[:, None]
        return replace(self, metrics={name: np.where(late, np.float32(np.nan), v) for name, v in metrics.items()})


def merge_rows(
    found: Sequence[tuple[ReplicaIndices, EpochRows]], names: Iterable[str], replicas: int
) -> tuple[list[int], dict[str, list[Float32Array]]]:
    """Rows of several stacks as one: the step of each, and (R) of each metric, nan of replicas that have none then."""
    steps = sorted({step for _, rows in found for step in rows.ends})
    out = {name: np.full((len(steps), replicas), np.nan, np.float32) for name in names}
    for indices, rows in found:
        numbers = np.array([steps.index(step) for step in rows.ends], np.int64)
        for name, values in rows.metrics.items():
            out[name][np.ix_(numbers, indices)] = values.T
    return steps, {name: list(values) for name, values in out.items()}
