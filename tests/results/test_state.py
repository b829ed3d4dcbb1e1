"""run.json is read back as it was written, or refused."""

import json
import os
import random
from dataclasses import asdict

import pytest

from tfperf.errors import RunDirectoryError
from tfperf.results import state
from tfperf.results.state import AnyOwn, Part, RunState, read_state, write_state
from tfperf.workloads.replica_chunks import ReplicaChunk

CHOICES = {"form": "shared", "steps_per_call": 100, "tried": [[1, 0.25]], "nan": float("inf")}


def make_state(**part):
    own = ReplicaChunk([1, 2, 5], [0, 0, 1], stacks=[(0, 3), (40, 1)])
    return RunState(
        "a" * 64,
        {"data.pack": "b" * 64},
        [Part(own, "d" * 32, CHOICES, {"threads": 2}, [20, 40], **part)],
        "0.2.0",
        "c" * 32,
    )


@pytest.fixture
def path(tmp_path):
    write_state(tmp_path / "run.json", make_state())
    return tmp_path / "run.json"


def test_what_was_written_is_read(path):
    assert asdict(read_state(path, ReplicaChunk)) == asdict(make_state())
    pending = read_state(path, AnyOwn).pending
    assert pending is not None and pending.own["ids"] == [1, 2, 5]


def test_no_flipped_bit_is_accepted(path):
    whole, want = path.read_bytes(), read_state(path, ReplicaChunk)
    draw = random.Random(1)
    for _ in range(300):
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        try:
            assert read_state(path, ReplicaChunk) == want  # of spaces, say
        except RunDirectoryError as error:
            assert "damaged" in str(error)


def edit(path, change, seal=True):
    """Change what run.json says; `seal`: give it the checksum that fits."""
    content = json.loads(path.read_text())
    change(content)
    if seal:
        rest = {key: value for key, value in content.items() if key not in ("format", "sha256")}
        content["sha256"] = state._digest(rest)
    path.write_text(json.dumps(content))


EDITS = {
    "no parts": lambda c: c.update(parts=[]),
    "parts a number": lambda c: c.update(parts=3),
    "a part a list": lambda c: c.update(parts=[[]]),
    "no ids": lambda c: c["parts"][0]["own"].update(ids=[]),
    "an id twice": lambda c: c["parts"][0]["own"].update(ids=[1, 1, 5]),
    "an id of 0": lambda c: c["parts"][0]["own"].update(ids=[0, 2, 5]),
    "an id as text": lambda c: c["parts"][0]["own"].update(ids=["1", 2, 5]),
    "fewer attempts": lambda c: c["parts"][0]["own"].update(attempts=[0]),
    "done as text": lambda c: c["parts"][0].update(done="no"),
    "an unknown key": lambda c: c["parts"][0].update(more=1),
    "a chunk beyond all": lambda c: c["parts"][0]["own"].update(chunk=2),
    "negative steps": lambda c: c["parts"][0].update(resumed_from_steps=[-1]),
    "choices a list": lambda c: c["parts"][0].update(choices=[]),
    "no run": lambda c: c.pop("run"),
    "a short hash": lambda c: c["inputs"].update({"data.pack": "b"}),
    "another format": lambda c: c.update(format=3),
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_what_does_not_fit_the_schema_is_refused_whatever_its_checksum(path, change):
    edit(path, change)
    with pytest.raises(RunDirectoryError, match=r"run\.json: damaged"):
        read_state(path, ReplicaChunk)


def test_an_edit_by_hand_is_refused(path):
    edit(path, lambda c: c["parts"][0]["choices"].update(steps_per_call=0), seal=False)
    with pytest.raises(RunDirectoryError, match="checksum does not fit"):
        read_state(path, ReplicaChunk)


@pytest.mark.parametrize(
    "text", ["", "[" * 100_000, '{"a":' * 100_000, "[1, 2]", "3", "{}", '{"parts": 1}', "9" * 5000]
)
def test_other_texts_are_refused_without_a_traceback(path, text):
    path.write_text(text)
    with pytest.raises(RunDirectoryError, match="damaged"):
        read_state(path, ReplicaChunk)


@pytest.mark.parametrize("kind", ["link", "pipe", "endless", "large"])
def test_special_files_are_not_read(path, kind):
    real = path.rename(path.with_name("real.json"))
    if kind == "large":
        with open(path, "wb") as file:
            file.truncate(10**12)  # of which the disk has nothing
    else:
        {"link": lambda: path.symlink_to(real), "pipe": lambda: os.mkfifo(path),
         "endless": lambda: path.symlink_to("/dev/zero")}[kind]()  # fmt: skip
    with pytest.raises(RunDirectoryError, match=r"must be a regular file|bytes; at most \d+ are allowed"):
        read_state(path, ReplicaChunk)


def old_part(**changes):
    """As tfperf 0.1.0 wrote it."""
    return {
        "ids": [1, 2], "attempts": [0, 0], "choices": CHOICES, "machine": {}, "resumed_from_steps": [], "done": True,
        "chunk": 1, "chunks": 1, "stacks": [[0, 2]], "bound": {}, "tolerance": {}, **changes,
    }  # fmt: skip


def test_a_finished_run_of_the_first_version_is_read(path):
    path.write_text(json.dumps({"inputs": {"data.pack": "b" * 64}, "parts": [old_part()]}))
    found = read_state(path, ReplicaChunk)
    assert found.version == "0.1.0" and found.pending is None and found.parts[0].own.ids == [1, 2]


def test_an_unfinished_run_of_the_first_version_is_refused_by_its_version(path):
    path.write_text(json.dumps({"inputs": {}, "parts": [old_part(), old_part(done=False)]}))
    with pytest.raises(RunDirectoryError, match=r"begun by tfperf 0\.1\.0 and not finished"):
        read_state(path, ReplicaChunk)
