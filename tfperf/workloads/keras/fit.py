"""The fit of a Keras model: what a run keeps of it, and its report."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfperf.arrays import ArraysByName
from tfperf.errors import RunDirectoryError, TrainingError
from tfperf.report.sections import write_json, write_text
from tfperf.results.contents import EVENTS, PAGE, RESULTS, STATE
from tfperf.results.files import write_hdf5
from tfperf.results.state import Part, RunState
from tfperf.sources.data import Data
from tfperf.sources.given import ORIGIN
from tfperf.sources.models import use_precision
from tfperf.sources.samples import Samples, find_not_finite
from tfperf.train.snapshots import to_file_type
from tfperf.workloads.job import FinishedFit, Session
from tfperf.workloads.keras.callbacks import FOLDER
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.card_files import hash_files
from tfperf.workloads.keras.choices import LoopChoices
from tfperf.workloads.keras.events import write_events
from tfperf.workloads.keras.files import BEST, FINAL, WEIGHTS, find_unsavable, write_model, write_variables
from tfperf.workloads.keras.inputs import read_data
from tfperf.workloads.keras.loops import Logs
from tfperf.workloads.keras.models import count_parameters, digest_model, make_model
from tfperf.workloads.keras.result import read_result
from tfperf.workloads.keras.training import HISTORY, KerasTraining
from tfperf.workloads.stepper_fit import SteppedFit
from tfperf.workloads.stepper_trainer import StepperTrainer

EVENT_SECONDS = 5.0  # between two writings of events, at an epoch's end


class KerasFit(SteppedFit[KerasCard, dict[str, Any]]):
    """model.keras and best.keras, the history in results.h5, curves in report.html."""

    def __init__(self, card: KerasCard, session: Session[dict[str, Any]]) -> None:
        super().__init__(card, session, self._build_training, card.train.checkpoint_every)
        progress, self.hashes = session.progress, hash_files(card)
        with session.watch.measure_stage("data"):
            self.data = read_data(card)
            self.hashes |= self.data.hash_arrays()
        progress.show_stage("building the model")
        with session.watch.measure_stage("build"):
            model = make_model(card)
            if (card.model.build or "").startswith(ORIGIN) and (digest := digest_model(model)) is not None:
                self.hashes |= {"the model": digest}  # no file tells of it
            self.training = KerasTraining(card, model, self.data, session.run.path / FOLDER, progress.show_stage)
        if (reason := find_unsavable(model)) is not None:  # which must not be found out after the last step
            progress.say(f"warning: the model cannot be saved as .keras; its variables will be in {WEIGHTS}: {reason}")
        self.is_savable = reason is None
        self.unkept = self._list_unkept()
        for line in self.unkept:
            progress.say(f"warning: not bit-exact after --resume: {line}")
        if what := self.training.callbacks.describe_stateless():
            progress.say(f"warning: this run cannot be resumed: {what}")
            session.signals.advice = f"--resume will be refused: {what}"
        self._written = 0.0
        self.training.end_epoch = self._end_epoch

    def refuse_damaged(self, state: RunState[dict[str, Any]]) -> None:
        """RunDirectoryError where the run is one of replicas."""
        if not all(isinstance(part.own, dict) for part in state.parts):
            raise RunDirectoryError(f"{self.session.run.path}: is of replicas; a model alone needs a run of its own")

    def _list_unkept(self) -> list[str]:
        """What a resumed run may have otherwise, in words."""
        training = self.training
        held = () if training.validation is None else training.validation.feed.unkept
        validating = [f"data.validation: {one}" for one in held]
        kinds = [
            f"the step draws by {kind}, whose state no checkpoint has" for kind in training.state.find_unkept_draws()
        ]
        return [*kinds, *(f"data: {one}" for one in training.feed.unkept), *validating]

    def fit_part(self, part: Part[dict[str, Any]], parts: Sequence[Part[dict[str, Any]]]) -> None:
        """Build, go on where a run was, compile, train, write."""
        self._part = part
        try:
            super().fit_part(part, parts)
        except TrainingError as error:
            if "not finite" not in error.faults[0]:
                raise
            raise TrainingError(*error.faults, _explain_not_finite(self.data.training)) from None

    def _build_training(self) -> KerasTraining:
        part, run, progress = self._part, self.session.run, self.session.progress
        known = None
        if part.choices:
            try:
                known = LoopChoices.from_dict(part.choices)
            except ValueError as error:
                raise RunDirectoryError(f"{run.path / STATE}: damaged choices: {error}") from None
        choices = self.training.choose(known)
        if known is None:
            part.choices = choices.to_dict()
            run.save_state()
            for line in choices.explain():
                progress.say(line)
        return self.training

    def _end_epoch(self, epoch: int, step: int, logs: Logs) -> None:
        """For TensorBoard, while it trains."""
        if time.monotonic() - self._written >= EVENT_SECONDS:
            write_events(self.session.run.path / EVENTS, self.training.history, self.training.epoch_steps)
            self._written = time.monotonic()

    def summarise(self, training: StepperTrainer, part: Part[dict[str, Any]]) -> dict[str, Any]:
        """report.json."""
        mine, best = self.training, self.training.best
        found = super().summarise(training, part)
        data, spent = self.data.training, mine.seconds["steps"]
        rate = mine.samples_timed / spent if spent and mine.samples_per_step else None
        return found | {
            "epochs": mine.epoch, "parameters": count_parameters(mine.model),
            "samples": len(data) if isinstance(data, Samples) else None, "batch": mine.samples_per_step,
            "choices": mine.choices.to_dict(), "samples_per_second": rate, "seconds_of_epoch_ends": mine.seconds,
            "last": {name: values[-1] for name, values in mine.history.items()},
            "ended_by": mine.ended_by,
            "best": None if best is None else {"epoch": best[0] + 1, mine.monitored: best[1]},
            "not_bit_exact": self.unkept,
        }  # fmt: skip

    def make_finished(self) -> FinishedFit:
        """The record, with the model as it is."""
        found = read_result(self.session.run.path, self.training.model)
        return FinishedFit(found, found.summary)

    def read_finished(self) -> FinishedFit:
        """The record from the disk."""
        found = read_result(self.session.run.path)
        return FinishedFit(found, found.summary)

    def _warn_of_weights(self) -> None:
        """A loss may be finite with weights that are not: of relu(nan) TensorFlow makes 0."""
        names = [one.path for one in self.training.model.weights if not np.isfinite(to_file_type(one.numpy())).all()]
        if names:
            more = f" and {len(names) - 1} more" if names[1:] else ""
            self.session.progress.say(f"warning: weights of the model are not finite: {names[0]}{more}")

    def _write_models(self) -> None:
        self._warn_of_weights()
        folder, model, best = self.session.run.path, self.training.model, self.training.best
        if not self.is_savable:
            write_variables(model, folder / WEIGHTS)
            return
        with use_precision(self.card.model.precision):  # which files of models are told in part by what they leave out
            write_model(model, folder / FINAL)
            if best is not None:
                last = model.get_weights()
                model.set_weights(best[2])
                write_model(model, folder / BEST)
                model.set_weights(last)

    def write(self, summary: Mapping[str, Any], arrays: ArraysByName) -> None:
        """Models first, then results, page and report.json."""
        from tfperf.workloads.keras.page import render_report  # what draws takes a second to load

        folder, training, history = self.session.run.path, self.training, self.training.history
        self._write_models()
        with write_hdf5(folder / RESULTS) as file:
            for name, values in arrays.items():
                if name.startswith(HISTORY):
                    file[name] = values
        write_events(folder / EVENTS, history, training.epoch_steps)
        write_text(folder / PAGE, render_report(self.card.title or self.card.workload, summary, history))
        write_json(folder, summary)


def _explain_not_finite(data: Data) -> str:
    """What may make a loss so."""
    if not isinstance(data, Samples):
        return (
            "values of a batch that are not finite, or steps that are too long, make it so; no batch was looked through"
        )
    fault = find_not_finite(data)
    return fault or "the data are finite; a lower learning rate, or `clipnorm` of train.optimizer, makes steps shorter"
