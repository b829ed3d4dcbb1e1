"""Stands for the programs of a queue: a job starts at once, on this machine, in a session of its own.

The name it is called by says which one it is: sbatch, qsub (SGE and PBS), condor_submit; scancel, qdel, condor_rm. Jobs
leave <id>.job, what was submitted, and <id>.log in $QUEUE_JOBS.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SUBMIT = {
    "sbatch": "Submitted batch job {}", "qsub": 'Your job {} ("dask-worker") has been submitted',
    "condor_submit": "1 job(s) submitted to cluster {}.",
}  # fmt: skip
JOBS = Path(os.environ["QUEUE_JOBS"])


def command(name, script):
    """What the job runs. A submitted script is read now: it may be gone when this program ends."""
    if name != "condor_submit":
        kept = JOBS / f"{os.getpid()}.script"
        shutil.copy(script, kept)
        return ["bash", str(kept)]
    text = Path(script).read_text()
    executable = re.search(r"^Executable = (.*)$", text, re.MULTILINE)
    arguments = re.search(r'^Arguments = "(.*)"$', text, re.MULTILINE)
    assert executable is not None and arguments is not None
    pieces = re.findall(r"'((?:[^']|'')*)'|(\S+)", arguments[1].replace('""', '"'))
    return [executable[1], *(quoted.replace("''", "'") or plain for quoted, plain in pieces)]


def submit(name, script):
    with open(JOBS / f"{os.getpid()}.log", "w") as log:
        job = subprocess.Popen(
            command(name, script), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    shutil.copy(script, JOBS / f"{job.pid}.job")
    print(SUBMIT[name].format(job.pid))


def cancel(job):
    with suppress(ProcessLookupError):
        os.killpg(int(job.partition(".")[0]), signal.SIGTERM)


def main():
    name, last = Path(sys.argv[0]).name, sys.argv[-1]
    if os.environ.get("QUEUE_REFUSES"):
        sys.exit(f"{name}: error: invalid partition specified")
    if name in SUBMIT:
        submit(name, last)
    else:
        cancel(last)


main()
