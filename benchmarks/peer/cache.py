"""Where generated problems and the peer's environment are kept: $TFPERF_CACHE, else ~/.cache/tfperf/benchmarks."""

import os
from pathlib import Path

from benchmarks.peer import problem
from tfperf.results.files import atomic_write


def cache_folder() -> Path:
    """The folder, made if need be."""
    given = os.environ.get("TFPERF_CACHE")
    folder = Path(given) if given else Path.home() / ".cache" / "tfperf" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def problem_file(size: str) -> Path:
    """The file of one of problem.SIZES, generated on first use: `dis` 6 MB, `global` 690 MB.

    Raises: StorageError where it cannot be written.
    """
    path = cache_folder() / f"{size}-{problem.FORM}.npz"
    if not path.exists():
        with atomic_write(path) as temporary:
            problem.save(problem.generate(size), temporary)
    return path


def load(size: str) -> problem.Problem:
    """One of problem.SIZES, from the cache."""
    return problem.load(problem_file(size))
