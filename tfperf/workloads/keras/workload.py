"""Keras models of the user's own as a workload."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfperf.console.stages import ShowStage
from tfperf.runcard.kinds import CardKind
from tfperf.workloads.job import Session
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.kind import KIND, NAME
from tfperf.workloads.workload import Workload

if TYPE_CHECKING:
    from tfperf.report.compare import Change
    from tfperf.workloads.keras.fit import KerasFit
    from tfperf.workloads.stepper import Stepper


class KerasWorkload(Workload[KerasCard]):
    """Any Keras model, from a builder or a file, with the user's samples."""

    protocol = 1
    name = NAME
    own_files = ("model.keras", "best.keras")
    title = "Keras model"

    @property
    def kind(self) -> CardKind:
        """What a card may say."""
        return KIND

    def describe_card(self, card: KerasCard, show_stage: ShowStage) -> Sequence[str]:
        """Which code a fit would run; none of it is run here."""
        return [
            f"model       {_describe_source(card.model)}", f"data        {_describe_source(card.data)}",
            f"batch       {card.data.batch} samples", f"epochs      {card.train.epochs}",
        ]  # fmt: skip

    def build_job(self, card: KerasCard, session: Session[Any]) -> "KerasFit":
        """A training of the model."""
        from tfperf.measure.loading import speed_up_import

        session.progress.show_stage("importing TensorFlow")
        with session.watch.measure_stage("import"), speed_up_import():
            from tfperf.workloads.keras.fit import KerasFit

        return KerasFit(card, session)

    def make_table(self, summary: Mapping[str, Any]) -> str:
        """Losses, times, what was chosen."""
        lines = [f"{name}: {value:.4g}" for name, value in summary["last"].items()]
        choices = summary["choices"]
        how = (
            f"{choices['loop']} loop, {'XLA' if choices['xla'] else 'graph'}, {choices['steps_per_call']} steps a call"
        )
        return "\n".join([*lines, f"steps: {summary['steps']}", how])

    def build_stepper(self, card: KerasCard) -> "Stepper":
        """Its steps from the first on."""
        from tfperf.measure.quiet import drop_native_logs

        with drop_native_logs():
            from tfperf.workloads.keras.inputs import read_data
            from tfperf.workloads.keras.models import make_model
            from tfperf.workloads.keras.training import KerasTraining

            training = KerasTraining(card, make_model(card), read_data(card))
            training.choose()
            return training

    def compare(self, before: Path, now: Path) -> "tuple[list[Change], list[str]]":
        """What differs between two finished runs."""
        from tfperf.workloads.stepper_fit import compare_stepped

        return compare_stepped(before, now)


def _describe_source(source: Any) -> str:
    if source.build is None:
        return f"file {source.file}"
    arguments = ", ".join(f"{key}={value!r}" for key, value in source.arguments.items())
    origin, _, function = source.build.rpartition(":")
    return f"{function}({arguments}) of {origin}; a fit runs this code"


WORKLOAD = KerasWorkload()
