"""Dask clusters whose workers are jobs of a queue: SLURM, SGE, PBS, HTCondor. Importing this module imports Dask."""

import logging
import os
import shlex
import shutil
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import dask
from distributed.core import Status

from tfperf.cluster.site import Site
from tfperf.errors import UserError

CLUSTERS = {"slurm": "SLURMCluster", "sge": "SGECluster", "htcondor": "HTCondorCluster", "pbs": "PBSCluster"}
NO_DASHBOARD = "127.0.0.1:0"
SILENT = logging.CRITICAL
ROOT = str(Path(__file__).parents[2])  # the program may run from a folder that is not installed


def make_queue_cluster(site: Site) -> Any:
    """A cluster without jobs; what the site leaves open comes from Dask's configuration.

    Its list `refusals` gets what the queue says to jobs that it does not take: Dask would only log it. Raises:
    UserError where the queue's program is missing, or an option is missing or unknown.
    """
    cluster = _import_class(CLUSTERS[site.kind])
    _refuse_missing(site, cluster.job_cls.submit_command)
    options = _make_options(site)
    try:
        cluster.job_cls("tcp://address:0", name="checked", **options)
    except (ValueError, TypeError) as error:
        raise UserError(f"--on {site.kind}: {_describe_error(error)}") from error
    refusals: list[str] = []
    scheduler = {"dashboard_address": NO_DASHBOARD, **dask.config.get(f"jobqueue.{site.kind}.scheduler-options")}
    job = _make_job_class(cluster.job_cls, site.kind, refusals)
    made = cluster(job_cls=job, scheduler_options=scheduler, silence_logs=SILENT, **options)
    made.refusals = refusals
    return made


def _import_class(name: str) -> Any:
    """A class of dask-jobqueue, whose import makes Ctrl-C end the program with code 0; that is undone."""
    before = signal.getsignal(signal.SIGINT)
    try:
        return getattr(import_module("dask_jobqueue"), name)
    except ImportError as error:
        raise UserError(f"--on needs dask-jobqueue ({error}); pip install tfperf[cluster]") from None
    finally:
        signal.signal(signal.SIGINT, before)


def _refuse_missing(site: Site, command: str) -> None:
    if shutil.which(command) is None:
        raise UserError(f"--on {site.kind}: there is no `{command}` on PATH; jobs are submitted from where it is")


def _make_options(site: Site) -> dict[str, Any]:
    """Of each job: one worker, with one thread for its trials; the cores are the trials' own."""
    configured = dask.config.get(f"jobqueue.{site.kind}")
    path = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        "processes": 1,
        "worker_extra_args": [*configured["worker-extra-args"], "--nthreads", "1", "--no-dashboard"],
        "job_script_prologue": [*configured["job-script-prologue"], f"export PYTHONPATH={shlex.quote(path)}"],
        **site.options,
    }  # fmt: skip


def _describe_error(error: Exception) -> str:
    """Without the class that Python names first in a TypeError."""
    return str(error).splitlines()[0].rpartition("__init__() ")[2]


def _make_job_class(job: Any, kind: str, refusals: list[str]) -> Any:
    """The class of jobs, with what goes wrong when one is submitted added to a list."""

    async def start(self: Any) -> None:
        try:
            await job.start(self)
        except Exception as error:
            refusals.append(f"--on {kind}: no job could be submitted: {str(error).strip()}")
            self.status = Status.failed  # without which the cluster cannot be closed
            raise

    return type(job.__name__, (job,), {"start": start})
