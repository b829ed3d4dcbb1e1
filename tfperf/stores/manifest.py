"""store.json: what a store holds, of which pipeline, and whether it is finished."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tfperf.errors import RunDirectoryError
from tfperf.results.files import write_atomically
from tfperf.results.reading import read_json
from tfperf.stores.layout import RecordLayout

MANIFEST, FORMAT = "store.json", 1


@dataclass(frozen=True)
class StoreManifest:
    """What store.json says."""

    stage: str | None  # the user's name for the last stage that was run; None: it has none, it is known by its position
    position: int  # of that stage among all, sources first
    elements: int
    layout: RecordLayout
    fingerprint: str  # of the stages that were run
    code: Mapping[str, str]  # sha256 by path, of files whose Python runs in these stages
    has_python: bool
    sources: str  # digest of the list of files that the stages read
    extra_paths: tuple[str, ...]  # looked at beside those in the graph, since Python may read them
    data: Mapping[str, Any] | None  # the data block of the card; None: a dataset of a program
    versions: Mapping[str, str | None]
    seconds: float = 0.0  # of preparation, of all lives together
    file: Mapping[str, Any] = field(default_factory=dict)  # size, time of change, digest of the header; empty: open
    is_unwatched: bool = False  # whether stages read files that nobody looks at, since their names come from data

    @property
    def is_finished(self) -> bool:
        """Whether all elements are there."""
        return bool(self.file)

    def describe_difference(self, other: "StoreManifest") -> str | None:
        """In what another one is about something else, in words; None: in nothing."""
        names = {
            "stage": "stage", "position": "stage", "elements": "number of elements", "layout": "shapes or types",
            "fingerprint": "stages", "code": "code", "sources": "files", "data": "data block", "versions": "versions",
        }  # fmt: skip
        found = [words for name, words in names.items() if getattr(self, name) != getattr(other, name)]
        return ", ".join(dict.fromkeys(found)) or None

    def finish(self, seconds: float, file: Mapping[str, Any]) -> "StoreManifest":
        """The one of a store that is whole."""
        return replace(self, seconds=seconds, file=dict(file))

    def write(self, folder: Path) -> None:
        """Put it in its place. Raises: StorageError."""
        tree = {"format": FORMAT, **asdict(self), "layout": self.layout.to_json()}
        with write_atomically(folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps({**tree, "sha256": _digest(tree)}, indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read(folder: Path) -> "StoreManifest":
        """Raises: RunDirectoryError for a folder that has none, or a damaged one."""
        path = folder / MANIFEST
        if not path.is_file():
            what = "holds no store" if folder.is_dir() else "is no folder" if folder.exists() else "no such folder"
            raise RunDirectoryError(f"{folder}: {what}; allowed: what `tfperf store` has made")
        try:
            tree = read_json(path)
            digest = tree.pop("sha256")
            if tree.pop("format") != FORMAT:
                raise ValueError("it is of another version of tfperf")
            if digest != _digest({"format": FORMAT, **tree}):
                raise ValueError("its checksum does not fit what it says; it is not meant to be edited")
            return StoreManifest(
                **{
                    **tree, "layout": RecordLayout.from_json(tree["layout"]), "extra_paths": tuple(tree["extra_paths"])
                }
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunDirectoryError(f"{path}: damaged: {error}; store again elsewhere") from None


def _digest(tree: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
