"""Which of a machine's GPUs a process sees: CUDA_VISIBLE_DEVICES, as the CUDA C++ Programming Guide describes it."""

from collections.abc import Mapping, Sequence

VARIABLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"


def find_visible_gpus(
    environment: Mapping[str, str], uuids: Sequence[str | None], names: Sequence[str | None]
) -> list[int | str]:
    """Numbers of the visible GPUs in NVML's order, or the UUIDs of parts of a GPU (MIG), in the order of the process.

    uuids, names: of all GPUs, in NVML's order. What follows an entry that is no device is not visible. Numbers are
    CUDA's own, fastest first, unless CUDA_DEVICE_ORDER asks for that of the PCI bus, which is NVML's: where GPUs differ
    and it does not, numbers tell nothing, and none is found.
    """
    wanted, found = environment.get(VARIABLE), list[int | str]()
    ordered = environment.get(ORDER) == "PCI_BUS_ID" or len(set(names)) <= 1
    if wanted is None:
        return list(range(len(names))) if ordered else []
    for entry in wanted.split(","):
        one = _find_entry(entry.strip(), uuids, ordered)
        if one is None or one in found:
            break
        found.append(one)
    return found


def is_order_unknown(environment: Mapping[str, str], names: Sequence[str | None]) -> bool:
    """Whether GPUs are hidden from `find_visible_gpus` only because their numbers tell nothing.

    >>> is_order_unknown({}, ["A", "B"]), is_order_unknown({"CUDA_VISIBLE_DEVICES": "-1"}, ["A", "B"])
    (True, False)
    """
    entries = environment.get(VARIABLE, "0").split(",")
    return len(set(names)) > 1 and environment.get(ORDER) != "PCI_BUS_ID" and entries[0].strip().isdecimal()


def _find_entry(entry: str, uuids: Sequence[str | None], ordered: bool) -> int | str | None:
    """A number, the beginning of one GPU's UUID, or the whole UUID of a part of one."""
    if entry.isdecimal():
        return int(entry) if ordered and int(entry) < len(uuids) else None
    if entry.startswith("MIG-"):
        return entry
    matches = [
        number for number, uuid in enumerate(uuids) if entry.startswith("GPU-") and (uuid or "").startswith(entry)
    ]
    return matches[0] if len(matches) == 1 else None
