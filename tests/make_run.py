"""What a finished fit leaves that other verbs read, without a fit."""

from pathlib import Path

from tests.make_result import make_result
from tfperf.report.sections import write_json
from tfperf.results.state import Identity, Part, RunState, write_state
from tfperf.workloads.pdf.results import store
from tfperf.workloads.replica_chunks import ReplicaChunk

IDENTITY = Identity("c" * 32, "a" * 64)


def make_run(folder: Path, seed: int = 1, replicas: int = 6) -> Path:
    """Make the folder, with results, report.json, run.json and a card; returns it."""
    folder.mkdir()
    result = make_result(replicas=replicas, sets=2, points=5, rows=4, seed=seed)
    store.write(folder / "results.h5", result, IDENTITY)
    write_json(folder, result.summary)
    parts = [Part(ReplicaChunk([*range(1, replicas + 1)], [0] * replicas), "d" * 32, done=True)]
    write_state(folder / "run.json", RunState(IDENTITY.digest, {}, parts, "0.2.0", IDENTITY.run))
    (folder / "card.yaml").write_text(f"replicas: {replicas}\n")
    return folder
