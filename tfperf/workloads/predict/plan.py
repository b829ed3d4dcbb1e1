"""What a card's prediction is to hold, and by what it is known: digests of model, preparation and records."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from tfperf.console.stages import ShowStage
from tfperf.errors import CardError
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.prediction import PredictionPlan
from tfperf.infer.preparer import PreparerSpec
from tfperf.results.reading import hash_file
from tfperf.runcard.dump import to_json_tree
from tfperf.sources.code import CodeReference
from tfperf.sources.code_text import list_code_files
from tfperf.sources.records.files import list_files
from tfperf.sources.records.opening import open_records
from tfperf.sources.records.readers import FileRecords
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.loading import PrepareBuilder


def list_source(card: PredictCard) -> list[Path]:
    """Its files. Raises: UserError where there are none."""
    return list_files(card.source.patterns, f"source.{card.source.format}", card.source.made_by)


def open_source(card: PredictCard, show_stage: ShowStage) -> tuple[PreparerSpec, FileRecords]:
    """What processes open, and the records. Raises: UserError for files that are missing or damaged."""
    files = list_source(card)
    show_stage(f"reading {len(files)} files")
    opener = partial(open_records, card.source.format, files, card.source.columns, card.source.id)
    found = opener()
    _refuse_unclear_text(card, found.columns)
    return PreparerSpec(opener, PrepareBuilder(card.preprocess), card.queue.window), found


def _refuse_unclear_text(card: PredictCard, columns: Sequence[str]) -> None:
    if card.preprocess is None or card.preprocess.tokenizer is None:
        return
    name, told = card.preprocess.text, ", ".join(columns[:20])
    if name is None and len(columns) > 1:
        raise CardError(f"preprocess.text: got null; must name the column that is tokenized, one of: {told}")
    if name is not None and name not in columns:
        raise CardError(f"preprocess.text: no column {name}; there are: {told}")


def read_plan(
    card: PredictCard, show_stage: ShowStage, check: Callable[[], None] = lambda: None
) -> tuple[PredictionPlan, PreparerSpec]:
    """What the files have, and what is to come out. Raises: UserError for files that are missing or damaged.

    check: called between two files; raises where the command is to end.
    """
    spec, records = open_source(card, show_stage)
    source, files = card.source, list_source(card)
    show_stage(f"hashing {len(files)} files of {records.records} records")
    digests = []
    for path in files:
        check()
        digests.append([path.name, hash_file(path)])
    check()
    identity = {
        "model": describe_model(card), "preprocess": describe_preprocess(card), "source": digests,
        "columns": [*records.columns], "id": source.id, "output": [*card.output.names, card.output.dtype],
        "file": card.output.file, "window": card.queue.window,
    }  # fmt: skip
    attributes = {
        "title": card.title, "model_sha256": digest_json(identity["model"]),
        "input_sha256": digest_json([digest for _, digest in digests]),
        "preprocess_sha256": digest_json(identity["preprocess"]), "records": records.records, "units": "1",
    }  # fmt: skip
    plan = PredictionPlan(
        records.records, card.queue.window, card.output.file, card.output.dtype,
        records.find_id_type(card.queue.window), identity, attributes,
    )  # fmt: skip
    return plan, spec


def plan_with_rule(plan: PredictionPlan, rule: BatchRule) -> PredictionPlan:
    """With the batches, on which the last bits depend."""
    return replace(plan, identity={**plan.identity, "batch": asdict(rule)})


def describe_model(card: PredictCard) -> dict[str, Any]:
    """What the rows depend on: digests of files and code, arguments."""
    tree = to_json_tree(card)["model"]
    named = {key: getattr(card.model, key) for key in ("file", "weights", "custom_objects")}
    files = {key: hash_file(path) for key, path in named.items() if path is not None}
    return {**tree, **files, **describe_code(card.model.build)}


def describe_preprocess(card: PredictCard) -> dict[str, Any] | None:
    """The same of the preparation; None: there is none."""
    if card.preprocess is None:
        return None
    tree: dict[str, Any] = to_json_tree(card)["preprocess"]
    if card.preprocess.tokenizer is not None:
        tree["tokenizer"] = hash_file(card.preprocess.tokenizer)
    return {**tree, **describe_code(card.preprocess.build)}


def describe_code(build: str | None) -> dict[str, Any]:
    """A function by its name and the digests of the user's files that it is in; wherever these are."""
    if build is None:
        return {}
    reference = CodeReference.parse(build)
    named = reference.function if reference.file is not None else build
    return {"build": named, "code": {name: hash_file(path) for name, path in list_code_files(reference).items()}}


def digest_json(value: Any) -> str:
    """sha256 of values of JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
