"""Progress of a translation in words."""

from typing import TYPE_CHECKING

from tfperf.report.numbers import format_number

if TYPE_CHECKING:  # which loads TensorFlow
    from tfperf.workloads.translate.trainer import TranslationProgress


def describe_progress(status: "TranslationProgress") -> str:
    """What a line says of a translation."""
    return (
        f"{status.steps_per_second:.1f} steps/s, {status.words_per_second:.0f} words/s, loss {status.loss:.3f}, "
        f"validation {format_number(status.validation_loss)}"
    )
