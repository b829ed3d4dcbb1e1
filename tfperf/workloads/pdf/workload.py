"""Replica fits as a workload."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfperf.console.stages import Stages, Tell
from tfperf.runcard.faults import Fault
from tfperf.runcard.kinds import CardKind
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.kind import KIND, NAME
from tfperf.workloads.workload import Fitted, Options, Workload

if TYPE_CHECKING:
    from tfperf.report.compare import Change


class Pdf(Workload[Card]):
    """Ensembles of parton densities fitted to data through FK tables."""

    protocol = 1
    name = NAME
    title = "fit of replicas"

    @property
    def kind(self) -> CardKind:
        """What a card may say."""
        return KIND

    def faults(self, card: Card) -> list[Fault]:
        """What its files tell against a card."""
        from tfperf.workloads.pdf.inputs import input_faults

        return input_faults(card)

    def plan(self, card: Card, tell: Tell) -> Sequence[str]:
        """What a card amounts to."""
        from tfperf.workloads.pdf.plan import plan

        return plan(card, tell).lines()

    def fit(self, card: Card, output: Path, options: Options, progress: Stages) -> Fitted:
        """Train in a run directory."""
        from tfperf.runs.fit import carry_out
        from tfperf.workloads.pdf.report.tables import summary_table

        result, trained = carry_out(card, output, options, progress)
        return Fitted(summary_table(result.summary), not (trained and result.summary["replicas"]["failed"]))

    def measure(self, card: Card, request: Mapping[str, Any]) -> dict[str, Any]:
        """The record of a trial of a sweep."""
        from tfperf.workloads.pdf.trial import measure

        return measure(card, request)

    def compare(self, before: Path, now: Path) -> "tuple[list[Change], list[str]]":
        """What differs between two finished runs."""
        from tfperf.workloads.pdf.compare import fits

        return fits(before, now)

    def example(self, data: Path) -> str:
        """A commented card."""
        from tfperf.workloads.pdf.example import example_card

        return example_card(data)


WORKLOAD = Pdf()
