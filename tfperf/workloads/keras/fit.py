"""The fit of a Keras model: what a run keeps of it, and its report."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from tfperf.arrays import ArraysByName
from tfperf.data.cache import digest
from tfperf.errors import RunDirectoryError
from tfperf.report.sections import write_json, write_text
from tfperf.results.contents import PAGE, RESULTS, STATE
from tfperf.results.files import write_hdf5
from tfperf.results.state import Part
from tfperf.sources.code import CodeReference, run_user_code
from tfperf.workloads.job import Session
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.choices import LoopChoices
from tfperf.workloads.keras.files import BEST, FINAL, write_model
from tfperf.workloads.keras.inputs import hash_files, read_data
from tfperf.workloads.keras.models import make_model
from tfperf.workloads.keras.training import HISTORY, KerasTraining
from tfperf.workloads.stepper_fit import SteppedFit
from tfperf.workloads.stepper_trainer import StepperTrainer


class KerasFit(SteppedFit[KerasCard, dict[str, Any]]):
    """model.keras and best.keras, the history in results.h5, curves in report.html."""

    def __init__(self, card: KerasCard, session: Session[dict[str, Any]]) -> None:
        super().__init__(card, session, self._build_training, card.train.checkpoint_every)
        self.hashes = hash_files(card)
        with session.watch.measure_stage("data"):
            self.samples = read_data(card)
            parts = [part for part in (self.samples.training, self.samples.validation) if part is not None]
            self.hashes["the arrays of data"] = digest(*(array for part in parts for array in part.arrays))
        session.progress.show_stage("building the model")
        with session.watch.measure_stage("build"):
            model = make_model(card)
            file = None if card.model.build is None else CodeReference.parse(card.model.build).file
            # what cannot be saved must not be found out after the last step
            run_user_code(lambda: keras.saving.serialize_keras_object(model), "model: cannot be saved as .keras", file)
            self.training = KerasTraining(card, model, self.samples)
        for kind in self.training.state.find_unkept_draws():
            session.progress.say(
                f"warning: the step draws by {kind}, whose state no checkpoint has: after --resume it draws others"
            )

    def fit_part(self, part: Part[dict[str, Any]], parts: Sequence[Part[dict[str, Any]]]) -> None:
        """Build, go on where a run was, compile, train, write."""
        self._part = part
        super().fit_part(part, parts)

    def _build_training(self) -> KerasTraining:
        part, run, progress = self._part, self.session.run, self.session.progress
        known = None
        if part.choices:
            try:
                known = LoopChoices.from_dict(part.choices)
            except ValueError as error:
                raise RunDirectoryError(f"{run.path / STATE}: damaged choices: {error}") from None
        choices = self.training.choose(known, progress.show_stage)
        if known is None:
            part.choices = choices.to_dict()
            run.save_state()
            if choices.reason:
                progress.say(f"Keras' own train function takes the steps: {choices.reason}")
        return self.training

    def summarise(self, training: StepperTrainer, part: Part[dict[str, Any]]) -> dict[str, Any]:
        """report.json."""
        mine, best = self.training, self.training.best
        found = super().summarise(training, part)
        middle = found["ms_per_step"]["median"]
        return found | {
            "epochs": self.card.train.epochs, "parameters": mine.model.count_params(),
            "samples": len(self.samples.training), "batch": mine.batch, "choices": mine.choices.to_dict(),
            "samples_per_second": 1e3 * mine.batch / middle if middle else None,
            "last": {name: values[-1] for name, values in mine.history.items()},
            "best": None if best is None else {"epoch": best[0] + 1, "loss": best[1]},
        }  # fmt: skip

    def write(self, summary: Mapping[str, Any], arrays: ArraysByName) -> None:
        """Models first, then results, page and report.json."""
        from tfperf.workloads.keras.page import render_report  # what draws takes a second to load

        folder, training, history = self.session.run.path, self.training, self.training.history
        write_model(training.model, folder / FINAL)
        if training.best is not None:
            last = training.model.get_weights()
            training.model.set_weights(training.best[2])
            write_model(training.model, folder / BEST)
            training.model.set_weights(last)
        with write_hdf5(folder / RESULTS) as file:
            for name, values in arrays.items():
                if name.startswith(HISTORY):
                    file[name] = values
        write_text(folder / PAGE, render_report(self.card.title or self.card.workload, summary, history))
        write_json(folder, summary)
