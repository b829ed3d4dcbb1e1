"""What `tfperf doctor` tells of workloads: who offers each, and what it needs beside what all need."""

from dataclasses import replace

from tfperf.errors import CardError, UserError
from tfperf.measure.doctor import DoctorCheck
from tfperf.workloads.registry import WORKLOADS, convert_errors

REMEDY = "mend the package that offers it, or remove it"


def list_workload_checks() -> list[DoctorCheck]:
    """A line for each workload, then its own; one that cannot be loaded is told, and keeps nothing from running."""
    shadowed = [
        DoctorCheck(
            f"workload {who}", "warning", "has the name of one of tfperf's own, which stands", REMEDY, needed=False
        )
        for who in WORKLOADS.list_shadowed()
    ]
    return [*(check for name in WORKLOADS.list_names() for check in _list_checks(name)), *shadowed]


def _list_checks(name: str) -> list[DoctorCheck]:
    title, origin = f"workload {name}", f"of {WORKLOADS.describe_origin(name)}"
    try:
        workload = WORKLOADS.get(name)
    except CardError as error:
        return [DoctorCheck(title, "missing", str(error).removeprefix(f"workload: '{name}', "), REMEDY, needed=False)]
    try:
        with convert_errors(origin):
            own = [replace(check, name=f"{name}: {check.name}", needed=False) for check in workload.list_checks()]
            workload.make_group()
    except UserError as error:
        return [DoctorCheck(title, "warning", str(error), REMEDY, needed=False)]
    return [DoctorCheck(title, "ok", origin), *own]
