"""The fit of replicas of a Keras model: parts, results, report."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tfperf.errors import CardError, RunDirectoryError
from tfperf.report.progress import make_status_display
from tfperf.report.sections import write_json, write_text
from tfperf.results.contents import PAGE, RESULTS
from tfperf.results.state import RunState
from tfperf.runcard.places import make_unfit_error, replace_values
from tfperf.sources.given import ORIGIN
from tfperf.workloads.job import FinishedFit, Job, Session
from tfperf.workloads.keras.callbacks import FOLDER
from tfperf.workloads.keras.card import KerasCard, list_ensemble_faults
from tfperf.workloads.keras.card_files import hash_files
from tfperf.workloads.keras.inputs import TrainingData, read_data
from tfperf.workloads.keras.models import count_parameters, digest_model
from tfperf.workloads.keras.replicas import outcome as outcomes
from tfperf.workloads.keras.replicas.calibration import Calibration, compare_with_targets
from tfperf.workloads.keras.replicas.callbacks import make_runners
from tfperf.workloads.keras.replicas.chunks import choose_chunk_size
from tfperf.workloads.keras.replicas.data import make_replica_data, read_stream
from tfperf.workloads.keras.replicas.forms import STACKED
from tfperf.workloads.keras.replicas.members import Members
from tfperf.workloads.keras.replicas.outcome import EnsembleOutcome
from tfperf.workloads.keras.replicas.page import render_report
from tfperf.workloads.keras.replicas.part_records import PartRecords
from tfperf.workloads.keras.replicas.result import EnsembleResult
from tfperf.workloads.keras.replicas.settings import describe_settings
from tfperf.workloads.keras.replicas.training import TrainedMembers, describe_progress, train_members
from tfperf.workloads.keras.stacked.stack import list_refusals
from tfperf.workloads.replica_chunks import ReplicaChunk, ReplicaPart, refuse_missing_chunks
from tfperf.workloads.replica_parts import list_new_replicas, make_parts, refuse_other_replicas

LOGGER = logging.getLogger(__name__)


class EnsembleFit(Job[KerasCard, ReplicaChunk]):
    """Replicas trained chunk after chunk; their best weights and histories in results.h5, curves in report.html."""

    extension_hint = "--replicas adds to it, "

    def __init__(self, card: KerasCard, session: Session[ReplicaChunk]) -> None:
        super().__init__(card, session)
        self.run, self.options, self.hashes = session.run, session.options, hash_files(card)
        with session.watch.measure_stage("data"):
            found = read_data(card)
            self.hashes |= found.hash_arrays()
            self.data = make_replica_data(card, found, session.progress.show_stage)
        self.unkept = _list_unkept(found)
        session.progress.show_stage("building the model")
        with session.watch.measure_stage("build"):
            members = self._make_members(self._ids[:1], [self.options.attempt])
            self.template = members.build_template(members.draw_batches())
            if (card.model.build or "").startswith(ORIGIN) and (digest := digest_model(self.template.model)):
                self.hashes |= {"the model": digest}  # no file tells of it
        if card.engine.form == STACKED and (reasons := list_refusals(self.template.model)):
            raise CardError("engine.form: got stacked; the model cannot be stacked", *reasons)
        if what := make_runners(card, self._ids[:1], self.run.path / FOLDER, self.template)[0].describe_stateless():
            session.progress.say(f"warning: this run cannot be resumed: {what}")
            session.signals.advice = f"--resume will be refused: {what}"
        if draws := self.template.unkept_draws:
            what = f"the step draws by {', '.join(draws)}, whose state is no variable"
            session.progress.say(f"warning: replicas are not independent, nor is a resumed run the same: {what}")
        for line in self.unkept:
            session.progress.say(f"warning: not bit-exact after --resume: {line}")
        self.records = PartRecords()
        self.reasons: list[str] = []
        self.calibration = Calibration({})
        self.found: EnsembleOutcome

    @cached_property
    def _ids(self) -> Sequence[int]:
        return self.options.replicas or self.card.replicas or ()

    def _make_members(self, ids: Sequence[int], attempts: Sequence[int]) -> Members:
        return Members(self.card, self.data, ids, attempts)

    def make_first_parts(self) -> list[ReplicaPart]:
        """The replicas of the options, else the card's."""
        self._make_members(self._ids, [self.options.attempt] * len(self._ids)).check_values()
        return make_parts(self._ids, [self.options.attempt] * len(self._ids), self._choose_chunk_size)

    def make_run_card(self) -> KerasCard:
        """The card with the replicas of the options."""
        return give_replicas(self.card, tuple(self._ids))

    def refuse_damaged(self, state: RunState[ReplicaChunk]) -> None:
        """RunDirectoryError where the run is one of a model alone, or a chunk is missing."""
        if not all(isinstance(part.own, ReplicaChunk) for part in state.parts):
            raise RunDirectoryError(f"{self.run.path}: is of a model alone; replicas need a run of their own")
        refuse_missing_chunks(self.run.path, state)

    def refuse_others(self, state: RunState[ReplicaChunk]) -> None:
        """RunDirectoryError for other replicas than the run began with."""
        refuse_other_replicas(self.run.path, tuple(self._ids), state)

    def make_more_parts(self, state: RunState[ReplicaChunk]) -> list[ReplicaPart]:
        """Those that failed, once more, or new ones."""
        if self.options.retry_failed:
            table = outcomes.read(self.run.path / RESULTS).replicas
            rows = np.flatnonzero(~table.is_usable)
            ids, attempts = table.id[rows].tolist(), (table.attempt[rows] + 1).tolist()
        else:
            ids, attempts = list_new_replicas(self.run.path, self.options.replicas, state)
        self._make_members(ids, attempts).check_values()
        LOGGER.info("%d replicas are %s", len(ids), "tried again" if self.options.retry_failed else "added")
        return make_parts(ids, attempts, self._choose_chunk_size) if ids else []

    def _choose_chunk_size(self, total: int) -> int:
        return choose_chunk_size(self.card, self.template, total)

    def fit_part(self, part: ReplicaPart, parts: Sequence[ReplicaPart]) -> None:
        """Train one part and write its results with those of the parts before."""
        progress, watch = self.session.progress, self.session.watch
        own = part.own
        if own.chunks > 1:
            progress.say(f"chunk {own.chunk} of {own.chunks}: replicas {own.ids[0]}-{own.ids[-1]}")
        members = self._make_members(own.ids, own.attempts)
        if self.data.window is not None and part is not parts[0]:
            self.data.window.restart(read_stream(self.card))
        with watch.measure_stage("build"):
            factory = members.build_factory(self.template, members.draw_batches(), progress.show_stage)
        show = make_status_display(progress, describe_progress(self.template.monitored))
        trained = train_members(self.session, self.card, part, factory, self.data.window, show)
        self.reasons = trained.reasons
        progress.show_stage("writing results and report")
        with watch.measure_stage("write"):
            there = self.run.has_finished_parts()
            identity = self.run.loaded_state.identity
            before = outcomes.read(self.run.path / RESULTS, identity) if there else None
            if part is parts[0]:
                self.records = PartRecords(before.summary if before else None)
            self.records.add(part, trained.seconds_per_step)
            self.found = self._make_outcome(trained, parts, before)
            outcomes.write(self.run.path / RESULTS, self.found, identity)
            if part is parts[-1]:
                title = self.card.title or self.card.workload
                write_text(self.run.path / PAGE, render_report(title, self.found, self.calibration.values))
        if part is parts[-1]:
            self.found = replace(self.found, summary=self._summarise(self.found, parts))  # with the time of writing
            write_json(self.run.path, self.found.summary)

    def _make_outcome(
        self, trained: TrainedMembers, parts: Sequence[ReplicaPart], before: EnsembleOutcome | None
    ) -> EnsembleOutcome:
        found = trained.make_outcome(self.card.title, self.template)
        if before is not None:
            found = outcomes.merge(before, found)
        good = found.replicas.is_usable
        usable = {name: values[good] for name, values in found.weights.items()}
        self.calibration = compare_with_targets(self.template.model, usable, self.data.validation)
        return replace(found, summary=self._summarise(found, parts))

    def _summarise(self, found: EnsembleOutcome, parts: Sequence[ReplicaPart]) -> dict[str, Any]:
        """report.json."""
        table, monitored, every = found.replicas, self.template.monitored, self.run.loaded_state.parts
        good = table.is_usable
        best = found.find_best(monitored)
        return {
            "replicas": {
                "total": len(table.id), "usable": int(good.sum()), "failed": table.id[~good].tolist(),
                "by_status": {name: table.status.count(name) for name in outcomes.STATUSES if name in table.status},
            },
            "monitored": monitored, "best": _describe_values(best[good & np.isfinite(best)]),
            "settings": describe_settings(self.card, self.template),
            "epochs": _describe_values(table.stop_epoch[good]),
            "stop_epochs": _describe_values(table.stop_epoch[np.array(table.status) == outcomes.STOPPED]),
            "steps_per_epoch": self.template.epoch,
            "parameters": count_parameters(self.template.model), "samples": self.data.count,
            "batch": self.template.batch, "choices": parts[-1].choices, "not_stacked": self.reasons,
            "ms_per_step": self.records.compute_step_quartiles(every),
            "resumed_from_steps": [step for part in every for step in part.resumed_from_steps],
            "parts": self.records.list_parts(every),
            "calibration": self.calibration.figures,
            "seconds": self.records.sum_seconds(self.session.watch.sum_seconds()),
            "not_bit_exact": [*self.template.unkept_draws, *self.unkept],
        }  # fmt: skip

    def make_finished(self) -> FinishedFit:
        """The record, which is complete where no replica has failed."""
        result = self._make_result(self.found)
        return FinishedFit(result, self.found.summary, not self.found.summary["replicas"]["failed"])

    def read_finished(self) -> FinishedFit:
        """The record from the disk."""
        found = outcomes.read(self.run.path / RESULTS, self.run.loaded_state.identity)
        return FinishedFit(self._make_result(found), found.summary)

    def _make_result(self, found: EnsembleOutcome) -> EnsembleResult:
        build = self._make_members(self._ids[:1], [0]).keep_builder(self.template)
        return EnsembleResult(found, self.run.path, self.template.model, build=build)


def _list_unkept(data: TrainingData) -> list[str]:
    """What of streams a resumed run may have otherwise, in words."""
    parts = {"data": data.training, "data.validation": data.validation}
    return [f"{key}: {one}" for key, part in parts.items() for one in getattr(part, "unkept", ())]


def give_replicas(card: KerasCard, ids: tuple[int, ...]) -> KerasCard:
    """The card with these replicas. Raises: CardError for what it says that they cannot have."""
    if faults := [*list_ensemble_faults(card, ids)]:
        raise make_unfit_error(card, faults)
    return replace_values(card, replicas=ids)


def _describe_values(values: Any) -> dict[str, float | None]:
    """Quartiles and ends; None where there is nothing."""
    names = ("least", "q1", "median", "q3", "most")
    ends = np.percentile(values, [0, 25, 50, 75, 100]).tolist() if len(values) else [None] * 5
    return dict(zip(names, ends, strict=True))
