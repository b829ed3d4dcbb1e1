"""Predictions for many records as a workload: cards that are checked, and carried out by `tfperf predict`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfperf.console.stages import ShowStage
from tfperf.errors import CardError
from tfperf.results.reading import hash_file
from tfperf.runcard.faults import Fault
from tfperf.runcard.kinds import CardKind
from tfperf.sources.code import CodeReference
from tfperf.sources.code_text import describe_missing
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.kind import KIND, NAME
from tfperf.workloads.workload import Workload

if TYPE_CHECKING:
    from tfperf.report.compare import Change


class PredictWorkload(Workload[PredictCard]):
    """A Keras model over records of files."""

    protocol = 1
    name = NAME
    title = "prediction"

    @property
    def kind(self) -> CardKind:
        """What a card may say."""
        return KIND

    def check_files(self, card: PredictCard) -> list[Fault]:
        """Functions and records that are not where the card says."""
        from tfperf.sources.records.files import describe_missing_file, find_matches

        preprocess = card.preprocess
        named = {"model.build": card.model.build, "preprocess.build": None if preprocess is None else preprocess.build}
        found = [(key, CodeReference.parse(build)) for key, build in named.items() if build is not None]
        source, why_not = card.source, describe_missing_file(card.source.made_by)
        return [
            *(Fault(key, str(one), why) for key, one in found if (why := describe_missing(one)) is not None),
            *(
                Fault(f"source.{source.format}.{place}", pattern, why_not)
                for place, pattern in enumerate(source.patterns)
                if not find_matches(pattern)
            ),
        ]

    def hash_files(self, card: PredictCard) -> Mapping[str, str]:
        """The model's file."""
        path: Path | None = card.model.file
        return {} if path is None else {"model.file": hash_file(path)}

    def describe_card(self, card: PredictCard, show_stage: ShowStage) -> Sequence[str]:
        """What would be read, computed and written; no code of the card's is run. Raises: UserError for files."""
        from tfperf.sources.records.files import list_files
        from tfperf.sources.records.opening import open_records
        from tfperf.workloads.predict.slots import make_slots

        source = card.source
        files = list_files(source.patterns, f"source.{source.format}", source.made_by)
        show_stage(f"reading {len(files)} files")
        records = open_records(source.format, files, source.columns, source.id)
        slots = make_slots(card)
        size = "measured before the first record" if card.queue.batch == "auto" else _describe_batch(card.queue.batch)
        return [
            f"records     {records.records} in {len(files)} {source.format} files: {', '.join(records.columns)}",
            f"model       {card.model.build or card.model.file}", f"batches     {size}",
            f"workers     {len(slots)}: {', '.join(slot.name for slot in slots[:8])}",
            f"output      {card.output.file}, {card.output.dtype}",
        ]  # fmt: skip

    def compare(self, before: Path, now: Path) -> "tuple[list[Change], list[str]]":
        """Rates, failures, and whether the rows agree. Raises: RunDirectoryError, also for runs over other records."""
        from tfperf.workloads.predict.compare import compare_predictions

        return compare_predictions(before, now)

    def has_own_run(self, folder: Path) -> bool:
        """Whether it has the manifest of a prediction."""
        from tfperf.infer.prediction import MANIFEST

        return (folder / MANIFEST).is_file()

    def make_example(self, data: Path | None) -> str:
        """A commented card; data: its records, in a file whose name's end says what it is."""
        from tfperf.workloads.predict.example import format_example_card

        return format_example_card(data)

    def refuse_fit(self, card: PredictCard) -> None:
        """CardError: there is nothing to train."""
        raise CardError("workload: got 'predict', which `tfperf predict` carries out; nothing is trained")


def _describe_batch(batch: Any) -> str:
    limits = {"tokens": batch.tokens, "records": batch.records}
    return ", ".join(f"at most {limit} {name}" for name, limit in limits.items() if limit is not None)


WORKLOAD = PredictWorkload()
