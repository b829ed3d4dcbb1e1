"""Replicas trained at different times as one outcome."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tfperf.results.record import LOSSES, FitResult, History
from tfperf.train.evaluate import Outcome

T = TypeVar("T", bound=np.generic)


def outcome_of(result: FitResult) -> Outcome:
    """What training left behind in a recorded run."""
    r = result.replicas
    return Outcome(r.id, r.attempt, r.status, r.best_step, r.stop_step, result.weights, result.history)


def merge(old: Outcome, new: Outcome) -> Outcome:
    """Both outcomes by ascending id; a replica that is in both is taken from the new one."""
    keep = ~np.isin(old.ids, new.ids)
    ids = np.concatenate([old.ids[keep], new.ids])
    order = np.argsort(ids)

    def both(a: NDArray[T], b: NDArray[T]) -> NDArray[T]:
        joined: NDArray[T] = np.concatenate([a[keep], b])[order]
        return joined

    status = both(np.array(old.status), np.array(new.status))
    return Outcome(
        ids[order], both(old.attempts, new.attempts), tuple(status.tolist()),
        both(old.best_step, new.best_step), both(old.stop_step, new.stop_step),
        {name: both(old.weights[name], new.weights[name]) for name in new.weights},
        _merge_history(old.history, new.history, keep, order),
    )  # fmt: skip


def _merge_history(old: History, new: History, keep: NDArray[np.bool_], order: NDArray[np.intp]) -> History:
    """Rows at the steps of either; nan where a replica has none."""
    steps = np.union1d(old.step, new.step)

    def spread(history: History, values: NDArray[np.float64]) -> NDArray[np.float64]:
        out = np.full((len(steps), values.shape[1]), np.nan)
        out[np.searchsorted(steps, history.step)] = values
        return out

    fields = {
        name: np.hstack([spread(old, getattr(old, name)[:, keep]), spread(new, getattr(new, name))])[:, order]
        for name in LOSSES
    }
    return History(steps, **fields)
