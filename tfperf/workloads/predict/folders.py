"""What a folder may have that a prediction or its sample is begun in."""

from collections.abc import Collection
from pathlib import Path

from tfperf.errors import RunDirectoryError
from tfperf.results.lock import LOCK

SAMPLE_JOURNAL, SAMPLE, SAMPLE_PAGE = SAMPLE_FILES = ("sample.journal", "sample.json", "sample.html")


def refuse_strange_files(folder: Path, marks: Collection[str], allowed: Collection[str] = ()) -> None:
    """RunDirectoryError for files that tfperf has not made there, which a run could replace.

    marks: files of which one says that tfperf has used the folder before; allowed: what may be there without one.
    """
    names = {one.name for one in folder.iterdir() if one.suffix != ".tmp"} - {LOCK}
    if not names & {*marks} and (strange := sorted(names - {*allowed})):
        raise RunDirectoryError(f"{folder}: has {', '.join(strange[:5])}, and no prediction; choose another folder")
