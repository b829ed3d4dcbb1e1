"""All replicas of a training: their state on the host, and the stack of those that still train.

R replicas, S slots of the stack.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfperf.models.pdf import PDF
from tfperf.operators.problem import Problem
from tfperf.results.record import LOSSES
from tfperf.runcard.config import Card
from tfperf.train.forms import Form
from tfperf.train.loop import Loop, Snapshot, best_weights
from tfperf.train.losses import ReplicaLosses
from tfperf.train.stopping import State

ROWS, SIZES, RANK = "stack/rows", "stack/sizes", "stack/rank"


def taken(problem: Problem, rows: NDArray[np.int64]) -> Problem:
    """The problem of some of its replicas."""
    ids = tuple(problem.ids[r] for r in rows)
    return replace(problem, ids=ids, data=problem.data[rows], training=problem.training[rows])


class Ensemble:
    """R replicas, of which those in the stack train; the others have stopped or broke and stay as they are."""

    def __init__(self, card: Card, problem: Problem, attempts: Sequence[int], form: Form | None = None) -> None:
        self.form = form or Form()
        self.card, self.problem, self.attempts = card, problem, list(attempts)
        self.replicas = len(problem.ids)
        self.rows = np.arange(self.replicas)  # the replica in each slot
        self.sizes: list[tuple[int, int]] = [(0, self.replicas)]  # a step, and the stack's size from it on
        self._host: Snapshot = {}  # state of all as of the last look; empty: nothing was ever built
        self._stack: Loop | None = None

    @property
    def stack(self) -> Loop:
        """The loop of the stack; built when first needed, since a resumed training starts with a smaller one."""
        if self._stack is None:
            everybody = len(self.rows) == self.replicas
            problem = self.problem if everybody else taken(self.problem, self.rows)
            model = PDF(self.card.model, len(self.rows), self.card.engine.precision)
            losses = ReplicaLosses(self.card, problem, self.form.compiled(problem, self.card.engine.precision))
            self._stack = Loop(self.card, model, losses)
            if self._host:
                self._stack.restore({n: v[self.rows] if v.ndim else v for n, v in self._host.items()})
            else:
                model.initialize(self.card.seed, problem.ids, self.attempts)
        return self._stack

    @property
    def size(self) -> int:
        """Slots of the stack."""
        return len(self.rows)

    @property
    def step(self) -> int:
        """Steps taken."""
        return int(self.stack.step)

    def running(self) -> int:
        """Replicas that train."""
        return int(np.sum(self.stack.stopping.running().numpy()))

    def quarantined(self) -> int:
        """Replicas that broke."""
        state = self._host["stopping/state"].copy() if self._host else np.zeros(self.replicas, np.int32)
        state[self.rows] = self.stack.stopping.state.numpy()
        return int(np.sum(state == State.QUARANTINED))

    def done(self) -> bool:
        """True when no step is left to take."""
        return self.stack.done()

    def run(self, count: int, xla: bool) -> None:
        """Take `count` steps, or fewer when every replica has stopped."""
        self.stack.run(count, xla)

    def judge(self, xla: bool) -> None:
        """Let the weights after the last step be the best ones, too."""
        self.stack.judge(xla)

    def warm_up(self, xla: bool) -> None:
        """Compile what a call needs; takes no step."""
        self.stack.run(0, xla)
        self.stack.evaluate(xla)

    def evaluate(self, xla: bool) -> dict[str, NDArray[np.float32]]:
        """Losses (R) as of the loop; nan for replicas that stopped."""
        out = {name: np.full(self.replicas, np.nan, np.float32) for name in LOSSES}
        for name, values in self.stack.evaluate(xla).items():
            out[name][self.rows] = values
        return out

    def look(self) -> Snapshot:
        """State of all replicas now; the scalars are common to all."""
        now = self.stack.snapshot()
        if self.size == self.replicas:
            self._host = now
        else:
            for name, value in now.items():
                if value.ndim:
                    self._host[name][self.rows] = value
                else:
                    self._host[name] = value
        return self._host

    def best_weights(self) -> dict[str, NDArray[np.floating]]:
        """Weights by name (R, ...) to be kept."""
        return best_weights(self.look())

    def snapshot(self) -> Snapshot:
        """All that decides the future: the state, and who is in the stack."""
        stack = {
            ROWS: self.rows,
            SIZES: np.array(self.sizes, np.int64),
            RANK: np.array([self.form.rank, self.form.hadronic_rank], np.int64),
        }
        return {**self.look(), **stack}

    def restore(self, snapshot: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a snapshot; ValueError when it is not of such an ensemble."""
        if not {ROWS, SIZES, RANK} <= snapshot.keys():
            raise ValueError("state without a stack")
        state = {name: value for name, value in snapshot.items() if name not in (ROWS, SIZES, RANK)}
        if any(len(value) != self.replicas for value in state.values() if value.ndim):
            raise ValueError("state of other replicas")
        self.close()
        self._host, self.rows = state, snapshot[ROWS]
        rank, hadronic_rank = map(int, snapshot[RANK])
        self.form = replace(self.form, rank=rank, hadronic_rank=hadronic_rank)
        self.sizes = [(int(step), int(size)) for step, size in snapshot[SIZES]]
        _ = self.stack  # built now: it says whether names and shapes are its own

    def shrink(self, size: int) -> None:
        """Go on with a smaller stack, which must hold all that run.

        Where room is left, quarantined replicas keep a slot before stopped ones do: as long as they would have run,
        the others sit where they would sit without the failure, and a product's bits may depend on that.
        """
        order = {State.RUNNING: 0, State.QUARANTINED: 1, State.STOPPED: 2}
        state = self.look()["stopping/state"][self.rows]
        ranks = np.array([order[State(s)] for s in state])
        if np.sum(ranks == 0) > size:
            raise ValueError(f"{np.sum(ranks == 0)} replicas run; got {size} slots")
        kept = np.sort(np.argsort(ranks, kind="stable")[:size])
        self.sizes.append((self.step, size))
        self.close()  # before the next one is built: both together may not fit the memory
        self.rows = self.rows[kept]

    def use(self, form: Form) -> None:
        """Go on with another form of the losses."""
        if self._stack is not None:
            self.look()
        self.close()
        self.form = form

    def close(self) -> None:
        """Free the stack's memory; the next use builds it again from the last look."""
        if self._stack is not None:
            self._stack.close()
            self._stack = None
            gc.collect()
