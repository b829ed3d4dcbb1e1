"""A training of the translator, from its sentences to its report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfperf.errors import RunDirectoryError
from tfperf.measure.loading import is_loaded, speed_up_import
from tfperf.measure.quiet import drop_native_logs
from tfperf.report.progress import make_status_display
from tfperf.results.contents import EVENTS, RESULTS
from tfperf.results.state import OLD, RunState, make_key
from tfperf.workloads.job import FinishedFit, Job, Session
from tfperf.workloads.translate import results
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.progress import describe_progress
from tfperf.workloads.translate.results import TranslationResult
from tfperf.workloads.translate.state import VOCABULARIES, TranslationPart, VocabularyDigests
from tfperf.workloads.translate.texts import read_sentences, write_vocabularies

if TYPE_CHECKING:
    from tfperf.place.devices import Devices
    from tfperf.workloads.translate.evaluation import Evaluation
    from tfperf.workloads.translate.training import Training


class TranslationFit(Job[TranslationCard, VocabularyDigests]):
    """A translator trained and tried on the test sentences; the run counts as done once its report is on disk."""

    def __init__(self, card: TranslationCard, session: Session[VocabularyDigests]) -> None:
        super().__init__(card, session)
        self.run, self.watch = session.run, session.watch
        self.sentences = read_sentences(card, self.run.path, session.options.resume and self.run.exists)
        self.hashes = self.sentences.hashes
        self.devices: Devices | None = None
        self.result: TranslationResult

    def make_first_parts(self) -> list[TranslationPart]:
        """The only one, on devices that this machine has."""
        self.devices = self._make_devices()
        return [TranslationPart(self.sentences.piece_digests, make_key())]

    def refuse_others(self, state: RunState[VocabularyDigests]) -> None:
        """RunDirectoryError where the vocabularies are others than the run began with."""
        if state.version != OLD and state.parts[0].own != self.sentences.piece_digests:
            raise RunDirectoryError(f"{self.run.path / VOCABULARIES}: not the pieces that the run began with")

    def _make_devices(self) -> "Devices":
        """The devices of the card, among which an epoch can be divided. Raises: UserError where it cannot."""
        if not is_loaded():
            self.session.progress.show_stage("importing TensorFlow")
        with self.watch.measure_stage("import"), speed_up_import():
            from tfperf.place.devices import make_devices
            from tfperf.workloads.translate.feeding import count_epoch_steps
        with self.watch.measure_stage("import"), drop_native_logs():
            devices = make_devices(self.card.placement)
        count_epoch_steps(self.card, self.sentences.encoded.training, len(devices))
        return devices

    def fit_part(self, part: TranslationPart, parts: Sequence[TranslationPart]) -> None:
        """Train, translate, write."""
        training = self._build_training(part, self.devices or self._make_devices())
        self.session.progress.show_stage("training")
        training.train(self.session.signals, make_status_display(self.session.progress, describe_progress))
        evaluation = self._translate(training)
        self.result = self._write_report(part, training, evaluation)

    def _build_training(self, part: TranslationPart, devices: "Devices") -> "Training":
        with self.watch.measure_stage("import"):
            from tfperf.workloads.translate.training import build_training

        write_vocabularies(self.run.path, self.sentences.vocabularies)
        with drop_native_logs():
            return build_training(self.run, part, self.card, self.sentences, devices, self.watch, self.session.progress)

    def _translate(self, training: "Training") -> "Evaluation":
        from tfperf.workloads.translate.evaluation import translate_test

        trainer, test = training.trainer, self.sentences.encoded.test
        self.session.progress.show_stage(f"translating {len(test)} sentences")
        with self.watch.measure_stage("translate"):
            return translate_test(
                self.card, training.engine.model, list(trainer.best.values()), self.sentences,
                lambda: self.session.signals.stop_if_asked(trainer.step),
            )  # fmt: skip

    def _write_report(self, part: TranslationPart, training: "Training", evaluation: "Evaluation") -> TranslationResult:
        """Write all that people read; the timings of the report itself enter report.json last."""
        from tfperf.report.sections import write_json
        from tfperf.workloads.translate.report import write_events, write_html
        from tfperf.workloads.translate.summary import summarise_translation

        history, best, folder = training.trainer.history, training.trainer.best, self.run.path

        def make_result() -> TranslationResult:
            summary = summarise_translation(
                self.card, self.sentences, training, evaluation, part, self.watch.sum_seconds()
            )  # fmt: skip
            return TranslationResult(self.card.title, summary["loss"]["best_step"], best, history, summary)

        self.session.progress.show_stage("writing results and report")
        with self.watch.measure_stage("write"):
            results.write(folder / RESULTS, make_result(), self.run.loaded_state.identity)
            write_events(folder / EVENTS, history)
            write_html(folder, make_result())
        final = make_result()
        write_json(folder, final.summary)
        return final

    def make_finished(self) -> FinishedFit:
        """The result."""
        return FinishedFit(self.result, self.result.summary)

    def read_finished(self) -> FinishedFit:
        """The results on disk."""
        result = results.read(self.run.path / RESULTS, self.run.loaded_state.identity)
        if self.run.needs_report():
            from tfperf.report.sections import write_json
            from tfperf.workloads.translate.report import write_html

            write_html(self.run.path, result)
            write_json(self.run.path, result.summary)
        return FinishedFit(result, result.summary)
