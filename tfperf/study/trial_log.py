"""ablation.json, memory.json: what was measured so far, and whether it may be gone on with."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfperf.errors import RunDirectoryError
from tfperf.measure.environment import count_cores, list_gpus, list_versions, read_cpu_model
from tfperf.results.files import write_atomically
from tfperf.results.reading import read_json
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import Tree, put
from tfperf.runcard.kinds import AnyCard

FILE, MEMORY_FILE, ENVIRONMENT = "ablation.json", "memory.json", "environment.json"


def make_card_identity(card: AnyCard, hashes: Mapping[str, str]) -> dict[str, Any]:
    """What two trials must share to be set side by side; files count by their content, `hashes` by key."""
    tree = to_json_tree(card)
    for key, digest in hashes.items():
        put(tree, key, digest)
    return make_identity(tree)


def make_identity(card: Any) -> dict[str, Any]:
    """The same for what a study makes of its card, as JSON-able values."""
    text = json.dumps(card, sort_keys=True)
    return {
        "card": hashlib.sha256(text.encode()).hexdigest(), "versions": list_versions(),
        "machine": {"cpu": read_cpu_model(), "cores": count_cores(), "gpus": [g["name"] for g in list_gpus()]},
    }  # fmt: skip


@dataclass
class TrialLog:
    """Records by variant, and what `auto` stands for, in a file of a folder, by default `ablation.json`."""

    folder: Path
    identity: Mapping[str, Any]
    file: str = FILE
    choices: Tree | None = None  # by key of the card; None: not decided yet
    trials: dict[str, dict[str, Any]] = field(default_factory=dict)

    def load(self) -> None:
        """Take up what is there; RunDirectoryError when it is of another card, version or machine, or damaged."""
        path = self.folder / self.file
        if not os.path.lexists(path):
            return
        try:
            found = read_json(path)
            other = [name for name, value in self.identity.items() if found["identity"][name] != value]
            if not other and found.get("sha256") != _digest(found):
                raise ValueError("its checksum does not fit what it says; it is not meant to be edited")
            choices, trials = found["choices"], found["trials"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunDirectoryError(f"{path}: damaged ({error}); remove it to begin again") from None
        if other:
            what = ", ".join(other)
            raise RunDirectoryError(f"{path}: measured with another {what}; choose another folder or remove it")
        self.choices = choices
        # what failed may go well now
        self.trials = {key: trial for key, trial in trials.items() if "error" not in trial}

    def save(self, report: Mapping[str, Any]) -> None:
        """Write everything, with a report made of it."""
        content = {**report, "choices": self.choices, "identity": self.identity, "trials": self.trials}
        write(self.folder / self.file, {**content, "sha256": _digest(content)})


def _digest(content: Mapping[str, Any]) -> str:
    """sha256 of all but the digest itself."""
    text = json.dumps({key: value for key, value in content.items() if key != "sha256"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write(path: Path, content: Any) -> None:
    """JSON, atomically; StorageError where that fails."""
    with write_atomically(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
