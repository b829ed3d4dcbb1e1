"""Sweeps on real Dask clusters, of this machine and of queues whose programs are stand-ins."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.study.sweeps import ROOT, alive, environment, notes, run, sweep_card, wait_for
from tfperf.cluster.workers import PATIENCE_SECONDS, WorkerTeam
from tfperf.errors import Stopped, UserError
from tfperf.study.finished_trials import read_finished_trials

PROGRAM = (
    "import sys; from tests.study.sweeps import run; from pathlib import Path\n"
    "if __name__ == '__main__': run(*map(Path, sys.argv[1:3]), on=sys.argv[3])"
)
QUEUES = {
    "slurm": ("sbatch", ["#SBATCH --cpus-per-task=2", "#SBATCH --mem=2G", "#SBATCH -p short"]),
    "sge": ("qsub", ["#$ -q short"]),
    "pbs": ("qsub", ["#PBS -q short", "#PBS -l select=1:ncpus=2:mem=1908MB"]),
    "htcondor": ("condor_submit", ["MY.DaskWorkerCores = 2", "MY.DaskWorkerMemory = 2000000000"]),
}
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:ResourceWarning")


def processes(folder):
    """Processes whose command line or environment names a folder, beside this one."""
    found = []
    for process in os.listdir("/proc"):
        try:
            text = Path(f"/proc/{process}/environ").read_bytes() if process.isdigit() else b""
        except OSError:
            continue
        if str(folder).encode() in text and int(process) != os.getpid():
            found.append(int(process))
    return [pid for pid in found if alive(pid)]


def test_workers_of_this_machine_share_the_trials(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    out = tmp_path / "out"
    report, shown = run(sweep_card(tmp_path, ["a 0.3", "b 0.3", "die"], repeats=2), out, on="local:2")
    assert report["trials"] == 6 and report["failed"] == 2 and len(read_finished_trials(out)) == 6
    assert {row.record["threads"] for row in read_finished_trials(out) if row.ok} == {None}, "Dask gives its workers 1"
    first_end = next(i for i, (done, *_) in enumerate(shown) if done == 1)
    assert sum("trial" in words for *_, words in shown[:first_end]) == 2


class FewWorkers:
    """Stands for a client and a cluster; one worker of two has come."""

    def __init__(self):
        self.asked, self.warmed = [], 0

    def nthreads(self):
        return {"tcp://a": 1}

    def scale(self, number):
        self.asked.append(number)

    def run(self, function):
        self.warmed += 1


def test_nothing_is_given_out_before_all_workers_have_come_or_long_enough_was_waited():
    few = FewWorkers()
    team = WorkerTeam(few, few, None, 2, {})  # type: ignore[arg-type]
    assert team.size == 0 and few.asked == [2] and not few.warmed
    team.start_time -= PATIENCE_SECONDS + 1
    assert [team.size, team.size] == [1, 1] and few.warmed == 1  # type: ignore[comparison-overlap]


def test_a_hung_trial_is_ended_on_its_worker(tmp_path):
    out = tmp_path / "out"
    run(sweep_card(tmp_path, ["hang", "fine"], repeats=1, timeout=1), out, on="local:1")
    bad, good = read_finished_trials(out)
    assert bad.error == "timeout: not done after 1 s" and good.ok
    assert not any(alive(int(pid)) for line in notes(out, "pids") for pid in line)


def test_a_trial_whose_worker_dies_is_tried_once_more_and_then_a_row(tmp_path):
    out = tmp_path / "out"
    run(sweep_card(tmp_path, ["kill_worker", "fine"], repeats=1), out, on="local:1")
    assert [what for what, *_ in notes(out, "asked")] == ["kill_worker", "kill_worker", "fine"]
    bad, good = read_finished_trials(out)
    assert "KilledWorker" in bad.error and good.ok


def test_a_signal_ends_trials_and_workers(tmp_path):
    out = tmp_path / "out"
    threading.Thread(
        target=lambda: (wait_for(lambda: notes(out, "pids")), os.kill(os.getpid(), signal.SIGINT)),  # type: ignore[func-returns-value]
        daemon=True,
    ).start()
    start = time.monotonic()
    with pytest.raises(Stopped):
        run(sweep_card(tmp_path, ["hang"], repeats=1), out, on="local:1")
    assert time.monotonic() - start < 30
    assert not any(alive(int(pid)) for line in notes(out, "pids") for pid in line)


@pytest.mark.parametrize(
    "kind", ["slurm", *(pytest.param(kind, marks=pytest.mark.slow) for kind in QUEUES if kind != "slurm")]
)
def test_jobs_of_a_queue_carry_out_the_trials(tmp_path, jobs, kind):
    _, directives = QUEUES[kind]
    queue = ",disk=1GB" if kind == "htcondor" else ",queue=short"
    out = tmp_path / "out"
    report, _ = run(sweep_card(tmp_path, ["a", "die"], repeats=1), out, on=f"{kind}:jobs=1,cores=2,memory=2GB{queue}")
    assert report["trials"] == 2 and report["failed"] == 1, [p.read_text() for p in jobs.glob("*.log")]
    (submitted,) = jobs.glob("*.job")
    text = submitted.read_text()
    assert all(line in text for line in [*directives, "--nthreads 1 --no-dashboard"]), text
    wait_for(lambda: not processes(jobs), seconds=20)


def test_a_killed_sweep_leaves_no_job_behind(tmp_path, jobs):
    card, out = sweep_card(tmp_path, ["hang"], repeats=1), tmp_path / "out"
    program = [sys.executable, "-c", PROGRAM, str(card), str(out), "slurm:jobs=1,cores=1,memory=2GB"]
    with subprocess.Popen(program, cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL) as process:
        (pids,) = wait_for(lambda: notes(out, "pids"))
        process.kill()
    wait_for(lambda: not any(alive(int(pid)) for pid in pids) and not processes(jobs), seconds=20)


def test_a_job_that_is_refused_is_an_error_with_the_queues_words(tmp_path, jobs, monkeypatch):
    monkeypatch.setenv("QUEUE_REFUSES", "1")
    with pytest.raises(UserError, match=r"--on slurm: no job could be submitted: [\s\S]*invalid partition"):
        run(sweep_card(tmp_path), tmp_path / "out", on="slurm:cores=1,memory=2GB")


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("slurm", "--on slurm: You must specify how much cores and memory"),
        ("htcondor:cores=1,memory=1GB", "--on htcondor: You must specify how much disk"),
        ("sge:cores=1,memory=1GB,disk=1GB", "--on sge: got an unexpected keyword argument 'disk'"),
    ],
)
def test_what_a_queue_needs_or_does_not_know_is_told(tmp_path, jobs, on, words):
    with pytest.raises(UserError) as error:
        run(sweep_card(tmp_path), tmp_path / "out", on=on)
    assert words in str(error.value)


def test_a_queue_that_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UserError, match="--on pbs: there is no `qsub` on PATH"):
        run(sweep_card(tmp_path), tmp_path / "out", on="pbs:cores=1,memory=1GB")


def test_the_import_of_dask_jobqueue_leaves_ctrl_c_alone():
    code = (
        "import signal; before = signal.getsignal(signal.SIGINT); from tfperf.cluster.queues import _import_class\n"
        "_import_class('SLURMCluster'); assert signal.getsignal(signal.SIGINT) is before"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), check=False).returncode == 0
