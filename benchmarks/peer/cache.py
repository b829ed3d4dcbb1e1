"""Where generated problems and the peer's environment are kept: $TFPERF_CACHE, else ~/.cache/tfperf/benchmarks."""

import os
from pathlib import Path

from benchmarks.peer import problem
from tfperf.results.files import write_atomically


def make_cache_folder() -> Path:
    """The folder, made if need be."""
    given = os.environ.get("TFPERF_CACHE")
    folder = Path(given) if given else Path.home() / ".cache" / "tfperf" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_problem_file(size: str) -> Path:
    """The file of one of problem.SIZES, generated on first use: `dis` 6 MB, `global` 690 MB.

    Raises: StorageError where it cannot be written.
    """
    path = make_cache_folder() / f"{size}-{problem.FORM}.npz"
    if not path.exists():
        with write_atomically(path) as temporary:
            problem.save_problem(problem.generate(size), temporary)
    return path


def load_problem(size: str) -> problem.Problem:
    """One of problem.SIZES, from the cache."""
    return problem.load_problem(make_problem_file(size))
