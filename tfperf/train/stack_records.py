"""State of replicas by name, and who is in which stack, as arrays of a checkpoint. R replicas."""

from collections.abc import Sequence

import numpy as np

from tfperf.arrays import ArraysByName, ReplicaIndices, Snapshot
from tfperf.train.shards import Shard
from tfperf.train.stopping import ReplicaState

# the replica in each slot; slots of each stack; steps, and the slots of all stacks from each of them on; the numbers of
# the form
ROWS, SLOTS, SIZES, NUMBERS = "stack/rows", "stack/slots", "stack/sizes", "stack/numbers"


def record_stacks(shards: Sequence[Shard], sizes: Sequence[tuple[int, int]], numbers: Sequence[int]) -> Snapshot:
    """Of stacks as they are; sizes, numbers: see SIZES and NUMBERS."""
    return {
        ROWS: np.concatenate([shard.indices for shard in shards]),
        SLOTS: np.array([shard.size for shard in shards], np.int64),
        SIZES: np.array(sizes, np.int64),
        NUMBERS: np.array(numbers, np.int64),
    }


def select_state(snapshot: ArraysByName, replicas: int) -> Snapshot:
    """What a snapshot has beside the stacks. Raises: ValueError where the two do not fit, or there are none."""
    if not {ROWS, SLOTS, SIZES, NUMBERS} <= snapshot.keys():
        raise ValueError("state without stacks")
    state = {name: value for name, value in snapshot.items() if name not in (ROWS, SLOTS, SIZES, NUMBERS)}
    if any(len(value) != replicas for value in state.values() if value.ndim):
        raise ValueError("state of other replicas")
    held, running = snapshot[ROWS], np.flatnonzero(state["stopping/state"] == ReplicaState.RUNNING)
    if len(np.unique(held)) < len(held) or not {*running} <= {*held} <= {*range(replicas)}:
        raise ValueError("stacks of other replicas")
    if sum(snapshot[SLOTS]) != len(held) or min(snapshot[SLOTS], default=0) < 1:
        raise ValueError("slots of other stacks")
    return state


def merge_states(host: Snapshot, found: Sequence[tuple[ReplicaIndices, Snapshot]], replicas: int) -> Snapshot:
    """The state of all replicas, of what it was before and of that of some of them now."""
    state = {name: value.copy() for name, value in host.items()}
    # the last word on scalars has a stack that has not come to its end before the others
    for indices, now in sorted(found, key=lambda pair: int(pair[1]["step"])):
        for name, value in now.items():
            if value.ndim:
                state.setdefault(name, np.empty((replicas, *value.shape[1:]), value.dtype))[indices] = value
            else:
                state[name] = value
    return state
