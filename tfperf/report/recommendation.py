"""Which placement the rows of a sweep bear out, in words: each statement is true of the rows that it is made from.

Only rows of a contest are weighed against each other: they did the same work. Rows that no other is faster than beyond
chance, whatever their number, are as fast as each other; of them those with the fewest devices are named, which cost
least.
"""

from collections.abc import Iterable, Sequence

from tfperf.report.ablation import digits
from tfperf.report.course import agrees, where
from tfperf.report.wording import counted, group_title, no_bound, within
from tfperf.results.placements import PlacementRow

ROOM = 0.1  # that a tie may leave for a difference without a word
NOT_MEASURED = "No point was measured, so nothing is recommended."
NOT_PROVED = "No placement that was measured is proved, so nothing is recommended."
DIVERGED = "The losses of all that was measured are no numbers, so nothing is recommended."
SHARED = (
    "The devices are logical CPUs, which share this machine's cores: more of them bring no more arithmetic. These "
    "figures show what each placement costs in copies, merges and waiting on such devices; which one is fastest on "
    "GPUs they cannot tell, so nothing is recommended."
)


def recommend(rows: Sequence[PlacementRow]) -> list[str]:
    """A paragraph for each contest; of rows on logical CPUs, and without proof, why there is none."""
    proved = [row for row in rows if row.proved and row.pairs_per_second is not None]
    if not proved:
        return [NOT_PROVED if any(row.repeats or row.proved is False for row in rows) else NOT_MEASURED]
    proved = [row for row in proved if not row.diverged]
    if not proved:
        return [DIVERGED]
    contests: dict[str, list[PlacementRow]] = {}
    for row in (row for row in proved if not row.logical):
        contests.setdefault(row.contest, []).append(row)
    others = f"Of the other rows: t{SHARED[1:]}" if contests else SHARED
    return [*map(_paragraph, contests.values()), *([others] if any(row.logical for row in proved) else [])]


def _paragraph(rows: Sequence[PlacementRow]) -> str:
    """What one contest tells."""
    title = group_title(rows)
    if rows[0].scaling == "weak":
        title += f", {counted(rows[0].devices)}"
    return " ".join([f"{title}.", *(_alone(rows[0]) if len(rows) == 1 else _weighed(rows))])


def _alone(row: PlacementRow) -> list[str]:
    return [
        f"Only {row.name} was measured and proved, {_speed(row)}: there is nothing to choose from.",
        *_kept(row),
    ]


def _weighed(rows: Sequence[PlacementRow]) -> list[str]:
    level = [row for row in rows if _high(row) is not None and (_high(row) or 0) >= 1]
    slower = [row for row in rows if _high(row) is not None and row not in level]
    unknown = [row for row in rows if _high(row) is None]
    if len(level) + len(slower) < 2:
        first = max(rows, key=_rate)
        return [
            f"{first.name} had the most words per second, {_speed(first)}, but fewer than two repeats side by side "
            f"tell nothing of chance for {_names(row for row in rows if row is not first)}, so nothing is recommended; "
            "take sweep.repeats: 3 or more."
        ]
    if not level:
        return ["Each is slower than another in repeats that both have, so nothing is recommended: some failed."]
    return [*_chosen(level, slower), *_left_out(unknown, max(level, key=_rate))]


def _left_out(unknown: Sequence[PlacementRow], fastest: PlacementRow) -> list[str]:
    """Rows that have too few repeats; that one of them had more words per second is no secret."""
    if not unknown:
        return []
    more = [row for row in unknown if _rate(row) > _rate(fastest)]
    said = f"; {_names(more)} had more words per second than {fastest.name}" if more else ""
    return [f"Not weighed, with fewer than two repeats beside it: {_names(unknown)}{said}."]


def _chosen(level: Sequence[PlacementRow], slower: Sequence[PlacementRow]) -> list[str]:
    """What is named of rows that no other is faster than."""
    fastest = max(level, key=_rate)
    fewest = min(row.devices or 1 for row in level)
    named = [row for row in level if (row.devices or 1) == fewest]
    details = [*_kept(named[0]), *_loss(named[0])] if len(named) == 1 else []
    return [*_verdict(fastest, level, named), *_room(fastest, level), *details, *_slower(slower, level)]


def _verdict(fastest: PlacementRow, level: Sequence[PlacementRow], named: Sequence[PlacementRow]) -> list[str]:
    rest = [row for row in level if row not in named]
    if len(level) == 1:
        return [f"Fastest: {fastest.name}, {_speed(fastest)}."]
    if len(named) > 1:
        more = f"; so {'is' if len(rest) == 1 else 'are'} {_names(rest)}, on more devices" if rest else ""
        return [f"A tie within the intervals: {_names(named)}{more}."]
    if named[0] is fastest:
        takes = "takes" if len(rest) == 1 else "take"
        return [
            f"Recommended: {fastest.name}, {_speed(fastest)}: {_names(rest)} cannot be told apart from it, and {takes} "
            "more devices."
        ]
    return [
        f"Recommended: {named[0].name}, {_speed(named[0])}: within the intervals as fast as {_names(rest)}, on fewer "
        "devices."
    ]


def _room(fastest: PlacementRow, level: Sequence[PlacementRow]) -> list[str]:
    """How far apart rows may be that cannot be told apart, where that is much."""
    last = min(level, key=_low)
    if _low(last) >= 1 - ROOM:
        return []
    return [
        f"These repeats leave room for a difference: {last.name} has {within(last.against_fastest)} times the speed of "
        f"{fastest.name}; more of them may tell the two apart."
    ]


def _slower(slower: Sequence[PlacementRow], level: Sequence[PlacementRow]) -> list[str]:
    """Of each measured number of devices none of which is as fast: its best row beside one that is faster."""
    out = []
    for devices in sorted({row.devices or 1 for row in slower} - {row.devices or 1 for row in level}):
        best = max((row for row in slower if (row.devices or 1) == devices), key=_rate)
        ratio = within(best.against_fastest)
        out.append(f"On {counted(devices)} {best.placement} was slower: {ratio} times the speed of {best.beside}.")
    return out


def _high(row: PlacementRow) -> float | None:
    return None if row.against_fastest is None else row.against_fastest.high


def _low(row: PlacementRow) -> float:
    return 1.0 if row.against_fastest is None or row.against_fastest.low is None else row.against_fastest.low


def _rate(row: PlacementRow) -> float:
    return 0.0 if row.pairs_per_second is None else row.pairs_per_second.value


def _kept(row: PlacementRow) -> list[str]:
    """Its speed-up with its efficiency, where one device was measured at like work."""
    if row.devices == 1 or row.speedup is None:
        return []
    return [
        f"That is {within(row.speedup)} times the examples per second of one device with the same placement, an "
        f"efficiency of {within(row.efficiency)}."
    ]


def _loss(row: PlacementRow) -> list[str]:
    """Where the time goes, where the traced steps took as long as the timed ones; with the bound."""
    if not row.phases or not row.bound or not agrees(row.phases):
        return []
    bound = [] if no_bound(row) else [f"The bound of a step is {digits(row.bound['bound_ms'])} ms."]
    return [where(row), *bound]


def _names(rows: Iterable[PlacementRow]) -> str:
    return ", ".join(row.name for row in rows)


def _speed(row: PlacementRow) -> str:
    return f"{within(row.words_per_second)} words/s"
