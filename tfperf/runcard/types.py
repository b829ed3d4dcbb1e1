"""Value types of the runcard, with their limits."""

import re
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from tfperf.runcard.faults import Fault, refuse

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
# every number has a least and a largest value: beyond them a value is a slip, and float32 comes to its ends (1e+-38)
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Fraction = Annotated[float, Field(gt=0, le=1)]
MAX_STEP = 100_000_000
Step = Annotated[int, Field(ge=1, le=MAX_STEP)]
Rate = Annotated[float, Field(ge=1e-12, le=1e6)]  # of an optimizer's steps
Strength = Annotated[float, Field(ge=0, le=1e6)]  # of a regularisation
Norm = Annotated[float, Field(ge=1e-15, le=1e15)]  # largest one of a gradient
MAX_NAMES = 1000
Name = Annotated[str, Field(max_length=256)]  # of a dataset, of a column
Names = Annotated[tuple[Name, ...], Field(max_length=MAX_NAMES)]
Title = Annotated[str, Field(max_length=1000)]
Folder = Annotated[str, Field(max_length=4096)]  # or a word in its place
CODE_FILE = ".py"
CODE_NAME = r"^([^:]+\.py|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):[A-Za-z_]\w*$"
CodeName = Annotated[
    str, Field(max_length=4096, pattern=CODE_NAME),
    WithJsonSchema({
        "type": "string", "maxLength": 4096, "pattern": CODE_NAME,
        "description": "a function: file.py:function or module:function",
    }),
]  # fmt: skip
MAX_REPLICA = 100_000
REPLICA_RANGE = r"^[1-9][0-9]*-[1-9][0-9]*$"


def check_whole(value: object) -> object:
    """The value itself; ValueError when it only compares equal to a whole number, as False and 0.0 do to 0."""
    if type(value) is not int:
        raise ValueError("must be a whole number")
    return value


def _is_consecutive(value: tuple[object, ...]) -> bool:
    first = value[0]
    return (
        all(type(one) is int for one in value)
        and isinstance(first, int)
        and value == tuple(range(first, first + len(value)))
    )


def parse_replica_ids(value: object) -> tuple[int, ...]:
    """The ids that 100 (1 to 100), "101-200" or a tuple of neighbouring ids stand for, ascending.

    Raises a validation error for anything else, and for ids outside 1 to MAX_REPLICA.

    >>> parse_replica_ids(3), parse_replica_ids("101-103")
    ((1, 2, 3), (101, 102, 103))
    """
    first, last = 1, 0
    if isinstance(value, int) and not isinstance(value, bool):
        last = value
    elif isinstance(value, str) and len(value) < 32 and re.fullmatch(REPLICA_RANGE, value):
        first, last = map(int, value.split("-"))
    elif isinstance(value, tuple) and value and _is_consecutive(value):
        first, last = value[0], value[-1]
    if not 1 <= first <= last <= MAX_REPLICA:
        text = f"must be a number of replicas (100) or a range of their ids (101-200), no id above {MAX_REPLICA}"
        refuse([Fault("", value, text)])
    return tuple(range(first, last + 1))


def _shorten_ids(ids: tuple[int, ...]) -> int | str:
    return ids[-1] if ids[0] == 1 else f"{ids[0]}-{ids[-1]}"


ReplicaIds = Annotated[
    tuple[int, ...],
    BeforeValidator(parse_replica_ids),
    PlainSerializer(_shorten_ids),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MAX_REPLICA},
                {"type": "string", "pattern": REPLICA_RANGE, "description": "a range of ids such as 101-200"},
            ]
        }
    ),
]
