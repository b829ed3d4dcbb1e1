"""The training of a model, epoch after epoch, many steps a call; it can be set to what it was."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import keras
import numpy as np

from tfperf.arrays import ArraysByName, Indices
from tfperf.console.stages import ShowStage, show_nothing
from tfperf.sources.code import CodeReference, run_user_code
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.choices import LoopChoices, choose_loop, make_loop
from tfperf.workloads.keras.inputs import SplitSamples, draw_order
from tfperf.workloads.keras.loops import CompiledLoop, Logs, split_rows, to_tensors
from tfperf.workloads.keras.state import ModelState, to_file_type

T = TypeVar("T")
MODEL, HISTORY, BEST, STEP = "model/", "history/", "best/", "fit/step"  # of a snapshot


class KerasTraining:
    """Steps of a model over its samples. What `fit` of Keras would do beside them is done at the end of an epoch."""

    loops = 1

    def __init__(self, card: KerasCard, model: keras.Model, samples: SplitSamples) -> None:
        """The model is built for the samples, and its step traced. Raises: UserCodeError where it cannot be."""
        self.card, self.model, self.samples = card, model, samples
        self.batch = min(card.data.batch, len(samples.training))
        self.steps_per_epoch = -(-len(samples.training) // self.batch)
        self.steps = card.train.epochs * self.steps_per_epoch
        self._order: tuple[int, Indices] | None = None  # of an epoch
        self._tensors, self._first = to_tensors(samples.training), split_rows(self._get_order(0), self.batch)[0]
        self.step, self.logs = 0, Logs()
        self.state = self._run_user_code(lambda: ModelState(model, self._tensors, self._first[0]))
        self.optimizers = (model.optimizer.name.lower(),) if model.optimizer is not None else ()
        self._validation: CompiledLoop | None = None
        self.history: dict[str, list[float]] = {}
        self.best: tuple[int, float, list[Any]] | None = None  # epoch, loss, weights

    def choose(self, known: LoopChoices | None = None, show_stage: ShowStage = show_nothing) -> LoopChoices:
        """Decide how steps are taken, or take what an earlier run has decided."""
        wanted, model, tensors = self.card.train.steps_per_call, self.model, self._tensors
        if known is None:
            fixed = None if wanted == "auto" else wanted
            options = self.card.engine.xla, fixed, show_stage
            known, self._loop = self._run_user_code(lambda: choose_loop(model, tensors, self._first, *options))
        else:
            self._loop = make_loop(model, tensors, known)
        validation = self.samples.validation
        if validation is not None:
            self._validation = CompiledLoop(model.test_step, to_tensors(validation), known.xla)
        self.choices, self.steps_per_call = known, known.steps_per_call
        return known

    def _run_user_code(self, call: Callable[[], T]) -> T:
        """What a call gives that runs the model. Raises: UserCodeError for what it raises."""
        source = self.card.model.build
        file = None if source is None else CodeReference.parse(source).file
        found: T = run_user_code(call, f"model: its step after step {self.step}", file)
        return found

    def _get_order(self, epoch: int) -> Indices:
        if self._order is None or self._order[0] != epoch:
            count = len(self.samples.training)
            self._order = epoch, draw_order(self.card.seed, epoch, count, self.card.data.shuffle)
        return self._order[1]

    def warm_up(self) -> None:
        """Compile all programs; the caller puts the state back."""
        for rows in split_rows(self._get_order(0), self.batch):
            self._loop.run(rows[:1])
        self._validate()

    def call(self, steps: int) -> int:
        """Take so many steps, and what belongs to the end of an epoch."""
        left = steps
        while left:
            epoch, within = divmod(self.step, self.steps_per_epoch)
            if not within:
                self.model.reset_metrics()
            count = min(left, self.steps_per_epoch - within)
            order = self._get_order(epoch)[within * self.batch : (within + count) * self.batch]
            for rows in split_rows(order, self.batch):
                self.logs = self._run_user_code(partial(self._loop.run, rows))
            self.step, left = self.step + count, left - count
            if within + count == self.steps_per_epoch:
                self._end_epoch(epoch)
        return steps

    def _end_epoch(self, epoch: int) -> None:
        logs = {**self.logs, **{f"val_{key}": value for key, value in self._validate().items()}}
        for key, value in logs.items():
            self.history.setdefault(key.replace("/", ":"), []).append(value)  # a name in files
        monitored = logs.get("val_loss", logs.get("loss"))
        if monitored is not None and np.isfinite(monitored) and (self.best is None or monitored < self.best[1]):
            self.best = epoch, monitored, self.model.get_weights()

    def _validate(self) -> Logs:
        logs, validation = Logs(), self.samples.validation
        if self._validation is None or validation is None:
            return logs
        self.model.reset_metrics()
        for rows in split_rows(np.arange(len(validation)), min(self.batch, len(validation))):
            logs = self._run_user_code(partial(self._validation.run, rows))
        return logs

    def list_losses(self) -> list[float]:
        """The mean loss of the epoch so far."""
        return [self.logs["loss"]] if "loss" in self.logs else []

    def snapshot(self) -> ArraysByName:
        """The model's state, the step, history and best weights."""
        found = {f"{MODEL}{name}": value for name, value in self.state.snapshot().items()}
        found |= {f"{HISTORY}{name}": np.array(values) for name, values in self.history.items()}
        if self.best is not None:
            epoch, value, weights = self.best
            found |= {f"{BEST}epoch": np.array(epoch), f"{BEST}loss": np.array(value)}
            found |= {f"{BEST}weights/{number:05d}": to_file_type(array) for number, array in enumerate(weights)}
        return {**found, STEP: np.array(self.step)}

    def restore(self, snapshot: ArraysByName) -> None:
        """Go on from a snapshot. Raises: ValueError or KeyError for one of another training."""

        def select(folder: str) -> ArraysByName:
            return {name.removeprefix(folder): v for name, v in snapshot.items() if name.startswith(folder)}

        self.state.restore(select(MODEL))
        self.step = int(snapshot[STEP])
        self.history = {name: values.tolist() for name, values in select(HISTORY).items()}
        best = select(BEST)
        weights = [best[name] for name in sorted(best) if name.startswith("weights/")]
        self.best = (int(best["epoch"]), float(best["loss"]), weights) if best else None

    def close(self) -> None:
        """Free what it holds."""
        del self._loop, self._validation, self.samples
