"""A profile as one page without network: what to change, phases, a picture of steps, what happens between them."""

from collections.abc import Mapping
from typing import Any

from tfperf.report.ablation import format_digits
from tfperf.report.flame import render_flame
from tfperf.report.page import render_details, render_image, render_page, render_paragraph, render_table, render_tiles
from tfperf.report.plots_profile import draw_timeline
from tfperf.report.profile_account import describe_account, describe_verdict, find_rule, list_account_rows
from tfperf.report.profile_applied import render_changes
from tfperf.report.profile_devices import (
    MEMORY_COLUMNS,
    NO_MEMORY,
    WAIT_COLUMNS,
    describe_use,
    describe_waits,
    list_memory_rows,
    list_wait_rows,
)
from tfperf.report.profile_work import describe_ceilings, format_rate
from tfperf.report.style import apply_style, to_png
from tfperf.report.timeline import read_script, render_timeline
from tfperf.trace.attribution import Attribution
from tfperf.trace.phases import PHASES

ROWS = 40  # of the long tables
PICTURE = "Operations of a few steps by thread or stream; lengths of all steps."
HEADER = (
    "operation", "kind", "device", "phase", "constant", "ms a step", "times a step", "MFLOP a step", "MB a step",
    "GFLOP/s", "GB/s", "of ceiling", "bound by",
)  # fmt: skip
WORK = (
    "A multiply-add is 2 FLOP; bytes are inputs and outputs, each once. The share is of the nearer ceiling, and "
    "above 100% where bytes came from caches; an operation that reaches neither to half is bound by overhead."
)
Record = Mapping[str, Any]


def render_profile_page(attribution: Attribution, record: Record, title: str) -> str:
    """The page as text; everything is inside it."""
    gap = "—" if record["gap_ms"] is None else f"{format_digits(record['gap_ms'])} ms"
    head = render_tiles([
        ("from step to step, on average, recording taken off", f"{format_digits(record['account']['period_ms'])} ms"),
        ("median, as recorded", f"{format_digits(record['period_ms'])} ms"),
        ("a step, as recorded", f"{format_digits(record['step_ms'])} ms"), ("between calls, as recorded", gap),
        ("steps, calls", f"{record['steps']}, {record['calls']}"),
        ("no phase known", f"{record['unattributed_share']:.1%}"), ("phase inferred", f"{record['inferred_share']:.1%}")
    ])  # fmt: skip
    head += "".join(map(render_paragraph, describe_verdict(record)))
    head += "".join(render_paragraph(problem, "warning") for problem in record["problems"])
    with apply_style():
        picture = to_png(draw_timeline(attribution))
    sections = [
        ("change", "What to change", _render_findings(record)),
        ("account", "Where the time goes", _render_account(record)),
        ("timeline", "Timeline", render_timeline(attribution, render_image(picture, PICTURE))),
        ("flame", "Operations by scope", render_flame(attribution.costs)),
        ("phases", "Phases", _render_phases(record)),
        *([("devices", "Devices", _render_waits(record))] if record["device_waits"] else []),
        ("memory", "Memory", _render_memory(record)),
        ("operations", "Operations", _render_operations(record)), ("layers", "Layers", _render_layers(record)),
        ("stages", "Data pipeline", _render_stages(record)),
        ("ledger", "Traces and compilations", _render_ledger(record)),
    ]  # fmt: skip
    if "applied" in record:
        sections.insert(1, ("applied", "What was changed", render_changes(record["applied"])))
    return render_page(title, head, sections, read_script())


def _render_findings(record: Record) -> str:
    rows = [
        (f"{format_digits(f['gain_ms'])} ({format_digits(f['bound_ms'])})", f"{f['share']:.0%}", f["what"], f["change"])
        for f in record["findings"]
    ]
    if not rows:
        return render_paragraph(describe_verdict(record)[-1])
    rules = {name: find_rule(name) for name in dict.fromkeys(f["rule"] for f in record["findings"])}
    examples = "".join(
        render_details(f"{rule.title}: an example", f"# before\n{rule.before}\n\n# after\n{rule.after}")
        for rule in rules.values()
    )
    return render_table(("gains (at most), ms a step", "share", "what", "change"), rows, kind="text") + examples


