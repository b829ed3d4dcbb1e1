"""Ids that `--replicas` names, and the chunks that they are trained in."""

from pathlib import Path

import pytest

from tfperf.errors import CardError, RunDirectoryError
from tfperf.results.state import Part, RunState, read_state, write_state
from tfperf.workloads.options import parse_replicas
from tfperf.workloads.replica_chunks import ReplicaChunk, refuse_missing_chunks
from tfperf.workloads.replica_parts import MOST_CHUNKS, make_parts


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "00", "007", "٣", "²", "1.0", "1e2", "1_0", "5-3", "1-100001", "1-", "a", " 5", "5\n", "100001",
     str(10**100), "9" * 5000, "x" * 10**6],
)  # fmt: skip
def test_what_is_no_number_of_replicas_is_refused_in_few_words(text):
    with pytest.raises(CardError, match=r"^--replicas: got .*; must be a number \(20\) or a range of ids") as caught:
        parse_replicas(text)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("text", "ids"), [(None, ()), ("3", (1, 2, 3)), ("5-6", (5, 6)), ("100000-100000", (100_000,))]
)
def test_numbers_and_ranges(text, ids):
    assert parse_replicas(text) == ids


def state(*chunks):
    parts = [Part(ReplicaChunk([i], [0], *one), f"{i:032x}") for i, one in enumerate(chunks, 1)]
    return RunState("a" * 64, {}, parts, "0.2.0", "c" * 32)


@pytest.mark.parametrize("chunks", [[(1, 1)], [(1, 2), (2, 2)], [(1, 2), (2, 2), (1, 1), (1, 3), (2, 3), (3, 3)]])
def test_chunks_that_follow_each_other(chunks):
    refuse_missing_chunks(Path("run"), state(*chunks))


@pytest.mark.parametrize("chunks", [
    [(2, 2)], [(1, 2)], [(2, 2), (1, 2)], [(1, 2), (2, 3), (3, 3)], [(1, 1), (2, 2)], [(1, 3), (2, 3)],
])  # fmt: skip
def test_chunks_that_no_command_asked_for_are_refused(chunks):
    with pytest.raises(RunDirectoryError, match=r"run\.json: damaged: chunk"):
        refuse_missing_chunks(Path("run"), state(*chunks))


def test_as_many_chunks_as_are_allowed_can_be_read_again(tmp_path):
    ids = range(1, MOST_CHUNKS + 1)
    parts = make_parts(ids, [0] * len(ids), lambda _: 1)
    trial = {"form": "shared", "products": "grouped", "xla": True, "compile_seconds": 1 / 3, "ms_per_step": 1 / 7}
    for part in parts:
        part.choices = {"form": "shared", "steps_per_call": 1000, "threads": 2, "tried": [trial] * 4}
        part.machine = {"cpu": "x" * 40, "tensorflow": "2.21.0", "devices": ["/device:CPU:0"] * 8}
    write_state(tmp_path / "run.json", RunState("a" * 64, {}, parts, "0.2.0", "c" * 32))
    assert len(read_state(tmp_path / "run.json", ReplicaChunk).parts) == MOST_CHUNKS
    with pytest.raises(CardError, match=r"engine\.chunk: 5001 replicas would be 5001 chunks; at most 5000"):
        make_parts(range(1, MOST_CHUNKS + 2), [0] * (MOST_CHUNKS + 1), lambda _: 1)
