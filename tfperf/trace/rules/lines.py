"""Functions of a program's own, by what the training's thread does in them."""

from dataclasses import dataclass

from tfperf.scopes import OF_LIBRARY
from tfperf.trace.account import Account
from tfperf.trace.claims import Cause

CAUSES: tuple[Cause, ...] = ("python", "eager", "eager_work")
HARDLY = 0.1


@dataclass(frozen=True)
class FunctionTime:
    """ms a step of a function, and its line that takes most: of Python code, and of operations that it starts."""

    line: str
    function: str
    python_ms: float
    eager_ms: float

    @property
    def starts(self) -> bool:
        """Whether it mostly starts operations."""
        return self.eager_ms > self.python_ms

    @property
    def alone(self) -> bool:
        """Whether it starts hardly any: what it computes by itself, or writes."""
        return self.eager_ms < HARDLY * self.python_ms


def sum_functions(account: Account) -> list[FunctionTime]:
    """Those that the thread was found in."""
    functions: dict[tuple[str, str], dict[str, list[float]]] = {}  # by file and name: ms of each line
    for charge in (one for cause in CAUSES for one in account.list(cause)):
        if charge.name and not charge.name.endswith(OF_LIBRARY):
            line, _, function = charge.name.rpartition(" in ")
            lines = functions.setdefault((line.rpartition(":")[0], function), {})
            lines.setdefault(line, [0.0, 0.0])[charge.cause != "python"] += charge.ms
    out = []
    for (_, function), lines in functions.items():
        longest = max(lines, key=lambda line: sum(lines[line]))
        python, eager = (sum(one[i] for one in lines.values()) for i in range(2))
        out.append(FunctionTime(longest, function, python, eager))
    return out
