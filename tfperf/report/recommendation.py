"""Which placement the rows of a sweep bear out, in words: each statement is true of the rows that it is made from.

Only rows of a contest are weighed against each other: they did the same work. Rows that no other is faster than beyond
chance, whatever their number, are as fast as each other; of them those with the fewest devices are named, which cost
least.
"""

from collections.abc import Iterable, Sequence

from tfperf.report.ablation import format_digits
from tfperf.report.course import describe_largest_parts, is_like_timed
from tfperf.report.wording import format_devices, format_estimate, format_like_work_title, is_below_bound
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
    return [*map(_describe_contest, contests.values()), *([others] if any(row.logical for row in proved) else [])]


def _describe_contest(rows: Sequence[PlacementRow]) -> str:
    """What one contest tells."""
    title = format_like_work_title(rows)
    if rows[0].scaling == "weak":
        title += f", {format_devices(rows[0].devices)}"
    return " ".join([f"{title}.", *(_describe_single(rows[0]) if len(rows) == 1 else _describe_several(rows))])


def _describe_single(row: PlacementRow) -> list[str]:
    return [
        f"Only {row.name} was measured and proved, {_format_speed(row)}: there is nothing to choose from.",
        *_describe_speedup(row),
    ]


def _describe_several(rows: Sequence[PlacementRow]) -> list[str]:
    level = [row for row in rows if _get_high(row) is not None and (_get_high(row) or 0) >= 1]
    slower = [row for row in rows if _get_high(row) is not None and row not in level]
    unknown = [row for row in rows if _get_high(row) is None]
    if len(level) + len(slower) < 2:
        first = max(rows, key=_get_rate)
        return [
            f"{first.name} had the most words per second, {_format_speed(first)}, but fewer than two repeats side by "
            f"side tell nothing of chance for {_format_names(row for row in rows if row is not first)}, so nothing is "
            "recommended; take sweep.repeats: 3 or more."
        ]
    if not level:
        return ["Each is slower than another in repeats that both have, so nothing is recommended: some failed."]
    return [*_describe_choice(level, slower), *_describe_left_out(unknown, max(level, key=_get_rate))]


def _describe_left_out(unknown: Sequence[PlacementRow], fastest: PlacementRow) -> list[str]:
    """Rows that have too few repeats; that one of them had more words per second is no secret."""
    if not unknown:
        return []
    more = [row for row in unknown if _get_rate(row) > _get_rate(fastest)]
    said = f"; {_format_names(more)} had more words per second than {fastest.name}" if more else ""
    return [f"Not weighed, with fewer than two repeats beside it: {_format_names(unknown)}{said}."]


def _describe_choice(level: Sequence[PlacementRow], slower: Sequence[PlacementRow]) -> list[str]:
    """What is named of rows that no other is faster than."""
    fastest = max(level, key=_get_rate)
    fewest = min(row.devices or 1 for row in level)
    named = [row for row in level if (row.devices or 1) == fewest]
    details = [*_describe_speedup(named[0]), *_describe_time(named[0])] if len(named) == 1 else []
    said = [*_describe_verdict(fastest, level, named), *_describe_uncertainty(fastest, level)]
    return [*said, *details, *_describe_slower(slower, level)]


def _describe_verdict(fastest: PlacementRow, level: Sequence[PlacementRow], named: Sequence[PlacementRow]) -> list[str]:
    rest = [row for row in level if row not in named]
    if len(level) == 1:
        return [f"Fastest: {fastest.name}, {_format_speed(fastest)}."]
    if len(named) > 1:
        more = f"; so {'is' if len(rest) == 1 else 'are'} {_format_names(rest)}, on more devices" if rest else ""
        return [f"A tie within the intervals: {_format_names(named)}{more}."]
    if named[0] is fastest:
        takes = "takes" if len(rest) == 1 else "take"
        return [
            f"Recommended: {fastest.name}, {_format_speed(fastest)}: {_format_names(rest)} cannot be told apart "
            f"from it, and {takes} more devices."
        ]
    return [
        f"Recommended: {named[0].name}, {_format_speed(named[0])}: within the intervals as fast as "
        f"{_format_names(rest)}, on fewer devices."
    ]


def _describe_uncertainty(fastest: PlacementRow, level: Sequence[PlacementRow]) -> list[str]:
    """How far apart rows may be that cannot be told apart, where that is much."""
    last = min(level, key=_get_low)
    if _get_low(last) >= 1 - ROOM:
        return []
    return [
        f"These repeats leave room for a difference: {last.name} has {format_estimate(last.against_fastest)} times the "
        f"speed of {fastest.name}; more of them may tell the two apart."
    ]


def _describe_slower(slower: Sequence[PlacementRow], level: Sequence[PlacementRow]) -> list[str]:
    """Of each measured number of devices none of which is as fast: its best row beside one that is faster."""
    out = []
    for devices in sorted({row.devices or 1 for row in slower} - {row.devices or 1 for row in level}):
        best = max((row for row in slower if (row.devices or 1) == devices), key=_get_rate)
        speed = f"{format_estimate(best.against_fastest)} times the speed of {best.beside}"
        out.append(f"On {format_devices(devices)} {best.placement} was slower: {speed}.")
    return out


def _get_high(row: PlacementRow) -> float | None:
    return None if row.against_fastest is None else row.against_fastest.high


def _get_low(row: PlacementRow) -> float:
    return 1.0 if row.against_fastest is None or row.against_fastest.low is None else row.against_fastest.low


def _get_rate(row: PlacementRow) -> float:
    return 0.0 if row.pairs_per_second is None else row.pairs_per_second.value


def _describe_speedup(row: PlacementRow) -> list[str]:
    """Its speed-up with its efficiency, where one device was measured at like work."""
    if row.devices == 1 or row.speedup is None:
        return []
    return [
        f"That is {format_estimate(row.speedup)} times the examples per second of one device with the same placement, "
        f"an efficiency of {format_estimate(row.efficiency)}."
    ]


def _describe_time(row: PlacementRow) -> list[str]:
    """Where the time goes, where the traced steps took as long as the timed ones; with the bound."""
    if not row.phases or not row.bound or not is_like_timed(row.phases):
        return []
    bound = [] if is_below_bound(row) else [f"The bound of a step is {format_digits(row.bound['bound_ms'])} ms."]
    return [describe_largest_parts(row), *bound]


def _format_names(rows: Iterable[PlacementRow]) -> str:
    return ", ".join(row.name for row in rows)


def _format_speed(row: PlacementRow) -> str:
    return f"{format_estimate(row.words_per_second)} words/s"
