import subprocess
import sys

import pytest

from tfperf.cluster.site import Site, parse_site
from tfperf.cluster.team import open_threads
from tfperf.cluster.teams import open_team
from tfperf.errors import UserError


@pytest.mark.parametrize(
    ("text", "place", "name"),
    [
        ("local:3", Site("local", 3), "local:3"),
        ("local", Site("local", 2), "local:2"),
        ("slurm", Site("slurm", 2), "slurm"),
        ("slurm:3,cores=8", Site("slurm", 3, {"cores": 8}), "slurm"),
        ("sge:jobs=4,queue=long", Site("sge", 4, {"queue": "long"}), "sge"),
        ("pbs:cores=8,resource_spec=ncpus=8", Site("pbs", 2, {"cores": 8, "resource_spec": "ncpus=8"}), "pbs"),
    ],
)  # fmt: skip
def test_a_place_is_a_kind_a_number_and_options(text, place, name):
    assert parse_site(text, 2) == place and place.name == name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slrm", "got 'slrm'; allowed: local:N, slurm, sge, htcondor, pbs"),
        ("local:0", "local: got '0'; must be a whole number above 0"),
        ("local:x", "local: got 'x'"),
        ("slurm:jobs=many", "jobs: got 'many'"),
        ("slurm:0,cores=8", "jobs: got '0'; must be a whole number above 0"),
        ("slurm:colour=red", "got 'colour=red'; must be KEY=VALUE, for slurm with keys jobs, cores"),
        ("slurm:queue", "got 'queue'; must be KEY=VALUE"),
    ],
)
def test_a_faulty_place_is_told(text, words):
    with pytest.raises(UserError, match="--on: ") as error:
        parse_site(text, 1)
    assert words in str(error.value)


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "tfperf.cluster.workers", raising=False)
    with pytest.raises(UserError, match=r"pip install tfperf\[cluster\]"):
        open_team(Site("local", 1), 1)


def test_dask_is_imported_for_dask_alone():
    code = "import sys, tfperf.study.sweep, tfperf.cli; sys.exit('distributed' in sys.modules or 'dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_leaving_a_team_ends_what_it_does():
    def work(task, stop):
        return stop.wait(30)

    with open_threads(2) as threads:
        futures = [threads.submit(work, i) for i in range(3)]
    assert [f.cancelled() or f.result() for f in futures] == [True, True, True] and futures[2].cancelled()
