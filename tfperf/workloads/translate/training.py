"""The training of a translation: engine, checkpoints, profile. Imports TensorFlow."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tfperf.console.stages import Stages
from tfperf.errors import RunDirectoryError
from tfperf.measure.clock import Stopwatch
from tfperf.measure.environment import count_cores
from tfperf.place.devices import Devices
from tfperf.results.contents import CARD, EVENTS
from tfperf.signals import Signals
from tfperf.train.machine import make_machine_record, use_threads
from tfperf.train.parts import Say, make_checkpoints, resume, warn_of_change
from tfperf.train.window import Recorder, end_recording
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.state import TranslationPart, TranslationRun
from tfperf.workloads.translate.texts import Sentences
from tfperf.workloads.translate.trainable import TranslationEngine, build_engine
from tfperf.workloads.translate.trainer import TranslationProgress, TranslationTrainer

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Training:
    """An engine and what trains it, compiled and at the step where it goes on."""

    engine: TranslationEngine
    trainer: TranslationTrainer
    recorder: Recorder | None
    say: Say

    def train(self, signals: Signals, show: Callable[[TranslationProgress], None]) -> None:
        """Take the steps that are left. Raises: Interrupted, TrainingError, StorageError."""
        with end_recording(self.recorder, self.say):
            self.trainer.train(signals, show)


def build_training(
    run: TranslationRun, part: TranslationPart, card: TranslationCard, sentences: Sentences, devices: Devices,
    watch: Stopwatch, progress: Stages,
) -> Training:  # fmt: skip
    """Make the engine, take up the newest checkpoint where there is one, and compile.

    Raises: RunDirectoryError where the run was before on another number of devices.
    """
    say = progress.say
    progress.show_stage("building the model")
    with watch.measure_stage("build"):
        _note_machine(run, part, devices, say)
        engine = build_engine(card, sentences.rows, devices)
        recorder = None
        if card.profile is not None:
            optimizers = [card.train.optimizer.name.lower()]
            recorder = Recorder(card.profile, run.path / EVENTS, card.train.steps_per_call, 1, optimizers, "card")
        checkpoints = make_checkpoints(run, part)
        trainer = TranslationTrainer(card, engine, sentences.encoded, checkpoints, watch.measure_stage, recorder)
        resume(run, part, trainer, say)
    progress.show_stage("compiling")
    with watch.measure_stage("compile"):
        trainer.compile()
    return Training(engine, trainer, recorder, say)


def _note_machine(run: TranslationRun, part: TranslationPart, devices: Devices, say: Say) -> None:
    """Keep what bits depend on, or compare with what was kept."""
    here = make_machine_record(use_threads(count_cores()))
    LOGGER.info("%d devices of the machine %s", len(devices), here)
    if not part.choices:
        part.choices, part.machine = {"devices": len(devices)}, here
        run.save_state()
        return
    before = part.choices.get("devices")
    if before != len(devices):
        raise RunDirectoryError(
            f"{run.path / CARD}: placement.devices: this machine gives {len(devices)}, the run began with {before}, "
            "among which its batches are divided"
        )
    warn_of_change(part, here, say)
