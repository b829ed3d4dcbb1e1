"""The stages of a dataset up to one of them, run once, their elements stored."""

import os
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfperf.console.stages import ShowStage, show_nothing
from tfperf.errors import RunDirectoryError, UserError
from tfperf.inputs.graph_copy import GraphCopy, copy_graph, read_graph
from tfperf.inputs.stages import read_name
from tfperf.measure.environment import list_versions
from tfperf.results.lock import DirectoryLock
from tfperf.results.reading import hash_file
from tfperf.signals import Signals
from tfperf.stores.fingerprint import hash_pipeline, uses_python
from tfperf.stores.first_elements import explain_errors, find_layout, refuse_other_last
from tfperf.stores.manifest import StoreManifest
from tfperf.stores.opening import ElementStore, open_elements
from tfperf.stores.source_files import (
    FileStates,
    describe_changes,
    find_source_files,
    has_names_from_data,
    hash_states,
    refuse_unseen,
)
from tfperf.stores.split import SplitPipeline, choose_stage, describe_node, find_stage, list_datasets, split_pipeline
from tfperf.stores.writing import ADVICE, AskRoom, ShowElements, begin_store, fill_store

COUNTED = 64  # elements at once


@dataclass(frozen=True)
class StoreOrigin:
    """Where a dataset comes from. data: the data block of its card; code: files that its functions are in; paths: what
    these functions were given that may be files; watched: files and folders of which the user says that they are read.
    """

    data: Mapping[str, Any] | None = None
    code: Sequence[Path] = ()
    paths: Sequence[str] = field(default=())
    watched: Sequence[Path] = ()


def store_elements(
    dataset: tf.data.Dataset, folder: Path, after: str | None, origin: StoreOrigin, ask: AskRoom, show: ShowElements,
    show_stage: ShowStage = show_nothing,
) -> ElementStore:  # fmt: skip
    """Store what comes out of a stage, by its name; None: the last one that can be stored. A store that was begun goes
    on, one that is finished is verified.

    Raises: UserError for pipelines that cannot be stored, RunDirectoryError for the folder, StorageError for the disk,
    Interrupted when a signal came: what is stored until then stays.
    """
    with Signals(advice=ADVICE).listen() as signals:
        show_stage("reading the stages")
        copy = copy_graph(dataset)
        stage = choose_stage(copy) if after is None else find_stage(copy, after)
        split = split_pipeline(copy, stage)
        show_stage("looking at the first elements, twice")
        manifest, states = _describe(dataset, copy, split, origin, folder, show_stage)
        with _lock_folder(folder) as held, signals.defer():
            found = begin_store(held.path, manifest, states, ask)
            if not found.is_finished:
                show_stage(f"storing {found.elements} elements after {describe_node(copy, stage)}")
                fill_store(
                    held.path, found, lambda first: split.make_stored(copy, first),
                    lambda: _refuse_changed_files(copy, split, states, folder, manifest.extra_paths), show, signals,
                )  # fmt: skip
    return open_elements(folder, verify=found.is_finished)


@contextmanager
def _lock_folder(folder: Path) -> Any:
    """The folder, locked; one that nothing was put into is taken away again."""
    held = DirectoryLock(folder)
    held.acquire()
    try:
        yield held
    except BaseException:
        held.discard()
        raise
    held.release()


def _describe(
    dataset: tf.data.Dataset,
    copy: GraphCopy,
    split: SplitPipeline,
    origin: StoreOrigin,
    folder: Path,
    show_stage: ShowStage,
) -> tuple[StoreManifest, dict[str, str]]:
    layout = find_layout(copy, split)
    made = split.make_stored(copy)
    elements = _count(copy, split, show_stage)
    refuse_other_last(copy, split, layout, elements)
    has_python = uses_python(made)
    refuse_unseen(origin.watched, folder)
    more = (*(origin.paths if has_python else ()), *origin.watched)
    paths = tuple(os.path.abspath(str(one)) for one in more)
    states = find_source_files(made, folder, paths)
    manifest = StoreManifest(
        read_name(copy.nodes[split.stage]), list_datasets(copy).index(split.stage), elements, layout,
        hash_stored(dataset, split), hash_code(origin.code) if has_python else {}, has_python, hash_states(states),
        paths, origin.data, list_versions(), is_unwatched=not origin.watched and has_names_from_data(made),
    )  # fmt: skip
    return manifest, states


def _refuse_changed_files(
    copy: GraphCopy, split: SplitPipeline, before: FileStates, folder: Path, paths: Sequence[str]
) -> None:
    """UserError where files are not as they were before the elements were made of them."""
    if (changes := describe_changes(before, find_source_files(split.make_stored(copy), folder, paths))) is not None:
        raise UserError(
            f"data: files that the stages read changed while the elements were stored: {changes}; nothing was kept: "
            "store again once nobody changes them any more"
        )


def hash_stored(dataset: tf.data.Dataset, split: SplitPipeline) -> str:
    """Digest of the stages that make the elements."""
    raw = read_graph(dataset)
    return hash_pipeline(split_pipeline(raw, _find_again(raw, split)).make_stored(raw))


def _find_again(copy: GraphCopy, split: SplitPipeline) -> str:
    if split.stage not in copy.nodes:
        raise UserError("data: the graph of the dataset changes from one reading to the next; it cannot be stored")
    return split.stage


def hash_code(files: Sequence[Path]) -> dict[str, str]:
    """sha256 of files with code by their paths. Raises: UserError for one that is not there."""
    try:
        return {str(file): hash_file(file) for file in files}
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}; the store was made by code in it") from None


def _count(copy: GraphCopy, split: SplitPipeline, show_stage: ShowStage) -> int:
    """Elements that are to be stored. Raises: UserError for a pipeline without an end."""
    made = split.make_stored(copy).build()
    count = int(made.cardinality())
    where = f"stage {describe_node(copy, split.stage)}"
    if count == tf.data.INFINITE_CARDINALITY:
        raise UserError(f"{where}: gives elements without an end, which cannot be stored; store before it repeats")
    if count == tf.data.UNKNOWN_CARDINALITY:
        show_stage("counting the elements")
        count = _run_through(split.make_base(copy), where)
    if not count:
        raise RunDirectoryError(f"{where}: has no elements")
    return count


def _run_through(copy: GraphCopy, where: str) -> int:
    """How many elements there are. Python comes in between now and then, which a signal needs: there may be no end."""
    with explain_errors(where):
        return sum(int(tf.size(part)) for part in copy.build().map(lambda *_: True).batch(COUNTED))
