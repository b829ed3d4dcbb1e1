"""A fit of replicas, from its data to its report."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfperf.measure.loading import is_loaded, tensorflow_loading
from tfperf.measure.quiet import native_logs_dropped, silence_tensorflow
from tfperf.report.progress import show_training
from tfperf.results.contents import EVENTS, RESULTS
from tfperf.results.rundir import holds_run
from tfperf.results.state import State
from tfperf.workloads.job import Fitted, Job, Session
from tfperf.workloads.options import Options
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.chunks import chunk_size
from tfperf.workloads.pdf.data.pack import pack_attributes
from tfperf.workloads.pdf.inputs import mean_pdf, read_inputs
from tfperf.workloads.pdf.kind import T0
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.parts import failed_replicas, make_parts, new_replicas, refuse_other_replicas
from tfperf.workloads.pdf.progress import chunk_words, replica_words
from tfperf.workloads.pdf.replicas import ReplicaPart, Replicas, refuse_broken_groups
from tfperf.workloads.pdf.report.team import Team
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.record import FitResult
from tfperf.workloads.pdf.summary import summarise

if TYPE_CHECKING:
    from tfperf.workloads.pdf.training import Trained

T0_REPLICAS = 20


class ReplicaFit(Job[Card, Replicas]):
    """Replicas trained, evaluated, written chunk after chunk; each counts as done once its results are on disk."""

    adds = "--replicas adds to it, "

    def __init__(self, card: Card, session: Session[Replicas]) -> None:
        super().__init__(card, session)
        self.run, self.options, self.watch = session.run, session.options, session.watch
        self.inputs = read_inputs(card, self.run.path)
        self.hashes = self.inputs.hashes
        self.rates: dict[int, list[float]] = {}
        self.result: FitResult

    def begin_parts(self) -> list[ReplicaPart]:
        """The replicas of the options, else the card's."""
        ids = self.options.replicas or self.card.replicas
        return make_parts(ids, [0] * len(ids), self._chunk)

    def begun_card(self) -> Card:
        """The card with the replicas of the options."""
        return replace(self.card, replicas=self.options.replicas or self.card.replicas)

    def refuse_damaged(self, state: State[Replicas]) -> None:
        """RunDirectoryError where a chunk is missing."""
        refuse_broken_groups(self.run.path, state)

    def refuse_others(self, state: State[Replicas]) -> None:
        """RunDirectoryError for other replicas than the run began with."""
        refuse_other_replicas(self.run.path, self.options.replicas or self.card.replicas, state)

    def more_parts(self, state: State[Replicas]) -> list[ReplicaPart]:
        """Those that failed, once more, or new ones."""
        if self.options.retry_failed:
            ids, attempts = failed_replicas(self.run.path)
        else:
            ids, attempts = new_replicas(self.run.path, self.options.replicas, state)
        return make_parts(ids, attempts, self._chunk) if ids else []

    def _chunk(self, total: int) -> int:
        """How many of so many new replicas are trained together."""
        card, inputs = self.card, self.inputs

        def one() -> Problem:
            return build_problem(card, inputs.selection, card.replicas[:1], inputs.t0_pdf, inputs.law)

        with self.watch.stage("data"):
            return chunk_size(card, one, total)

    @contextmanager
    def resources(self) -> Iterator[None]:
        """The t0 predictions, and the processes that draw."""
        with self.watch.stage("data"):
            self.t0 = self._t0()
        with Team() as self.team:
            yield

    def carry_out(self, part: ReplicaPart, parts: Sequence[ReplicaPart]) -> None:
        """Train one part and write its results with those of the parts before."""
        own = part.own
        if own.chunks > 1:
            self.session.progress.say(f"chunk {own.chunk} of {own.chunks}: replicas {own.ids[0]}-{own.ids[-1]}")
        self.session.progress.tell("building the problem")
        with self.watch.stage("data"):
            problem = build_problem(self.card, self.inputs.selection, own.ids, self.t0, self.inputs.law)
        trained = self._train(part, problem)
        for size, seconds in trained.seconds_per_step.items():
            self.rates.setdefault(size, []).extend(seconds)
        self.session.signals.stop_if_asked()  # one that was lost in a callback of native code
        self.session.progress.tell("evaluating")
        with self.watch.stage("write"):
            if own.chunk == own.chunks:
                self.team.start()
            self.result = self._evaluate(problem, trained)
            if own.chunk < own.chunks:
                store.write(self.run.path / RESULTS, self.result, self.run.begun.identity)
        if part is parts[-1]:
            self.result = self._report(parts)

    def _t0(self) -> NDArray[np.float64] | None:
        """PDF of the t0 predictions: of a run, or of a fit without t0 that is made first."""
        if self.card.data.t0 != "fit":
            return self.inputs.t0_pdf
        self.session.progress.say(f"first a fit of {T0_REPLICAS} replicas without t0, for the t0 predictions")
        data = replace(self.card.data, t0="none")
        card = replace(self.card, title="t0", replicas=tuple(range(1, T0_REPLICAS + 1)), data=data)
        folder = self.run.path / T0
        return mean_pdf(self.session.fit_within(card, folder, Options(resume=holds_run(folder))).result)

    def _train(self, part: ReplicaPart, problem: Problem) -> "Trained":
        progress = self.session.progress
        silence_tensorflow()
        if not is_loaded():
            progress.tell("importing TensorFlow")
        with self.watch.stage("import"), tensorflow_loading():
            from tfperf.workloads.pdf.training import start, train_part
        with self.watch.stage("import"), native_logs_dropped():
            begun = start(self.run, self.card, part, problem, progress)
        show = show_training(progress, replica_words, chunk_words(part.own.chunk, part.own.chunks))
        return train_part(
            self.run, self.card, part, problem, begun, self.watch, self.session.signals, show, progress
        )  # fmt: skip

    def _evaluate(self, problem: Problem, trained: "Trained") -> FitResult:
        """The exact result of all parts together."""
        from tfperf.workloads.pdf.evaluate import evaluate

        there = self.run.has_finished_parts()
        before = store.read(self.run.path / RESULTS, self.run.begun.identity) if there else None
        return evaluate(self.card, problem, trained.outcome, before)

    def _report(self, parts: Sequence[ReplicaPart]) -> FitResult:
        """Write all that people read; the timings of the report itself enter report.json last."""
        from tfperf.report.sections import write_json
        from tfperf.workloads.pdf.report.events import write_events
        from tfperf.workloads.pdf.report.html import write_html

        pack, result, folder = pack_attributes(self.card.data.pack), self.result, self.run.path

        def with_summary() -> FitResult:
            summary = summarise(self.card, result, parts, self.watch.seconds(), self.rates, pack)
            return replace(result, summary=summary)

        self.session.signals.stop_if_asked()
        self.session.progress.tell("writing results and report")
        with self.watch.stage("write"):
            store.write(folder / RESULTS, with_summary(), self.run.begun.identity)
            write_events(folder / EVENTS, with_summary())
            write_html(folder, with_summary(), self.team)
        final = with_summary()
        write_json(folder, final.summary)
        return final

    def fitted(self) -> Fitted:
        """The result, which is complete where no replica has failed."""
        return Fitted(self.result, self.result.summary, not self.result.summary["replicas"]["failed"])

    def read_finished(self) -> Fitted:
        """The results on disk, whatever replicas have failed before."""
        result = store.read(self.run.path / RESULTS, self.run.begun.identity)
        if self.run.lacks_report():
            from tfperf.workloads.pdf.report.html import write_report

            with Team() as team:
                write_report(self.run.path, result, team)
        return Fitted(result, result.summary)
