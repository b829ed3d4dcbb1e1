"""A card's `sweep`: which keys take which values, and how each trial is measured."""

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.types import STRICT, Step

LARGEST = 1e15  # whole numbers up to there are exact as floats
Whole = Annotated[int, Field(ge=-int(LARGEST), le=int(LARGEST))]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Value = bool | Whole | Number | Annotated[str, Field(max_length=4096)] | None
Key = Annotated[str, Field(max_length=256)]
Seconds = Annotated[float, Field(ge=0.01, le=1e6)]
Limit = Literal["from", "to", "step"]
MOST_POINTS = 1000
MOST_KEYS = 32
MOST_REPEATS = 100


Range = dict[Limit, Whole | Number]
ValueList = Annotated[tuple[Value, ...], Field(min_length=1, max_length=MOST_POINTS)]
ValuesOrRange = ValueList | Range
Exclusion = Annotated[dict[Key, ValueList], Field(min_length=1, max_length=MOST_KEYS)]


def _check_range(limits: Range) -> str:
    """What is wrong with a range; empty where nothing is."""
    missing = [name for name in get_args(Limit) if name not in limits]
    if missing:
        return f"needs from, to and step; {missing[0]} is missing"
    if limits["step"] <= 0 or limits["to"] < limits["from"]:
        return "must have from <= to and a step above 0"
    if (limits["to"] - limits["from"]) / limits["step"] * (1 + 1e-12) >= MOST_POINTS:
        return f"must give at most {MOST_POINTS} values"
    return ""


def list_values(values: tuple[Value, ...] | Range) -> tuple[Value, ...]:
    """The values of a list, or those from `from` to `to`, the last one included where a step leads to it.

    >>> list_values({"from": 1, "to": 8, "step": 3}), list_values((4, "all"))
    ((1, 4, 7), (4, 'all'))
    """
    if not isinstance(values, dict):
        return values
    begin, end, increment = values["from"], values["to"], values["step"]
    count = int((end - begin) / increment * (1 + 1e-12)) + 1
    return tuple(begin + i * increment for i in range(count))


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Sweep:
    """The same run over values of its keys, each point a process of its own."""

    keys: Annotated[dict[Key, ValuesOrRange], Field(min_length=1, max_length=MOST_KEYS)] = Field(
        description="full keys of the card, each with a list of values or {from: ..., to: ..., step: ...}"
    )
    mode: Literal["product", "zip"] = Field(
        default="product", description="product: every combination; zip: first values, second values, ..."
    )
    without: Annotated[tuple[Exclusion, ...], Field(max_length=100)] = Field(
        default=(),
        description="points that are left out: mappings of some keys to some of their values; a point is left out "
        "where it has one of the values of each key of a mapping",
    )
    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = Field(
        default=3,
        description="how often each point is measured; all points once, then all again, in orders that the card's "
        "seed draws",
    )
    timeout: Seconds = Field(default=900.0, description="seconds after which a trial is ended")
    warmup: Step = Field(
        default=10,
        description="steps of a trial before those that are timed; all of those once, where they are the same",
    )
    steps: Step = Field(
        default=50,
        description="steps of a trial that are timed at least; in some workloads the same, again and again",
    )
    seconds: Seconds = Field(
        default=60.0,
        description="at most so long steps are timed; less where they were as long as starting took, or where the "
        "median's 95 % interval is within 3 %",
    )
    at_once: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="trials on one machine at a time; more than one disturb each other"
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        wrong = {key: _check_range(values) for key, values in self.keys.items() if isinstance(values, dict)}
        if any(wrong.values()):
            for key, text in wrong.items():
                if text:
                    yield Fault("keys", self.keys[key], f"{key} {text}")
            return
        yield from self._check_nesting()
        lengths = {key: len(list_values(values)) for key, values in self.keys.items()}
        if self.mode == "zip" and len(set(lengths.values())) > 1:
            text = ", ".join(f"{key} {count}" for key, count in lengths.items())
            yield Fault("mode", self.mode, f"zip needs as many values for each key; there are: {text}")
        points = 1
        for count in lengths.values():
            points *= count
        if self.mode == "product" and points > MOST_POINTS:
            yield Fault("keys", len(self.keys), f"must give at most {MOST_POINTS} points; these are {points}")
            return
        foreign = list(self._check_exclusions())
        yield from foreign
        if not foreign and self.without and not self.list_points():
            yield Fault("without", len(self.without), "must leave a point")

    def _check_nesting(self) -> Iterator[Fault]:
        """Keys inside the mapping that another one replaces as a whole: a point would not have both values."""
        for key in self.keys:
            for outer in self.keys:
                if key.startswith(f"{outer}."):
                    yield Fault("keys", key, f"{key} cannot be swept beside {outer}, which it is inside of")

    def _check_exclusions(self) -> Iterator[Fault]:
        """What `without` names, and no point has."""
        for i, some in enumerate(self.without):
            for key, values in some.items():
                where, there = f"without.{i}", list_values(self.keys.get(key, ()))
                if key not in self.keys:
                    yield Fault(where, key, f"{key} is not swept; must name keys of sweep.keys: {', '.join(self.keys)}")
                elif missing := [str(value) for value in values if not _is_among(value, there)]:
                    text = f"no point has {key} {', '.join(missing)}; sweep.keys has {', '.join(map(str, there))}"
                    yield Fault(where, key, text)

    def list_points(self) -> list[dict[str, Value]]:
        """The points: values by key.

        >>> Sweep(keys={"replicas": (1, 10), "engine.xla": (True, False)}, without=({"replicas": (1,)},)).list_points()
        [{'replicas': 10, 'engine.xla': True}, {'replicas': 10, 'engine.xla': False}]
        """
        columns = [list_values(values) for values in self.keys.values()]
        rows = product(*columns) if self.mode == "product" else zip(*columns, strict=True)
        every = [dict(zip(self.keys, row, strict=True)) for row in rows]
        return [point for point in every if not any(_has_values(point, some) for some in self.without)]


def _has_values(point: dict[str, Value], some: dict[str, tuple[Value, ...]]) -> bool:
    """Whether a point has one of the values of each key."""
    return all(_is_among(point[key], values) for key, values in some.items())


def _is_among(value: Value, values: tuple[Value, ...]) -> bool:
    """Whether a value is one of some; true is not 1."""
    return any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in values)
