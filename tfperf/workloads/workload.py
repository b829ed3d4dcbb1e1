"""What a workload offers, so that the command line, runs and studies need to know none of them.

A workload is an object of a class derived from `Workload`. What every workload has to offer is abstract here; what it
may leave out is declared by leaving it out: `has_verb` tells, and a verb says which workloads offer it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tfperf.console.stages import ShowStage
from tfperf.errors import CardError
from tfperf.measure.clock import STAGES
from tfperf.report.memory_unit import SAMPLES
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.faults import Fault
from tfperf.runcard.keys import get
from tfperf.runcard.kinds import AnyCard, CardKind

if TYPE_CHECKING:
    import click
    from rich.console import RenderableType

    from tfperf.measure.doctor import DoctorCheck
    from tfperf.report.compare import Change
    from tfperf.report.study_progress import ShowCount
    from tfperf.stores.preparing import StoreOrigin
    from tfperf.train.window import Recording
    from tfperf.workloads.input_trial import InputTrial, Loader
    from tfperf.workloads.job import Job, Session
    from tfperf.workloads.memory_trial import MemoryTrial
    from tfperf.workloads.refinement import Refinement
    from tfperf.workloads.step_tracer import StepTracer
    from tfperf.workloads.stepper import Stepper
    from tfperf.workloads.switches import Request, Switches

AUTO = "auto"
PROTOCOL = 1  # version of what is offered here: another one is another agreement
# what a verb needs one of; where it is the second, the first is made of it
METHODS = {
    "fit": ("build_job",), "profile": ("record", "build_stepper"), "sweep": ("measure_trial", "build_stepper"),
    "compare": ("compare",), "memory": ("build_memory_trial",), "input": ("build_input_trial",),
    "store": ("open_pipeline",), "iterate": ("refine_card",), "ablate": ("make_switches",), "init": ("make_example",),
}  # fmt: skip
C = TypeVar("C", bound=AnyCard)


class Workload(ABC, Generic[C]):
    """What can be trained: cards of one kind, and what carries them out."""

    protocol: ClassVar[int]  # PROTOCOL as the class was written for
    name: ClassVar[str]  # the word under `workload` of a card
    title: ClassVar[str]  # what a run of it is, after "a"
    own_type: ClassVar[type[Any]] = dict  # what run.json keeps of a part beside what it keeps of every part
    own_files: ClassVar[Sequence[str]] = ()  # what only its run directories have: files, folders ending in "/"
    stages: ClassVar[Sequence[str]] = STAGES  # of a fit, whose seconds are counted
    batch_key: ClassVar[str | None] = None  # full key of a card that says its batch and may be auto
    input_key: ClassVar[str | None] = None  # full key of a card that says how its dataset is run and may be auto
    has_replicas: ClassVar[bool] = False  # whether a fit takes --replicas and --retry-failed
    memory_unit: ClassVar[tuple[str, str]] = SAMPLES  # what the batch of a memory study counts: one, and several

    @property
    @abstractmethod
    def kind(self) -> CardKind:
        """What a card may say."""

    def check_files(self, card: C) -> list[Fault]:
        """What only the files that a card names tell against it, by full keys."""
        return []

    def hash_files(self, card: C) -> Mapping[str, str]:
        """sha256 of its files by the keys that name them, of cards that name code: a changed one is not run."""
        return {}

    def list_dependencies(self, path: Sequence[str]) -> list[tuple[str, ...]]:
        """The keys of a card that a fault at `path`, which files tell, rests on: all under its first one."""
        return [tuple(path[:1])]

    @abstractmethod
    def describe_card(self, card: C, show_stage: ShowStage) -> Sequence[str]:
        """What a card amounts to, a line each. Raises: UserError where its data or this machine do not fit it."""

    def describe_build(self, card: C, show_stage: ShowStage) -> Sequence[str]:
        """What the code that a card names makes, a line each. Raises: CardError where cards name none."""
        raise CardError(f"--build: a card of workload {self.name} names no code; leave it out")

    def refuse_fit(self, card: C) -> None:
        """CardError for a card that can be checked, profiled or swept, but not fitted."""

    def build_job(self, card: C, session: "Session[Any]") -> "Job[C, Any]":
        """A fit of the card, with its data read. Raises: UserError for faults of the card or its files."""
        raise NotImplementedError

    def make_table(self, summary: Mapping[str, Any]) -> "RenderableType":
        """What a fit prints at its end, from its report.json; by default its plain values, a line each."""
        return "\n".join(f"{key}: {value}" for key, value in summary.items() if isinstance(value, str | int | float))

    def read_result(self, folder: Path) -> Any:
        """The record of a finished run, as a fit returns it; by default its report.json. Raises: RunDirectoryError."""
        from tfperf.report.compare_reports import read_report

        return read_report(folder, dict[str, Any])

    def build_stepper(self, card: C) -> "Stepper":
        """The card's training, built and ready to take steps. Raises: UserError for faults of the card or its files."""
        raise NotImplementedError

    def record(self, card: C, logdir: Path, repeat: int, naive: bool, show: "ShowCount") -> "Recording":
        """Record steps of the card's training with TensorFlow's profiler, `repeat` times, each in a folder of its own.

        naive: the same training as plain Keras would do it. Raises: CardError where the training is too short, or has
        no such variant.
        """
        from tfperf.workloads.stepper import record_steps

        if naive:
            raise CardError(f"--naive: workload {self.name} has no other form of its training; leave it out")
        show(0, repeat, "builds the training")
        stepper = self.build_stepper(card)
        length = self.get_epoch_length(stepper)
        return record_steps(card, stepper, logdir, repeat, show, steps_per_epoch=length)

    def get_epoch_length(self, stepper: Any) -> int | None:
        """Steps of an epoch of what `build_stepper` gave; None: it has no epochs, or their length is not known."""
        return None

    def refuse_study(self, card: C, verb: str) -> None:
        """CardError for a card whose steps a verb cannot look at, before any work is begun."""

    def refuse_trial(self, card: C) -> None:
        """CardError for a card whose steps no trial of a sweep can measure."""

    def refuse_auto(self, card: C) -> None:
        """CardError for a batch that is to be decided, where nothing decides it."""
        if self.batch_key is not None and get(to_json_tree(card), self.batch_key) == AUTO:
            what = f"{self.batch_key}: got {AUTO}"
            raise CardError(f"{what}, which `tfperf fit` and `tfperf memory` decide; name a number here")

    def measure_trial(self, card: C, request: Mapping[str, Any]) -> dict[str, Any]:
        """The record of a trial of a sweep: study/point.py tells what is asked and what a record holds."""
        from tfperf.workloads.stepper import measure_steps

        return measure_steps(self.build_stepper(card), request)

    def refuse_memory(self, card: C, modes: Sequence[str]) -> None:
        """CardError for a card, or a mode, whose memory no trial can measure."""

    def describe_memory(self, card: C) -> Sequence[str]:
        """What a memory study takes where the card leaves it open, a line each."""
        return ()

    def build_memory_trial(self, card: C, mode: str) -> "MemoryTrial":
        """Its steps with any batch, stage by stage; mode: train or predict. Raises: UserError."""
        raise NotImplementedError

    def build_step_tracer(self, card: C, mode: str) -> "StepTracer | None":
        """Its step for any batch, traced alone; None where it has none. mode: train or predict. Raises: UserError."""
        return None

    def build_input_trial(self, card: C) -> "InputTrial":
        """Its steps and their data, which can be taken apart. Raises: UserError."""
        raise NotImplementedError

    def build_loader(self, card: C, workers: int) -> "Loader":
        """Its data alone, made by so many workers. Raises: UserError for data that have none."""
        raise NotImplementedError

    def compare_inputs(self, cards: Sequence[C], request: Mapping[str, Any]) -> dict[str, Any]:
        """What `tfperf input --apply` asks of the data of several cards, by turns."""
        raise NotImplementedError

    def open_pipeline(self, card: C) -> "tuple[Any, StoreOrigin]":
        """Its tf.data.Dataset, of which nothing is run, and what made it. Raises: UserError for other data."""
        raise NotImplementedError

    def refine_card(self, card: C, run: Path, before: Path | None) -> "Refinement":
        """What a card's finished fit in `run` says of the next one; before: the fit before. Raises: UserError."""
        raise NotImplementedError

    def make_switches(self, card: C) -> "Switches":
        """What an ablation of the card switches off. Raises: UserError for its files, and for what none can do."""
        raise NotImplementedError

    def measure_variant(self, card: C, request: "Request") -> dict[str, Any]:
        """The record of a variant of an ablation: study/variant.py tells what it holds."""
        raise NotImplementedError

    def compare(self, before: Path, now: Path) -> "tuple[list[Change], list[str]]":
        """What differs between two finished runs, and what to know about it. Raises: RunDirectoryError."""
        raise NotImplementedError

    def has_own_run(self, folder: Path) -> bool:
        """Whether a folder has a run that a verb of its own has made, without the run.json of a fit."""
        return False

    def make_example(self, data: Path | None) -> str:
        """A commented card for `tfperf init`; data: what it names as its data, None where the user named nothing."""
        raise NotImplementedError

    def list_checks(self) -> "Sequence[DoctorCheck]":
        """What `tfperf doctor` looks at for this workload: optional packages, files."""
        return ()

    def list_commands(self) -> "Sequence[click.Command]":
        """Verbs of its own, as `tfperf NAME VERB`; tfperf's own workloads have theirs in registry.py's VERBS."""
        return ()

    def make_group(self) -> "click.Group | None":
        """Its own verbs under its name; None where it has none."""
        import click

        commands: dict[str, click.Command] = {}
        for command in self.list_commands():
            if commands.setdefault(str(command.name), command) is not command:
                raise CardError(f"workload: '{self.name}': has the verb {command.name} twice")
        return click.Group(self.name, commands, help=f"Verbs of workload {self.name}.") if commands else None

    def has_verb(self, verb: str) -> bool:
        """Whether the workload has a method of its own for a verb of the command line."""
        return any(getattr(type(self), name) is not getattr(Workload, name) for name in METHODS[verb])
