"""Whether the system killed a process for want of memory: by the count of its control group, else of the machine.

Linux counts such a kill for the group that the killed process was in (mm/oom_kill.c and mm/memcontrol.c:
MEMCG_OOM_KILL), whether the group's limit or the machine's memory was reached: `oom_kill` in memory.events (version 2,
where it includes the groups below) or in memory.oom_control (version 1). A study and its trials are of one group. A
group's parents count the kills of other programs, too: they are asked only where the group itself tells nothing, as
one that a container does not show.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
KILLED_FOR_MEMORY = "killed by the system: out of memory"
FILES = {"cgroup": "memory.oom_control", "cgroup2": "memory.events"}  # by the type of the file system
ESCAPE = re.compile(r"\\([0-7]{3})")  # of a space or a backslash in mountinfo


@dataclass(frozen=True)
class KillCount:
    """Processes that the system has killed for memory; None: it does not tell. of_group: of the control group alone."""

    count: int | None
    of_group: bool


def read_kill_count(proc: Path = PROC) -> KillCount:
    """The count of this process's control group; where none tells, that of the machine since it started."""
    for folder, top, name in _list_groups(proc):
        for group in (folder, *folder.parents):
            if (count := _read_count(group / name)) is not None:
                return KillCount(count, of_group=True)
            if group == top:
                break
    return KillCount(_read_count(proc / "vmstat"), of_group=False)


def describe_kill(before: KillCount, after: KillCount) -> str:
    """What ended a process by SIGKILL, which this program did not send: counts before it and after its end."""
    known = before.count is not None and after.count is not None and before.of_group == after.of_group
    if not known:
        return "killed by SIGKILL, cause unknown: the system does not count kills for memory"
    assert before.count is not None and after.count is not None
    if after.count == before.count:
        return "killed by SIGKILL, cause unknown: the system killed none for memory"
    if after.of_group:
        return KILLED_FOR_MEMORY
    return "killed by SIGKILL, cause unknown: the system killed for memory, this program or another one"


def _list_groups(proc: Path) -> Iterator[tuple[Path, Path, str]]:
    """Folder of the process's group, the top folder that is shown, and the file that counts, for both versions."""
    paths = {}
    for line in _read_lines(proc / "self" / "cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0":
            paths["cgroup2"] = path
        elif "memory" in controllers.split(","):
            paths["cgroup"] = path
    for line in _read_lines(proc / "self" / "mountinfo"):
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        if kind in paths and (kind == "cgroup2" or "memory" in options.split(",")):
            root, top = (ESCAPE.sub(lambda found: chr(int(found[1], 8)), one) for one in fields.split(" ")[3:5])
            yield _find_folder(Path(paths[kind]), Path(root), Path(top)), Path(top), FILES[kind]


def _find_folder(path: Path, root: Path, top: Path) -> Path:
    """Where a group is shown; `top` where it is not below the part of the tree that is."""
    return top / path.relative_to(root) if path.is_relative_to(root) and ".." not in path.parts else top


def _read_count(file: Path) -> int | None:
    return next((int(line.split()[1]) for line in _read_lines(file) if line.startswith("oom_kill ")), None)


def _read_lines(file: Path) -> list[str]:
    with suppress(OSError):
        return file.read_text().splitlines()
    return []
