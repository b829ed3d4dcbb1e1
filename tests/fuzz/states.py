"""run.json as its layout says, read with json alone, and held against what a resumed run plans from it."""

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

from tfperf.results.rundir import RunDirectory
from tfperf.results.state import AnyOwn, read_state
from tfperf.runs.flow import prepare_parts
from tfperf.workloads.options import Options
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.job import ReplicaFit
from tfperf.workloads.pdf.kind import KIND
from tfperf.workloads.replica_chunks import ReplicaChunk, list_sibling_chunks

SHA256, RUN = "[0-9a-f]{64}", "[0-9a-f]{32}"


def compare(card, folder, hashes):
    """What run.json in a folder says is what --resume trains. Raises: UserError where it is refused."""
    folder = Path(folder)
    path = folder / "run.json"
    found = read_state(path, ReplicaChunk)
    content = json.loads(path.read_bytes().decode())
    rest = {key: value for key, value in content.items() if key not in ("format", "sha256")}
    assert content["format"] == 2
    assert content["sha256"] == hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    assert json.dumps(asdict(found), sort_keys=True) == json.dumps(defaults(rest), sort_keys=True)
    check(rest)
    assert len(read_state(path, AnyOwn).parts) == len(found.parts)
    resume(load_card(Path(card)), folder, hashes, defaults(rest))


def defaults(rest):
    """With what may be left out, of the whole and of a part."""
    own = {"chunk": 1, "chunks": 1, "stacks": [], "bound": {}, "tolerance": {}}
    part = {"choices": {}, "machine": {}, "resumed_from_steps": [], "done": False}
    return {"decided": {}, **rest, "parts": [{**part, **one, "own": {**own, **one["own"]}} for one in rest["parts"]]}


def check(content):
    """AssertionError for what no run writes."""
    assert set(defaults(content)) == {"digest", "inputs", "parts", "version", "run", "decided"}
    assert isinstance(defaults(content)["decided"], dict)
    assert re.fullmatch(SHA256, content["digest"]) and re.fullmatch(RUN, content["run"])
    assert all(re.fullmatch(SHA256, one) for one in content["inputs"].values())
    assert content["parts"] and 0 < len(content["version"]) <= 64
    for part in defaults(content)["parts"]:
        own = part["own"]
        assert re.fullmatch(RUN, part["key"])
        assert whole(own["ids"], 1, 100_000) and len(set(own["ids"])) == len(own["ids"]) == len(own["attempts"]) > 0
        assert whole(own["attempts"], 0, 10**6) and whole([own["chunk"]], 1, own["chunks"])
        assert whole(part["resumed_from_steps"], 0, 10**9) and type(part["done"]) is bool
        assert all(whole([s], 0, 10**9) and whole([n], 1, 100_000) for s, n in own["stacks"])


def whole(numbers, low, high):
    return all(type(one) is int and low <= one <= high for one in numbers)


def resume(card, folder, hashes, content):
    """--resume goes on with the first part that is not done, if the run is of this card."""
    with RunDirectory(folder, ReplicaChunk) as run:
        run.acquire()
        job = object.__new__(ReplicaFit)  # as one that has read its data
        job.card, job.hashes, job.run, job.options = card, hashes, run, Options(resume=True)
        job.session = SimpleNamespace(run=run, options=job.options)  # type: ignore[assignment]
        parts = prepare_parts(job)
        part = parts[0] if parts else None
        pending = [one for one in content["parts"] if not one["done"]]
        assert (part is None) == (not pending)
        if part is not None:
            assert part.own.ids == pending[0]["own"]["ids"] and part.own.attempts == pending[0]["own"]["attempts"]
            together = list_sibling_chunks(run, part)
            assert part in together and len(together) <= len(content["parts"])


def begin(card, folder, hashes):
    """A run of a card of three replicas in two chunks, the first of which is done."""
    from tfperf.results.state import Part
    from tfperf.runcard.dump import dump_card
    from tfperf.runs.unchanged import make_state

    card = load_card(Path(card))
    first = ReplicaChunk([1, 2], [0, 0], 1, 2, stacks=[(0, 2)])
    done = Part(first, "1" * 32, {"steps_per_call": 5}, {"threads": 2}, [4], done=True)
    parts = [done, Part(ReplicaChunk([3], [0], 2, 2), "2" * 32)]
    with RunDirectory(Path(folder), ReplicaChunk) as run:
        run.acquire()
        run.begin(dump_card(card), {}, make_state(card, KIND, hashes, parts))


def seal(content):
    """run.json with the checksum that fits it."""
    if isinstance(content, dict) and "sha256" in content:
        rest = {key: value for key, value in content.items() if key not in ("format", "sha256")}
        content["sha256"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    return json.dumps(content).encode()
