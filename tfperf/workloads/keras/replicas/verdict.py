"""What the figures of an ensemble come to, in a few sentences at the top of its page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfperf.report.numbers import format_figure, format_percent
from tfperf.workloads.keras.replicas.outcome import STOPPED
from tfperf.workloads.keras.replicas.settings import name_status

NARROW = 0.5  # of the error: a spread below it is no measure of errors


@dataclass(frozen=True)
class Verdict:
    """One or two sentences; warns: that predictions or bands are not what they may be taken for."""

    text: str
    warns: bool = False


def list_verdicts(summary: Mapping[str, Any]) -> list[Verdict]:
    """By report.json."""
    calibration = summary["calibration"]
    weigh = {"numbers": _weigh_numbers, "classes": _weigh_classes}.get(calibration.get("kind", ""))
    return [*([] if weigh is None else weigh(calibration)), _describe_ends(summary)]


def _weigh_numbers(found: Mapping[str, Any]) -> list[Verdict]:
    error, constant, spread = (found[name] for name in ("rms_error", "rms_error_of_constant", "rms_spread"))
    beside = (
        f"The mean of the replicas misses the validation targets by {format_figure(error)} (root mean square); a "
        f"constant, the mean of these targets, would miss them by {format_figure(constant)}."
    )
    bands = f"The replicas differ by {format_figure(spread)} (standard deviation)"
    bands += f", {spread / error:.2g} times that error" if error > 0 else ""
    worse, narrow = error >= constant, spread < NARROW * error
    return [
        Verdict(f"{beside} The mean is no better than the constant." if worse else beside, worse),
        Verdict(f"{bands}: the bands do not show the errors of predictions." if narrow else f"{bands}.", narrow),
    ]


def _weigh_classes(found: Mapping[str, Any]) -> list[Verdict]:
    mean, one, frequent = (found[name] for name in ("accuracy_of_mean", "accuracy_of_one", "share_of_most_frequent"))
    text = (
        f"The mean of the replicas has {format_percent(mean)} of the validation targets right, one replica "
        f"{format_percent(one)} (median); always the most frequent class: {format_percent(frequent)}."
    )
    worse = mean <= frequent
    return [Verdict(f"{text} The mean is no better than the most frequent class." if worse else text, worse)]


def _describe_ends(summary: Mapping[str, Any]) -> Verdict:
    count, settings = summary["replicas"], summary["settings"]
    stopped, broken = count["by_status"].get(STOPPED, 0), len(count["failed"])
    early = f"{stopped or 'None'} of {count['total']} replicas {name_status(STOPPED, settings)}"
    if stopped:
        early += f", after epoch {summary['stop_epochs']['median']:.0f} in the median"
    return Verdict(f"{early}; {broken or 'none'} broke.")
