"""Translations as a workload."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfperf.console.stages import Tell
from tfperf.errors import CardError
from tfperf.runcard.faults import Fault
from tfperf.runcard.kinds import CardKind
from tfperf.workloads.job import Session
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.kind import KIND, NAME
from tfperf.workloads.translate.state import VOCABULARIES, Vocabularies
from tfperf.workloads.workload import Workload

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tfperf.measure.doctor import Check
    from tfperf.report.compare import Change
    from tfperf.workloads.stepping import Stepper
    from tfperf.workloads.translate.job import TranslationFit


class Translate(Workload[Translation]):
    """An attention LSTM trained on sentence pairs."""

    protocol = 1
    name = NAME
    own = Vocabularies
    made = (f"{VOCABULARIES}/",)
    stages = ("import", "data", "build", "compile", "train", "validate", "translate", "write")
    title = "translation"

    @property
    def kind(self) -> CardKind:
        """What a card may say."""
        return KIND

    def faults(self, card: Translation) -> list[Fault]:
        """What its files tell against a card."""
        from tfperf.workloads.translate.texts import corpus_faults

        return corpus_faults(card)

    def plan(self, card: Translation, tell: Tell) -> Sequence[str]:
        """What a card amounts to."""
        from tfperf.measure.loading import tensorflow_loading
        from tfperf.measure.quiet import native_logs_dropped

        tell("importing TensorFlow")
        with tensorflow_loading():
            from tfperf.workloads.translate.plan import translation_plan

        tell("reading sentences")
        with native_logs_dropped():
            return translation_plan(card).lines()

    def refuse_fit(self, card: Translation) -> None:
        """Several workers are several processes."""
        if card.placement.engine == "multiworker":
            raise CardError(
                "placement.engine: got 'multiworker'; its workers are processes of their own, and a fit is one "
                "process; allowed: tower, mirrored, central"
            )

    def job(self, card: Translation, session: Session[Vocabularies]) -> "TranslationFit":
        """A training of the translator."""
        from tfperf.workloads.translate.job import TranslationFit

        return TranslationFit(card, session)

    def table(self, summary: Mapping[str, Any]) -> "RenderableType":
        """Scores, losses, times."""
        from tfperf.workloads.translate.tables import summary_table

        return summary_table(summary)

    def stepper(self, card: Translation) -> "Stepper":
        """Its first steps, over and over again."""
        from tfperf.measure.quiet import native_logs_dropped

        with native_logs_dropped():
            from tfperf.workloads.translate.stepper import TranslationStepper

            return TranslationStepper(card)

    def measure(self, card: Translation, request: Mapping[str, Any]) -> dict[str, Any]:
        """The record of a trial of a sweep."""
        from tfperf.workloads.translate.trial import measure

        return measure(card, request)

    def compare(self, before: Path, now: Path) -> "tuple[list[Change], list[str]]":
        """What differs between two finished runs."""
        from tfperf.workloads.translate.compare import translations

        return translations(before, now)

    def checks(self) -> "Sequence[Check]":
        """What learns pieces, and what scores."""
        from tfperf.measure.doctor import extra_check

        return [extra_check(name, "translate", "cards of this workload") for name in ("tokenizers", "sacrebleu")]


WORKLOAD = Translate()
