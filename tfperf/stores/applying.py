"""A store in its pipeline: refused where what it was made of has changed."""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from tfperf.errors import UserError
from tfperf.inputs.graph_copy import GraphCopy, read_graph
from tfperf.inputs.stages import name_kind
from tfperf.results.reading import hash_file
from tfperf.stores.fingerprint import hash_pipeline
from tfperf.stores.graft import put_reader_in_place
from tfperf.stores.opening import ElementStore
from tfperf.stores.source_files import describe_changes, find_source_files, read_states
from tfperf.stores.split import SplitPipeline, describe_node, find_stage, list_datasets, split_pipeline

AGAIN = "store again, into another folder"


def apply_store(store: ElementStore, dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The elements of a dataset, bit by bit, with those of a store in the place of the stages that made them.

    Raises: UserError where these stages, their code or the files that they read are not as they were.
    """
    copy = read_graph(dataset)
    split = split_pipeline(copy, _find_stage(store, copy))
    refuse_changed(store, copy, split)
    return put_reader_in_place(copy, split, store)


def refuse_changed(store: ElementStore, copy: GraphCopy, split: SplitPipeline) -> None:
    """UserError that says what of the source has changed."""
    manifest, where = store.manifest, f"{store.folder}: its source has changed"
    made = split.make_stored(copy)
    for path, digest in manifest.code.items():
        if not Path(path).is_file() or hash_file(Path(path)) != digest:
            raise UserError(f"{where}: the code in {path}; {AGAIN}")
    states = read_states(store.folder, manifest.sources)
    if (changes := describe_changes(states, find_source_files(made, store.folder, manifest.extra_paths))) is not None:
        raise UserError(f"{where}: {changes}; {AGAIN}")
    if hash_pipeline(made) != manifest.fingerprint:
        raise UserError(
            f"{where}: the stages up to {describe_node(copy, split.stage)}, or values in them, as arguments of the "
            f"function that makes them; {AGAIN}"
        )
    count = int(made.build().cardinality())
    if count >= 0 and count != manifest.elements:
        raise UserError(f"{where}: it gives {count} elements, {manifest.elements} are stored; {AGAIN}")


def list_rest_lines(store: ElementStore, dataset: tf.data.Dataset | None) -> list[str]:
    """Lines of Python that go on from stored elements, for pipelines that cannot be applied to them by themselves."""
    rest: Sequence[str] = ()
    if dataset is not None:
        copy = read_graph(dataset)
        names = list_datasets(copy)
        rest = [
            one for one in names[names.index(_find_stage(store, copy)) + 1 :] if copy.nodes[one].op != "OptionsDataset"
        ]
        rest = [f"# dataset = dataset.{name_kind(copy.nodes[one].op)}(...)  {describe_node(copy, one)}" for one in rest]
    return ["import tfperf", f'dataset = tfperf.open_store("{store.folder}")', *rest]


def _find_stage(store: ElementStore, copy: GraphCopy) -> str:
    """The node of the stage that was stored. Raises: UserError where there is none any more."""
    if store.manifest.stage is not None:
        try:
            return find_stage(copy, store.manifest.stage)
        except UserError as error:
            raise UserError(f"{store.folder}: its source has changed: {error}; {AGAIN}") from None
    names = list_datasets(copy)
    if store.manifest.position >= len(names):
        raise UserError(f"{store.folder}: its source has changed: the pipeline has fewer stages; {AGAIN}")
    return names[store.manifest.position]
