"""Files by globs in natural order, and where in them records of a number are."""

import bisect
import glob
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfperf.errors import UserError

DIGITS = re.compile(r"(\d+)")


def make_natural_key(text: str) -> list[Any]:
    """By which texts are sorted so that numbers in them count as numbers.

    >>> sorted(["part-10", "part-9", "part-9b"], key=make_natural_key)
    ['part-9', 'part-9b', 'part-10']
    """
    return [(0, int(part), part) if part.isdigit() else (1, 0, part) for part in DIGITS.split(text)]


def list_files(patterns: Sequence[str], key: str, made_by: str | None = None) -> list[Path]:
    """All files that globs match, each once, in natural order within each glob. made_by: the command that makes them.

    Raises: UserError, by the card's key, for a glob that matches none.
    """
    found: dict[Path, None] = {}
    for place, pattern in enumerate(patterns):
        matches = find_matches(pattern)
        if not matches:
            raise UserError(f"{key}.{place}: {pattern}: {describe_missing_file(made_by)}")
        for one in sorted(matches, key=make_natural_key):
            found[Path(one).resolve()] = None
    return list(found)


def find_matches(pattern: str) -> list[str]:
    """Files that a glob matches, in no order."""
    return [one for one in glob.glob(pattern, recursive=True) if Path(one).is_file()]


def describe_missing_file(made_by: str | None) -> str:
    """What a message says of files that are not there. made_by: the command that makes them, if it is known."""
    return "no such file" if made_by is None else f"no such file; `{made_by}` makes it"


@dataclass(frozen=True)
class Parts:
    """Records that lie in several parts, one after the other. counts: of each."""

    counts: Sequence[int]

    @property
    def total(self) -> int:
        """Of all parts."""
        return sum(self.counts)

    def split(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Parts that have the records from `first` to before `last`, each with the range in it.

        >>> list(Parts([2, 0, 5]).split(1, 4))
        [(0, 1, 2), (2, 0, 2)]
        """
        ends = list(self._list_ends())
        place = bisect.bisect_right(ends, first)
        while first < last:
            begin = ends[place] - self.counts[place]
            end = min(last, ends[place])
            if end > first:
                yield place, first - begin, end - begin
            first, place = max(first, end), place + 1

    def _list_ends(self) -> Iterator[int]:
        total = 0
        for count in self.counts:
            total += count
            yield total
