"""`tfperf fit`: from a card to a finished run directory."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfperf.console.stages import Stages, stages
from tfperf.console.streams import open_descriptors
from tfperf.measure.clock import Stopwatch
from tfperf.measure.loading import is_loaded, tensorflow_loading, thawed
from tfperf.measure.memory import release_memory
from tfperf.measure.quiet import native_logs_dropped, silence_tensorflow
from tfperf.report.progress import show_training
from tfperf.results.contents import EVENTS, RESULTS, T0
from tfperf.results.rundir import RunDirectory, holds_run
from tfperf.runcard.places import changed
from tfperf.runs.opening import open_part, take_directory
from tfperf.signals import Signals
from tfperf.workloads.pdf.card import Card, Closure
from tfperf.workloads.pdf.cards import as_card
from tfperf.workloads.pdf.chunks import chunk_size
from tfperf.workloads.pdf.data.pack import pack_attributes
from tfperf.workloads.pdf.inputs import Inputs, mean_pdf, read_inputs
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.progress import chunk_words, replica_words
from tfperf.workloads.pdf.replicas import ReplicaPart, ReplicaRun, Replicas, group
from tfperf.workloads.pdf.report.team import Team
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.record import FitResult
from tfperf.workloads.pdf.summary import summarise
from tfperf.workloads.workload import Options

if TYPE_CHECKING:
    from tfperf.runs.part import Trained

T0_REPLICAS = 20


def fit(
    card: Card | Path | str,
    output: Path | str | None = None,
    *,
    overrides: Sequence[str] = (),
    options: Options | None = None,
    quiet: bool = True,
) -> FitResult:
    """Carry out a card in the run directory `output` and return the result record.

    Without `output` only the record remains. A run that is finished already is returned as it is. Raises UserError
    for a faulty card, pack or directory, Interrupted when a signal stopped the training after a checkpoint.
    """
    open_descriptors()
    with stages(quiet) as progress, ExitStack() as after:
        card = as_card(card, overrides)
        if output is None:
            output = after.enter_context(tempfile.TemporaryDirectory(prefix="tfperf-")) + "/run"
        after.callback(release_memory)
        return carry_out(card, Path(output), options or Options(), progress)[0]


def fit_closure(card: Card) -> Card:
    """The card as a closure test: with the default law and level 0 where it says nothing of one."""
    return card if card.closure is not None else changed(card, closure=Closure())


def carry_out(card: Card, output: Path, options: Options, progress: Stages) -> tuple[FitResult, bool]:
    """The result, and whether anything was trained for it."""
    with Signals().listening() as signals, thawed():
        return _carry_out(card, output, options, progress, signals)


def _carry_out(
    card: Card, output: Path, options: Options, progress: Stages, signals: Signals
) -> tuple[FitResult, bool]:
    watch = Stopwatch()
    options.refuse_contradictions()
    with RunDirectory(output, Replicas) as run:
        take_directory(run, options, signals)
        progress.tell("reading data")
        with watch.stage("data"):
            inputs = read_inputs(card, output)
        part = open_part(run, card, inputs.hashes, options, lambda total: _chunk(card, inputs, watch, total))
        if part is None:
            progress.say(f"{output}: nothing left to do")
            return _read_finished(run), False
        return _Fit(run, card, inputs, watch, signals, progress).carry_out(group(run, part)), True


def _read_finished(run: ReplicaRun) -> FitResult:
    """The results of a run that is done; a report that is missing or older than they are is made again."""
    result = store.read(run.path / RESULTS, run.begun.identity)
    if run.lacks_report():
        from tfperf.workloads.pdf.report.html import write_report

        with Team() as team:
            write_report(run.path, result, team)
    return result


def _chunk(card: Card, inputs: Inputs, watch: Stopwatch, total: int) -> int:
    """How many of so many new replicas are trained together."""
    with watch.stage("data"):
        one = card.replicas[:1]
        return chunk_size(card, lambda: build_problem(card, inputs.selection, one, inputs.t0_pdf, inputs.law), total)


@dataclass
class _Fit:
    """What one command trains, from its data to its report."""

    run: ReplicaRun
    card: Card
    inputs: Inputs
    watch: Stopwatch
    signals: Signals
    progress: Stages

    def carry_out(self, parts: Sequence[ReplicaPart]) -> FitResult:
        """Train, evaluate, write chunk after chunk; each counts as done once its results are on disk."""
        with self.watch.stage("data"):
            self.t0 = self._t0()
        rates: dict[int, list[float]] = {}
        with Team() as self.team:
            for part in (p for p in parts if not p.done):
                result = self._chunk(part, rates)
                if part is parts[-1]:
                    result = self._report(result, parts, rates)
                part.done = True
                self.run.save_state()
        return result

    def _chunk(self, part: ReplicaPart, rates: dict[int, list[float]]) -> FitResult:
        """Train one part and write its results with those of the parts before."""
        if part.own.chunks > 1:
            own = part.own
            self.progress.say(f"chunk {own.chunk} of {own.chunks}: replicas {own.ids[0]}-{own.ids[-1]}")
        self.progress.tell("building the problem")
        with self.watch.stage("data"):
            problem = build_problem(self.card, self.inputs.selection, part.own.ids, self.t0, self.inputs.law)
        trained = self._train(part, problem)
        for size, seconds in trained.seconds_per_step.items():
            rates.setdefault(size, []).extend(seconds)
        self.signals.stop_if_asked()  # one that was lost in a callback of native code
        self.progress.tell("evaluating")
        with self.watch.stage("write"):
            if part.own.chunk == part.own.chunks:
                self.team.start()
            result = self._evaluate(problem, trained)
            if part.own.chunk < part.own.chunks:
                store.write(self.run.path / RESULTS, result, self.run.begun.identity)
        return result

    def _t0(self) -> NDArray[np.float64] | None:
        """PDF of the t0 predictions: of a run, or of a fit without t0 that is made first."""
        if self.card.data.t0 != "fit":
            return self.inputs.t0_pdf
        self.progress.say(f"first a fit of {T0_REPLICAS} replicas without t0, for the t0 predictions")
        data = replace(self.card.data, t0="none")
        card = replace(self.card, title="t0", replicas=tuple(range(1, T0_REPLICAS + 1)), data=data)
        folder = self.run.path / T0
        result, _ = _carry_out(card, folder, Options(resume=holds_run(folder)), self.progress, self.signals)
        return mean_pdf(result)

    def _train(self, part: ReplicaPart, problem: Problem) -> "Trained":
        silence_tensorflow()
        if not is_loaded():
            self.progress.tell("importing TensorFlow")
        with self.watch.stage("import"), tensorflow_loading():
            from tfperf.runs.part import start, train_part
        with self.watch.stage("import"), native_logs_dropped():
            begun = start(self.run, self.card, part, problem, self.progress)
        show = show_training(self.progress, replica_words, chunk_words(part.own.chunk, part.own.chunks))
        return train_part(self.run, self.card, part, problem, begun, self.watch, self.signals, show, self.progress)

    def _evaluate(self, problem: Problem, trained: "Trained") -> FitResult:
        """The exact result of all parts together."""
        from tfperf.workloads.pdf.evaluate import evaluate

        there = self.run.has_finished_parts()
        before = store.read(self.run.path / RESULTS, self.run.begun.identity) if there else None
        return evaluate(self.card, problem, trained.outcome, before)

    def _report(
        self, result: FitResult, parts: Sequence[ReplicaPart], rates: Mapping[int, Sequence[float]]
    ) -> FitResult:
        """Write all that people read; the timings of the report itself enter report.json last."""
        from tfperf.report.sections import write_json
        from tfperf.workloads.pdf.report.events import write_events
        from tfperf.workloads.pdf.report.html import write_html

        pack = pack_attributes(self.card.data.pack)

        def with_summary() -> FitResult:
            return replace(result, summary=summarise(self.card, result, parts, self.watch.seconds(), rates, pack))

        self.signals.stop_if_asked()
        self.progress.tell("writing results and report")
        with self.watch.stage("write"):
            store.write(self.run.path / RESULTS, with_summary(), self.run.begun.identity)
            write_events(self.run.path / EVENTS, with_summary())
            write_html(self.run.path, with_summary(), self.team)
        final = with_summary()
        write_json(self.run.path, final.summary)
        return final
