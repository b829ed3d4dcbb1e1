"""Callbacks of an ensemble: each replica has its own, which see its model at the beginning and end of each epoch."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName, Float32Array
from tfperf.errors import CardError, UserError
from tfperf.results.files import make_folder
from tfperf.sources.given import is_given
from tfperf.train.ensemble import Ensemble
from tfperf.train.lanes import LaneLoop, TrainingLane
from tfperf.workloads.keras.callbacks import PATHS, CallbackRunner, make_callbacks
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.replicas.template import ModelTemplate

NOT_STACKED = "callbacks are called with the model of each replica, which lanes have"
ROWS = "rows/"  # in a snapshot: what the epochs have told, by name


def make_runners(card: KerasCard, ids: Sequence[int], folder: Path, template: ModelTemplate) -> list[CallbackRunner]:
    """The callbacks of each replica; files that they write are in a folder for each.

    Raises: UserError for what cannot be a callback, or wants to be called after each step.
    """
    params = {"epochs": card.train.epochs, "steps": template.epoch}
    runners = []
    for i in ids:
        own = folder / f"replica_{i}"
        callbacks = [one for number in range(len(card.train.callbacks)) for one in _make_own(card, number, own)]
        runners.append(CallbackRunner(callbacks, template.model, params, own))
    _refuse_hooks(runners[0])
    return runners


def _make_own(card: KerasCard, number: int, folder: Path) -> list[keras.callbacks.Callback]:
    """One replica's callback of a card; of an object that the program has given a copy."""
    source = card.train.callbacks[number]
    made = make_callbacks([source], folder)
    if not is_given(source.build, keras.callbacks.Callback):
        return made
    try:
        return [_move_files(deepcopy(made[0]), folder)]
    except Exception as error:
        raise UserError(
            f"train.callbacks.{number}: each replica needs a copy of its own, and it cannot be copied: {error}; "
            "give a function that returns one"
        ) from None


def _move_files(callback: keras.callbacks.Callback, folder: Path) -> keras.callbacks.Callback:
    """Let it write in a folder of its own beside where it would."""
    for attribute in _list_paths(callback):
        path = Path(getattr(callback, attribute))
        setattr(callback, attribute, str(path.parent / folder.name / path.name))
    return callback


def _list_paths(callback: keras.callbacks.Callback) -> list[str]:
    """The attributes that say where one of Keras' own writes."""
    mine = [at for name, at in PATHS.items() if isinstance(callback, getattr(keras.callbacks, name))]
    return [attribute for attribute in mine if hasattr(callback, attribute)]


def _refuse_hooks(runner: CallbackRunner) -> None:
    """CardError for callbacks that want to see each step."""
    if runner.batch_hooks or runner.has_test_hooks:
        names = ", ".join(runner.batch_hooks) or "one of them"
        raise CardError(
            f"train.callbacks: {names} has hooks of batches; replicas take the steps of an epoch in one program: must "
            "have hooks of epochs and of the training alone (a replica that is not finite is stopped without callbacks)"
        )


