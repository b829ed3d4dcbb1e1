"""Stores that are finished, opened for reading, damaged ones refused."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfperf.errors import RunDirectoryError
from tfperf.stores.element_file import FILE, ElementFile, FilePlan, read_plan
from tfperf.stores.manifest import StoreManifest


@dataclass(frozen=True)
class ElementStore:
    """A store that is whole."""

    folder: Path
    manifest: StoreManifest
    plan: FilePlan

    @property
    def elements_file(self) -> Path:
        """The HDF5 file, by its whole path."""
        return self.folder / FILE


def open_elements(folder: Path, verify: bool = False) -> ElementStore:
    """A store. Its checksums are compared where the file is not the very one that was written, as a copy, or on demand.

    Raises: RunDirectoryError for what is no store, is not finished, or is damaged.
    """
    folder = Path(os.path.abspath(folder))
    manifest = StoreManifest.read(folder)
    if not manifest.is_finished:
        raise RunDirectoryError(f"{folder}: is not finished; the `tfperf store` that began it goes on with it")
    path = folder / FILE
    if not path.is_file():
        raise RunDirectoryError(f"{path}: missing; store again elsewhere")
    plan = read_plan(path, manifest.layout, manifest.elements)
    with ElementFile(path, plan) as file:
        if file.hash_header() != manifest.file["header"]:
            raise RunDirectoryError(
                f"{path}: damaged: its header is not the one that was written; store again elsewhere"
            )
        if verify or dict(manifest.file) != describe_file(path, file):
            refuse_damaged(file)
    return ElementStore(folder, manifest, plan)


def refuse_damaged(file: ElementFile) -> None:
    """RunDirectoryError where a block is not what was written; all of it is read."""
    damaged = list(file.find_damaged())
    if damaged:
        first = damaged[0] * file.plan.block
        last = first + file.plan.count_in_block(damaged[0]) - 1
        raise RunDirectoryError(
            f"{file.path}: damaged: {len(damaged)} of {file.plan.blocks} checksums do not fit, the first of elements "
            f"{first} to {last}; remove {file.path.parent} and store again"
        )


def describe_file(path: Path, file: ElementFile) -> Mapping[str, Any]:
    """By what it is known again without reading it."""
    found = path.stat()
    return {"bytes": found.st_size, "changed_ns": found.st_mtime_ns, "header": file.hash_header()}
