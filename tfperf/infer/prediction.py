"""A prediction from its beginning, or from where it was, to the finished file."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tfperf.arrays import AnyArray
from tfperf.errors import RunDirectoryError, UserError
from tfperf.infer.commit_thread import CommitThread
from tfperf.infer.dispatch_records import DispatchHooks, DispatchRule, Slot, WindowEvent
from tfperf.infer.dispatcher import Dispatcher
from tfperf.infer.event_log import EventLog, keep_events
from tfperf.infer.journal import JOURNAL, CommitProgress, JournalEntry, group_failures, number_records, read_journal
from tfperf.infer.launchers import Launcher
from tfperf.infer.output_file import OutputFile, OutputPlan, OutputSpec, create_output
from tfperf.infer.preparer import PreparerSpec
from tfperf.infer.writer import RowWriter, recover
from tfperf.results.files import write_atomically
from tfperf.results.reading import read_json

MANIFEST, FORMAT = "prediction.json", 1


@dataclass(frozen=True)
class PredictionPlan:
    """What is to be there at the end. identity: values of JSON that tell this prediction from others; whoever goes on
    with one must have the same. attributes: of the file."""

    records: int
    window: int
    file: str
    dtype: str
    id_type: str
    identity: Mapping[str, Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def windows(self) -> int:
        """How many there are."""
        return -(-self.records // self.window)


@dataclass
class PredictionResult:
    """What a life of a prediction came to. seconds: from its first lease to its last commit."""

    log: EventLog = field(default_factory=lambda: EventLog(0))
    seconds: float = 0.0
    records: int = 0  # of this life
    first_lease: float | None = None  # as the clock had it


class PredictionFolder:
    """The folder of a prediction: manifest, journal, and the file."""

    def __init__(self, folder: Path, plan: PredictionPlan) -> None:
        self.folder, self.plan = folder, plan
        self.outputs: tuple[OutputSpec, ...] | None = None  # None: nothing came out yet
        self.progress = CommitProgress(plan.window, plan.records)

    @property
    def path(self) -> Path:
        """Of the file."""
        return self.folder / self.plan.file

    def open(self, is_resumed: bool) -> None:
        """Begin, or go on; anew where nothing came out yet. Raises: RunDirectoryError where the folder has another
        prediction, or is_resumed does not fit what is there."""
        refuse_wrong_start(self.folder, is_resumed)
        if has_rows(self.folder):
            self.open_existing()
        else:
            self._write()

    def open_existing(self) -> None:
        """Read what is there. Raises: RunDirectoryError where it is another prediction, or damaged."""
        found = read_json(self.folder / MANIFEST)
        changed = [name for name, value in self.plan.identity.items() if found["identity"].get(name) != value]
        if changed or found.get("format") != FORMAT:
            what = ", ".join(changed) or "format"
            raise RunDirectoryError(f"{self.folder}: has a prediction with other {what}; choose another folder")
        if found["outputs"] is not None:
            self.outputs = tuple(OutputSpec(**{**one, "shape": tuple(one["shape"])}) for one in found["outputs"])
            try:
                recover(self.folder, self.progress)
            except ValueError as error:
                raise RunDirectoryError(f"{self.folder / JOURNAL}: damaged: {error}") from None

    def _write(self) -> None:
        outputs = None if self.outputs is None else [asdict(one) for one in self.outputs]
        tree = {"format": FORMAT, "identity": dict(self.plan.identity), "outputs": outputs}
        with write_atomically(self.folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")

    def make_file_plan(self) -> OutputPlan:
        """Of the file, once it is known what comes out."""
        assert self.outputs is not None
        return OutputPlan(self.plan.records, self.outputs, self.plan.id_type, self.plan.attributes)

    def finish_if_complete(self) -> None:
        """Say in the file that all records are there, where they are."""
        if self.progress.is_complete and self.outputs is not None:
            with OutputFile(self.path, self.make_file_plan(), is_written=True) as file:
                if not file.is_finished:
                    file.finish()

    def create(self, outputs: Sequence[OutputSpec]) -> None:
        """The file, as the first rows say. Raises: StorageError."""
        self.outputs = tuple(outputs)
        create_output(self.path, self.make_file_plan())
        self._write()  # after the file: what it says is there is there


def has_rows(folder: Path) -> bool:
    """Whether a folder has a prediction of which something came out. Raises: RunDirectoryError where it is damaged."""
    path = folder / MANIFEST
    return path.is_file() and read_json(path).get("outputs") is not None


def refuse_wrong_start(folder: Path, is_resumed: bool) -> None:
    """RunDirectoryError where is_resumed does not fit what a folder has."""
    if is_resumed and not (folder / MANIFEST).is_file():
        raise RunDirectoryError(f"{folder}: has no prediction to go on with; leave out --resume")
    if not is_resumed and has_rows(folder):
        raise RunDirectoryError(f"{folder}: has a prediction; --resume goes on with it, or choose another")


def run_prediction(
    found: PredictionFolder, slots: Sequence[Slot], preparer: PreparerSpec, rule: DispatchRule,
    ask: Callable[[int], None], announce: Callable[[Sequence[JournalEntry]], None], hooks: DispatchHooks,
    clock: Callable[[], float] = time.monotonic, launcher: Launcher | None = None,
) -> PredictionResult:  # fmt: skip
    """Run what is left; the file is finished where all is there, and not where `hooks.is_stopped` ended it.

    ask: called with the bytes that the file takes before it is made; raises where they are not to be taken. announce:
    called with what was committed. hooks.give is not used. launcher: as the dispatcher's.

    Raises: UserError where the model gives other than numbers, TrainingError where nothing runs, StorageError for the
    disk; what is committed stays.
    """
    result = PredictionResult(EventLog(len(slots)))
    last = [0.0]
    stack = ExitStack()

    def open_writer(outputs: Sequence[OutputSpec], ids: AnyArray) -> RowWriter:
        if found.outputs is None:
            found.outputs = tuple(outputs)
            ask(found.make_file_plan().bytes)
            found.create(outputs)
        file = stack.enter_context(OutputFile(found.path, found.make_file_plan(), is_written=True))
        return RowWriter(file, found.folder, found.progress, tell_commit, clock)

    def tell_commit(entries: Sequence[JournalEntry]) -> None:
        last[0] = clock()
        result.records += sum(len(one.numbers) for one in entries)
        announce(entries)

    def note_window(event: WindowEvent) -> None:
        thread.note_window(event)
        hooks.note_window(event)

    thread = CommitThread(open_writer, found.plan.dtype, found.outputs)
    given = replace(hooks, give=thread.give, note_window=note_window)
    kept = keep_events(result.log, given, lambda: dispatcher.elapsed)
    dispatcher = Dispatcher(slots, preparer, rule, kept, clock, launcher)
    with stack, closing(thread):
        left = list(found.progress.list_open())
        dispatcher.run(iter(left), len(left), found.progress.get_done)
    result.first_lease = dispatcher.first_lease
    result.seconds = max(0.0, last[0] - (dispatcher.first_lease or last[0]))
    if not found.progress.is_complete and not hooks.is_stopped():
        raise UserError("model: no record gave a result: " + describe_failures(found, thread))
    return result


def describe_failures(found: PredictionFolder, thread: CommitThread) -> str:
    """The first of those that nothing could be written of."""
    early = [failure for given in thread.early for failure in given[4]]
    return early[0].message if early else "nothing was prepared"


@dataclass(frozen=True)
class VerifiedPrediction:
    """What a comparison with the journal found. faults: what is not as it was written; notes: what is no fault."""

    done: int
    records: int
    faults: tuple[str, ...]
    notes: tuple[str, ...] = ()


def verify_prediction(found: PredictionFolder, show: Callable[[int, int], None]) -> VerifiedPrediction:
    """Compare all that the journal says with the file. show: records that were compared.

    A line that a kill has cut off is no fault: its records are done again, or still missing.
    """
    faults, notes = list[str](), list[str]()
    progress = CommitProgress(found.plan.window, found.plan.records)
    if found.outputs is None:
        return VerifiedPrediction(0, found.plan.records, ())
    with OutputFile(found.path, found.make_file_plan()) as file:
        for number, (entry, line) in enumerate(read_journal(found.folder / JOURNAL), 1):
            if entry is None:
                notes.append(f"{JOURNAL}: line {number} is not whole, as after a kill, and does not count: {line}")
                continue
            try:
                progress.add(entry)
            except ValueError as error:
                faults.append(f"{JOURNAL}: line {number}: {error}")
                continue
            records = number_records(entry, found.plan.window)
            if file.compute_checksum(records) != entry.checksum:
                faults.append(
                    f"{found.plan.file}: rows, ids or status of {len(records)} records from {records[0]} to "
                    f"{records[-1]} are not as they were written"
                )
            show(progress.count, progress.records)
        if progress.is_complete and not file.is_finished:
            notes.append(f"{found.plan.file}: all records are there, but `finished` is still 0; --resume sets it")
        if file.is_finished and not progress.is_complete:
            faults.append(f"{JOURNAL}: {progress.records - progress.count} records are missing, of a finished file")
    return VerifiedPrediction(progress.count, progress.records, tuple(faults), tuple(notes))


def summarise_failures(found: PredictionFolder) -> dict[str, Any]:
    """How many records failed, and why: `reasons`, and the first ones with their messages."""
    first = sorted(found.progress.failures, key=lambda one: (one.window, one.number))[:100]
    return {
        "failed": len(found.progress.failures), "reasons": group_failures(found.progress.failures),
        "first": [
            {"record": one.window * found.plan.window + one.number, "reason": one.reason, "message": one.message}
            for one in first
        ],
    }  # fmt: skip
