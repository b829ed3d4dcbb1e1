"""What devices that share a step wait for, and memory by phase: words and rows of tables."""

from collections.abc import Iterator, Mapping
from typing import Any

from tfperf.report.ablation import format_digits

Record = Mapping[str, Any]
Columns = tuple[str, ...]
WAIT_COLUMNS = ("device", "at work, ms a step", "communication", "waits", "last, of steps")
MEMORY_COLUMNS = ("allocator", "phase", "peak, MB", "at")
NO_MEMORY = (
    "memory by phase: n/a, the profile has no allocations; TensorFlow records those of a GPU, and of a processor where "
    "TF_CPU_ALLOCATOR_USE_BFC=true is set when the program starts"
)
TURNS = (
    "the devices take turns on fewer cores or threads than there are devices: they wait for these, not for each other"
)
COLLECTIVES = "a device waits in a collective until the last has arrived; the rest of the collective is communication"
ENDS = "a device waits from the end of its own part of a step to that of the last; what merges them is communication"
VERDICTS = {"overlap": "they overlap", "wait": "copies and steps wait for each other"}
NVML = "it is of the driver's last sample, 1/6 to 1 s, not of these steps, and of the kernels of all processes"


def list_device_tables(record: Record) -> Iterator[tuple[str, Columns, Columns, list[tuple[str, ...]]]]:
    """Tables for a screen: title, columns of numbers, of text, rows; none of what a profile has nothing of."""
    if waits := list_wait_rows(record):
        yield "devices that share steps", WAIT_COLUMNS[1:], WAIT_COLUMNS[:1], [(*row[1:], row[0]) for row in waits]
    if peaks := list_memory_rows(record):
        rows = [(mbyte, *texts, where) for *texts, mbyte, where in peaks]
        yield "memory in use at most", ("MB",), ("allocator", "phase", "at"), rows


def list_wait_rows(record: Record) -> list[tuple[str, ...]]:
    """WAIT_COLUMNS of each device that shares its steps with others; empty where there are none."""
    return [
        (
            one["device"], *(format_digits(one[key]) for key in ("work_ms", "communication_ms", "wait_ms")),
            f"{one['last_share']:.0%}",
        )
        for waits in record["device_waits"]
        for one in waits["devices"]
    ]  # fmt: skip


def describe_waits(record: Record) -> list[str]:
    """What has to be known to read those rows."""
    every = record["device_waits"]
    said = dict.fromkeys(COLLECTIVES if waits["collectives"] else ENDS for waits in every)
    return [*said, *([TURNS] if any(waits["turns"] for waits in every) else [])]


def list_memory_rows(record: Record) -> list[tuple[str, ...]]:
    """MEMORY_COLUMNS of each phase of a step that allocates; empty where a profile has no allocations."""
    return [
        (one["allocator"], one["phase"], format_digits(one["mbyte"]), one["operation"] or "(not told)")
        for one in record["memory_peaks"]
    ]


def describe_use(record: Mapping[str, Any]) -> list[str]:
    """How busy devices are, whether what they are sent is copied beside steps, and what NVML says, as an aside."""
    out = []
    for use in record["device_use"]:
        whole, copies = f"the {format_digits(use['seconds'])} s that are recorded", use["copies"]
        if "CPU" in use["device"].split():  # perhaps after the name of a host, and before that of a tower
            out.append(
                f"{use['device']}: operations of steps run for {use['busy']:.1%} of {whole}, waiting for a core "
                "included, fetching input not"
            )
            continue
        out.append(
            f"{use['device']}: kernels run for {use['busy']:.1%} of {whole}; for {use['copies_alone']:.1%} it copies, "
            "and no kernel runs"
        )
        if copies is not None:
            out.append(
                f"{use['device']}: {format_digits(copies['mbyte'])} MB are copied from the host in "
                f"{format_digits(1e3 * copies['seconds'])} ms, {copies['beside']:.0%} of them while kernels run: "
                f"{VERDICTS[copies['verdict']]}"
            )
    if any(share is not None for share in record["nvml"]):
        said = ", ".join("n/a" if share is None else f"{share:.0%}" for share in record["nvml"])
        out.append(f"aside: NVML's utilisation at the recording's end: {said}; {NVML}")
    return out
