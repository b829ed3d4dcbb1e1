"""The first error in what a program, and the workers that share its standard error, have said."""

import re
from itertools import pairwise

# what the C library says of a heap that was written to where it must not be, before it ends the program
HEAP = (
    r"double free or corruption|corrupted (?:size vs\. prev_size|double-linked list)|munmap_chunk\(\): |"
    r"(?:free|malloc|realloc|malloc_consolidate)\(\): \w"
)
# of a program, or of a worker of it, that native code ended
CRASHED = re.compile(rf"{HEAP}|was ended by SIG(?:ABRT|BUS|SEGV)\b|worker \d+: ended with -(?:6|7|11)\b")
BEGIN = re.compile(
    r"Traceback \(most recent call last\):|worker \d+: |"
    rf"F\d{{4}} |\d{{4}}-\d\d-\d\d .*: F |terminate called|Fatal Python error|{HEAP}"
)
LOG = re.compile(r"[IWEF]\d{4} |\d{4}-\d\d-\d\d .*: [IWEF] ")
# of what the cause is told by another worker, if that one could still tell it
FOLLOWING = re.compile(r"is aborted by|\[_Derived_\]|UNAVAILABLE|UnavailableError|Connection reset|heartbeat|peer")
NO_CAUSE = re.compile(r"\s*$|\s+(?!\(\d+\) )|Detected at node|During handling of|The above exception|\d+ root error")
LINES, MOST = 3, 600  # that are kept of an error, and characters


def find_first_error(said: str) -> str:
    """The first error that is not the consequence of another worker's; the last line where none is recognised.

    >>> find_first_error("loading\\nTraceback (most recent call last):\\n  File ...\\nValueError: no such set")
    'ValueError: no such set'
    """
    lines = said.strip().split("\n")
    begins = [i for i, line in enumerate(lines) if BEGIN.match(line)]
    errors = [_extract_message(lines[i:end]) for i, end in pairwise([*begins, len(lines)])]
    errors = [error for error in errors if error]
    found = next((error for error in errors if not FOLLOWING.search(error)), next(iter(errors), lines[-1].strip()))
    return found[:MOST]


def _extract_message(lines: list[str]) -> str:
    """What a traceback, or a fatal line of a log, says: where TensorFlow shows a graph in between, its ends."""
    if not lines[0].startswith("Traceback"):
        return lines[0].strip()
    told = [line.strip() for line in lines[1:] if not NO_CAUSE.match(line) and not LOG.match(line)]
    return "; ".join(told[:LINES])
