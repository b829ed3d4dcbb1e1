"""What the datasets of a prediction's file are called, and what a status means."""

from collections.abc import Mapping
from types import MappingProxyType

IDS, STATUS, FINISHED = "ids", "status", "finished"
# of a record; 0: it was not reached
STATUS_CODES: Mapping[str, int] = MappingProxyType({"missing": 0, "done": 1, "raised": 2, "crashed": 3, "hung": 4})
RESERVED = (IDS, STATUS, FINISHED)


def find_odd_name(name: str) -> str | None:
    """Why an output cannot have such a name in the file; None: it can.

    >>> find_odd_name("logits"), find_odd_name("ids")
    (None, 'must not be ids, status or finished, which the file has itself')
    """
    if name in RESERVED:
        return f"must not be {', '.join(RESERVED[:-1])} or {RESERVED[-1]}, which the file has itself"
    return "must be a name without /" if not name or "/" in name or name == "." else None
