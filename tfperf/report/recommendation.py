"""Which placement the rows of a sweep bear out, in sentences: each is true of the rows that it is made from.

Only rows of a contest are weighed against each other: they did the same work. A row whose ratio to the fastest may be 1
within its 95 % interval is as fast; of such rows those with the fewest devices are named, which cost least.
"""

from collections.abc import Sequence

from tfperf.report.ablation import digits
from tfperf.report.course import agrees, where
from tfperf.report.wording import counted, group_title, within
from tfperf.results.placements import PlacementRow

NOT_MEASURED = "No point was measured, so nothing is recommended."
NOT_PROVED = "No placement that was measured is proved, so nothing is recommended."
SHARED = (
    "The devices are logical CPUs, which share this machine's cores: more of them bring no more arithmetic. These "
    "figures show what each placement costs in copies, merges and waiting on such devices; which one is fastest on "
    "GPUs they cannot tell, so nothing is recommended."
)


def recommend(rows: Sequence[PlacementRow]) -> list[str]:
    """A paragraph for each contest; on logical CPUs, and without proof, why there is none."""
    proved = [row for row in rows if row.proved and row.pairs_per_second is not None]
    if not proved:
        return [NOT_PROVED if any(row.repeats or row.proved is False for row in rows) else NOT_MEASURED]
    if any(row.logical for row in proved):
        return [SHARED]
    contests: dict[str, list[PlacementRow]] = {}
    for row in proved:
        contests.setdefault(row.contest, []).append(row)
    return [_paragraph(some) for some in contests.values()]


def _paragraph(rows: Sequence[PlacementRow]) -> str:
    """What one contest tells."""
    title = group_title(rows)
    if rows[0].scaling == "weak":
        title += f", {counted(rows[0].devices)}"
    return " ".join([f"{title}.", *(_alone(rows[0]) if len(rows) == 1 else _weighed(rows))])


def _alone(row: PlacementRow) -> list[str]:
    return [
        f"Only {row.placement} on {counted(row.devices)} was measured, {_speed(row)}: there is nothing to choose from.",
        *_kept(row),
    ]


def _weighed(rows: Sequence[PlacementRow]) -> list[str]:
    fastest = max(rows, key=lambda row: row.pairs_per_second.value if row.pairs_per_second else 0.0)
    others = [row for row in rows if row is not fastest]
    unknown = [row for row in others if row.against_fastest is None or row.against_fastest.high is None]
    if len(unknown) == len(others):
        return [
            f"{_at(fastest)} had the most words per second, {_speed(fastest)}, but fewer than two repeats side by side "
            f"tell nothing of chance for {_names(unknown)}, so nothing is recommended; take sweep.repeats: 3 or more."
        ]
    known = [row for row in rows if row not in unknown]
    left_out = [f"Not weighed, with fewer than two repeats beside it: {_names(unknown)}."] if unknown else []
    return [*_chosen(fastest, known), *left_out]


def _chosen(fastest: PlacementRow, rows: Sequence[PlacementRow]) -> list[str]:
    """What is named of rows whose ratios to the fastest have intervals."""
    tied = [row for row in rows if row is not fastest and row.against_fastest and (row.against_fastest.high or 0) >= 1]
    level = [fastest, *tied]
    fewest = min(row.devices or 1 for row in level)
    named = [row for row in level if (row.devices or 1) == fewest]
    details = [*_kept(named[0]), *_loss(named[0])] if len(named) == 1 else []
    return [*_verdict(fastest, tied, named), *details, *_slower(rows, level)]


def _verdict(fastest: PlacementRow, tied: list[PlacementRow], named: list[PlacementRow]) -> list[str]:
    if not tied:
        return [f"Fastest: {_at(fastest)}, {_speed(fastest)}."]
    if len(named) == 1 and named[0] is not fastest:
        rest = [row for row in (fastest, *tied) if row is not named[0]]
        return [
            f"Recommended: {_at(named[0])}, {_speed(named[0])}: within the intervals as fast as {_names(rest)}, on "
            "fewer devices."
        ]
    if len(named) == 1:
        return [
            f"Recommended: {_at(fastest)}, {_speed(fastest)}: {_names(tied)} cannot be told apart from it, and "
            f"take{'s' if len(tied) == 1 else ''} more devices."
        ]
    more = [row for row in (fastest, *tied) if row not in named]
    text = f"A tie within the intervals: {_names(named)}"
    return [f"{text}; so {'is' if len(more) == 1 else 'are'} {_names(more)}, on more devices." if more else f"{text}."]


def _slower(rows: Sequence[PlacementRow], level: Sequence[PlacementRow]) -> list[str]:
    """Of each measured number of devices none of which is as fast: its best row beside the fastest."""
    out = []
    for devices in sorted({row.devices or 1 for row in rows} - {row.devices or 1 for row in level}):
        some = [row for row in rows if (row.devices or 1) == devices]
        best = max(some, key=lambda row: row.against_fastest.value if row.against_fastest else 0.0)
        out.append(f"On {counted(devices)} {best.placement} was slower: {within(best.against_fastest)} of the fastest.")
    return out


def _kept(row: PlacementRow) -> list[str]:
    """Its speed-up with its efficiency, where one device was measured at like work."""
    if row.devices == 1 or row.speedup is None:
        return []
    return [
        f"That is {within(row.speedup)} times one device with the same placement, an efficiency of "
        f"{within(row.efficiency)}."
    ]


def _loss(row: PlacementRow) -> list[str]:
    """Where the time goes, where the traced steps took as long as the timed ones; with the bound."""
    if not row.phases or not row.bound or not agrees(row.phases):
        return []
    return [f"{where(row)} Its bound is {digits(row.bound['bound_ms'])} ms a step."]


def _at(row: PlacementRow) -> str:
    return f"{row.placement} on {counted(row.devices)}"


def _names(rows: Sequence[PlacementRow]) -> str:
    return ", ".join(map(_at, rows))


def _speed(row: PlacementRow) -> str:
    return f"{within(row.words_per_second)} words/s"
