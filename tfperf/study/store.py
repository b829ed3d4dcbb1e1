"""`tfperf store`: the deterministic stages of a card's data run once, their elements stored."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfperf.console.stages import ShowStage
from tfperf.errors import RunDirectoryError, UserError
from tfperf.measure.quiet import drop_native_logs
from tfperf.results.rundir import has_run
from tfperf.runcard.kinds import AnyCard
from tfperf.workloads.registry import WORKLOADS


def store_card(
    card: AnyCard, output: Path, after: str | None, watch: Sequence[Path], ask: Callable[[str], bool],
    show: Callable[[int, int, float], None], show_stage: ShowStage,
) -> dict[str, Any]:  # fmt: skip
    """Store the elements of a card's data after a stage; what it was, as values of JSON.

    watch: files and folders that its functions read, beside those in its graph. ask: whether more than half of the free
    disk may be taken. Raises: UserError for cards and data that have nothing to store, for the folder and for the disk;
    Interrupted when a signal came: the same call goes on.
    """
    workload = WORKLOADS.get_offering("store", card.workload)
    if has_run(output):
        raise RunDirectoryError(f"{output}: holds a run; choose another folder for a store")
    show_stage("importing TensorFlow")
    with drop_native_logs():
        from tfperf.stores.preparing import store_elements

        dataset, origin = workload.open_pipeline(card)
        store = store_elements(dataset, output, after, replace(origin, watched=watch), ask, show, show_stage)
        return summarise_store(store, dataset)


def summarise_store(store: Any, dataset: Any) -> dict[str, Any]:
    """What a store is; `fault`: why the rest of the dataset cannot be applied to it, with lines that do."""
    from tfperf.stores.applying import apply_store, list_rest_lines

    fault, lines = None, list[str]()
    try:
        apply_store(store, dataset)
    except UserError as error:
        fault, lines = str(error), list_rest_lines(store, dataset)
    plan = store.plan
    components: Sequence[Any] = plan.layout.components
    return {
        "stage": store.manifest.stage, "elements": plan.elements, "components": [str(one) for one in components],
        "bytes": plan.elements * plan.layout.record_bytes, "seconds": store.manifest.seconds,
        "folder": str(store.folder), "file": str(store.elements_file), "fault": fault, "lines": lines,
        "is_unwatched": store.manifest.is_unwatched,
    }  # fmt: skip