class ReplicaCallbacks:
    """Calls the hooks of each replica in turn, with the template's model as the replica's. R replicas, in lanes."""

    def __init__(self, runners: Sequence[CallbackRunner], ensemble: Ensemble, template: ModelTemplate) -> None:
        self._runners, self._ensemble, self._template = runners, ensemble, template
        self._histories: list[keras.callbacks.History] = []
        self._rows: dict[str, list[Float32Array]] = {}
        self._ended: set[int] = set()
        self._running: list[int] = []  # before the last call

    def _list_loops(self) -> list[LaneLoop]:
        loops: list[LaneLoop] = [None] * len(self._runners)  # type: ignore[list-item]
        for shard, loop in zip(self._ensemble.shards, self._ensemble.build_loops(), strict=True):
            assert isinstance(loop, LaneLoop)
            loops[int(shard.indices[0])] = loop
        return loops

    @contextmanager
    def _use(self, r: int, loop: LaneLoop) -> Iterator[CallbackRunner]:
        """Let the model be a replica's: what is changed of it is the replica's then."""
        model, lane = self._template.model, loop.stack
        assert isinstance(lane, TrainingLane)
        own = lane.weights | lane.state
        for name, variable in self._template.variables.items():
            variable.assign(own[name])
        model.stop_training = False
        if self._histories:
            model.history = self._histories[r]
        yield self._runners[r]
        for name, variable in self._template.variables.items():
            own[name].assign(variable)

    def _begin(self, loops: Sequence[LaneLoop]) -> None:
        histories = []
        for r, loop in enumerate(loops):
            with self._use(r, loop) as runner:
                for callback in runner.callbacks:
                    for attribute in _list_paths(callback):
                        make_folder(Path(getattr(callback, attribute)).parent)
                kept = {name: variable.numpy() for name, variable in self._template.variables.items()}
                runner.begin({name: [float(row[r]) for row in rows] for name, rows in self._rows.items()})
                histories.append(self._template.model.history)
                if self._rows:  # what a callback does to a model at the beginning was done in the first run
                    for name, variable in self._template.variables.items():
                        variable.assign(kept[name])
        self._histories = histories

    def prepare(self, step: int) -> int:
        """Tell that an epoch begins; the steps to its end."""
        loops, epoch = self._list_loops(), self._template.epoch
        if not self._histories:
            self._begin(loops)
        self._running = [r for r, loop in enumerate(loops) if bool(loop.stopping.is_running()[0])]
        if step % epoch == 0:
            for r in self._running:
                with self._use(r, loops[r]) as runner:
                    runner.call_hook("epoch_begin", step // epoch)
        return epoch - step % epoch

    def end_call(self, before: int, step: int, metrics: Mapping[str, Float32Array]) -> None:
        """Tell that an epoch is over; who asks for that stops."""
        if step % self._template.epoch or not metrics:
            return
        for name, rows in metrics.items():
            self._rows.setdefault(name, []).extend(rows)
        loops, epoch = self._list_loops(), step // self._template.epoch - 1
        for r in self._running:
            logs = {name: float(rows[-1, r]) for name, rows in metrics.items()}
            if all(map(np.isnan, logs.values())):  # it broke within the epoch
                continue
            with self._use(r, loops[r]) as runner:
                runner.end_epoch(epoch, logs)
                wants_end = runner.wants_end
            if wants_end:
                loops[r].stopping.stop(tf.constant([True]), tf.constant(step, tf.int64))
            if not bool(loops[r].stopping.is_running()[0]):
                self._end(r, loops[r], logs)

    def _end(self, r: int, loop: LaneLoop, logs: Mapping[str, float]) -> None:
        """Tell that the training is over. Weights that a callback restores are the ones that are kept."""
        with self._use(r, loop) as runner:
            runner.end(dict(logs))
        self._ended.add(r)
        restored = [
            one.best_epoch + 1
            for one in runner.callbacks
            if getattr(one, "restore_best_weights", False) and one.best_weights is not None
        ]
        if restored:
            assert isinstance(loop.stack, TrainingLane)
            for name, kept in loop.kept_weights.items():
                kept.assign(loop.stack.weights[name])
            loop.stopping.best_step.assign([restored[-1] * self._template.epoch])

    def finish(self, step: int) -> None:
        """Tell those that still run that the training is over."""
        loops = self._list_loops()
        if not self._histories:
            self._begin(loops)
        for r, loop in enumerate(loops):
            if r not in self._ended and bool(loop.stopping.is_running()[0]):
                self._end(r, loop, {name: float(rows[-1][r]) for name, rows in self._rows.items()})

    def snapshot(self) -> ArraysByName:
        """What callbacks know, and what they were told."""
        found = {f"{ROWS}{name}": np.array(rows, np.float32) for name, rows in self._rows.items()}
        for r, runner in enumerate(self._runners):
            found |= {f"{r}/{name}": array for name, array in runner.snapshot().items()}
        return found

    def restore(self, snapshot: ArraysByName) -> None:
        """Know that again."""
        self._rows = {name.removeprefix(ROWS): [*a] for name, a in snapshot.items() if name.startswith(ROWS)}
        for r, runner in enumerate(self._runners):
            prefix = f"{r}/"
            runner.restore({name.removeprefix(prefix): a for name, a in snapshot.items() if name.startswith(prefix)})
        self._runners[0].refuse_stateless(int(self._ensemble.step))
