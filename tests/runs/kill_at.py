"""Run `tfperf` and kill -9 it at the n-th place of a write: python -m tests.runs.kill_at NAME N fit ...

Each atomic write has four places where a kill can hurt: the temporary file is half there, it is there but not yet on
disk, it is on disk but not renamed, it is renamed but the folder is not on disk. They are counted one after another,
over all writes of files in whose path there is the name: checkpoints, results.h5.
"""

import os
import signal
import sys
from pathlib import Path

from tfperf.results import files

count = 0


def place(limit, descriptor=None):
    """One more place was reached; die if it is the one."""
    global count
    count += 1
    if count == limit:
        if descriptor is not None:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)


def aim(name, limit):
    real_sync, real_replace = files.sync, os.replace

    def sync(path):
        if name in str(path) and Path(path).is_file():
            descriptor = os.open(path, os.O_WRONLY)
            place(limit, descriptor)
            os.close(descriptor)
            place(limit)
        real_sync(path)

    def replace(source, target):
        if name not in str(source):
            return real_replace(source, target)
        place(limit)
        real_replace(source, target)
        return place(limit)

    files.sync, os.replace = sync, replace  # type: ignore[assignment]


if __name__ == "__main__":
    aim(sys.argv[1], int(sys.argv[2]))
    from tfperf.cli import main

    main(sys.argv[3:])