def _render_account(record: Record) -> str:
    rows = [(cause, name, ms, share, times) for cause, name, ms, share, times in list_account_rows(record)]
    said = "Each moment counts for one cause; what devices do comes before what the host does meanwhile."
    notes = "".join(render_paragraph(line, "soft") for line in (said, *describe_account(record)))
    return notes + render_table(("cause", "of", "ms a step", "share", "times a step"), rows, kind="text")


def _render_phases(record: Record) -> str:
    devices = record["devices"]
    rows = [
        (phase, *(format_digits(d["phases"][phase]) for d in devices.values()))
        for phase in PHASES
        if any(d["phases"][phase] for d in devices.values())
    ]
    keys = (("any of them", "busy_ms"), ("several at once", "overlap_ms"), ("none", "idle_ms"))
    foot = [(label, *(format_digits(d[key]) for d in devices.values())) for label, key in keys]
    said = "Milliseconds of a step in which some operation of the phase runs, on whatever thread; means over steps."
    text = render_paragraph(said, "soft")
    copies = [
        (t["device"], t["direction"], *(format_digits(t[key]) for key in ("mbyte", "ms", "gbyte_per_second")))
        for t in record["transfers"]
    ]
    more = render_table(("device", "direction", "MB a step", "ms a step", "GB/s"), copies) if copies else ""
    counts = [
        (device, format_digits(d["per_step"]), f"{d['short']:.0%}", format_digits(d["median_us"]))
        for device, d in devices.items()
    ]
    kernels = render_table(("device", "operations a step", "below 10 us", "median, us"), counts)
    use = "".join(map(render_paragraph, describe_use(record)))
    return text + render_table(("phase", *devices), rows, foot) + kernels + more + use


def _render_waits(record: Record) -> str:
    said = "".join(render_paragraph(line, "soft") for line in describe_waits(record))
    return said + render_table(WAIT_COLUMNS, list_wait_rows(record))


def _render_memory(record: Record) -> str:
    rows = list_memory_rows(record)
    if not rows:
        return render_paragraph(NO_MEMORY)
    said = "The most that an allocator has in use when an operation of the phase asks it for memory, in any step."
    return render_paragraph(said, "soft") + render_table(MEMORY_COLUMNS, rows, kind="text")


def _render_operations(record: Record) -> str:
    rows = [
        (
            o["name"], o["kind"], o["device"], o["phase"] + (" (inferred)" if o["inferred"] else ""),
            "yes" if o["constant"] else "", format_digits(o["ms_per_step"]), format_digits(o["per_step"]),
            *(format_digits(None if o[key] is None else o[key] / 1e6) for key in ("flop_per_step", "bytes_per_step")),
            *(format_digits(o[key]) for key in ("gflop_per_second", "gbyte_per_second")), *format_rate(o),
        )
        for o in record["operations"][:ROWS]
    ]  # fmt: skip
    said = f"The costliest {len(rows)} of {len(record['operations'])}; operations.csv has them all. "
    constant = f"Operations that depend on nothing that changes take {record['constant_share']:.1%} of the time."
    notes = "".join(render_paragraph(line, "soft") for line in (said + constant, WORK, *describe_ceilings(record)))
    return notes + render_table(HEADER, rows, kind="text")


def _render_layers(record: Record) -> str:
    rows = [
        (row["layer"] or "(none)", row["phase"], row["device"], format_digits(row["ms_per_step"]))
        for row in record["layers"][:ROWS]
    ]
    return render_table(("layer", "phase", "device", "ms a step"), rows, kind="text")


def _render_stages(record: Record) -> str:
    rows = [(one["name"], format_digits(one["ms"])) for one in record["stages"][:ROWS]]
    if not rows:
        return render_paragraph("No stage of a tf.data pipeline ran while steps were recorded.")
    said = "What each stage does itself, in threads beside the steps; those around it stand before its name."
    return render_paragraph(said, "soft") + render_table(("stage", "ms a step"), rows, kind="text")


def _render_ledger(record: Record) -> str:
    rows = [(e["kind"], e["function"], format_digits(e["seconds"]), e["cause"]) for e in record["ledger"]]
    if not rows:
        return render_paragraph("Nothing was traced or compiled while steps were recorded.")
    return render_table(("what", "function", "seconds", "cause"), rows, kind="text")
