"""A team of Dask workers, on this machine or in the jobs of a queue. Importing this module imports Dask."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import dask
from distributed import Client, LocalCluster, WorkerPlugin

from tfperf.cluster.member import adopt, call, call_aside, get_thread_settings, halt, is_ready
from tfperf.cluster.queues import NO_DASHBOARD, SILENT, make_queue_cluster
from tfperf.cluster.site import LOCAL, Site
from tfperf.cluster.team import RunTask
from tfperf.errors import UserError

# as long all workers are waited for, then trials start on those that have come
PATIENCE_SECONDS = 60.0
# a task whose worker died is given to another one, once; when that dies too, it fails
SETTINGS = {"distributed.scheduler.allowed-failures": 1}


class TrialEnder(WorkerPlugin):  # type: ignore[misc]
    """A worker that closes, as it does when it loses its scheduler, ends its trial; else it would wait for it."""

    def teardown(self, worker: Any) -> None:
        """Called by Dask."""
        halt()


@dataclass
class WorkerTeam:
    """Dask workers with one thread each, so that each carries out one task at a time."""

    cluster: Any
    client: Any
    pool: Executor
    wanted: int
    settings: Mapping[str, str | None]  # of threads, as this process had them before Dask
    start_time: float = field(default_factory=time.monotonic)
    warm: bool = False

    @property
    def size(self) -> int:
        """How many workers there are now; 0 until all have come, or have been waited for long enough.

        Work that is given out before goes to the first one that comes. Jobs that have ended are asked for again.
        """
        found = len(self.list_members())
        for refusal in self.refusals:
            raise UserError(refusal)
        if found < self.wanted and not self.warm and time.monotonic() - self.start_time < PATIENCE_SECONDS:
            return 0
        if found and not self.warm:
            self.client.run(is_ready)
            self.warm = True
        return found

    @property
    def address(self) -> str:
        """Where workers reach Dask's scheduler, which is part of this process: protocol://host:port."""
        return str(self.cluster.scheduler_address)

    @property
    def refusals(self) -> Sequence[str]:
        """What the queue said to jobs that it did not take."""
        found: Sequence[str] = getattr(self.cluster, "refusals", ())
        return found

    def list_members(self) -> list[str]:
        """Addresses of the workers that are there now; jobs that have ended are asked for again, unless refused."""
        found = sorted(self.client.nthreads())
        if len(found) < self.wanted and not self.refusals:
            self.cluster.scale(self.wanted)
        return found

    def submit_to(self, member: str, run_task: RunTask, task: Any) -> Any:
        """Have this worker, and no other one, carry out a task beside what it does; Dask's future, which stays pending
        for ever when the worker is lost."""
        return self.client.submit(
            call_aside, run_task, task, self.settings, workers=[member], allow_other_workers=False, pure=False
        )

    def submit(self, run_task: RunTask, task: Any) -> "Future[Any]":
        """Have a worker carry out a task; the future raises Dask's KilledWorker when two workers died of it."""
        return self.pool.submit(call, run_task, task, self.settings)


@contextmanager
def open_workers(site: Site) -> Iterator[WorkerTeam]:
    """The workers of a site; they and all that they started are gone afterwards. Raises: UserError."""
    wanted = site.workers or 1
    settings = get_thread_settings()
    with dask.config.set(SETTINGS), _open_cluster(site, wanted) as cluster, Client(cluster) as client:
        adopt(settings)
        client.register_plugin(TrialEnder())
        try:
            yield WorkerTeam(cluster, client, client.get_executor(pure=False), wanted, settings)
        finally:
            with suppress(Exception):  # a worker that is gone has nothing to end
                client.run(halt, on_error="ignore")


@contextmanager
def _open_cluster(site: Site, wanted: int) -> Iterator[Any]:
    with _make_local(wanted) if site.kind == LOCAL else make_queue_cluster(site) as cluster:
        cluster.scale(wanted)
        yield cluster


def _make_local(wanted: int) -> Any:
    return LocalCluster(
        n_workers=wanted, threads_per_worker=1, processes=True, memory_limit=0, dashboard_address=NO_DASHBOARD,
        silence_logs=SILENT,
    )  # fmt: skip
