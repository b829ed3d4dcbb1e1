"""How trials end that give no record: for want of memory, or for another reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tfperf.study.child import OUT_OF_MEMORY

EndKind = Literal["memory", "suspected", "fault"]
# ends that memory may have been the reason of: a smaller batch that passes confirms it
SUSPICIOUS = ("SIGSEGV", "SIGABRT", "SIGBUS", "timeout", "SIGKILL")


@dataclass(frozen=True)
class TrialEnd:
    """Why a trial of a batch has failed; `suspected`: memory may have been it."""

    kind: EndKind
    why: str


def find_end(record: Mapping[str, Any]) -> TrialEnd | None:
    """How a trial has failed; None where it has not."""
    if (found := record.get("exhausted")) is not None:
        return TrialEnd("memory", f"the allocator had none left: {found['why']}")
    error = record.get("error")
    if error is None:
        return None
    if error.startswith(OUT_OF_MEMORY) or error.endswith("killed by the system: out of memory"):
        return TrialEnd("memory", error)
    if any(word in error for word in SUSPICIOUS):
        unknown = "; cause unknown" if "SIGKILL" in error else ""
        return TrialEnd("suspected", f"{error}{unknown}")
    return TrialEnd("fault", error)
