"""Two finished memory studies: ratios of time, memory and RAM at a batch that both know, and of what both found."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated

from tfperf.errors import RunDirectoryError
from tfperf.measure.memory_law import MemoryLaw
from tfperf.report.compare import NUMBERS, TIMES, Change, ChangeWords
from tfperf.report.compare_reports import IGNORE_EXTRA
from tfperf.report.numbers import format_bytes
from tfperf.results.reading import read_json
from tfperf.study.trial_log import MEMORY_FILE

MEMORY: ChangeWords = ("less", "more")


@validated(config=IGNORE_EXTRA, frozen=True)
class _BatchFigures:
    batch: int
    least: float
    ram_peak: float | None
    seconds_per_step: float


@validated(config=IGNORE_EXTRA, frozen=True)
class _StageFigures:
    name: str
    device: float | None


@validated(config=IGNORE_EXTRA, frozen=True)
class _LargestFigures:
    batch: int


@validated(config=IGNORE_EXTRA, frozen=True)
class _RoomFigures:
    device: str
    budget: float
    margin: float


@validated(config=IGNORE_EXTRA, frozen=True)
class _ModeFigures:
    stages: list[_StageFigures]
    points: list[_BatchFigures]
    law: MemoryLaw | None
    largest: _LargestFigures
    length: int | None = None  # to which samples are padded


@validated(config=IGNORE_EXTRA, frozen=True)
class _StudyFigures:
    room: _RoomFigures
    modes: dict[str, _ModeFigures]


@dataclass(frozen=True)
class _ModePair:
    """A mode in both studies."""

    name: str
    before: _ModeFigures
    now: _ModeFigures

    def list_changes(self) -> Iterator[Change]:
        """What both say."""
        yield from self._compare("bytes held before the first batch", MEMORY, *map(_read_held, (self.before, self.now)))
        a, b = ({point.batch: point for point in mode.points} for mode in (self.before, self.now))
        if common := max({*a} & {*b}, default=None):
            both, at = (a[common], b[common]), f"at batch {common}"
            yield self._compare_peaks(common, *both)
            yield from self._compare(f"peak RAM {at}", MEMORY, *(point.ram_peak for point in both))
            yield from self._compare(f"ms a step {at}", TIMES, *(1e3 * point.seconds_per_step for point in both))
        laws = (self.before.law, self.now.law)
        yield from self._compare("bytes a sample", MEMORY, *(None if law is None else law.per_sample for law in laws))
        yield from self._compare("largest batch", NUMBERS, self.before.largest.batch, self.now.largest.batch)

    def _compare_peaks(self, batch: int, before: _BatchFigures, now: _BatchFigures) -> Change:
        """With limits where both laws have an interval: the widest ratio of these."""
        low = high = None
        limits = [_find_limits(mode, batch) for mode in (self.before, self.now)]
        if (old := limits[0]) is not None and (new := limits[1]) is not None and old[0] > 0:
            low, high = new[0] / old[1], new[1] / old[0]
        name = f"{self.name}: bytes at the peak, batch {batch}"
        return Change(name, before.least, now.least, now.least / before.least, low, high, MEMORY, "ratio")

    def _compare(self, name: str, words: ChangeWords, before: float | None, now: float | None) -> Iterator[Change]:
        """A ratio; nothing where one of the two is not known."""
        if before and now is not None:
            yield Change(f"{self.name}: {name}", before, now, now / before, None, None, words, "ratio")


def compare_memory(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """Ratios, now / before, and what to know about them. Raises: RunDirectoryError for unfinished ones."""
    a, b = _read_study(before), _read_study(now)
    common = [mode for mode in a.modes if mode in b.modes]
    if not common:
        raise RunDirectoryError(f"{now}: has no mode of {before}; studies are compared mode by mode")
    notes = [
        f"only in {folder}: mode {mode}"
        for folder, mine, other in ((before, a, b), (now, b, a))
        for mode in mine.modes
        if mode not in other.modes
    ]
    for mode in common:
        lengths = [one.modes[mode].length for one in (b, a)]
        if lengths[0] != lengths[1]:
            notes.append("{}: padded to a length of {}, was {}".format(mode, *(one or "any" for one in lengths)))
    for key in ("device", "budget", "margin"):
        values = [getattr(one.room, key) for one in (b, a)]
        if values[0] != values[1]:
            words = (format_bytes(x) if key == "budget" else x for x in values)
            notes.append("memory.{}: {}, was {}".format(key, *words))
    return [change for mode in common for change in _ModePair(mode, a.modes[mode], b.modes[mode]).list_changes()], notes


def _read_study(folder: Path) -> _StudyFigures:
    content = read_json(folder / MEMORY_FILE)
    if isinstance(content, dict) and "modes" not in content:
        raise RunDirectoryError(f"{folder}: the memory study is not finished; its command goes on with it")
    try:
        return TypeAdapter(_StudyFigures).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RunDirectoryError(f"{folder / MEMORY_FILE}: damaged: {place}: {first['msg']}") from None


def _read_held(mode: _ModeFigures) -> float | None:
    """Bytes of the device before the first step: of the last stage that is no batch's."""
    before = [stage for stage in mode.stages if "batch" not in stage.name]
    return before[-1].device if before else None


def _find_limits(mode: _ModeFigures, batch: int) -> tuple[float, float] | None:
    law = mode.law
    return law.predict_interval(batch) if law is not None and batch >= law.batches[0] else None
