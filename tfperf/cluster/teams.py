"""The team at a site."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tfperf.cluster.site import Site
from tfperf.cluster.team import Team, open_threads
from tfperf.errors import UserError

if TYPE_CHECKING:
    from tfperf.cluster.workers import WorkerTeam


def open_team(site: Site | None, at_once: int) -> AbstractContextManager[Team]:
    """The team at a site; None: threads of this process, so many. Raises: UserError where Dask cannot be used."""
    if site is None:
        return open_threads(at_once)
    return open_members(site)


def open_members(site: Site) -> AbstractContextManager["WorkerTeam"]:
    """The Dask workers of a site, when its context is entered. Raises: UserError, at once, where there is no Dask."""
    try:
        from tfperf.cluster.workers import open_workers
    except ImportError as error:
        raise UserError(f"--on needs Dask ({error}); pip install tfperf[cluster]") from None
    return open_workers(site)
