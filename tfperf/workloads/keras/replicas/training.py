"""Training of one part of an ensemble: choices, checkpoints, signals. R replicas."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tfperf.arrays import ReplicaWeights, Snapshot
from tfperf.errors import CardError, RunDirectoryError
from tfperf.measure.environment import count_cores
from tfperf.report.numbers import format_figure
from tfperf.results.contents import STATE
from tfperf.train import choice_cache
from tfperf.train.choices import Choices
from tfperf.train.choosing import choose
from tfperf.train.companion import Companion
from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.train.machine import make_machine_record
from tfperf.train.parts import make_checkpoints, resume, warn_of_change
from tfperf.train.retirement import RetireAt, make_retirement
from tfperf.train.settings import Settings
from tfperf.train.stopping import ReplicaState
from tfperf.train.trainer import EnsembleProgress, MetricHistory, Trainer
from tfperf.workloads.job import Session
from tfperf.workloads.keras.callbacks import FOLDER
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.files import find_unsavable, write_model
from tfperf.workloads.keras.names import name_figure
from tfperf.workloads.keras.replicas.callbacks import NOT_STACKED, ReplicaCallbacks, make_runners
from tfperf.workloads.keras.replicas.factory import KerasFactory
from tfperf.workloads.keras.replicas.forms import LANES, LAYOUTS, NAMES, STACKED, WHOLE, ReplicaForms, list_forms
from tfperf.workloads.keras.replicas.outcome import ALL_EPOCHS, QUARANTINED, STOPPED, EnsembleOutcome, ReplicaTable
from tfperf.workloads.keras.replicas.stream import StreamWindow
from tfperf.workloads.keras.replicas.template import ModelTemplate
from tfperf.workloads.replica_chunks import ReplicaChunk, ReplicaPart, list_sibling_chunks

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainedMembers:
    """One part at its end."""

    part: ReplicaPart
    state: Snapshot
    weights: ReplicaWeights
    history: MetricHistory
    seeds: list[int]
    step: int
    seconds_per_step: list[float]  # of each call
    reasons: list[str]  # why there could be no stack, in words

    def make_outcome(self, title: str, template: ModelTemplate) -> EnsembleOutcome:
        """What is kept of it; its report is still to be written."""
        own, state, epoch = self.part.own, self.state["stopping/state"], template.epoch
        words = {
            ReplicaState.RUNNING: ALL_EPOCHS, ReplicaState.STOPPED: STOPPED, ReplicaState.QUARANTINED: QUARANTINED
        }  # fmt: skip
        stop = np.where(state == ReplicaState.RUNNING, self.step, self.state["stopping/stop_step"])
        table = ReplicaTable(
            id=np.array(own.ids, np.int64), seed=np.array(self.seeds, np.int64),
            attempt=np.array(own.attempts, np.int64),
            best_epoch=np.maximum(self.state["stopping/best_step"], 0) // epoch, stop_epoch=stop // epoch,
            status=tuple(words[ReplicaState(int(one))] for one in state),
        )  # fmt: skip
        history = {name_figure(name): values for name, values in self.history.metrics.items()}
        return EnsembleOutcome(title, table, self.weights, history, _save_model(template), {})


def _save_model(template: ModelTemplate) -> bytes:
    """The bytes of a .keras file; empty where Keras cannot save the model."""
    if find_unsavable(template.model) is not None:
        return b""
    with TemporaryDirectory(prefix="tfperf-") as folder:
        path = Path(folder) / "model.keras"
        write_model(template.model, path)
        return path.read_bytes()


def make_settings(card: KerasCard, epoch: int) -> Settings:
    """What a card says of the training, in the engine's words; epoch: its steps."""
    steps = (card.train.epochs or 1) * epoch
    patience = card.ensemble.patience
    return Settings(
        steps=steps, patience=steps + 1 if patience is None else patience * epoch,
        steps_per_call=card.train.steps_per_call, checkpoint_every=card.train.checkpoint_every,
        xla=bool(card.engine.xla) if isinstance(card.engine.xla, bool) else "auto",
    )  # fmt: skip


