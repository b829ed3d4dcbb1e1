"""How trials end that give no record: for want of memory, or for another reason."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tfperf.study.child import OUT_OF_MEMORY
from tfperf.study.memory_kills import KILLED_FOR_MEMORY

EndKind = Literal["memory", "suspected", "fault"]
# ends that memory may have been the reason of: a smaller batch that passes confirms it
SUSPICIOUS = re.compile(r"timeout: |its process was (?:killed by SIGKILL|ended by SIG(?:SEGV|ABRT|BUS)\b)")


@dataclass(frozen=True)
class TrialEnd:
    """Why a trial of a batch has failed; `suspected`: memory may have been it."""

    kind: EndKind
    why: str

    @property
    def is_timeout(self) -> bool:
        """Whether it was not done in time."""
        return self.why.startswith("timeout: ")

    def choose_smaller(self, batch: int) -> int:
        """The batch to try next, which confirms that memory was the reason: where time was, the smallest, since each
        try may last as long."""
        return 1 if self.is_timeout else batch // 2

    def explain(self, batch: int) -> str:
        """Why there is nothing to measure, after the smallest batch has failed, or one for no want of memory."""
        text = f"batch {batch} fails: {self.why}"
        if not self.is_timeout:
            return text
        return (
            f"{text}; the smallest batch needs least memory, so it is a step that does not end, or --timeout is short"
        )


def find_end(record: Mapping[str, Any]) -> TrialEnd | None:
    """How a trial has failed; None where it has not."""
    if (found := record.get("exhausted")) is not None:
        return TrialEnd("memory", f"the allocator had none left: {found['why']}")
    error = record.get("error")
    if error is None:
        return None
    if error.startswith(OUT_OF_MEMORY) or error.endswith(KILLED_FOR_MEMORY):
        return TrialEnd("memory", error)
    return TrialEnd("suspected" if SUSPICIOUS.match(error) else "fault", error)
