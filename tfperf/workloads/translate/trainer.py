"""Calls of an engine until all steps are taken, with validation, history, checkpoints and signals."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from tfperf.arrays import AnyArray, ArraysByName, Snapshot
from tfperf.errors import RunDirectoryError, TrainingError
from tfperf.place.engine import take_steps
from tfperf.place.state import list_trained_variables
from tfperf.signals import Signals
from tfperf.train.checkpoint import Checkpoints
from tfperf.train.window import Recorder, record_call
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import EncodedCorpus
from tfperf.workloads.translate.feeding import build_training_dataset
from tfperf.workloads.translate.piece_counts import PieceCounts
from tfperf.workloads.translate.results import LossHistory
from tfperf.workloads.translate.trainable import TranslationEngine
from tfperf.workloads.translate.validation import Validation

ENGINE, BEST, HISTORY = "engine/", "best/", "history/"
RECENT = 10  # calls whose speed is shown
Stage = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class TranslationProgress:
    """What the host learns after each call."""

    step: int
    steps: int
    steps_per_second: float  # of late
    words_per_second: float  # source and target pieces
    loss: float  # per label, mean over the last call's steps
    validation_loss: float | None  # the last one

    @property
    def over(self) -> bool:
        """Whether no further step will be taken."""
        return self.step >= self.steps


@dataclass(frozen=True)
class Call:
    """What one call of the engine took, in this process."""

    steps: int
    seconds: float
    pieces: int  # source and target pieces
    loss: float  # per label, mean over the steps


class TranslationTrainer:
    """Trains an engine to its end and keeps the weights with the lowest validation loss."""

    def __init__(
        self, card: TranslationCard, engine: TranslationEngine, encoded: EncodedCorpus, checkpoints: Checkpoints,
        stage: Stage, recorder: Recorder | None = None,
    ) -> None:  # fmt: skip
        """`stage`: counts a block's time as train, validate or write."""
        self.card, self.engine, self.checkpoints, self.stage, self.recorder = card, engine, checkpoints, stage, recorder
        self.training, self.step = encoded.training, 0
        self.validation = Validation(card, engine.model, encoded.validation)
        self.piece_counts = PieceCounts(card, encoded.training, len(engine.devices))
        self.best: ArraysByName = {}
        self.calls: list[Call] = []
        self._losses: list[float] = []
        self._validated: list[tuple[int, float]] = []

    @property
    def history(self) -> LossHistory:
        """All losses so far."""
        steps, losses = zip(*self._validated, strict=True) if self._validated else ((), ())
        return LossHistory(np.array(self._losses), np.array(steps, np.int64), np.array(losses, np.float64))

    def resume(self) -> tuple[int, list[str]]:
        """Take up the newest checkpoint; returns its step (0: there is none) and warnings of damaged ones."""
        arrays, warnings = self.checkpoints.load()
        if not arrays:
            return 0, warnings
        try:
            self.engine.restore(_select_by_prefix(ENGINE, arrays))
            self.best, rows = _select_by_prefix(BEST, arrays), _select_by_prefix(HISTORY, arrays)
            self._losses = rows["loss"].tolist()
            self._validated = list(
                zip(rows["validation_step"].tolist(), rows["validation_loss"].tolist(), strict=True)
            )  # fmt: skip
        except (ValueError, LookupError, TypeError) as error:
            folder = self.checkpoints.folder
            raise RunDirectoryError(f"{folder}: checkpoint of another program version: {error}") from None
        self.step = len(self._losses)
        return self.step, warnings

    def compile(self) -> None:
        """Compile the steps, without taking any; to be called once, after `resume`."""
        self.iterator = iter(build_training_dataset(self.card, self.training, len(self.engine.devices), self.step))
        take_steps(self.engine, self.iterator, 0)

    def train(self, signals: Signals, report: Callable[[TranslationProgress], None]) -> None:
        """Call after call to the end, with a last checkpoint; Interrupted after a checkpoint when a signal came.

        Raises: TrainingError where a loss is not finite; the checkpoint before is kept then.
        """
        steps, every = self.card.train.steps, self.card.train.checkpoint_every
        saved = self.step
        while self.step < steps:
            with signals.defer():
                self._call()
                if self.step % self.card.train.validate_every == 0 or self.step == steps:
                    self._validate()
                report(self._make_progress(self.calls[-RECENT:]))
                if self.step // every > saved // every or self.step == steps or signals.received is not None:
                    self.save()
                    saved = self.step
            signals.stop_if_asked(self.step)

    def save(self) -> Path:
        """Write a checkpoint of now."""
        arrays: dict[str, AnyArray] = {ENGINE + name: value for name, value in self.engine.snapshot().items()}
        arrays |= {BEST + name: value for name, value in self.best.items()}
        arrays |= {HISTORY + name: value for name, value in vars(self.history).items()}
        with self.stage("write"):
            return self.checkpoints.save(self.step, arrays)

    def _call(self) -> None:
        """Take the steps of one call: up to the next validation at most."""
        before = self.step
        with self.stage("train"), record_call(self.recorder, self.card.train.steps_per_call) as most:
            start = time.perf_counter()
            count = min(most, self._compute_next_validation() - before)
            losses = take_steps(self.engine, self.iterator, count)
            seconds = time.perf_counter() - start
        finite = np.isfinite(losses)
        if not finite.all():
            self._give_up(f"the loss of step {before + int(np.argmin(finite)) + 1}")
        self._losses += losses.tolist()
        self.step += count
        pieces = self.piece_counts.count_between(before, self.step)
        self.calls.append(Call(count, seconds, pieces, float(np.mean(losses))))

    def _compute_next_validation(self) -> int:
        """The step of the next validation: at the same ones whatever the calls, so that a resumed run has them, too."""
        every = self.card.train.validate_every
        return min((self.step // every + 1) * every, self.card.train.steps)

    def _validate(self) -> None:
        with self.stage("validate"):
            weights = {name: np.asarray(v.numpy()) for name, v in list_trained_variables(self.engine.model).items()}
            loss = self.validation.evaluate_loss(list(weights.values()))
        if not np.isfinite(loss):
            self._give_up(f"the validation loss after step {self.step}")
        if all(loss < other for _, other in self._validated):
            self.best = weights
        self._validated.append((self.step, loss))

    def _give_up(self, what: str) -> NoReturn:
        there = self.checkpoints
        kept = f"the checkpoints in {there.folder} are kept" if there.has_any() else "nothing is kept yet"
        raise TrainingError(
            f"{what} is not finite; {kept}; begin again by --force with a smaller train.optimizer.learning_rate or a "
            "train.optimizer.global_clipnorm"
        )

    def _make_progress(self, recent: Sequence[Call]) -> TranslationProgress:
        seconds = sum(call.seconds for call in recent)
        return TranslationProgress(
            self.step, self.card.train.steps, sum(call.steps for call in recent) / seconds,
            sum(call.pieces for call in recent) / seconds, recent[-1].loss,
            self._validated[-1][1] if self._validated else None,
        )  # fmt: skip


def _select_by_prefix(prefix: str, arrays: Snapshot) -> dict[str, AnyArray]:
    """Those whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
