"""Translations as a workload."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfperf.console.stages import ShowStage
from tfperf.errors import CardError
from tfperf.runcard.faults import Fault
from tfperf.runcard.kinds import CardKind
from tfperf.runcard.places import make_unfit_error
from tfperf.workloads.job import Session
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.kind import KIND, NAME
from tfperf.workloads.translate.state import VOCABULARIES, VocabularyDigests
from tfperf.workloads.workload import Workload

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tfperf.measure.doctor import DoctorCheck
    from tfperf.report.compare import Change
    from tfperf.workloads.stepper import Stepper
    from tfperf.workloads.translate.job import TranslationFit
    from tfperf.workloads.translate.memory import TranslationMemoryTrial
    from tfperf.workloads.translate.step_tracer import TranslationStepTracer


class TranslateWorkload(Workload[TranslationCard]):
    """An attention LSTM trained on sentence pairs."""

    protocol = 1
    name = NAME
    own_type = VocabularyDigests
    own_files = (f"{VOCABULARIES}/",)
    stages = ("import", "data", "build", "compile", "train", "validate", "translate", "write")
    title = "translation"
    batch_key = "data.batch"
    memory_unit = ("sentence pair", "sentence pairs")

    @property
    def kind(self) -> CardKind:
        """What a card may say."""
        return KIND

    def check_files(self, card: TranslationCard) -> list[Fault]:
        """What its files tell against a card."""
        from tfperf.workloads.translate.texts import check_columns

        return check_columns(card)

    def describe_card(self, card: TranslationCard, show_stage: ShowStage) -> Sequence[str]:
        """What a card amounts to."""
        from tfperf.measure.loading import speed_up_import
        from tfperf.measure.quiet import drop_native_logs

        show_stage("importing TensorFlow")
        with speed_up_import():
            from tfperf.workloads.translate.sizes import count_sizes

        show_stage("reading sentences")
        with drop_native_logs():
            return count_sizes(card).describe()

    def refuse_fit(self, card: TranslationCard) -> None:
        """Several workers are several processes."""
        if card.placement.engine == "multiworker":
            raise CardError(
                "placement.engine: got 'multiworker'; its workers are processes of their own, and a fit is one "
                "process; allowed: tower, mirrored, central"
            )

    def build_job(self, card: TranslationCard, session: Session[VocabularyDigests]) -> "TranslationFit":
        """A training of the translator."""
        from tfperf.workloads.translate.job import TranslationFit

        return TranslationFit(card, session)

    def make_table(self, summary: Mapping[str, Any]) -> "RenderableType":
        """Scores, losses, times."""
        from tfperf.workloads.translate.tables import make_summary_table

        return make_summary_table(summary)

    def build_stepper(self, card: TranslationCard) -> "Stepper":
        """Its first steps, over and over again."""
        from tfperf.measure.quiet import drop_native_logs

        with drop_native_logs():
            from tfperf.workloads.translate.stepper import TranslationStepper

            return TranslationStepper(card)

    def measure_trial(self, card: TranslationCard, request: Mapping[str, Any]) -> dict[str, Any]:
        """The record of a trial of a sweep."""
        from tfperf.workloads.translate.trial import measure_trial

        return measure_trial(card, request)

    def refuse_memory(self, card: TranslationCard, modes: Sequence[str]) -> None:
        """CardError for several devices, and for what the processor cannot stand for."""
        from tfperf.workloads.translate.memory_faults import list_memory_faults

        if faults := [*list_memory_faults(card)]:
            raise make_unfit_error(card, faults)

    def build_memory_trial(self, card: TranslationCard, mode: str) -> "TranslationMemoryTrial":
        """Its steps with any number of pairs, or greedy translations."""
        from tfperf.measure.quiet import drop_native_logs

        with drop_native_logs():
            from tfperf.workloads.translate.memory import TranslationMemoryTrial

            return TranslationMemoryTrial(card, mode)

    def build_step_tracer(self, card: TranslationCard, mode: str) -> "TranslationStepTracer":
        """Its step for any number of pairs, or a greedy translation, traced alone."""
        from tfperf.measure.quiet import drop_native_logs

        self.refuse_memory(card, [mode])
        with drop_native_logs():
            from tfperf.workloads.translate.step_tracer import TranslationStepTracer

            return TranslationStepTracer(card, mode)

    def compare(self, before: Path, now: Path) -> "tuple[list[Change], list[str]]":
        """What differs between two finished runs."""
        from tfperf.workloads.translate.compare import compare_translations

        return compare_translations(before, now)

    def list_checks(self) -> "Sequence[DoctorCheck]":
        """What learns pieces, and what scores."""
        from tfperf.measure.doctor import check_extra

        return [check_extra(name, "translate", "cards of this workload") for name in ("tokenizers", "sacrebleu")]


WORKLOAD = TranslateWorkload()
