"""Passages of text that are on every machine, cut from the documentation of Python and of what tfperf needs.

`python -m tfperf.zoo.passages OUT` writes them, and a tokenizer that is trained on them (passages_command.py).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import h5py

from tfperf.console.stages import ShowStage, show_nothing
from tfperf.errors import UserError
from tfperf.results.files import write_atomically, write_hdf5
from tfperf.zoo.passages_sources import iterate_texts

COUNT = 12_000  # passages
GROUP = 100  # of them in a group
BLANK = re.compile(r"\n[ \t]*\n")
LEAST_WORDS, LEAST_LETTERS = 8, 0.7  # of a passage; letters as a share of what is no blank
SHOWN = 40  # times at most that it is told how far it is
HDF5 = ".h5"


def write_passages(path: Path, count: int = COUNT, show_stage: ShowStage = show_nothing) -> list[str]:
    """Write so many passages and return them: each once, in an order that depends on installed versions alone.

    path: a text file with one in each line; or, where it ends in .h5, an HDF5 file with datasets batches/0/text,
    batches/1/text, ... of GROUP passages each.
    Raises: UserError where there are fewer; StorageError.
    """
    found = collect_passages(count, show_stage)
    show_stage(f"writing {path.name}")
    if path.suffix == HDF5:
        write_groups(found, path)
    else:
        with write_atomically(path) as temporary:
            temporary.write_bytes("".join(f"{one}\n" for one in found).encode())
    return found


def write_groups(passages: Sequence[str], path: Path, size: int = GROUP) -> None:
    """An HDF5 file with a group for so many passages each, the last one with what is left. Raises: StorageError."""
    with write_hdf5(path) as file:
        for number, first in enumerate(range(0, len(passages), size)):
            part = list(passages[first : first + size])
            file.create_dataset(f"batches/{number}/text", data=part, dtype=h5py.string_dtype())


def collect_passages(count: int, show_stage: ShowStage = show_nothing) -> list[str]:
    """The first ones of all. Raises: UserError where there are fewer."""
    found: list[str] = []
    for one in islice(iterate_passages(iterate_texts()), count):
        if len(found) % max(1, count // SHOWN) == 0:
            show_stage("reading documentation", len(found), count)
        found.append(one)
    if len(found) < count:
        raise UserError(f"count: got {count}; the documentation that is installed has {len(found)} passages")
    return found


def iterate_passages(texts: Iterator[str]) -> Iterator[str]:
    """What blank lines separate in texts, where it is prose, each once; blanks and ends of lines are one blank each."""
    seen: set[str] = set()
    for text in texts:
        for part in BLANK.split(text):
            passage = " ".join(part.split())
            if passage not in seen and is_prose(passage):
                seen.add(passage)
                yield passage


def is_prose(passage: str) -> bool:
    """Whether it is words rather than code, a table or a heading, and can be written as UTF-8.

    >>> is_prose("Return the number of items that the container holds now.")
    True
    >>> is_prose("Too short."), is_prose("a | 1 | 2 | 3 | 4 | 5")
    (False, False)
    """
    solid = passage.replace(" ", "")
    if passage.count(" ") < LEAST_WORDS - 1 or ">>>" in passage or not passage.isprintable():
        return False
    return sum(map(str.isalpha, solid)) >= LEAST_LETTERS * len(solid)


if __name__ == "__main__":
    from tfperf.zoo.passages_command import main

    main()
