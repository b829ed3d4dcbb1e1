"""A folder of JPEGs made from photographs: DIR/train/CLASS/00000.jpg and DIR/held/CLASS/00000.jpg.

Each picture is a function of the folder's settings and of its own number, so that a folder whose making was stopped, by
a kill too, is completed to what it would have been. Every file is renamed into place when it is whole.
"""

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tfperf.console.stages import ShowStage, show_nothing
from tfperf.data.cache import ABANDONED_SECONDS, digest, find_cache_folder, replace_file
from tfperf.errors import StorageError, UserError
from tfperf.results.files import make_folder
from tfperf.results.reading import read_json
from tfperf.zoo.photos_distortions import RECIPE, make_picture
from tfperf.zoo.photos_sources import CLASSES, PHOTOGRAPHS, digest_photographs, format_credits, read_photograph

Part = Literal["train", "held"]
PARTS: tuple[Part, ...] = ("train", "held")
SETTINGS, CREDITS = "photos.json", "CREDITS.txt"
COMMAND = "python -m tfperf.zoo.photos"
LEAST = 2 * len(CLASSES)  # pictures
SHOWN = 40  # times at most that it is told how far it is


@dataclass(frozen=True)
class PhotoSettings:
    """count: pictures, of all classes and both parts; sides of each: smallest to largest pixels, each drawn by itself.

    held_share: of each class, at least one on each side.
    """

    count: int = 4000
    smallest: int = 400
    largest: int = 640
    held_share: float = 0.2
    seed: int = 1
    recipe: int = RECIPE

    def list_pictures(self) -> Iterator["PicturePlace"]:
        """All of them: of each class as many as of any other, or one more; the last ones are held out."""
        for label, name in enumerate(CLASSES):
            count = self.count // len(CLASSES) + (label < self.count % len(CLASSES))
            held = min(max(round(self.held_share * count), 1), count - 1)
            for number in range(count):
                yield PicturePlace("train" if number < count - held else "held", label, name, number)


class PicturePlace(NamedTuple):
    """Which picture of a folder: number among those of its class."""

    part: Part
    label: int
    name: str
    number: int

    @property
    def path(self) -> str:
        """In the folder."""
        return f"{self.part}/{self.name}/{self.number:05d}.jpg"


def find_default_folder(settings: PhotoSettings) -> Path:
    """That of tfperf's cache for these settings. Raises: UserError where there is no cache."""
    cache = find_cache_folder()
    if cache is None:
        raise UserError(f"folder: missing, and there is no folder for caches; must be one that {COMMAND} DIR has made")
    return cache / "photos" / digest(settings)[:16]


def read_settings(folder: Path) -> PhotoSettings:
    """Those that a folder was made with. Raises: UserError for a folder of anything else."""
    path = folder / SETTINGS
    if not path.is_file():
        raise UserError(f"{folder}: has no {SETTINGS}; must be a folder that {COMMAND} DIR has made")
    found = read_json(path)
    wanted = {key: type(value) for key, value in asdict(PhotoSettings()).items()} | {"photographs": str}
    if not isinstance(found, dict) or {key: type(value) for key, value in found.items()} != wanted:
        raise UserError(f"{path}: is damaged; must be as {COMMAND} DIR wrote it")
    return PhotoSettings(**{key: value for key, value in found.items() if key != "photographs"})


def make_photos(folder: Path, settings: PhotoSettings, show_stage: ShowStage = show_nothing) -> int:
    """Make all pictures of a folder that are not there yet, and return how many that were.

    Raises: UserError for a folder that holds other things, was made with other settings, or from other photographs than
    those that are installed now, and for too few pictures; StorageError.
    """
    if settings.count < LEAST:
        raise UserError(f"count: got {settings.count}; must be {LEAST} at least, two of each class")
    places = list(settings.list_pictures())
    there = _list_files(folder)
    _refuse_others(folder, settings, there - {one.path for one in places})
    missing = [one for one in places if one.path not in there]
    if missing:
        _begin(folder, settings)
        _make_pictures(folder, settings, missing, len(places), show_stage)
    return len(missing)


