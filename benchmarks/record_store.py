"""Parts of a benchmark measured in processes of their own, and kept: an interrupted one goes on where it stopped."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfperf.errors import UserError
from tfperf.measure import parent_watch
from tfperf.measure.quiet import drop_native_logs
from tfperf.results.files import make_folder, write_atomically
from tfperf.results.lock import DirectoryLock
from tfperf.results.reading import read_text
from tfperf.study import child
from tfperf.study.trial_log import make_identity

ROOT = Path(__file__).parents[1]
MOST_BYTES = 2**24
Record = dict[str, Any]


class RecordStore:
    """The records of a benchmark's parts, each with the request that it answers; without a folder none is kept.

    Inside `with` the folder is this process's alone. Raises: UserError where it is another's.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder, self.code = folder, digest_code()
        self.lock = None if folder is None else DirectoryLock(folder)
        if folder is not None:
            make_folder(folder)

    def __enter__(self) -> "RecordStore":
        if self.lock is not None:
            self.lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        if self.lock is not None:
            self.lock.release()

    def get_record(self, name: str, module: str, request: Mapping[str, Any]) -> Record:
        """The record of a part: the one that is there, else what `python -m module` prints for the request.

        Raises: UserError where the folder has one for another request, by another version of the program or of its
        libraries or on another machine, where the program was changed since the benchmark began, and where the process
        failed.
        """
        if digest_code() != self.code:
            what = "the program was changed since this benchmark began"
            raise UserError(f"{name}: {what}; run it again, and leave its files as they are meanwhile")
        whole = {**request, "code": self.code, **_collect_surroundings()}
        found = self._read(name, whole)
        if found is None:
            found = child.run_subprocess([sys.executable, "-m", module], whole, lambda: False) or {}
            if "error" in found or not found:
                raise UserError(f"{name}: {found.get('error', 'it printed no record')}")
            self._write(name, whole, found)
        return found

    def _make_path(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{name}.json"

    def _read(self, name: str, request: Mapping[str, Any]) -> Record | None:
        path = self._make_path(name)
        if path is None or not os.path.lexists(path):
            return None
        try:
            there = json.loads(read_text(path, MOST_BYTES))
            asked, record = dict(there["request"]), dict(there["record"])
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: damaged; remove it, and the part is measured again") from None
        other = [key for key in sorted({*asked, *request}) if asked.get(key) != request.get(key)]
        if other:
            raise UserError(f"{path}: measured with another {', '.join(other)}; give another --folder, or remove it")
        return record

    def _write(self, name: str, request: Mapping[str, Any], record: Record) -> None:
        path = self._make_path(name)
        if path is not None:
            with write_atomically(path) as temporary:
                temporary.write_text(json.dumps({"request": request, "record": record}) + "\n", encoding="utf-8")


def answer_request(measure: Callable[[Mapping[str, Any]], Record]) -> None:
    """Read the request of a part, and print its record: what a module does that is asked."""
    request = parent_watch.read_request()
    parent_watch.watch_parent()
    with drop_native_logs():
        record = measure(request)
    print(json.dumps(record), flush=True)


def _collect_surroundings() -> Record:
    """Libraries and machine: figures of others do not stand beside these."""
    found = make_identity(None)
    return {name: found[name] for name in ("versions", "machine")}


def digest_code() -> str:
    """A digest of all that decides what a part measures: the program and its benchmarks."""
    found = hashlib.sha256()
    for path in sorted([*(ROOT / "tfperf").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]):
        found.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()
