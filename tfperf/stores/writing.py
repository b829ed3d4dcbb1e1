"""Elements into a store, block by block, so that a kill at any moment costs what was not in the journal yet."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.errors import Interrupted, RunDirectoryError, StorageError, UserCodeError, UserError
from tfperf.inputs.graph_copy import GraphCopy
from tfperf.results.files import remove
from tfperf.signals import Signals
from tfperf.stores.element_file import FILE, ElementFile, FilePlan, create_file, read_plan
from tfperf.stores.first_elements import refuse_varying
from tfperf.stores.journal import JOURNAL, StoreJournal
from tfperf.stores.layout import RecordLayout
from tfperf.stores.manifest import MANIFEST, StoreManifest
from tfperf.stores.opening import describe_file, refuse_damaged
from tfperf.stores.source_files import FILE as SOURCES_FILE
from tfperf.stores.source_files import FileStates, write_states

SYNC_SECONDS = 2.0  # between two lines of the journal
SHARE_OF_DISK = 0.5  # of what is free, that is taken without asking
ADVICE = "the same command goes on"

ShowElements = Callable[[int, int, float], None]  # elements that are stored, all, those a second in this life
AskRoom = Callable[[str], bool]


def begin_store(folder: Path, manifest: StoreManifest, states: FileStates, ask: AskRoom) -> StoreManifest:
    """The manifest of a folder: of the same store, which is gone on with, or this one, written now with its file.

    states: of the files that its source reads; ask: whether more than half of the free disk may be taken, its text says
    how much. Raises: RunDirectoryError for a folder that holds something else, StorageError where the disk has no room.
    """
    if (folder / MANIFEST).is_file():
        found = StoreManifest.read(folder)
        if (what := found.describe_difference(manifest)) is not None:
            raise RunDirectoryError(
                f"{folder}: holds a store of another pipeline (other {what}); choose another folder, or remove it"
            )
        if found.is_finished:
            remove(folder / JOURNAL)  # a kill may have left it
        return found
    refuse_other_files(folder)
    size = manifest.layout.record_bytes * manifest.elements
    refuse_full_disk(folder, size, ask)
    discard_store(folder)  # what a kill has left
    try:
        write_states(folder, states)
        create_file(folder, manifest.layout, manifest.elements, _describe_provenance(manifest))
        manifest.write(folder)
    except BaseException:
        discard_store(folder)
        raise
    return manifest


def refuse_other_files(folder: Path) -> None:
    """RunDirectoryError where a folder without a manifest holds more than what a killed process may have left there."""
    names = {*os.listdir(folder)}
    left = {"lock", FILE, SOURCES_FILE, *(f".{name}.tmp" for name in (FILE, SOURCES_FILE, MANIFEST))}
    if FILE in names:
        left.add(JOURNAL)  # it is taken away before that
    if others := sorted(names - left):
        raise RunDirectoryError(f"{folder}: holds something else ({others[0]}); choose an empty folder or a new one")


def refuse_full_disk(folder: Path, size: int, ask: AskRoom) -> None:
    """StorageError where so many bytes do not fit, or are more than half of what is free and `ask` forbids it."""
    there = (folder / FILE).stat().st_size if (folder / FILE).is_file() else 0
    free = shutil.disk_usage(folder).free + there
    told = f"{folder}: the elements take {size / 1e9:.3g} GB of {free / 1e9:.3g} GB that are free"
    if size >= free:
        raise StorageError(f"{told}; choose a folder on another disk, or store smaller elements")
    if size > SHARE_OF_DISK * free and not ask(told):
        raise StorageError(f"{told}, more than half; nothing was stored; --yes allows it")


def fill_store(
    folder: Path, manifest: StoreManifest, make: Callable[[int], GraphCopy], refuse_changed: Callable[[], None],
    show: ShowElements, signals: Signals,
) -> StoreManifest:  # fmt: skip
    """Store what is missing, and finish; signals are to be deferred, and end it between two blocks.

    make: of the number of the first element that is wanted; refuse_changed: raises UserError where the source is not as
    it was. Raises: UserError for that, and where elements are not as the first ones were; RunDirectoryError where the
    file is damaged, StorageError, Interrupted.
    """
    plan, journal = read_plan(folder / FILE, manifest.layout, manifest.elements), StoreJournal.read(folder)
    with ElementFile(folder / FILE, plan, is_written=True) as file:
        kept = journal.checksums
        journal.trim(file.compute_checksum(number) == one for number, one in enumerate(list(kept)))
        try:
            _Filling(file, plan, journal, show, signals).fill(make)
            refuse_changed()
        except UserError as error:
            if type(error) is UserError:  # the pipeline is at fault: nobody will go on with this
                discard_store(folder)
            raise
        refuse_damaged(file)
        finished = manifest.finish(journal.seconds, describe_file(file.path, file))
    finished.write(folder)
    remove(folder / JOURNAL)
    return finished


def discard_store(folder: Path) -> None:
    """Take away all that was put into a folder; the manifest first, without which the rest is nothing."""
    for name in (MANIFEST, JOURNAL, FILE, SOURCES_FILE):
        remove(folder / name)


class _Filling:
    """One life of it."""

    def __init__(
        self, file: ElementFile, plan: FilePlan, journal: StoreJournal, show: ShowElements, signals: Signals
    ) -> None:
        self._file, self._plan, self._journal = file, plan, journal
        self._show, self._signals = show, signals
        self._waiting: list[int] = []  # checksums of blocks that are written, and not yet known to be on the disk
        self._told = self._began = time.monotonic()

    def fill(self, make: Callable[[int], GraphCopy]) -> None:
        """From the first block that the journal has not."""
        before = len(self._journal.checksums)
        if before == self._plan.blocks:
            return
        copy = make(before * self._plan.block)
        for number, records in enumerate(self._read_blocks(copy), before):
            if number >= self._plan.blocks or len(records) != self._plan.locate(number)[1]:
                raise self._complain(number)
            self._waiting.append(self._file.write_block(number, records))
            now = time.monotonic()
            if now - self._told >= SYNC_SECONDS or self._signals.received is not None:
                self._save(now, before)
            if self._signals.received is not None:
                raise Interrupted(self._signals.received, None, ADVICE)
        self._save(time.monotonic(), before)
        if len(self._journal.checksums) < self._plan.blocks:
            raise self._complain(len(self._journal.checksums))

    def _save(self, now: float, before: int) -> None:
        self._file.sync()
        self._journal.add(self._waiting, now - self._told)
        self._told, self._waiting = now, []
        done = min(len(self._journal.checksums) * self._plan.block, self._plan.elements)
        self._show(done, self._plan.elements, (done - before * self._plan.block) / max(now - self._began, 1e-9))

    def _complain(self, block: int) -> UserError:
        return UserError(
            f"data: the pipeline gave {'other' if block else 'no'} elements than the {self._plan.elements} that were "
            f"counted, from {block * self._plan.block} on; was a file changed meanwhile?"
        )

    def _explain(self, error: Exception) -> UserCodeError:
        first = (len(self._journal.checksums) + len(self._waiting)) * self._plan.block
        said = " ".join(str(error).split())[:300]
        return UserCodeError(f"data: an element, of number {first} or later, could not be made: {said}")

    def _read_blocks(self, copy: GraphCopy) -> Iterator[bytes]:
        """Bytes of blocks; each is a batch, put together by TensorFlow."""
        layout = self._plan.layout
        options = tf.data.Options()
        options.deterministic = True
        batches = copy.build(options).batch(self._plan.block).prefetch(2)
        try:
            for batch in batches:
                yield layout.join([_to_array(part, layout, place) for place, part in enumerate(batch)])
        except tf.errors.InvalidArgumentError as error:
            if "Cannot batch tensors with different shapes" in str(error):
                _refuse_first_varying(copy, layout)
            raise self._explain(error) from None
        except tf.errors.OpError as error:
            raise self._explain(error) from None


def _to_array(part: Any, layout: RecordLayout, place: int) -> Any:
    array, component = part.numpy(), layout.components[place]
    refuse_varying("data", component.name, [component.shape, array.shape[1:]])
    return array


def _refuse_first_varying(copy: GraphCopy, layout: RecordLayout) -> None:
    for element in copy.build():
        for one, part in zip(layout.components, element, strict=True):
            refuse_varying("data", one.name, [one.shape, np.shape(part)])


def _describe_provenance(manifest: StoreManifest) -> str:
    """What does not change from life to life, so that files of the same store are the same."""
    import json

    names = ("stage", "elements", "fingerprint", "code", "sources", "data", "versions")
    return json.dumps({name: getattr(manifest, name) for name in names}, sort_keys=True, default=str)
