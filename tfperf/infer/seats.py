"""Which machine is which member of a place: each has a number as long as it is there, which its successor gets."""

import time
from collections.abc import Callable, Sequence

PATIENCE_SECONDS = 60.0  # that members are waited for before it is said who is missing


class Seats:
    """The numbers 0, 1, ... of members, and the addresses of the machines that have them."""

    def __init__(self, kind: str, count: int, clock: Callable[[], float] = time.monotonic) -> None:
        """kind: of the place, for messages."""
        self._kind, self._count, self._clock = kind, count, clock
        self._machines: dict[int, str] = {}
        self._missing_since: float | None = None
        self._news: list[str] = []
        self._is_told = False  # that some are missing, since all were there

    def find(self, number: int) -> str | None:
        """The machine that has a number."""
        return self._machines.get(number)

    def release(self, number: int, machine: str) -> None:
        """Take the number from a machine, until that is seen again."""
        if self._machines.get(number) == machine:
            del self._machines[number]

    def update(self, there: Sequence[str], refusal: str = "") -> None:
        """These machines are there. refusal: what a queue said to jobs that it did not take."""
        self._machines = {number: one for number, one in self._machines.items() if one in there}
        waiting = [one for one in there if one not in self._machines.values()]
        empty = [number for number in range(self._count) if number not in self._machines]
        self._machines.update(zip(empty, waiting, strict=False))
        self._note_missing(refusal)

    def _note_missing(self, refusal: str) -> None:
        if len(self._machines) == self._count:
            self._missing_since, self._is_told = None, False
            return
        now = self._clock()
        if self._missing_since is None:
            self._missing_since = now
        if not self._is_told and (refusal or now - self._missing_since > PATIENCE_SECONDS):
            self._is_told = True
            told = (
                f"{len(self._machines)} of {self._count} members of {self._kind} are there{refusal and f': {refusal}'}"
            )
            self._news.append(f"{told}; " + ("the work goes on with these" if self._machines else "waiting"))

    def pop_news(self) -> list[str]:
        """What there is to say, once."""
        found, self._news = self._news, []
        return found
