"""`tfperf fit` of a card of workload translate: from the card to a finished run directory."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfperf.console.stages import Stages
from tfperf.errors import CardError, RunDirectoryError
from tfperf.measure.clock import Stopwatch
from tfperf.measure.environment import environment
from tfperf.measure.loading import is_loaded, tensorflow_loading, thawed
from tfperf.measure.quiet import native_logs_dropped
from tfperf.report.progress import show_training
from tfperf.results.contents import EVENTS, RESULTS, VOCABULARIES
from tfperf.results.rundir import RunDirectory
from tfperf.results.state import OLD, draw_key
from tfperf.runcard.dump import dump_card
from tfperf.runs.opening import take_directory
from tfperf.runs.unchanged import begin_state, refuse_changed
from tfperf.signals import Signals
from tfperf.workloads.translate import results as translation
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.progress import translation_words
from tfperf.workloads.translate.results import TranslationResult
from tfperf.workloads.translate.texts import (
    Sentences,
    TranslationPart,
    TranslationRun,
    Vocabularies,
    read_sentences,
    write_vocabularies,
)
from tfperf.workloads.workload import Options

if TYPE_CHECKING:
    from tfperf.place.devices import Devices
    from tfperf.workloads.translate.part import Training
    from tfperf.workloads.translate.translated import Translated

STAGES = ("import", "data", "build", "compile", "train", "validate", "translate", "write")


def fit_translation(
    card: Translation, output: Path, options: Options, progress: Stages
) -> tuple[TranslationResult, bool]:
    """The result of a run directory, and whether anything was done for it.

    Raises: UserError for a faulty card, corpus or directory, Interrupted when a signal stopped it after a checkpoint.
    """
    _refuse(card, options)
    watch = Stopwatch(STAGES)
    with Signals().listening() as signals, thawed(), RunDirectory(output, Vocabularies) as run:
        take_directory(run, options, signals)
        progress.tell("reading sentences")
        with watch.stage("data"):
            sentences = read_sentences(card, output, options.resume and run.exists)
        part = _begun(run, card, sentences, options)
        if part is not None and part.done:
            progress.say(f"{output}: nothing left to do")
            return _read_finished(run), False
        if not is_loaded():
            progress.tell("importing TensorFlow")
        with watch.stage("import"), tensorflow_loading():
            from tfperf.place.devices import make_devices
            from tfperf.workloads.translate.feeding import steps_an_epoch
        with watch.stage("import"), native_logs_dropped():
            devices = make_devices(card.placement)
        steps_an_epoch(card, sentences.encoded.training, len(devices))
        part = part or _start(run, card, sentences, options)
        return _Fit(run, part, card, sentences, devices, watch, signals, progress).carry_out(), True


def _refuse(card: Translation, options: Options) -> None:
    options.refuse_contradictions()
    if options.retry_failed or options.replicas:
        flag = "--retry-failed" if options.retry_failed else "--replicas"
        raise CardError(f"{flag}: a card of workload translate has no replicas; leave it out")
    if card.placement.engine == "multiworker":
        raise CardError(
            "placement.engine: got 'multiworker'; its workers are processes of their own, and a fit is one process; "
            "allowed: tower, mirrored, central"
        )


def _begun(run: TranslationRun, card: Translation, sentences: Sentences, options: Options) -> TranslationPart | None:
    """The only part of a run to go on with; None: a new one. Raises: RunDirectoryError when the options do not fit."""
    if options.resume and run.exists:
        state = run.load()
        refuse_changed(run.path, card, sentences.hashes, state)
        if state.version != OLD and state.parts[0].own != sentences.pieces:
            raise RunDirectoryError(f"{run.path / VOCABULARIES}: not the pieces that the run began with")
        return state.parts[0]
    if run.exists and not options.force:
        run.make_room(force=False)  # says what may be done
    return None


def _start(run: TranslationRun, card: Translation, sentences: Sentences, options: Options) -> TranslationPart:
    """The part of a new run; what a forced one replaces is removed."""
    run.make_room(options.force)
    part = TranslationPart(sentences.pieces, draw_key())
    run.start(dump_card(card), environment(), begin_state(card, sentences.hashes, [part]))
    return run.begun.parts[0]


def _read_finished(run: TranslationRun) -> TranslationResult:
    """The results of a run that is done; a report that is missing or older than they are is made again."""
    result = translation.read(run.path / RESULTS, run.begun.identity)
    if run.lacks_report():
        from tfperf.report.sections import write_json
        from tfperf.workloads.translate.report import write_html

        write_html(run.path, result)
        write_json(run.path, result.summary)
    return result


@dataclass
class _Fit:
    """What one command does, from its data to its report."""

    run: TranslationRun
    part: TranslationPart
    card: Translation
    sentences: Sentences
    devices: "Devices"
    watch: Stopwatch
    signals: Signals
    progress: Stages

    def carry_out(self) -> TranslationResult:
        """Train, translate, write; the run counts as done once its report is on disk."""
        training = self._begin()
        self.progress.tell("training")
        training.train(self.signals, show_training(self.progress, translation_words))
        translated = self._translate(training)
        result = self._report(training, translated)
        self.part.done = True
        self.run.save_state()
        return result

    def _begin(self) -> "Training":
        with self.watch.stage("import"):
            from tfperf.workloads.translate.part import begin

        write_vocabularies(self.run.path, self.sentences.vocabularies)
        with native_logs_dropped():
            return begin(self.run, self.part, self.card, self.sentences, self.devices, self.watch, self.progress)

    def _translate(self, training: "Training") -> "Translated":
        from tfperf.workloads.translate.translated import translate_test

        trainer, test = training.trainer, self.sentences.encoded.test
        self.progress.tell(f"translating {len(test)} sentences")
        with self.watch.stage("translate"):
            return translate_test(
                self.card, training.engine.model, list(trainer.best.values()), self.sentences,
                lambda: self.signals.stop_if_asked(trainer.step),
            )  # fmt: skip

    def _report(self, training: "Training", translated: "Translated") -> TranslationResult:
        """Write all that people read; the timings of the report itself enter report.json last."""
        from tfperf.report.sections import write_json
        from tfperf.workloads.translate.report import write_events, write_html
        from tfperf.workloads.translate.summary import summarise_translation

        history, best = training.trainer.history, training.trainer.best

        def result() -> TranslationResult:
            summary = summarise_translation(
                self.card, self.sentences, training, translated, self.part, self.watch.seconds()
            )  # fmt: skip
            return TranslationResult(self.card.title, summary["loss"]["best_step"], best, history, summary)

        self.progress.tell("writing results and report")
        with self.watch.stage("write"):
            translation.write(self.run.path / RESULTS, result(), self.run.begun.identity)
            write_events(self.run.path / EVENTS, history)
            write_html(self.run.path, result())
        final = result()
        write_json(self.run.path, final.summary)
        return final