def train_members(
    session: Session[ReplicaChunk], card: KerasCard, part: ReplicaPart, factory: KerasFactory,
    window: StreamWindow | None, show: Callable[[EnsembleProgress], None],
) -> TrainedMembers:  # fmt: skip
    """Train the part's replicas to the end, from its newest checkpoint where there is one; window: of a stream.

    Raises Interrupted after a checkpoint when a signal came, StorageError when the disk is full.
    """
    run, watch, progress = session.run, session.watch, session.progress
    settings, cores = make_settings(card, factory.template.epoch), Cores(count_cores())
    known = _read_choices(session, part)
    reasons = list(factory.refusals)
    if card.train.callbacks:
        reasons.append(NOT_STACKED)
    if known is None and card.engine.form != LANES and (difference := factory.find_difference()) is not None:
        reasons.append(difference)
    if reasons and card.engine.form == STACKED:
        raise CardError("engine.form: got stacked; the model cannot be stacked", *reasons)
    forms = list_forms(card.engine.form, reasons, factory.replicas, cores.threads)
    path = factory.find_choices_path(card, cores)
    if known is None and (kept := choice_cache.read(settings, path, forms.names, LAYOUTS)) is not None:
        known = kept
        _settle(session, part, known)
    with watch.measure_stage("build"):
        first = (forms.names[0], WHOLE) if known is None else (known.form, known.products)
        ensemble = Ensemble(settings, factory, forms.make(*first), 1, cores.threads)
    with watch.measure_stage("compile"):
        choices = known or _decide(session, part, ensemble, forms, cores, path)
        # a lane that has stopped takes no steps
        at: RetireAt = () if choices.form == LANES else "auto"
        retirement = make_retirement(settings.steps, at, ensemble.layout, choices)
        companions = _make_companions(session, card, part, ensemble, factory.template, window)
        trainer = Trainer(
            ensemble, choices.xla, choices.steps_per_call, retirement, make_checkpoints(run, part),
            companions=companions,
        )  # fmt: skip
        resume(run, part, trainer, progress.say)
        ensemble.warm_up(choices.xla, False, progress.show_stage)
    progress.show_stage("training")
    with watch.measure_stage("train"):
        trainer.train(session.signals, show)
    part.own.stacks = list(ensemble.sizes)
    seconds = [one for several in trainer.seconds_per_step.values() for one in several]
    found = TrainedMembers(
        part, ensemble.gather_state(), ensemble.get_best_weights(), trainer.make_history(),
        [one.seed for one in factory.batches], ensemble.step, seconds, reasons,
    )  # fmt: skip
    ensemble.close()
    return found


def _make_companions(
    session: Session[ReplicaChunk], card: KerasCard, part: ReplicaPart, ensemble: Ensemble, template: ModelTemplate,
    window: StreamWindow | None,
) -> dict[str, Companion]:  # fmt: skip
    """What goes along with the training of a part: the batches of a stream, then callbacks."""
    found: dict[str, Companion] = {} if window is None else {"stream": window}
    if card.train.callbacks:
        runners = make_runners(card, part.own.ids, session.run.path / FOLDER, template)
        found["callbacks"] = ReplicaCallbacks(runners, ensemble, template)
    return found


def _read_choices(session: Session[ReplicaChunk], part: ReplicaPart) -> Choices | None:
    """Those that the part began with, or a chunk before it. Raises: RunDirectoryError for damaged ones."""
    known = part if part.choices else next((one for one in list_sibling_chunks(session.run, part) if one.choices), None)
    if known is None:
        return None
    try:
        found = Choices.from_dict(known.choices, NAMES, LAYOUTS)
    except (KeyError, TypeError, ValueError) as error:
        raise RunDirectoryError(f"{session.run.path / STATE}: damaged choices: {error}") from None
    warn_of_change(known, make_machine_record(found.threads), session.progress.say)
    if known is not part:
        part.choices, part.machine = known.choices, known.machine
        session.run.save_state()
    return found


def _decide(
    session: Session[ReplicaChunk], part: ReplicaPart, ensemble: Ensemble, forms: ReplicaForms, cores: Cores,
    path: Path | None,
) -> Choices:  # fmt: skip
    """Choices that are measured now; path: where they are kept for the next run."""
    choices = choose(ensemble, forms, cores, session.progress.show_stage)
    choices = replace(choices, cpu_stacks=len(ensemble.shards))
    _settle(session, part, choices)
    for warning in choice_cache.write(path, choices):
        session.progress.say(f"warning: {warning}")
    return choices


def _settle(session: Session[ReplicaChunk], part: ReplicaPart, choices: Choices) -> None:
    """Write the choices of a part before its first step."""
    LOGGER.info("choices %s: %s", "of an earlier run" if choices.cached else "measured now", choices.describe())
    part.choices, part.machine = choices.to_dict(), make_machine_record(choices.threads)
    make_checkpoints(session.run, part).clear()  # of a part that is done
    session.run.save_state()


def describe_progress(monitored: str) -> Callable[[EnsembleProgress], str]:
    """What a line says of replicas; monitored: the loss that is shown of each."""

    def describe(status: EnsembleProgress) -> str:
        losses = status.latest[np.isfinite(status.latest)]
        told = ""
        if len(losses):
            low, middle, high = (format_figure(one) for one in np.percentile(losses, [16, 50, 84]))
            told = f", {monitored} {middle} [{low}, {high}]"
        broken = f", {status.quarantined} quarantined" if status.quarantined else ""
        return f"{status.steps_per_second:.0f} steps/s{told}, {status.running} running{broken}"

    return describe
