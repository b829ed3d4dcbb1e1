"""Counts of kills for memory, in files of both versions of control groups that are made up."""

import os

import pytest

from tfperf.study.memory_kills import KillCount, read_kill_count

V1 = "31 23 0:28 / {top} rw,relatime shared:9 - cgroup cgroup rw,memory\n"
V2 = "31 23 0:28 {root} {top} rw,relatime - cgroup2 cgroup rw\n"
OTHER = "30 23 0:27 / {top} rw - cgroup cgroup rw,cpu\n29 1 8:1 / / rw - ext4 /dev/root rw\n"


@pytest.fixture
def machine(tmp_path):
    """Writes files of /proc and of control groups, and reads the count."""
    (tmp_path / "proc" / "self").mkdir(parents=True)

    def read(mounts="", groups="", files=(), vmstat=None, name="memory.events"):
        top = tmp_path / "groups here"
        (tmp_path / "proc" / "self" / "cgroup").write_text(groups)
        shown = str(top).replace(" ", r"\040")
        (tmp_path / "proc" / "self" / "mountinfo").write_text(mounts.format(top=shown, root="{root}"))
        if vmstat is not None:
            (tmp_path / "proc" / "vmstat").write_text(f"pgfree 8\noom_kill {vmstat}\nother 1\n")
        for folder, count in dict(files).items():
            (top / folder).mkdir(parents=True, exist_ok=True)
            (top / folder / name).write_text(f"under_oom 0\noom 9\noom_kill {count}\noom_group_kill 7\n")
        return read_kill_count(tmp_path / "proc")

    return read


def test_version_2_is_the_groups_own_count(machine):
    found = machine(V2.replace("{root}", "/"), "0::/user/job\n", {"user/job": 2, "user": 5, "": 9}, vmstat=11)
    assert found == KillCount(2, of_group=True)


def test_version_1_is_the_groups_own_count(machine):
    groups = "4:cpu,cpuacct:/elsewhere\n3:memory:/job\n0::/\n"
    found = machine(OTHER + V1, groups, {"job": 4, "": 9}, vmstat=11, name="memory.oom_control")
    assert found == KillCount(4, of_group=True)


def test_a_group_that_tells_nothing_is_told_of_by_the_next_above_it(machine):
    mounts = V2.replace("{root}", "/")
    assert machine(mounts, "0::/user/job/step\n", {"user": 5, "": 9}) == KillCount(5, of_group=True)


@pytest.mark.parametrize(
    ("group", "count"), [("/outer/box", 3), ("/outer/box/job", 1), ("/another", 3), ("/../another", 3)]
)
def test_a_container_shows_a_part_of_the_tree(machine, group, count):
    found = machine(V2.replace("{root}", "/outer/box"), f"0::{group}\n", {"": 3, "job": 1})
    assert found == KillCount(count, of_group=True)


def test_groups_above_those_that_are_shown_are_not_read(machine, tmp_path):
    (tmp_path / "memory.events").write_text("oom_kill 77\n")
    assert machine(V2.replace("{root}", "/"), "0::/job\n", vmstat=6) == KillCount(6, of_group=False)


def test_where_no_group_tells_it_is_the_machines_count(machine):
    assert machine(OTHER, "4:cpu:/job\n", vmstat=6) == KillCount(6, of_group=False)
    assert machine(vmstat=8) == KillCount(8, of_group=False)


def test_where_nothing_tells_there_is_no_count(tmp_path):
    assert read_kill_count(tmp_path) == KillCount(None, of_group=False)


@pytest.mark.skipif(not os.path.exists("/proc/self/cgroup"), reason="no Linux")
def test_this_machine_is_read():
    found = read_kill_count()
    assert found.count is None or found.count >= 0
