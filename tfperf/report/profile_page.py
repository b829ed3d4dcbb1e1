"""A profile as one page without network: what to change, phases, a picture of steps, what happens between them."""

from collections.abc import Mapping
from typing import Any

from tfperf.report.ablation import digits
from tfperf.report.page import image, page, paragraph, table, tiles
from tfperf.report.plots_profile import timeline_figure
from tfperf.report.profile import CAUSES
from tfperf.report.style import house_style, to_png
from tfperf.trace.attribution import Attribution
from tfperf.trace.phases import PHASES

ROWS = 40  # of the long tables
Record = Mapping[str, Any]


def profile_page(found: Attribution, record: Record, title: str) -> str:
    """The page as text; everything is inside it."""
    gap = "—" if record["gap_ms"] is None else f"{digits(record['gap_ms'])} ms"
    head = tiles([
        ("from step to step", f"{digits(record['period_ms'])} ms"), ("a step", f"{digits(record['step_ms'])} ms"),
        ("between calls", gap), ("steps, calls", f"{record['steps']}, {record['calls']}"),
        ("no phase known", f"{record['unattributed_share']:.1%}"),
        ("phase inferred", f"{record['inferred_share']:.1%}"),
    ])  # fmt: skip
    head += "".join(paragraph(problem, "warning") for problem in record["problems"])
    with house_style():
        picture = to_png(timeline_figure(found))
    sections = [
        ("change", "What to change", _findings(record)),
        ("phases", "Phases", _phases(record)),
        ("timeline", "Steps", image(picture, "Operations of a few steps by thread or stream; lengths of all steps.")),
        ("gaps", "Between calls, and while nothing runs", _gaps(record)),
        ("operations", "Operations", _operations(record)), ("layers", "Layers", _layers(record)),
        ("ledger", "Traces and compilations", _ledger(record)),
    ]  # fmt: skip
    return page(title, head, sections)


def _findings(record: Record) -> str:
    rows = [(f"{f['share']:.0%}", f["what"], f["change"]) for f in record["findings"]]
    return table(("share", "what", "change"), rows, kind="text") if rows else paragraph("Nothing stands out.")


def _phases(record: Record) -> str:
    devices = record["devices"]
    rows = [
        (phase, *(digits(d["phases"][phase]) for d in devices.values()))
        for phase in PHASES
        if any(d["phases"][phase] for d in devices.values())
    ]
    keys = (("any of them", "busy_ms"), ("several at once", "overlap_ms"), ("none", "idle_ms"))
    foot = [(label, *(digits(d[key]) for d in devices.values())) for label, key in keys]
    text = paragraph(
        "Milliseconds of a step in which some operation of the phase runs, on whatever thread; medians over steps.",
        "soft",
    )
    copies = [
        (t["device"], t["direction"], digits(t["mbyte"]), digits(t["ms"]), digits(t["gbyte_per_second"]))
        for t in record["transfers"]
    ]
    more = table(("device", "direction", "MB a step", "ms a step", "GB/s"), copies) if copies else ""
    counts = [
        (device, digits(d["per_step"]), f"{d['short']:.0%}", digits(d["median_us"])) for device, d in devices.items()
    ]
    kernels = table(("device", "operations a step", "below 10 us", "median, us"), counts)
    return text + table(("phase", *devices), rows, foot) + kernels + more


def _gaps(record: Record) -> str:
    between = record["between_calls"]
    rows = [(f"{phase} runs", digits(ms)) for phase, ms in between["phases"].items() if ms]
    rows += [(f"nothing runs: {CAUSES[cause]}", digits(ms)) for cause, ms in between["idle"].items() if ms]
    inside = [(CAUSES[cause], digits(ms)) for cause, ms in record["idle_inside"].items() if ms]
    return (
        table(("between calls", "ms a gap"), rows) + table(("while nothing runs in a step", "ms a step"), inside)
        if rows or inside
        else paragraph("There is one call, and it is never idle.")
    )


def _operations(record: Record) -> str:
    rows = [
        (
            o["name"], o["kind"], o["device"], o["phase"] + (" (inferred)" if o["inferred"] else ""),
            "yes" if o["constant"] else "", digits(o["ms_per_step"]), digits(o["per_step"]),
        )
        for o in record["operations"][:ROWS]
    ]  # fmt: skip
    said = f"The costliest {len(rows)} of {len(record['operations'])}; operations.csv has them all. "
    constant = f"Operations that depend on constants alone take {record['constant_share']:.1%} of the time."
    header = ("operation", "kind", "device", "phase", "constant", "ms a step", "times a step")
    return paragraph(said + constant, "soft") + table(header, rows, kind="text")


def _layers(record: Record) -> str:
    rows = [
        (row["layer"] or "(none)", row["phase"], row["device"], digits(row["ms_per_step"]))
        for row in record["layers"][:ROWS]
    ]
    return table(("layer", "phase", "device", "ms a step"), rows, kind="text")


def _ledger(record: Record) -> str:
    rows = [(e["kind"], e["function"], digits(e["seconds"]), e["cause"]) for e in record["ledger"]]
    if not rows:
        return paragraph("Nothing was traced or compiled while steps were recorded.")
    return table(("what", "function", "seconds", "cause"), rows, kind="text")
