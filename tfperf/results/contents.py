"""What a run directory holds, and how it is emptied: all of it is looked at before any of it is removed.

card.yaml         the resolved card
environment.json  machine and versions at the start
run.json          state (state.py), written before the first step
run.log           what its commands did (log.py); there only beside run.json
checkpoints/      state of training; may be a link to a folder, on a disk for such files
events/           for TensorBoard; may be a link, too
results.h5, report.json, report.html, once a part is done

and what runs of its workload alone have: names of files, and of folders, which end with a slash.
"""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfperf.errors import RunDirectoryError
from tfperf.results.files import write_atomically
from tfperf.results.lock import LOCK
from tfperf.results.reading import name_kind, read_text

CARD, STATE, ENVIRONMENT, LOG = "card.yaml", "run.json", "environment.json", "run.log"
RESULTS, CHECKPOINTS, EVENTS, REPORT, PAGE = "results.h5", "checkpoints", "events", "report.json", "report.html"
LINKABLE = (CHECKPOINTS, EVENTS)
# in the order in which they are removed: results first, so that none is ever taken for those of another run
FIRST, LAST = (RESULTS, f"{CHECKPOINTS}/", f"{EVENTS}/"), (REPORT, PAGE, LOG, STATE, CARD, ENVIRONMENT)
# how names of files begin in a folder that may be a link: nothing else is removed from where it leads
PREFIXES = {CHECKPOINTS: ("step-", ".step-"), EVENTS: ("events.out.tfevents", ".events.out.tfevents")}
OWNER = "owner"  # file in a folder that is linked: the number of the run that it belongs to
PROFILES = "plugins"  # folder of TensorBoard's profiles in events/; every file in it is removed


def refuse_strangers(folder: Path, started: bool) -> None:
    """RunDirectoryError for what no run made, in a folder that a run is to be begun in.

    started: whether a run began there. Where none did, what a process left that was ended before that counts as
    nothing; a card alone is a user's own.
    """
    names = {p.name for p in folder.iterdir() if p.suffix != ".tmp"} - {LOCK}
    names -= {name for name in LINKABLE if name in names and _is_empty(folder / name)}
    unstarted = names <= {ENVIRONMENT, CARD} and (CARD not in names or ENVIRONMENT in names)
    if not started and not unstarted:
        raise RunDirectoryError(f"{folder}: is not empty and holds no run; choose another folder")


def list_linked_folders(folder: Path) -> list[Path]:
    """The folders that `checkpoints` and `events` of a run directory lead to, where they are links to folders."""
    links = [folder / name for name in LINKABLE]
    return [Path(os.path.realpath(link)) for link in links if link.is_symlink() and link.is_dir()]


def claim_links(folder: Path, run: str) -> None:
    """Note in the folders that `checkpoints` and `events` lead to which run's they are.

    Raises: RunDirectoryError where one is another run's, or holds files and is nobody's.
    """
    for target in list_linked_folders(folder):
        owner = _read_owner(target)
        if owner is None and not _is_empty(target):
            raise RunDirectoryError(
                f"{target}: to which a link in {folder} leads, does not say whose its files are; link an empty folder, "
                f"or, if they are this run's, write {run} into a file `{OWNER}` there"
            )
        if owner not in (None, run):
            raise RunDirectoryError(f"{target}: to which a link in {folder} leads, is another run's; link another one")
        if owner is None:
            with write_atomically(target / OWNER) as temporary:
                temporary.write_text(run + "\n", encoding="utf-8")


def _read_owner(target: Path) -> str | None:
    """The number of the run that a folder outside of run directories belongs to; None where it says nothing."""
    return read_text(target / OWNER, 1000).strip() if os.path.lexists(target / OWNER) else None


def _is_empty(folder: Path) -> bool:
    """Whether a folder, or the one that a link leads to, holds nothing but what marks whose it is."""
    return folder.is_dir() and {p.name for p in folder.iterdir()} <= {LOCK, OWNER}


def clear(folder: Path, run: str | None, own: Iterable[str] = ()) -> None:
    """Remove what a run left; `run`: its number, None where that is unknown; `own`: what its workload makes.

    Raises: RunDirectoryError, before anything is removed, where something of those names is not what a run makes, or
    may not be removed.
    """
    made = [name for name in (*FIRST, *own, *LAST) if os.path.lexists(folder / name.rstrip("/"))]
    there = [folder / name for name in made]
    faults = [fault for name in made for fault in _check_removable(folder / name, run, name.endswith("/"))]
    if faults:
        raise RunDirectoryError(*faults)
    for path in there:
        if path.is_symlink():
            _empty_folder(path)
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _check_removable(path: Path, run: str | None, is_folder: bool) -> Iterator[str]:
    mode = path.lstat().st_mode
    linked = path.name in LINKABLE and stat.S_ISLNK(mode)
    if linked and not path.is_dir():
        yield f"{path}: is a link that leads to no folder; make the folder, or remove the link"
    elif linked:
        strangers = [p for p in _walk(path) if not p.is_dir() and not _is_made(path, p)]
        if not _is_empty(path) and _read_owner(path) != run:
            yield f"{path}: the folder that it links to is not this run's; link another one, or empty it by hand"
        elif strangers:
            yield f"{path}: the folder that it links to holds {strangers[0]}, which is not a run's; link another one"
    elif not (stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode)):
        allowed = "a folder" if is_folder else "a regular file"
        yield f"{path}: is {name_kind(mode)}; must be {allowed}{' or a link to one' if path.name in LINKABLE else ''}"
        return
    yield from _check_permissions(path)


def _walk(folder: Path) -> Iterator[Path]:
    """All that is below a folder, deepest first; links are not followed."""
    for above, folders, files in os.walk(folder, topdown=False):
        yield from (Path(above) / name for name in (*files, *folders))


def _is_made(folder: Path, path: Path) -> bool:
    """Whether a run made this file in a folder that is a link."""
    inside = path.relative_to(folder).parts
    if inside in ((LOCK,), (OWNER,)):
        return True
    return path.name.startswith(PREFIXES[folder.name]) or (folder.name == EVENTS and PROFILES in inside)


def _check_permissions(path: Path) -> Iterator[str]:
    """A fault for each folder whose entries this process may not remove."""
    folders = [p for p in _walk(path) if p.is_dir() and not p.is_symlink()] if path.is_dir() else []
    holders = [path.parent, *([path] if path.is_dir() else []), *folders]
    yield from (f"{p}: may not be emptied: permission denied" for p in holders if not os.access(p, os.W_OK | os.X_OK))


def _empty_folder(folder: Path) -> None:
    """Remove what is in a folder, which itself stays, as does the lock that this process holds there."""
    for path in (p for p in list(_walk(folder)) if p != folder / LOCK):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
