"""Two trials of one training in calls of different lengths, compared over the same steps of it."""

from tfperf.study.child import Record


def compute_common_times(before: Record, after: Record) -> tuple[float, float]:
    """ms a step of each: means over the steps that both have timed, with the ends of epochs among them.

    A median of short calls would leave out what comes once an epoch, one of long calls not. Of trials that take the
    same steps again and again, or do not say which, and where some samples were left out, medians of samples.
    """
    if all("first_step" in one and not one["left_out"] for one in (before, after)):
        longer = max((before, after), key=lambda one: int(one["steps_per_call"]))  # whose samples are the coarser
        common = max(before["first_step"], after["first_step"]), min(map(_find_end, (before, after)))
        begin, end = (longer["first_step"] + i * longer["steps_per_call"] for i in _find_samples(longer, *common))
        found = [one["samples_ms"][slice(*_find_samples(one, begin, end))] for one in (before, after)]
        if all(found):
            return sum(found[0]) / len(found[0]), sum(found[1]) / len(found[1])
    return before["ms_per_step"]["median"], after["ms_per_step"]["median"]


def _find_end(record: Record) -> int:
    """The step after the last that is timed."""
    return int(record["first_step"] + record["samples"] * record["steps_per_call"])


def _find_samples(record: Record, begin: int, end: int) -> tuple[int, int]:
    """Of the samples all of whose steps lie in [begin, end) the first, and that after the last."""
    first, each = record["first_step"], record["steps_per_call"]
    return max(0, -(-(begin - first) // each)), max(0, (end - first) // each)