def _list_files(folder: Path) -> set[str]:
    """What lies in a folder, by names in it; what a killed process left half written, and empty files, left out."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; must be a folder, or missing")
    found = set()
    for top, _, names in os.walk(folder, onerror=_refuse_unreadable):
        for name in names:
            path = Path(top, name)
            if name[0] == "." and name.endswith(".tmp"):
                _forget(path)
            elif path.stat().st_size:  # a machine that stops may leave empty files under their final name
                found.add(path.relative_to(folder).as_posix())
    return found


def _refuse_unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise UserError(f"{error.filename}: cannot be read: {error.strerror}") from None


def _forget(path: Path) -> None:
    """Another process may write it now, if it is young."""
    try:
        if path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
            path.unlink()
    except OSError:
        pass


def _refuse_others(folder: Path, settings: PhotoSettings, others: set[str]) -> None:
    if others and SETTINGS not in others:
        raise UserError(f"{folder}: holds other things, as {min(others)}; must be empty, missing, or of {COMMAND}")
    if others and (made := read_settings(folder)) != settings:
        was, given = asdict(made), asdict(settings)
        differs = ", ".join(f"{key} {was[key]}, not {given[key]}" for key in was if was[key] != given[key])
        raise UserError(f"{folder}: was made with {differs}; choose another folder")
    if strange := others - {SETTINGS, CREDITS}:
        raise UserError(f"{folder}: holds other things than its pictures, as {min(strange)}; remove them")


def _begin(folder: Path, settings: PhotoSettings) -> None:
    """Write what the folder is, before the first picture."""
    now = digest_photographs()
    path = folder / SETTINGS
    if not path.is_file():  # the first file of all: a folder with others and without it is not this program's
        for name in (f"{part}/{one}" for part in PARTS for one in CLASSES):
            make_folder(folder / name)
        _write(path, json.dumps({**asdict(settings), "photographs": now}, indent=1).encode())
    elif (then := read_json(path).get("photographs")) != now:
        raise UserError(f"{folder}: was made from other versions of the photographs ({then}, not {now}); remove it")
    _write(folder / CREDITS, format_credits().encode())


def _make_pictures(
    folder: Path, settings: PhotoSettings, missing: list[PicturePlace], total: int, show_stage: ShowStage
) -> None:
    """By threads: Pillow and NumPy let the others run while they compute."""
    photos = [read_photograph(one) for one in PHOTOGRAPHS]

    def make(place: PicturePlace) -> None:
        random = np.random.default_rng([settings.seed, place.label, place.number])
        width, height = random.integers(settings.smallest, settings.largest, 2, endpoint=True)
        _write(folder / place.path, make_picture(photos[place.label], (int(width), int(height)), random))

    # class after class would leave a folder that was stopped without the last ones
    missing = sorted(missing, key=lambda one: (one.number, one.label))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        try:
            for done, _ in enumerate(threads.map(make, missing), total - len(missing) + 1):
                if done % max(1, total // SHOWN) == 0 or done == total:
                    show_stage("making pictures", done, total)
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        with replace_file(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise StorageError(f"{path}: could not be written: {error.strerror}; the same command goes on here") from None


def list_photos(folder: Path, part: Part) -> tuple[list[str], list[int]]:
    """Paths and class numbers of a part, by class and number."""
    found = [one for one in read_settings(folder).list_pictures() if one.part == part]
    return [str(folder / one.path) for one in found], [one.label for one in found]


def describe_photos(folder: Path) -> dict[str, Any]:
    """How many pictures of each part there are, and their bytes."""
    sizes = {part: [os.path.getsize(path) for path in list_photos(folder, part)[0]] for part in PARTS}
    return {**{part: len(found) for part, found in sizes.items()}, "bytes": sum(map(sum, sizes.values()))}
