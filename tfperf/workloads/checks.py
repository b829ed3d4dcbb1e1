"""What `tfperf doctor` tells of workloads: who offers each, and what it needs beside what all need."""

from dataclasses import replace

from tfperf.errors import CardError, UserError
from tfperf.measure.doctor import Check
from tfperf.workloads.registry import WORKLOADS, as_card_error

REMEDY = "mend the package that offers it, or remove it"


def workload_checks() -> list[Check]:
    """A line for each workload, then its own; one that cannot be loaded is told, and keeps nothing from running."""
    taken = [
        Check(f"workload {who}", "warning", "has the name of one of tfperf's own, which stands", REMEDY, needed=False)
        for who in WORKLOADS.shadowed()
    ]
    return [*(check for name in WORKLOADS.names() for check in _checks(name)), *taken]


def _checks(name: str) -> list[Check]:
    title, origin = f"workload {name}", f"of {WORKLOADS.origin(name)}"
    try:
        workload = WORKLOADS.find(name)
    except CardError as error:
        return [Check(title, "missing", str(error).removeprefix(f"workload: '{name}', "), REMEDY, needed=False)]
    try:
        with as_card_error(origin):
            own = [replace(check, name=f"{name}: {check.name}", needed=False) for check in workload.checks()]
            workload.group()
    except UserError as error:
        return [Check(title, "warning", str(error), REMEDY, needed=False)]
    return [Check(title, "ok", origin), *own]
