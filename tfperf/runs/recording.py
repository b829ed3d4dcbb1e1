"""A card recorded, without TensorFlow's chatter while it loads."""

from pathlib import Path

from tfperf.measure.quiet import native_logs_dropped
from tfperf.report.counting import Show
from tfperf.runcard.config import Card


def record(card: Card, logdir: Path, repeat: int, naive: bool, show: Show) -> str:
    """Record a card's steps; what is to be said about it. Raises: CardError."""
    with native_logs_dropped():
        from tfperf.runs.profiling import record_card
    found = record_card(card, logdir, repeat, naive, show)
    taken = found.taken
    return (
        f"{logdir}: {taken.steps} calls of {found.steps_per_call} steps; a call takes {taken.recorded_ms:.4g} ms, "
        f"{taken.unrecorded_ms:.4g} where nothing is recorded ({found.overhead:+.1%})"
    )
