"""What is measured is kept, and taken for nothing else."""

import json
import subprocess
import sys

import pytest

from benchmarks import record_store
from benchmarks.record_store import RecordStore
from tfperf.errors import UserError


@pytest.fixture
def asked(monkeypatch):
    """Requests that were carried out, each answered by its number."""
    requests = []

    def run(command, request, stopped):
        requests.append((command[-1], request["x"]))
        return {"value": len(requests)} if request["x"] != "bad" else {"error": "its process ended with 1: no"}

    monkeypatch.setattr("benchmarks.record_store.child.run_subprocess", run)
    monkeypatch.setattr(record_store, "digest_code", lambda: "this code")
    return requests


def test_a_part_is_measured_once(asked, tmp_path):
    folder = tmp_path / "new" / "folder"
    assert RecordStore(folder).get_record("a", "some.module", {"x": 1}) == {"value": 1}
    assert RecordStore(folder).get_record("a", "some.module", {"x": 1}) == {"value": 1}
    assert RecordStore(folder).get_record("b", "some.module", {"x": 1}) == {"value": 2}
    assert asked == [("some.module", 1)] * 2


def test_without_a_folder_nothing_is_kept(asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [RecordStore(None).get_record("a", "m", {"x": 1})["value"] for _ in range(2)] == [1, 2]
    assert not list(tmp_path.iterdir())


def test_what_another_request_or_code_measured_is_not_taken(asked, tmp_path, monkeypatch):
    RecordStore(tmp_path).get_record("a", "m", {"x": 1, "y": 2})
    with pytest.raises(UserError, match=r"a\.json: measured with another x, y; give another --folder"):
        RecordStore(tmp_path).get_record("a", "m", {"x": 2})
    monkeypatch.setattr(record_store, "digest_code", lambda: "other code")
    with pytest.raises(UserError, match=r"measured with another code"):
        RecordStore(tmp_path).get_record("a", "m", {"x": 1, "y": 2})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"request": [1], "record": {"a": 1}}',
        '{"request": {}}',
        '{"request": 1, "record": 2}',
    ],
)
def test_a_damaged_file_is_named(text, asked, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=r"a\.json: damaged; remove it"):
        RecordStore(tmp_path).get_record("a", "m", {"x": 1})


def test_a_failed_part_is_told_and_not_kept(asked, tmp_path):
    with pytest.raises(UserError, match="a: its process ended with 1: no"):
        RecordStore(tmp_path).get_record("a", "m", {"x": "bad"})
    assert not list(tmp_path.iterdir())


def test_a_part_is_a_process_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "echo_it.py").write_text("print(__import__('sys').stdin.readline())")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert RecordStore(tmp_path / "kept").get_record("a", "echo_it", {"x": 1}) == {
        "x": 1,
        "code": record_store.digest_code(),
        **record_store._collect_surroundings(),
    }
    there = json.loads((tmp_path / "kept" / "a.json").read_text())
    assert there["request"] == there["record"]


def test_what_another_machine_or_library_measured_is_not_taken(asked, tmp_path, monkeypatch):
    RecordStore(tmp_path).get_record("a", "m", {"x": 1})
    other = {"versions": {"keras": "9"}, "machine": {"cores": 64}}
    monkeypatch.setattr(record_store, "_collect_surroundings", lambda: other)
    with pytest.raises(UserError, match=r"measured with another machine, versions"):
        RecordStore(tmp_path).get_record("a", "m", {"x": 1})


def test_a_program_that_is_changed_meanwhile_ends_the_benchmark(asked, tmp_path, monkeypatch):
    with RecordStore(tmp_path) as before:
        before.get_record("a", "m", {"x": 1})
        monkeypatch.setattr(record_store, "digest_code", lambda: "other code")
        with pytest.raises(UserError, match="b: the program was changed since this benchmark began"):
            before.get_record("b", "m", {"x": 1})
    assert len(asked) == 1


def test_a_folder_is_one_benchmarks_alone(asked, tmp_path):
    refused = pytest.raises(UserError, match="another process is running here")
    with RecordStore(tmp_path), refused, RecordStore(tmp_path):
        raise AssertionError("both have it")
    with RecordStore(tmp_path) as again:
        again.get_record("a", "m", {"x": 1})


@pytest.mark.parametrize(("options", "seen"), [pytest.param("folder=None", True, marks=pytest.mark.slow), ("", False)])
def test_progress_of_parts_in_processes_is_seen_while_they_are_measured(options, seen):
    code = (
        "import os, sys\nfrom benchmarks.registry import register_benchmark\n"
        "@register_benchmark('probe', claim='', sweep='', unit='')\n"
        f"def probe({options}):\n    print('round 1', file=sys.stderr, flush=True)\n    os._exit(7)\n    yield\n"
        "sys.argv = ['benchmarks', 'run', 'probe']\nimport benchmarks.__main__\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 7 and ("round 1" in done.stderr) == seen, done.stderr
