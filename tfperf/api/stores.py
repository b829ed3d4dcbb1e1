"""`tfperf.store`, `tfperf.open_store`: elements of a dataset prepared once, and read again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfperf.api.given_cards import refuse_output
from tfperf.api.records import StudyRecord
from tfperf.errors import UserError


@dataclass(frozen=True, repr=False)
class StoreResult(StudyRecord):
    """What was stored. summary: elements, bytes, components, seconds of preparation, and others; path: its folder."""

    summary: Mapping[str, Any]
    path: Path

    def __repr__(self) -> str:
        found = self.summary
        return f"StoreResult(elements={found['elements']}, bytes={found['bytes']}, seconds={found['seconds']:.4g})"

    def list_rows(self) -> list[Mapping[str, Any]]:
        """One row."""
        return [dict(self.summary)]

    def get_content(self) -> Any:
        """The summary."""
        return dict(self.summary)


def store(
    dataset: Any, path: Path | str, *, after: str | None = None, watch: Iterable[Path | str] = (), yes: bool = False,
    quiet: bool = True,
) -> StoreResult:  # fmt: skip
    """Run the deterministic stages of a tf.data.Dataset once, and store their elements in a folder.

    after: the last of these stages, by its `name=`; by default the last one that can be stored. watch: files and
    folders that stages read by names that come from data (`is_unwatched` in the summary), or in Python; those in the
    graph are seen by themselves. yes: more than half of the free disk may be taken, which is refused otherwise. Called
    again, it goes on where it was stopped. Where a stage runs Python code, changes of what that code calls are not
    seen: remove the store then. Variables that stages read have the values of now: with other ones the store is refused
    later.

    Example:
        tfperf.store(dataset, "stores/photos", after="resize")
        faster = tfperf.open_store("stores/photos", pipeline=dataset)

    Raises: UserError for other data than a tf.data.Dataset, for stages that are random, or whose elements have several
    shapes, for the folder and for the disk; Interrupted when a signal came.
    """
    from tfperf.report.store import show_storing
    from tfperf.stores.preparing import StoreOrigin, store_elements
    from tfperf.study.store import summarise_store

    refuse_output(path)
    _refuse_others(dataset)
    origin = StoreOrigin(watched=[Path(one) for one in ([watch] if isinstance(watch, str | Path) else watch)])
    with show_storing(quiet) as (show, show_stage):
        found = store_elements(dataset, Path(path), after, origin, lambda told: yes, show, show_stage)
        return StoreResult(summarise_store(found, dataset), found.folder)


def open_store(
    path: Path | str, pipeline: Any = None, *, chunk: int | None = None, seed: int | None = None, verify: bool = False
) -> Any:
    """Stored elements as a tf.data.Dataset, in the order of their source, nested as there; tuples without names.

    pipeline: the dataset that they were stored of, made anew: its elements then, bit by bit, shuffles and random stages
    among them, without the stages that are stored. chunk: in place of the order, blocks of so many neighbours in a
    random one (`seed`), each read at once and shuffled with the next, for disks that seek slowly; not with a pipeline.
    verify: compare all checksums first, not only where the file looks like another one.

    Raises: UserError for what is no store, is damaged or not finished, and where what it was made of has changed.
    """
    from tfperf.stores.applying import apply_store
    from tfperf.stores.opening import open_elements
    from tfperf.stores.reading import read_chunks, read_in_order

    refuse_output(path)
    if chunk is not None and (pipeline is not None or not _is_count(chunk, 1)):
        raise UserError(
            f"chunk: got {chunk!r}; must be a number of elements, without pipeline, which has its own order"
        )
    if seed is not None and (chunk is None or not _is_count(seed, 0)):
        raise UserError(f"seed: got {seed!r}; must be a whole number from 0 on, beside chunk")
    found = open_elements(Path(path), verify)
    if pipeline is not None:
        _refuse_others(pipeline)
        return apply_store(found, pipeline)
    if found.plan.layout.structure is None:
        raise UserError(
            f"{found.folder}: how its elements nest cannot be told, which may be other than in tuples and dicts with "
            "texts for keys; give pipeline, or store after a stage with a name=, whose elements nest so"
        )
    flat = read_in_order(found) if chunk is None else read_chunks(found, chunk, seed)
    return flat.map(lambda *parts: found.plan.layout.restore_structure(parts))


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _refuse_others(dataset: Any) -> None:
    if not hasattr(dataset, "element_spec") or not hasattr(dataset, "_inputs"):
        raise UserError(
            f"dataset: got an object of type {type(dataset).__name__}; must be a tf.data.Dataset: arrays are in memory "
            "as they are, and what gives batches one by one has no stages that could be run apart"
        )
