"""A training of the translator, from its sentences to its report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfperf.errors import RunDirectoryError
from tfperf.measure.loading import is_loaded, tensorflow_loading
from tfperf.measure.quiet import native_logs_dropped
from tfperf.report.progress import show_training
from tfperf.results.contents import EVENTS, RESULTS
from tfperf.results.state import OLD, State, draw_key
from tfperf.workloads.job import Fitted, Job, Session
from tfperf.workloads.translate import results
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.progress import translation_words
from tfperf.workloads.translate.results import TranslationResult
from tfperf.workloads.translate.state import VOCABULARIES, TranslationPart, Vocabularies
from tfperf.workloads.translate.texts import read_sentences, write_vocabularies

if TYPE_CHECKING:
    from tfperf.place.devices import Devices
    from tfperf.workloads.translate.part import Training
    from tfperf.workloads.translate.translated import Translated


class TranslationFit(Job[Translation, Vocabularies]):
    """A translator trained and tried on the test sentences; the run counts as done once its report is on disk."""

    def __init__(self, card: Translation, session: Session[Vocabularies]) -> None:
        super().__init__(card, session)
        self.run, self.watch = session.run, session.watch
        self.sentences = read_sentences(card, self.run.path, session.options.resume and self.run.exists)
        self.hashes = self.sentences.hashes
        self.devices: Devices | None = None
        self.result: TranslationResult

    def begin_parts(self) -> list[TranslationPart]:
        """The only one, on devices that this machine has."""
        self.devices = self._make_devices()
        return [TranslationPart(self.sentences.pieces, draw_key())]

    def refuse_others(self, state: State[Vocabularies]) -> None:
        """RunDirectoryError where the vocabularies are others than the run began with."""
        if state.version != OLD and state.parts[0].own != self.sentences.pieces:
            raise RunDirectoryError(f"{self.run.path / VOCABULARIES}: not the pieces that the run began with")

    def _make_devices(self) -> "Devices":
        """The devices of the card, among which an epoch can be divided. Raises: UserError where it cannot."""
        if not is_loaded():
            self.session.progress.tell("importing TensorFlow")
        with self.watch.stage("import"), tensorflow_loading():
            from tfperf.place.devices import make_devices
            from tfperf.workloads.translate.feeding import steps_an_epoch
        with self.watch.stage("import"), native_logs_dropped():
            devices = make_devices(self.card.placement)
        steps_an_epoch(self.card, self.sentences.encoded.training, len(devices))
        return devices

    def carry_out(self, part: TranslationPart, parts: Sequence[TranslationPart]) -> None:
        """Train, translate, write."""
        training = self._begin(part, self.devices or self._make_devices())
        self.session.progress.tell("training")
        training.train(self.session.signals, show_training(self.session.progress, translation_words))
        translated = self._translate(training)
        self.result = self._report(part, training, translated)

    def _begin(self, part: TranslationPart, devices: "Devices") -> "Training":
        with self.watch.stage("import"):
            from tfperf.workloads.translate.part import begin

        write_vocabularies(self.run.path, self.sentences.vocabularies)
        with native_logs_dropped():
            return begin(self.run, part, self.card, self.sentences, devices, self.watch, self.session.progress)

    def _translate(self, training: "Training") -> "Translated":
        from tfperf.workloads.translate.translated import translate_test

        trainer, test = training.trainer, self.sentences.encoded.test
        self.session.progress.tell(f"translating {len(test)} sentences")
        with self.watch.stage("translate"):
            return translate_test(
                self.card, training.engine.model, list(trainer.best.values()), self.sentences,
                lambda: self.session.signals.stop_if_asked(trainer.step),
            )  # fmt: skip

    def _report(self, part: TranslationPart, training: "Training", translated: "Translated") -> TranslationResult:
        """Write all that people read; the timings of the report itself enter report.json last."""
        from tfperf.report.sections import write_json
        from tfperf.workloads.translate.report import write_events, write_html
        from tfperf.workloads.translate.summary import summarise_translation

        history, best, folder = training.trainer.history, training.trainer.best, self.run.path

        def result() -> TranslationResult:
            summary = summarise_translation(
                self.card, self.sentences, training, translated, part, self.watch.seconds()
            )  # fmt: skip
            return TranslationResult(self.card.title, summary["loss"]["best_step"], best, history, summary)

        self.session.progress.tell("writing results and report")
        with self.watch.stage("write"):
            results.write(folder / RESULTS, result(), self.run.begun.identity)
            write_events(folder / EVENTS, history)
            write_html(folder, result())
        final = result()
        write_json(folder, final.summary)
        return final

    def fitted(self) -> Fitted:
        """The result."""
        return Fitted(self.result, self.result.summary)

    def read_finished(self) -> Fitted:
        """The results on disk."""
        result = results.read(self.run.path / RESULTS, self.run.begun.identity)
        if self.run.lacks_report():
            from tfperf.report.sections import write_json
            from tfperf.workloads.translate.report import write_html

            write_html(self.run.path, result)
            write_json(self.run.path, result.summary)
        return Fitted(result, result.summary)
