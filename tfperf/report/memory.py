"""A memory study for the terminal: stages, law, largest and fastest batch."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report.memory_log import list_counter_lines, list_log_lines
from tfperf.report.memory_unit import SAMPLES, use_unit
from tfperf.report.numbers import MISSING, format_bytes, format_seconds
from tfperf.report.static_memory import make_holder_tables

STEADY = re.compile(r"(?P<what>step|prediction) \d+, batch (?P<batch>\d+)$")
MB = 1e6
DEVICES = {"gpu": "the GPU", "cpu-arena": "the processor, which stands in for a GPU (cpu-arena)"}


def make_memory_tables(report: Mapping[str, Any]) -> RenderableType:
    """All modes of a study."""
    room, unit = report["room"], report.get("unit", SAMPLES)
    head = (
        f"memory of {DEVICES[room['device']]}: budget {format_bytes(room['budget'])}, of which "
        f"{room['margin']:.0%} stay free; RAM {format_bytes(room['ram'])}"
    )
    parts: list[RenderableType] = [Text(head), *map(Text, report.get("notes", ()))]
    for mode, found in report["modes"].items():
        lines = (Text(use_unit(line, unit)) for line in list_lines(mode, found))
        parts += [_make_stage_table(mode, found["stages"], unit), *lines]
        if found["proof"] is not None:
            parts.append(_make_log(mode, found["proof"], room))
        parts += make_holder_tables(mode, found.get("held", {}))
    return Group(*parts)


def _make_stage_table(mode: str, stages: Sequence[Mapping[str, Any]], unit: Sequence[str]) -> Table:
    table = Table(title=Text(f"{mode}: stages of one process"), box=box.ASCII_DOUBLE_HEAD, title_justify="left")
    table.add_column("")
    for header in ("device", "its peak", "RAM", "its peak", "time"):
        table.add_column(header, justify="right", no_wrap=True)
    for stage in merge_steps(stages):
        figures = [format_bytes(stage[key]) for key in ("device", "device_peak", "ram", "ram_peak")]
        table.add_row(Text(use_unit(stage["name"], unit)), *figures, format_seconds(stage["seconds"]))
    return table


def _make_log(mode: str, proof: Mapping[str, Any], room: Mapping[str, Any]) -> Table:
    title = Text(f"{mode}: a process of batch {proof['batch']}")
    table = Table(title=title, box=None, show_header=False, title_justify="left")
    for label, figure in (*list_log_lines(proof, room), *list_counter_lines(proof)):
        table.add_row(Text(label), Text(figure))
    return table


def merge_steps(stages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """With one line for the steady steps of a batch: their largest figures, the time of all."""
    found: list[dict[str, Any]] = []
    for stage in stages:
        number = STEADY.match(stage["name"])
        if number is None or not found or not found[-1]["name"].startswith("steady"):
            found.append(dict(stage))
            if number is not None:
                found[-1]["name"] = f"steady {number['what']}s, batch {number['batch']}"
            continue
        for key in ("device", "device_peak", "ram", "ram_peak"):
            found[-1][key] = max((one[key] for one in (found[-1], stage) if one[key] is not None), default=None)
        found[-1]["seconds"] += stage["seconds"]
    return found


def list_lines(mode: str, found: Mapping[str, Any]) -> Iterator[str]:
    """What a mode's figures say, a line each; of the longest padded length first, then of the typical one."""
    length = found.get("length")
    name = mode if length is None else f"{mode}, length {length}"
    yield from (f"{name}: {text}" for text in _list_findings(found))
    if (typical := found.get("typical")) is not None:
        yield from (f"{mode}, typical length {typical['length']}: {text}" for text in _list_findings(typical))
    if (law := found.get("length_law")) is not None:
        pair = "" if law["per_pair"] is None else f" + {law['per_pair'] / MB:.3g} MB x length^2"
        yield (
            f"{mode}: peak = {law['fixed'] / MB:.4g} MB + batch x ({law['per_sample'] / MB:.3g} MB + "
            f"{law['per_place'] / MB:.3g} MB x length{pair}), from lengths {', '.join(map(str, law['lengths']))}"
        )
        if law["per_pair"] is None:
            yield f"{mode}: warning: two lengths do not tell what grows with length^2: of others this line says nothing"


def _list_findings(found: Mapping[str, Any]) -> Iterator[str]:
    law, largest, fastest = found["law"], found["largest"], found["fastest"]
    if law is None:
        yield "no law: one batch alone could be measured"
    else:
        first, *_, last = law["batches"]
        yield f"peak = {_format_law(law)}, from batches {first} to {last} (least of the peaks of each batch's steps)"
        if (smaller := law["smaller"]) is not None:
            yield f"smaller batches need {smaller[0] / MB:.4g} MB + {smaller[1] / MB:.3g} MB x batch where that is more"
        at = law["at_largest"]
        limits = MISSING if at["low"] is None else f"{format_bytes(at['low'])} to {format_bytes(at['high'])}"
        known = at.get("measured")
        measured = "" if known is None else f"; with the whole budget {format_bytes(known)} were measured"
        yield f"at batch {largest['batch']} it says {format_bytes(at['bytes'])}, 95 % interval {limits}{measured}"
        yield from (f"warning: {text}" for text in law["warnings"])
    above = "no larger one was seen to fail, so that larger ones may fit"
    if largest["failed_above"] is not None:
        above = f"batch {largest['failed_above']} failed"
    yield f"largest batch {largest['batch']}, passed in {largest['passes']} fresh processes; {above}"
    yield (
        f"fastest batch measured {fastest['batch']}, {fastest['examples_per_second']:.4g} examples/s; "
        f"{fastest['knee']} reaches {fastest['knee_rate'] / fastest['examples_per_second']:.0%} of that"
    )
    if (ram := found["ram"])["law"] is not None:
        law = ram["law"]
        fits = "" if ram["largest"] is None else f"; batch {ram['largest']} fits the RAM"
        yield f"RAM = {_format_law(law)}{fits}"
        yield from (f"warning: RAM: {text}" for text in law["warnings"])
    for end in found["ends"]:
        yield f"{'a process beyond ' if end.get('beyond') else ''}batch {end['batch']} failed: {end['why']}"


def _format_law(law: Mapping[str, Any]) -> str:
    """In MB, of which a sample may add a small part."""
    return f"{law['fixed'] / MB:.4g} MB + {law['per_sample'] / MB:.4g} MB x batch"
