"""The replicas of a finished run that failed."""

from pathlib import Path

from tfperf.results.contents import RESULTS
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.record import CONVERGED


def list_failed_replicas(path: Path) -> tuple[list[int], list[int]]:
    """Ids of the replicas that failed, and the attempts that are due."""
    replicas = store.read(path / RESULTS).replicas
    rows = [i for i, status in enumerate(replicas.status) if status not in CONVERGED]
    return [int(replicas.id[i]) for i in rows], [int(replicas.attempt[i]) + 1 for i in rows]
