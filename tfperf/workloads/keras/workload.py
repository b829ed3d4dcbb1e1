"""Keras models of the user's own as a workload."""

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfperf.console.stages import ShowStage
from tfperf.errors import CardError
from tfperf.results.contents import RESULTS
from tfperf.runcard.faults import Fault
from tfperf.runcard.kinds import CardKind
from tfperf.workloads.job import Session
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.card_files import check_functions, hash_files
from tfperf.workloads.keras.kind import KIND, NAME
from tfperf.workloads.keras.refusals import refuse_backend, refuse_ensemble, refuse_missing
from tfperf.workloads.replica_chunks import ReplicaChunk
from tfperf.workloads.workload import Workload

if TYPE_CHECKING:
    from tfperf.measure.doctor import DoctorCheck
    from tfperf.report.compare import Change
    from tfperf.stores.preparing import StoreOrigin
    from tfperf.workloads.keras.fit import KerasFit
    from tfperf.workloads.keras.input_trial import KerasInputTrial, KerasLoader
    from tfperf.workloads.keras.inputs import TrainingData
    from tfperf.workloads.keras.memory import KerasMemoryTrial
    from tfperf.workloads.keras.replicas.fit import EnsembleFit
    from tfperf.workloads.keras.replicas.result import EnsembleResult
    from tfperf.workloads.keras.result import KerasResult
    from tfperf.workloads.keras.step_tracer import KerasStepTracer
    from tfperf.workloads.keras.training import KerasTraining

MOST_EPOCHS = 1_000_000


