"""How many cores the control groups of this process allow it, whatever it sees."""

from pathlib import Path

FOLDER = Path("/sys/fs/cgroup")
UNIFIED = "cpu.max"  # cgroup v2: "150000 100000", microseconds of CPU time in each period, or "max 100000"
QUOTA, PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"  # cgroup v1; -1: no limit


def read_cpu_quota(folder: Path = FOLDER, groups: Path = Path("/proc/self/cgroup")) -> float | None:
    """Cores, the least of the process's groups and of those above them; None: nothing limits it."""
    found = [quota for group in _list_groups(folder, groups) if (quota := _read_group(group)) is not None]
    return min(found, default=None)


def _list_groups(folder: Path, groups: Path) -> list[Path]:
    """Folders of the process's groups for CPU time. In a container the path may not be there, but its root is."""
    found = []
    for line in _read_text(groups).splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" or "cpu" in names.split(","):
            roots = [folder] if number == "0" else [folder / names, folder / "cpu"]
            relative = Path(path.lstrip("/"))
            found += [root / part for root in roots for part in (relative, *relative.parents)]
    return [group for group in dict.fromkeys(found) if group.is_dir()]


def _read_group(group: Path) -> float | None:
    limits = [_read_text(group / UNIFIED), f"{_read_text(group / QUOTA)} {_read_text(group / PERIOD)}"]
    for quota, period in (text.split() for text in limits if len(text.split()) == 2):
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            return int(quota) / int(period)
    return None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return ""
