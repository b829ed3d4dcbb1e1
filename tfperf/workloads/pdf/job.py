"""A fit of replicas, from its data to its report."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tfperf.arrays import Float64Array
from tfperf.measure.loading import is_loaded, speed_up_import
from tfperf.measure.quiet import drop_native_logs, silence_tensorflow
from tfperf.report.progress import make_status_display
from tfperf.results.contents import EVENTS, RESULTS
from tfperf.results.rundir import has_run
from tfperf.results.state import RunState
from tfperf.workloads.job import FinishedFit, Job, Session
from tfperf.workloads.options import Options
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.chunks import choose_chunk_size
from tfperf.workloads.pdf.data.pack import read_pack_attributes
from tfperf.workloads.pdf.inputs import average_pdf, read_inputs
from tfperf.workloads.pdf.kind import EXACT, T0
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.progress import describe_chunk, describe_replicas
from tfperf.workloads.pdf.report.pool import DrawingPool
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.failed import list_failed_replicas
from tfperf.workloads.pdf.results.record import FitResult
from tfperf.workloads.pdf.summary import summarise
from tfperf.workloads.replica_chunks import ReplicaChunk, ReplicaPart, refuse_missing_chunks
from tfperf.workloads.replica_parts import (
    group_neighbours,
    list_new_replicas,
    make_parts,
    refuse_other_replicas,
)

if TYPE_CHECKING:
    from tfperf.workloads.pdf.training import TrainedPart

LOGGER = logging.getLogger(__name__)
T0_REPLICAS = 20


class ReplicaFit(Job[Card, ReplicaChunk]):
    """Replicas trained, evaluated, written chunk after chunk; each counts as done once its results are on disk."""

    extension_hint = "--replicas adds to it, "

    def __init__(self, card: Card, session: Session[ReplicaChunk]) -> None:
        super().__init__(card, session)
        self.run, self.options, self.watch = session.run, session.options, session.watch
        self.inputs = read_inputs(card, self.run.path)
        self.hashes = self.inputs.hashes
        self.seconds_per_step: dict[int, list[float]] = {}
        self.result: FitResult

    def make_first_parts(self) -> list[ReplicaPart]:
        """The replicas of the options, else the card's."""
        ids = self.options.replicas or self.card.replicas
        return make_parts(ids, [self.options.attempt] * len(ids), self._choose_chunk_size)

    def make_run_card(self) -> Card:
        """The card with the replicas of the options."""
        return replace(self.card, replicas=self.options.replicas or self.card.replicas)

    def refuse_damaged(self, state: RunState[ReplicaChunk]) -> None:
        """RunDirectoryError where a chunk is missing."""
        refuse_missing_chunks(self.run.path, state)

    def refuse_others(self, state: RunState[ReplicaChunk]) -> None:
        """RunDirectoryError for other replicas than the run began with."""
        refuse_other_replicas(self.run.path, self.options.replicas or self.card.replicas, state)

    def make_more_parts(self, state: RunState[ReplicaChunk]) -> list[ReplicaPart]:
        """Those that failed, once more, or new ones."""
        if self.options.retry_failed:
            ids, attempts = list_failed_replicas(self.run.path)
        else:
            ids, attempts = list_new_replicas(self.run.path, self.options.replicas, state)
        LOGGER.info("%d replicas are %s", len(ids), "tried again" if self.options.retry_failed else "added")
        return make_parts(ids, attempts, self._choose_chunk_size) if ids else []

    def _choose_chunk_size(self, total: int) -> int:
        """How many of so many new replicas are trained together."""
        card, inputs = self.card, self.inputs

        def build_one() -> Problem:
            return build_problem(card, inputs.selection, card.replicas[:1], inputs.t0_pdf, inputs.law)

        with self.watch.measure_stage("data"):
            return choose_chunk_size(card, build_one, total)

    @contextmanager
    def open_resources(self) -> Iterator[None]:
        """The t0 predictions, and the processes that draw."""
        with self.watch.measure_stage("data"):
            self.t0 = self._build_t0_pdf()
        with DrawingPool() as self.pool:
            yield

    def fit_part(self, part: ReplicaPart, parts: Sequence[ReplicaPart]) -> None:
        """Train one part and write its results with those of the parts before."""
        own = part.own
        if own.chunks > 1:
            self.session.progress.say(f"chunk {own.chunk} of {own.chunks}: replicas {own.ids[0]}-{own.ids[-1]}")
        self.session.progress.show_stage("building the problem")
        with self.watch.measure_stage("data"):
            problem = build_problem(self.card, self.inputs.selection, own.ids, self.t0, self.inputs.law)
        trained = self._train(part, problem)
        for size, seconds in trained.seconds_per_step.items():
            self.seconds_per_step.setdefault(size, []).extend(seconds)
        self.session.signals.stop_if_asked()  # one that was lost in a callback of native code
        again = self._fit_exactly(part)
        self.session.progress.show_stage("evaluating")
        with self.watch.measure_stage("write"):
            if own.chunk == own.chunks:
                self.pool.start()
            self.result = self._evaluate(problem, trained, again)
            if own.chunk < own.chunks:
                store.write(self.run.path / RESULTS, self.result, self.run.loaded_state.identity)
        if part is parts[-1]:
            self.result = self._write_report(parts)

    def _build_t0_pdf(self) -> Float64Array | None:
        """PDF of the t0 predictions: of a run, or of a fit without t0 that is made first."""
        if self.card.data.t0 != "fit":
            return self.inputs.t0_pdf
        self.session.progress.say(f"first a fit of {T0_REPLICAS} replicas without t0, for the t0 predictions")
        data = replace(self.card.data, t0="none")
        card = replace(self.card, title="t0", replicas=tuple(range(1, T0_REPLICAS + 1)), data=data)
        folder = self.run.path / T0
        return average_pdf(self.session.fit_within(card, folder, Options(resume=has_run(folder))).result)

    def _fit_exactly(self, part: ReplicaPart) -> list[FitResult]:
        """Fits without tolerance of those replicas of a part that are beyond it at their best weights."""
        found = []
        engine = replace(self.card.engine, tolerance=0.0, form="shared", tf32=False)
        data = self.card.data if self.card.data.t0 != "fit" else replace(self.card.data, t0=str(self.run.path / T0))
        attempts = dict(zip(part.own.ids, part.own.attempts, strict=True))
        off = part.own.tolerance.get("off", ())
        for attempt in sorted({attempts[i] for i in off}):
            for ids in group_neighbours([i for i in off if attempts[i] == attempt]):
                words = f"{ids[0]}-{ids[-1]}" + (f"_{attempt}" if attempt else "")
                card = replace(
                    self.card, title=f"exact fit of replicas {words}", replicas=ids, engine=engine, data=data
                )
                folder = self.run.path / EXACT / words
                options = Options(resume=has_run(folder), attempt=attempt)
                found.append(self.session.fit_within(card, folder, options).result)
        for result in (one for one in found if not one.converged.all()):
            lost = ", ".join(map(str, result.replicas.id[~result.converged]))
            self.session.progress.say(f"warning: replicas {lost} did not converge when they were fitted exactly")
        if found:
            part.own.tolerance |= {"refitted": part.own.tolerance["off"], "off": [], "violated": False}
        return found

    def _train(self, part: ReplicaPart, problem: Problem) -> "TrainedPart":
        progress = self.session.progress
        silence_tensorflow()
        if not is_loaded():
            progress.show_stage("importing TensorFlow")
        with self.watch.measure_stage("import"), speed_up_import():
            from tfperf.workloads.pdf.training import start_for_part, train_part
        with self.watch.measure_stage("import"), drop_native_logs():
            startup = start_for_part(self.run, self.card, part, problem, progress)
        show = make_status_display(progress, describe_replicas, describe_chunk(part.own.chunk, part.own.chunks))
        return train_part(
            self.run, self.card, part, problem, startup, self.watch, self.session.signals, show, progress
        )  # fmt: skip

    def _evaluate(self, problem: Problem, trained: "TrainedPart", again: Sequence[FitResult]) -> FitResult:
        """The exact result of all parts together."""
        from tfperf.workloads.pdf.evaluate import evaluate

        there = self.run.has_finished_parts()
        before = store.read(self.run.path / RESULTS, self.run.loaded_state.identity) if there else None
        return evaluate(self.card, problem, trained.outcome, before, again)

    def _write_report(self, parts: Sequence[ReplicaPart]) -> FitResult:
        """Write all that people read; the timings of the report itself enter report.json last."""
        from tfperf.report.sections import write_json
        from tfperf.workloads.pdf.report.events import write_events
        from tfperf.workloads.pdf.report.html import write_html

        pack, result, folder = read_pack_attributes(self.card.data.pack), self.result, self.run.path

        def add_summary() -> FitResult:
            summary = summarise(self.card, result, parts, self.watch.sum_seconds(), self.seconds_per_step, pack)
            return replace(result, summary=summary)

        self.session.signals.stop_if_asked()
        self.session.progress.show_stage("writing results and report")
        with self.watch.measure_stage("write"):
            store.write(folder / RESULTS, add_summary(), self.run.loaded_state.identity)
            write_events(folder / EVENTS, add_summary())
            write_html(folder, add_summary(), self.pool)
        final = add_summary()
        write_json(folder, final.summary)
        return final

    def make_finished(self) -> FinishedFit:
        """The result, which is complete where no replica has failed."""
        return FinishedFit(self.result, self.result.summary, not self.result.summary["replicas"]["failed"])

    def read_finished(self) -> FinishedFit:
        """The results on disk, whatever replicas have failed before."""
        result = store.read(self.run.path / RESULTS, self.run.loaded_state.identity)
        if self.run.needs_report():
            from tfperf.workloads.pdf.report.html import write_report

            with DrawingPool() as pool:
                write_report(self.run.path, result, pool)
        return FinishedFit(result, result.summary)
