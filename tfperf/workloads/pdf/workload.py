"""Replica fits as a workload."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfperf.console.stages import ShowStage
from tfperf.runcard.faults import Fault
from tfperf.runcard.kinds import CardKind
from tfperf.workloads.job import Session
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.kind import EXACT, KIND, NAME, POSTFIT, T0
from tfperf.workloads.replica_chunks import ReplicaChunk
from tfperf.workloads.workload import Workload

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tfperf.measure.doctor import DoctorCheck
    from tfperf.report.compare import Change
    from tfperf.report.study_progress import ShowCount
    from tfperf.train.window import Recording
    from tfperf.workloads.pdf.job import ReplicaFit
    from tfperf.workloads.pdf.memory import ReplicaMemoryTrial
    from tfperf.workloads.pdf.results.record import FitResult
    from tfperf.workloads.pdf.step_tracer import ReplicaStepTracer
    from tfperf.workloads.refinement import Refinement
    from tfperf.workloads.switches import Request, Switches


class Pdf(Workload[Card]):
    """Ensembles of parton densities fitted to data through FK tables."""

    protocol = 1
    name = NAME
    own_type = ReplicaChunk
    own_files = (f"{T0}/", f"{EXACT}/", POSTFIT)
    has_replicas = True
    title = "fit of replicas"
    memory_unit = ("replica", "replicas")

    @property
    def kind(self) -> CardKind:
        """What a card may say."""
        return KIND

    def check_files(self, card: Card) -> list[Fault]:
        """What its files tell against a card."""
        from tfperf.workloads.pdf.inputs import check_inputs

        return check_inputs(card)

    def list_dependencies(self, path: Sequence[str]) -> list[tuple[str, ...]]:
        """Cuts of a set rest on the entry of that set alone, an extra covariance on all points that are fitted, too."""
        own = tuple(path[:3] if tuple(path[:2]) == ("data", "sets") else path[:1])
        return [own, ("data",)] if path[0] == "covariance" else [own]

    def describe_card(self, card: Card, show_stage: ShowStage) -> Sequence[str]:
        """What a card amounts to."""
        from tfperf.workloads.pdf.sizes import estimate_sizes

        return estimate_sizes(card, show_stage).describe()

    def build_job(self, card: Card, session: Session[ReplicaChunk]) -> "ReplicaFit":
        """A fit of the card's replicas."""
        from tfperf.workloads.pdf.job import ReplicaFit

        return ReplicaFit(card, session)

    def make_table(self, summary: Mapping[str, Any]) -> "RenderableType":
        """chi2 of the datasets, replicas, times."""
        from tfperf.workloads.pdf.report.tables import make_summary_table

        return make_summary_table(summary)

    def record(self, card: Card, logdir: Path, repeat: int, naive: bool, show: "ShowCount") -> "Recording":
        """Steps as a fit takes them, or of a Keras model for each replica."""
        from tfperf.measure.quiet import drop_native_logs

        with drop_native_logs():
            from tfperf.workloads.pdf.profiling import record_card
        return record_card(card, logdir, repeat, naive, show)

    def refuse_trial(self, card: Card) -> None:
        """CardError for what trains first, or measures threads."""
        from tfperf.workloads.pdf.runners import refuse_untimable

        refuse_untimable(card, "a sweep")

    def measure_trial(self, card: Card, request: Mapping[str, Any]) -> dict[str, Any]:
        """The record of a trial of a sweep."""
        from tfperf.workloads.pdf.trial import measure_trial

        return measure_trial(card, request)

    def refuse_memory(self, card: Card, modes: Sequence[str]) -> None:
        """CardError for predictions, for several devices, for what trains first or measures threads."""
        from tfperf.workloads.pdf.memory_faults import refuse_unmeasurable

        refuse_unmeasurable(card, modes)

    def describe_memory(self, card: Card) -> Sequence[str]:
        """What keys that are left to measurements are measured as."""
        from tfperf.workloads.pdf.memory_faults import describe_defaults

        return describe_defaults(card)

    def build_memory_trial(self, card: Card, mode: str) -> "ReplicaMemoryTrial":
        """Its steps with any number of replicas."""
        from tfperf.measure.quiet import drop_native_logs

        with drop_native_logs():
            from tfperf.workloads.pdf.memory import ReplicaMemoryTrial

            return ReplicaMemoryTrial(card)

    def build_step_tracer(self, card: Card, mode: str) -> "ReplicaStepTracer":
        """Its step for any number of replicas, traced alone."""
        from tfperf.measure.quiet import drop_native_logs

        self.refuse_memory(card, [mode])
        with drop_native_logs():
            from tfperf.workloads.pdf.step_tracer import ReplicaStepTracer

            return ReplicaStepTracer(card)

    def refine_card(self, card: Card, run: Path, before: Path | None) -> "Refinement":
        """Ranges of exponents and t0 predictions that a finished fit asks for."""
        from tfperf.workloads.pdf.iteration import refine_card

        return refine_card(card, run, before)

    def make_switches(self, card: Card) -> "Switches":
        """What an ablation switches off."""
        from tfperf.workloads.pdf.switches import make_switches

        return make_switches(card)

    def measure_variant(self, card: Card, request: "Request") -> dict[str, Any]:
        """The record of a form of an ablation."""
        from tfperf.workloads.pdf.variant_trial import measure_variant

        return measure_variant(card, request)

    def read_result(self, folder: Path) -> "FitResult":
        """The record of results.h5, and of report.json where the run is whole; with the survivors of its postfit."""
        from dataclasses import replace

        from tfperf.report.compare_reports import read_report
        from tfperf.results.contents import RESULTS
        from tfperf.workloads.pdf.results.postfit import read_survivors
        from tfperf.workloads.pdf.results.store import read

        report = read_report(folder, dict[str, Any])  # says what is wrong with a run that is not finished
        result = read(folder / RESULTS)
        survivors = read_survivors(folder, result)
        if survivors is None or "postfit" not in report:
            return result
        return replace(result, survivors=survivors, summary=report)

    def compare(self, before: Path, now: Path) -> "tuple[list[Change], list[str]]":
        """What differs between two finished runs."""
        from tfperf.workloads.pdf.compare import compare_fits

        return compare_fits(before, now)

    def make_example(self, data: Path | None) -> str:
        """A commented card."""
        from tfperf.workloads.pdf.example import format_example_card

        return format_example_card(data or Path("pack.h5"))

    def list_checks(self) -> "Sequence[DoctorCheck]":
        """What `import-nnpdf` needs."""
        from tfperf.measure.doctor import check_extra

        return [check_extra(name, "nnpdf", "`tfperf import-nnpdf`") for name in ("pineappl", "nnpdf-data")]


WORKLOAD = Pdf()