class KerasWorkload(Workload[KerasCard]):
    """Any Keras model, from a builder or a file, with the user's samples."""

    protocol = 1
    name = NAME
    own_type = ReplicaChunk | dict[str, Any]  # of replicas, and of a model alone
    has_replicas = True
    own_files = ("model.keras", "best.keras", "weights.h5", "callbacks/")
    title = "Keras model"
    batch_key = "data.batch"
    input_key = "data.input"

    @property
    def kind(self) -> CardKind:
        """What a card may say."""
        return KIND

    def check_files(self, card: KerasCard) -> list[Fault]:
        """Functions that are not where the card says."""
        return check_functions(card)

    def hash_files(self, card: KerasCard) -> Mapping[str, str]:
        """Its files with code, and what these import, among them."""
        return hash_files(card)

    def describe_card(self, card: KerasCard, show_stage: ShowStage) -> Sequence[str]:
        """Which code a fit would run; none of it is run here."""
        refuse_missing(card)
        validation, train = card.data.validation, card.train
        batch = "the data's own, or 32 samples" if card.data.batch is None else f"{card.data.batch} samples"
        if card.data.batch == "auto":
            batch = "auto: the largest that a memory study verifies before the first step"
        lines = [
            f"model       {_describe_source(card.model)}", f"data        {_describe_source(card.data)}",
            f"batch       {batch}",
            f"epochs      {train.epochs}" if train.steps is None else f"steps       {train.steps}",
        ]  # fmt: skip
        if validation is not None:
            share = isinstance(validation, float)
            lines.append(f"validation  {f'{validation:.3g} of them' if share else _describe_source(validation)}")
        if card.replicas:
            lines += _describe_ensemble(card)
        lines += [f"callback    {source.name or _describe_source(source)}" for source in train.callbacks]
        if card.model.custom_objects is not None:
            lines.append(f"objects     of {card.model.custom_objects}; a fit runs this code")
        return lines

    def refuse_fit(self, card: KerasCard) -> None:
        """CardError where Keras would be loaded with another backend, or a file lacks a function."""
        refuse_backend()
        refuse_missing(card)

    def refuse_study(self, card: KerasCard, verb: str) -> None:
        """CardError for replicas."""
        refuse_ensemble(card, verb)

    def refuse_trial(self, card: KerasCard) -> None:
        """The same, and replicas."""
        self.refuse_fit(card)
        refuse_ensemble(card, "sweep")

    def describe_build(self, card: KerasCard, show_stage: ShowStage) -> Sequence[str]:
        """The model's layers, parameters and bytes, the shapes of a batch."""
        from tfperf.measure.quiet import drop_native_logs

        refuse_backend()
        show_stage("importing TensorFlow")
        with drop_native_logs():
            from tfperf.workloads.keras.summary import describe_build

        return describe_build(card, show_stage)

    def build_job(self, card: KerasCard, session: Session[Any]) -> "KerasFit | EnsembleFit":
        """A training of the model, or of replicas of it."""
        from tfperf.measure.loading import speed_up_import

        session.progress.show_stage("importing TensorFlow")
        with session.watch.measure_stage("import"), speed_up_import():
            from tfperf.workloads.keras.fit import KerasFit
            from tfperf.workloads.keras.replicas.fit import EnsembleFit, give_replicas

        options = session.options
        if options.replicas and not card.replicas:
            return EnsembleFit(give_replicas(card, options.replicas), session)
        if options.retry_failed and not card.replicas:
            raise CardError("--retry-failed: the card has no replicas; leave it out")
        return EnsembleFit(card, session) if card.replicas else KerasFit(card, session)

    def make_table(self, summary: Mapping[str, Any]) -> str:
        """Losses, times, what was chosen."""
        from tfperf.report.numbers import format_figure

        if "replicas" in summary:
            from tfperf.workloads.keras.replicas.summary import describe_ensemble

            return "\n".join(describe_ensemble(summary))
        lines = [f"{name}: {format_figure(value)}" for name, value in summary["last"].items()]
        choices = summary["choices"]
        how = f"{choices['loop']} loop, {choices['compilation']}, {choices['steps_per_call']} steps a call"
        return "\n".join(
            [*lines, f"steps: {summary['steps']}", *([summary["ended_by"]] if summary["ended_by"] else []), how]
        )

    def read_result(self, folder: Path) -> "KerasResult | EnsembleResult":
        """Its record, with the history of results.h5."""
        from tfperf.workloads.keras.replicas.outcome import is_ensemble
        from tfperf.workloads.keras.result import read_result

        if is_ensemble(folder / RESULTS):
            from tfperf.workloads.keras.replicas.result import read_ensemble

            return read_ensemble(folder)
        return read_result(folder)

    def build_stepper(self, card: KerasCard) -> "KerasTraining":
        """Its steps from the first on."""
        return self._build_training(card)[0]

    def _build_training(self, card: KerasCard) -> "tuple[KerasTraining, TrainingData]":
        refuse_ensemble(card)
        from tfperf.measure.quiet import drop_native_logs

        with drop_native_logs():
            from tfperf.workloads.keras.inputs import read_data
            from tfperf.workloads.keras.models import make_model
            from tfperf.workloads.keras.training import KerasTraining

            card = replace(card, train=replace(card.train, epochs=MOST_EPOCHS, steps=None))  # who measures, ends it
            data = read_data(card)
            folder = Path(tempfile.mkdtemp(prefix="tfperf-"))  # what callbacks write is nobody's
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            training = KerasTraining(card, make_model(card), data, folder)
            training.choose()
            if training.choices.loop == "keras":
                training.steps_per_call = 1  # each step is a call
            return training, data

    def get_epoch_length(self, stepper: "KerasTraining") -> int | None:
        """As its data have them; of a stream known at an epoch's end alone."""
        return stepper.feed.steps_per_epoch

    def measure_trial(self, card: KerasCard, request: Mapping[str, Any]) -> dict[str, Any]:
        """With what was chosen for the steps."""
        from tfperf.workloads.stepper import measure_steps

        training = self.build_stepper(card)
        return measure_steps(training, request) | {"choices": training.choices.to_dict()}

    def refuse_memory(self, card: KerasCard, modes: Sequence[str]) -> None:
        """CardError for replicas."""
        refuse_ensemble(card, "memory")

    def build_memory_trial(self, card: KerasCard, mode: str) -> "KerasMemoryTrial":
        """Its steps with any batch."""
        refuse_ensemble(card, "memory")
        from tfperf.workloads.keras.memory import KerasMemoryTrial

        return KerasMemoryTrial(card, mode)

    def build_input_trial(self, card: KerasCard) -> "KerasInputTrial":
        """Its steps, and the data that they are taken with."""
        from tfperf.workloads.keras.input_trial import KerasInputTrial

        return KerasInputTrial(*self._build_training(_leave_out_validation(card)))

    def build_loader(self, card: KerasCard, workers: int) -> "KerasLoader":
        """Its data alone."""
        from tfperf.workloads.keras.input_trial import KerasLoader

        return KerasLoader(_leave_out_validation(card), workers)

    def compare_inputs(self, cards: Sequence[KerasCard], request: Mapping[str, Any]) -> dict[str, Any]:
        """Of their data alone."""
        from tfperf.workloads.keras.settings_trial import compare_inputs

        return compare_inputs([_leave_out_validation(card) for card in cards], request)

    def open_pipeline(self, card: KerasCard) -> "tuple[Any, StoreOrigin]":
        """What the function under `data.build` returns."""
        refuse_backend()
        refuse_missing(card)
        from tfperf.workloads.keras.storing import open_pipeline

        return open_pipeline(card)

    def build_step_tracer(self, card: KerasCard, mode: str) -> "KerasStepTracer":
        """Its step for any batch, traced alone."""
        refuse_ensemble(card, "memory")
        from tfperf.workloads.keras.step_tracer import KerasStepTracer

        return KerasStepTracer(card, mode)

    def compare(self, before: Path, now: Path) -> "tuple[list[Change], list[str]]":
        """What differs between two finished runs."""
        from tfperf.workloads.keras.replicas.compare import compare_ensembles, refuse_mixture
        from tfperf.workloads.keras.result import compare_fits

        return compare_ensembles(before, now) if refuse_mixture(before, now) else compare_fits(before, now)

    def make_example(self, data: Path | None) -> str:
        """A commented card of a model and data of the user's own."""
        from tfperf.workloads.keras.example import format_example_card

        return format_example_card(data)

    def list_checks(self) -> "Sequence[DoctorCheck]":
        """What reads tables, and what has the data of shipped models."""
        from tfperf.measure.doctor import check_extra

        return [
            check_extra("pyarrow", "tables", "CSV and Parquet files as data"),
            check_extra("pandas", "tables", "to_pandas of records"),
            check_extra(
                "scikit-learn", "zoo", "tfperf.zoo.tabular, tfperf.zoo.digits and tfperf.zoo.photos", "sklearn"
            ),
            check_extra("scikit-image", "zoo", "the pictures of tfperf.zoo.photos", "skimage"),
        ]


def _describe_source(source: Any) -> str:
    if getattr(source, "store", None) is not None:
        return f"store {source.store}; a fit runs the code that it was made with"
    if source.build is None:
        return f"file {source.file}" if source.file is not None else f"images in {source.folder}"
    arguments = ", ".join(f"{key}={value!r}" for key, value in source.arguments.items())
    origin, _, function = source.build.rpartition(":")
    return f"{function}({arguments}) of {origin}; a fit runs this code"


def _describe_ensemble(card: KerasCard) -> list[str]:
    ids, own = card.replicas or (), card.ensemble
    samples = {"all": "all samples", "bootstrap": "as many samples, drawn with replacement"}
    told = samples[own.data] if isinstance(own.data, str) else f"by masks of {_describe_source(own.data)}"
    stop = (
        "none stops early" if own.patience is None else f"stop after {own.patience} validations without a better loss"
    )
    return [f"replicas    {len(ids)}: {ids[0]} to {ids[-1]}", f"            each on {told}; {stop}"]


def _leave_out_validation(card: KerasCard) -> KerasCard:
    """What a study of its input does not take, and may be wrong for its kind of data."""
    return replace(card, data=replace(card.data, validation=None))


WORKLOAD = KerasWorkload()
