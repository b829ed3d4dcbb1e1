"""The training of a model, epoch after epoch, many steps a call; it can be set to what it was."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import keras
import numpy as np

from tfperf.arrays import ArraysByName
from tfperf.console.stages import ShowStage, show_nothing
from tfperf.errors import UserError
from tfperf.scopes import mark_range
from tfperf.sources.code import CodeReference
from tfperf.sources.samples import Samples
from tfperf.sources.user_errors import run_user_code
from tfperf.train.snapshots import to_file_type
from tfperf.workloads.keras.batch_shapes import find_misfit
from tfperf.workloads.keras.callbacks import CallbackRunner, make_callbacks
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.choices import LoopChoices, LoopWishes, choose_loop, make_loop
from tfperf.workloads.keras.feeding import make_feed
from tfperf.workloads.keras.feeds import Feed
from tfperf.workloads.keras.inputs import TrainingData
from tfperf.workloads.keras.loops import Logs, get_final_logs
from tfperf.workloads.keras.names import name_figure
from tfperf.workloads.keras.state import ModelState
from tfperf.workloads.keras.validation import EpochValidation

T = TypeVar("T")
MODEL, HISTORY, BEST, FEED, CALLBACKS = "model/", "history/", "best/", "data/", "callbacks/"  # of a snapshot
COUNTS = "fit/counts"  # step, epoch, steps of the epoch, whether the training is over
ENDED_BY, LOGS = "fit/ended_by", "logs/"
EPOCHS = "fit/epochs"  # the last step of each
EndEpoch = Callable[[int, int, Logs], None]  # epoch, step, logs


class KerasTraining:
    """Steps of a model over its batches. What `fit` of Keras would do beside them is done at the end of an epoch."""

    loops = 1

    def __init__(
        self, card: KerasCard, model: keras.Model, data: TrainingData, folder: Path,
        show_stage: ShowStage = show_nothing,
    ) -> None:  # fmt: skip
        """The model is built for the batches, and its step traced.

        folder: what relative paths of callbacks are below. Raises: UserCodeError where the model or its data fail.
        """
        self.card, self.model, self._show_stage = card, model, show_stage
        train = card.train
        options = data.batch, train.steps_per_epoch, data.draw_order, show_stage
        self.feed: Feed = run_user_code(lambda: make_feed(data.training, *options), "data", find_code_file(card.data))
        self.step = self.epoch = self.done = 0  # done: steps of the epoch
        self.is_over = False
        self.logs, self.history = Logs(), dict[str, list[float]]()
        self.epoch_steps: list[int] = []  # the last of each epoch
        self.best: tuple[int, float, list[Any]] | None = None  # epoch, loss, weights
        self.ended_by = ""  # what ended it before its time, or gave it other weights than its last, in words
        self.samples_timed = 0  # of this process
        self._samples = len(data.training) if isinstance(data.training, Samples) else None  # None: not known
        self.seconds = {"steps": 0.0, "validation": 0.0, "callbacks": 0.0}
        self.end_epoch: EndEpoch = lambda epoch, step, logs: None
        self.optimizers = (model.optimizer.name.lower(),) if model.optimizer is not None else ()
        params = {"epochs": train.epochs or 1, "steps": self.feed.steps_per_epoch}
        self.callbacks = CallbackRunner(make_callbacks(train.callbacks, folder), model, params, folder)
        self.validation: EpochValidation | None = None
        if data.validation is not None:
            self.validation = run_user_code(
                lambda: EpochValidation(card, model, data, self.callbacks, show_stage),
                "data.validation",
                find_code_file(card.data),
            )
        held = None if self.validation is None else self.validation.feed
        for key, feed, step in (("data", self.feed, "train_step"), ("data.validation", held, "test_step")):
            if feed is not None and (misfit := find_misfit(model, feed.read_first_batch(), step)) is not None:
                raise UserError(f"{key}: {misfit}")
        self.state = self._run_user_code(
            lambda: ModelState(model, self.feed, held, find_code_file(card.model)), "tracing its step"
        )

    @property
    def steps(self) -> int | None:
        """In all; None where an epoch's length is known at its end alone."""
        length, train = self.feed.steps_per_epoch, self.card.train
        if self.is_over:
            return self.step
        return train.steps if train.epochs is None else None if length is None else train.epochs * length

    @property
    def monitored(self) -> str:
        """The loss by which the best epoch is told."""
        return "val_loss" if "val_loss" in self.history else "loss"

    @property
    def samples_per_step(self) -> int | None:
        """Of a whole batch; None where batches of a stream do not say."""
        return self.feed.batch

    def choose(self, known: LoopChoices | None = None) -> LoopChoices:
        """Decide how steps are taken, or take what an earlier run has decided."""
        model, feed, wanted = self.model, self.feed, self.card.train.steps_per_call
        if known is None:
            fixed = None if wanted == "auto" else wanted
            wishes = LoopWishes(self.card.engine.xla, fixed, self.steps, self.callbacks.batch_hooks)
            show = self._show_stage
            known, self.loop = self._run_user_code(
                lambda: choose_loop(model, feed, self.state, wishes, show), "on its first batches"
            )
        else:
            self.loop = make_loop(model, feed, known)
        if self.validation is not None:
            self.validation.compile(known.compilation)
        self.choices, self.steps_per_call = known, known.steps_per_call
        return known

    def _run_user_code(self, call: Callable[[], T], what: str) -> T:
        """What a call gives that runs the model. Raises: UserCodeError for what it raises."""
        found: T = run_user_code(call, f"model: {what}", find_code_file(self.card.model))
        return found

    def warm_up(self) -> None:
        """Compile all programs; the caller puts the state back."""
        self._run_user_code(lambda: self.feed.warm_up(self.loop), "compiling its step")
        if self.validation is not None:
            self._run_user_code(self.validation.warm_up, "compiling its test step")

    def call(self, steps: int) -> int:
        """Take steps, and do what belongs to the end of an epoch; fewer where the training is over before."""
        if not self.callbacks.has_begun:
            kept = self.state.snapshot() if self.step else None
            self._time("callbacks", lambda: self.callbacks.begin(self.history))
            if kept is not None:
                self.state.restore(kept)  # what a callback does to a model at the beginning was done in the first run
        total = 0
        while total < steps and not self.is_over:
            if not self.done:
                with mark_range("epoch_start"):
                    self._begin_epoch()
            length = self.feed.steps_per_epoch
            ends = [self.card.train.steps, None if length is None else self.step + length - self.done]
            asked = min([steps - total, *(end - self.step for end in ends if end is not None)])
            count = self._take_steps(asked)
            total += count
            is_last = self.callbacks.wants_end or self.step == self.card.train.steps
            if self.done == length or count < asked or is_last:
                with mark_range("epoch"):
                    self._end_epoch(is_last)
        return total

    def _take_steps(self, asked: int) -> int:
        hooks = bool(self.callbacks.batch_hooks)
        if hooks:
            self._time("callbacks", lambda: self.callbacks.call_hook("train_batch_begin", self.done))
        call = partial(self.feed.run, self.loop, self.epoch, self.done, asked)
        count, logs = self._time("steps", lambda: self._run_user_code(call, self._describe_steps(asked)))
        self.samples_timed += self._count_samples(count)
        if not count and not self.done:
            raise UserError(f"data: epoch {self.epoch + 1} has no batch; is a generator used up?")
        if count:
            self.logs = logs
            self.step, self.done = self.step + count, self.done + count
        if hooks and count:
            self._time("callbacks", lambda: self.callbacks.call_hook("train_batch_end", self.done - 1, dict(logs)))
        return count

    def _count_samples(self, steps: int) -> int:
        """Those of the next steps of the epoch; of a stream as if each batch had as many as the first."""
        batch = self.feed.batch or 0
        return steps * batch if self._samples is None else min(steps * batch, self._samples - self.done * batch)

    def _describe_steps(self, count: int) -> str:
        first, last = self.step + 1, self.step + count
        return f"in step {first}" if count == 1 else f"in steps {first} to {last}, which are one call"

    def _begin_epoch(self) -> None:
        self.model.reset_metrics()
        self._time("callbacks", lambda: self.callbacks.call_hook("epoch_begin", self.epoch))

    def _end_epoch(self, is_last: bool) -> None:
        logs, epoch = get_final_logs(self.model, dict(self.logs)), self.epoch
        if (validation := self.validation) is not None:
            call = partial(self._run_user_code, partial(validation.run, epoch), f"validation of epoch {epoch + 1}")
            with mark_range("validation"):
                found = self._time("validation", call)
            logs |= {f"val_{key}": value for key, value in found.items()}
        logs |= self._time("callbacks", lambda: self.callbacks.end_epoch(epoch, logs))
        named = {name_figure(key): value for key, value in logs.items()}
        for name in {**self.history, **named}:  # one that an epoch lacks is nan, so that all are as long
            self.history.setdefault(name, [np.nan] * epoch).append(named.get(name, np.nan))
        monitored = logs.get(self.monitored)
        if monitored is not None and np.isfinite(monitored) and (self.best is None or monitored < self.best[1]):
            self.best = epoch, monitored, self.model.get_weights()
        self.epoch_steps.append(self.step)
        self.end_epoch(epoch, self.step, logs)
        self.epoch, self.done = epoch + 1, 0
        if is_last or self.callbacks.wants_end or self.epoch == self.card.train.epochs:
            self._end(logs)

    def _end(self, logs: Logs) -> None:
        """What Keras does after the last epoch."""
        if isinstance(self.model.optimizer, keras.optimizers.Optimizer):
            self.model.optimizer.finalize_variable_values(self.model.trainable_variables)
        self._time("callbacks", lambda: self.callbacks.end(logs))
        self.ended_by, self.is_over = self.callbacks.describe_end(self.epoch), True

    def _time(self, stage: str, call: Callable[[], T]) -> T:
        start = time.perf_counter()
        try:
            return call()
        finally:
            self.seconds[stage] += time.perf_counter() - start

    def list_losses(self) -> list[float]:
        """The mean loss of the epoch so far."""
        return [self.logs["loss"]] if "loss" in self.logs else []

    def snapshot(self) -> ArraysByName:
        """The model's state, counts, history, best weights, where the data are, what callbacks know."""
        found = {f"{MODEL}{name}": value for name, value in self.state.snapshot().items()}
        found |= {f"{HISTORY}{name}": np.array(values) for name, values in self.history.items()}
        found |= {f"{FEED}{name}": value for name, value in self.feed.snapshot().items()}
        found |= {f"{CALLBACKS}{name}": value for name, value in self.callbacks.snapshot().items()}
        if self.best is not None:
            epoch, value, weights = self.best
            found |= {f"{BEST}epoch": np.array(epoch), f"{BEST}loss": np.array(value)}
            found |= {f"{BEST}weights/{number:05d}": to_file_type(array) for number, array in enumerate(weights)}
        found[EPOCHS] = np.array(self.epoch_steps, np.int64)
        found |= {f"{LOGS}{name}": np.array(value) for name, value in self.logs.items()}
        found[ENDED_BY] = np.frombuffer(self.ended_by.encode(), np.uint8).copy()
        return {**found, COUNTS: np.array([self.step, self.epoch, self.done, self.is_over])}

    def restore(self, snapshot: ArraysByName) -> None:
        """Go on from a snapshot.

        Raises: ValueError or KeyError for one of another training; RunDirectoryError where a callback cannot go on.
        """

        def select(folder: str) -> ArraysByName:
            return {name.removeprefix(folder): v for name, v in snapshot.items() if name.startswith(folder)}

        self.step, self.epoch, self.done, is_over = map(int, snapshot[COUNTS])
        self.is_over, self.ended_by = bool(is_over), snapshot[ENDED_BY].tobytes().decode()
        if self.step and not self.is_over:
            self.callbacks.refuse_stateless(self.step)
        self.feed.restore(select(FEED))
        self.state.restore(select(MODEL))
        self.callbacks.restore(select(CALLBACKS))
        self.history = {name: values.tolist() for name, values in select(HISTORY).items()}
        self.epoch_steps = snapshot[EPOCHS].tolist()
        self.logs = {name: float(value) for name, value in select(LOGS).items()}
        best = select(BEST)
        weights = [best[name] for name in sorted(best) if name.startswith("weights/")]
        self.best = (int(best["epoch"]), float(best["loss"]), weights) if best else None

    def close(self) -> None:
        """Free what it holds."""
        del self.loop, self.validation, self.feed


def find_code_file(source: Any) -> Path | None:
    """The file of the user's function."""
    return None if source.build is None else CodeReference.parse(source.build).file
