"""Where trials run, as `--on` says it: `local:N`, or a queue with options, `slurm:jobs=4,cores=8,memory=16GB`, or
`slurm:4,cores=8,memory=16GB`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfperf.errors import UserError

LOCAL = "local"
QUEUES = ("slurm", "sge", "htcondor", "pbs")
NUMBERS = ("jobs", "cores")
# what differs from sweep to sweep; the rest comes from Dask's own configuration
OPTIONS = (*NUMBERS, "memory", "walltime", "queue", "account", "project", "disk", "resource_spec", "interface",
           "local_directory", "log_directory")  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A kind of cluster, how many workers it has, and the other options of its jobs."""

    kind: str
    workers: int | None = None  # None: as many as the card has trials at once
    options: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What two sweeps must share to be set side by side: workers on one machine disturb each other."""
        return f"{self.kind}:{self.workers}" if self.kind == LOCAL else self.kind


def parse_site(text: str, at_once: int) -> Site:
    """The place that an option `--on` names; `at_once`: workers where it gives no number. Raises: UserError.

    >>> parse_site("local:4", at_once=1)
    Site(kind='local', workers=4, options={})
    >>> parse_site("slurm:jobs=2,cores=8,memory=16GB", at_once=1)
    Site(kind='slurm', workers=2, options={'cores': 8, 'memory': '16GB'})
    """
    kind, _, rest = text.partition(":")
    if kind == LOCAL:
        return Site(kind, _parse_number("local", rest) if rest else at_once)
    if kind not in QUEUES:
        raise UserError(f"--on: got '{text}'; allowed: {LOCAL}:N, {', '.join(QUEUES)}")
    first, *others = rest.split(",")
    parts = [f"jobs={first}" if first.isdigit() else first, *others]
    options = dict(_parse_option(kind, part) for part in parts if part)
    return Site(kind, int(options.pop("jobs", at_once)), options)


def _parse_option(kind: str, text: str) -> tuple[str, str | int]:
    key, equals, value = text.partition("=")
    if key not in OPTIONS or not equals:
        more = "others come from Dask's configuration (~/.config/dask/jobqueue.yaml)"
        raise UserError(f"--on: got '{text}'; must be KEY=VALUE, for {kind} with keys {', '.join(OPTIONS)}; {more}")
    return key, _parse_number(key, value) if key in NUMBERS else value


def _parse_number(key: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UserError(f"--on: {key}: got '{text}'; must be a whole number above 0")
    return int(text)
