"""Data of several cards without their models: digests of their first batches, and how fast they come, by turns."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tfperf.errors import UserError
from tfperf.inputs.delivery import DigestLimits, digest_elements, measure_delivery
from tfperf.sources.streams import DatasetStream
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.input_trial import describe_dataset
from tfperf.workloads.keras.inputs import read_data

LONGEST = 500  # characters of what a candidate's code has raised


def compare_inputs(cards: Sequence[KerasCard], request: Mapping[str, Any]) -> dict[str, Any]:
    """A record for each card, in `candidates`, of what is asked for.

    describe: stages of the first card's data, measured for so many seconds. digest: how much of two passes is compared
    (`DigestLimits`). steps: rates, a list for each of these times [s] of a step that waits, with a rate for each of
    `turns`, each measured for `seconds`. Data are made anew for each turn, so that those of one card are there at a
    time, and every other turn goes the other way round. Of a card whose data cannot be had only `fault`.
    """
    found: list[dict[str, Any]] = [{} for _ in cards]
    record: dict[str, Any] = {"candidates": found}
    if "describe" in request:
        record |= _describe(cards[0], request["describe"])
    if "digest" in request:
        for card, one in zip(cards, found, strict=True):
            limits = DigestLimits(**request["digest"])
            _try_candidate(
                one, lambda card=card, limits=limits: {"digests": asdict(digest_elements(_open(card), limits))}
            )
    pairs = list(zip(cards, found, strict=True)) if "steps" in request else []
    for turn in range(request.get("turns", 0)):
        for card, one in pairs if turn % 2 == 0 else reversed(pairs):
            if "fault" not in one:
                _try_candidate(one, lambda card=card, one=one: {"rates": _measure(card, one, request)})
    return record


def _describe(card: KerasCard, seconds: float) -> dict[str, Any]:
    data = read_data(card).training
    if not isinstance(data, DatasetStream):
        return {"source": {"kind": type(data).__name__}}
    return {"source": describe_dataset(data.source, seconds)}


def _measure(card: KerasCard, one: Mapping[str, Any], request: Mapping[str, Any]) -> list[list[float]]:
    """The rates so far, with one more for each step."""
    before = one.get("rates") or [[] for _ in request["steps"]]
    dataset = _open(card)
    return [
        [*rates, measure_delivery(dataset, request["seconds"], step)]
        for rates, step in zip(before, request["steps"], strict=True)
    ]


def _open(card: KerasCard) -> Any:
    data = read_data(card).training
    if not isinstance(data, DatasetStream):
        raise UserError("data: are no tf.data.Dataset")
    return data.source


def _try_candidate(one: dict[str, Any], measure: Any) -> None:
    """Other values of a function's arguments may make it raise anything, which is no fault of the other candidates."""
    try:
        one.update(measure())
    except Exception as error:
        one["fault"] = f"{type(error).__name__}: {error}"[:LONGEST]
