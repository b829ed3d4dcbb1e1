"""Where the time of a traced step goes: on each device, and on the way from a call's end back to its begin.

Of each device, phase by phase, the time in which some operation of it runs (`busy`), what of this counts twice since
phases ran at once, and the time in which nothing runs on it, by what it waits for. They add up to the step. Times are
by the clock: that of an operation holds what its thread stood still for want of a core.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import BoolMask, Indices, Times
from tfperf.place.devices import Devices
from tfperf.place.passes import compare_ends, find_span
from tfperf.trace.attribution import Attribution, compute_attribution
from tfperf.trace.chains import NOBODY, PathSegment, find_longest_chains
from tfperf.trace.graphs import Graph
from tfperf.trace.intervals import Intervals, merge_intervals
from tfperf.trace.notes import Notes, read_notes
from tfperf.trace.occupancy import Waits, split_by_phases, sum_by_name
from tfperf.trace.operations import GRAPH, Operations, find_operations, list_instructions, make_stats_filter
from tfperf.trace.phases import PHASES, Phase
from tfperf.trace.planes import Events, decode_events, read_spaces
from tfperf.trace.runs import Dependencies, OperationRuns, find_dependencies, find_runs

PASSES = ("forward", "backward")
BUSY_PHASES: tuple[Phase, ...] = ("forward", "backward", "merge", "update", "transfer", "input", "other")
PROGRAMS = frozenset(["XlaLaunch", "_XlaRun", "XlaRun", "_XlaCompile"])  # whose instructions are in the trace
DELAYS = {"queue": "queue", "runtime": "runtime", "inside": "runtime", "start": "host", "end": "host"}
# what a step's end waited for; operations in the loops of layers over time, or in their place, are the chain
COURSE = ("chain", "computation", "merge", "update", "transfer", "input", "queue", "runtime", "host")
SEQUENCES = re.compile("BlockLSTM|CudnnRNN")  # kinds that take all steps of a layer
KINDS = 8  # of the operations of the longest chain that are told apart
NS_PER_MS = 1e6


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A profile beside the graphs that ran. phase, device (n): numbers of each operation's in PHASES and `names`."""

    attribution: Attribution
    graph: Graph
    runs: OperationRuns
    dependencies: Dependencies
    calls: Intervals
    steps: int  # in them
    names: tuple[str, ...]
    host: str  # its name
    phase: Indices
    device: Indices
    looped: BoolMask  # (n) in a loop inside of a step, or one by itself
    shares: Mapping[tuple[Phase, bool], float]  # of XLA's instructions, by phase and whether they are in a loop

    def to_step_ms(self, time: float) -> float:
        """Milliseconds a step of ns in all."""
        return time / NS_PER_MS / self.steps


def break_down(
    logdir: Path, graph: Graph, devices: Devices, skip: int = 0, lengths: Sequence[float] = ()
) -> dict[str, Any]:  # fmt: skip
    """Milliseconds a step, means over the traced steps of the last profile in a folder, whose graph this is.

    skip: calls at the begin of the profile that are left out. lengths: of each device's examples, where they differ.

    step_ms: of calls, from begin to end. devices: by device, and the host, `busy` by phase, `overlap` and `overlaps`,
    `waiting` and `waits` by what for. mean: busy of the passes over devices; imbalance: of their sum, slowest device
    over mean. critical: the longest chain, by phase, device and kind of operation. course: what the ends of calls
    waited for. unattributed: the largest share of a step on a device of which it is not known what for. last: by device
    when its passes end, as place/passes.py has it. Empty where the profile does not show on which device programs of
    XLA's ran: on CPUs it has their instructions alone.
    Raises: TraceError.
    """
    notes, spaces = read_notes(logdir), read_spaces(logdir)
    known = list_instructions(spaces.values())
    events = decode_events(spaces, make_stats_filter(known))
    return summarise(events, find_operations(events, known), notes, graph, devices, skip, lengths)


def summarise(
    events: Events, operations: Operations, notes: Notes, graph: Graph, devices: Devices, skip: int = 0,
    lengths: Sequence[float] = (),
) -> dict[str, Any]:  # fmt: skip
    """The same of events."""
    trace = make_trace(events, operations, notes, graph, devices, skip)
    ran = set(trace.runs.node.tolist())
    if any(node.compiled and i not in ran for i, node in enumerate(graph.nodes)):
        return {}
    step, waits = trace.to_step_ms(trace.calls.length), Waits(trace.runs, trace.dependencies, trace.calls)
    each = {name: _summarise_device(trace, waits, k, step) for k, name in enumerate(trace.names)}
    passes = [sum(one["busy"][p] for p in PASSES) for name, one in each.items() if name != "host"]
    mean = {p: float(np.mean([one["busy"][p] for name, one in each.items() if name != "host"])) for p in PASSES}
    return {
        "step_ms": step, "steps": trace.steps, "calls": len(trace.calls), "devices": each, "mean": mean,
        "imbalance": max(passes) / float(np.mean(passes)) if any(passes) else None,
        "unattributed": max(one["unattributed"] for one in each.values()) / step,
        "critical": _summarise_critical_path(trace, step), "course": _compute_course(trace, waits),
        "last": _compare_device_ends(trace, lengths),
    }  # fmt: skip


def _compare_device_ends(trace: Trace, lengths: Sequence[float]) -> dict[str, dict[str, Any]]:
    """As `compare_ends` tells it; empty where the passes of a device cannot be told apart by step."""
    passes = np.isin(trace.phase, [PHASES.index(phase) for phase in PASSES])
    spans = {
        name: find_span(trace.runs, passes & (trace.device == k), trace.steps)
        for k, name in enumerate(trace.names) if name != "host"
    }  # fmt: skip
    known = {name: span for name, span in spans.items() if span is not None}
    return compare_ends(known, lengths or [1.0] * len(known)) if len(known) == len(spans) else {}


def make_trace(
    events: Events, operations: Operations, notes: Notes, graph: Graph, devices: Devices, skip: int
) -> Trace:  # fmt: skip
    """Events beside the graph that ran, without the first `skip` calls."""
    found = compute_attribution(events, operations, notes)
    every = found.timeline.steps
    calls = Intervals(every.call_begin[skip:], every.call_end[skip:])
    runs = find_runs(events, operations, graph, calls.begin, calls.end)
    local = [devices.get_short_name(name) for _, name in devices.mine]
    host = devices.get_short_name(devices.host)  # a worker's own CPU is both
    names = tuple(dict.fromkeys([*local, host]))
    rules = notes.rules
    phase = np.array([PHASES.index(rules.find_phase(n.name, n.kind)) for n in graph.nodes] or [0], np.intp)
    device = np.array([_find_index(devices.get_short_name(n.device), names, host) for n in graph.nodes] or [0], np.intp)
    looped = np.array(
        [graph.count_loops(i) > 1 or bool(SEQUENCES.match(n.kind)) for i, n in enumerate(graph.nodes)] or [False]
    )
    shares, steps = _compute_shares(found, len(local)), int((every.call >= skip).sum())
    return Trace(
        attribution=found, graph=graph, runs=runs, dependencies=find_dependencies(runs, graph), calls=calls,
        steps=steps, names=names, host=host, phase=phase, device=device, looped=looped, shares=shares,
    )  # fmt: skip


def _find_index(name: str, names: tuple[str, ...], host: str) -> int:
    return names.index(name if name in names else host)


def _compute_shares(found: Attribution, devices: int) -> dict[tuple[Phase, bool], float]:
    """How the time of XLA's instructions divides. What runs more than once a step on a device is in a loop."""
    out: dict[tuple[Phase, bool], float] = {}
    for cost in (cost for cost in found.costs if cost.instruction):
        key = cost.phase, cost.count > devices
        out[key] = out.get(key, 0.0) + cost.ms
    total = sum(out.values())
    return {key: ms / total for key, ms in out.items()} if total else {}


def _summarise_device(trace: Trace, waits: Waits, device: int, step: float) -> dict[str, Any]:
    """What goes on on a device, and what it waits for."""
    mine = np.flatnonzero(trace.device[trace.runs.node] == device)
    begin, end, phase = _select_operations(trace, mine, device)
    times = split_by_phases(begin, end, phase, trace.calls, len(PHASES))
    busy = {p: trace.to_step_ms(sum(t for set_, t in times.items() if PHASES.index(p) in set_)) for p in BUSY_PHASES}
    overlaps = {" + ".join(PHASES[i] for i in set_): trace.to_step_ms(t) for set_, t in times.items() if len(set_) > 1}
    named = {"unknown": times.get((), 0)}
    if len(mine):
        named = sum_by_name(
            waits.list_waits(mine, merge_intervals(begin, end)), lambda segment: _find_reason(trace, segment)
        )
    waited = {name: trace.to_step_ms(time) for name, time in sorted(named.items(), key=lambda item: -item[1]) if time}
    overlap = trace.to_step_ms(sum((len(set_) - 1) * t for set_, t in times.items() if set_))
    unknown = trace.to_step_ms(times.get((PHASES.index("other"),), 0)) + waited.get("unknown", 0.0)
    unknown += max(0.0, step - sum(busy.values()) + overlap - sum(waited.values()))
    return {
        "busy": busy, "overlap": overlap, "overlaps": dict(sorted(overlaps.items(), key=lambda item: -item[1])),
        "waiting": sum(waited.values()), "waits": waited, "unattributed": unknown,
    }  # fmt: skip


def _select_operations(trace: Trace, mine: Indices, device: int) -> tuple[Times, Times, Indices]:
    """Operations on a device: those of its graph, and what else the profile shows of it; begin, end and phase."""
    runs, line = trace.runs, trace.attribution.timeline
    own = mine[~np.isin(runs.node[mine], [i for i, n in enumerate(trace.graph.nodes) if n.kind in PROGRAMS])]
    lanes = np.array([_find_lane_device(owner, trace) for owner, _ in line.lanes] or [0])
    known = np.array([_is_in_graph(name, trace.graph) for name in line.names] or [False])
    more = np.flatnonzero((lanes[line.lane] == device) & ~known[line.name])
    return (
        np.concatenate([runs.begin[own], line.begin[more]]), np.concatenate([runs.left[own], line.end[more]]),
        np.concatenate([trace.phase[runs.node[own]], line.phase[more]]),
    )  # fmt: skip


def _is_in_graph(name: str, graph: Graph) -> bool:
    found = GRAPH.fullmatch(name)
    return found is not None and found["name"] in graph.index


def _find_lane_device(owner: str, trace: Trace) -> int:
    """The device of a lane of the profile's, which knows logical CPUs by their scopes."""
    found = re.search(r"(?:tower_|replica_|GPU:)(\d+)$", owner)
    return _find_index(f"device:{found[1]}" if found else trace.host, trace.names, trace.host)


def _find_reason(trace: Trace, segment: PathSegment) -> str:
    """What a device waits for that has nothing running."""
    if segment.delay and (segment.delay != "inside" or _is_program(trace, segment.run)):
        blank = segment.delay == "inside" and not trace.shares  # a program of which the profile shows no instruction
        return "unknown" if blank else DELAYS[segment.delay]
    phase = PHASES[trace.phase[trace.runs.node[segment.run]]]
    return "passes" if phase in PASSES else phase if phase in COURSE else "host"


def _find_course(trace: Trace, segment: PathSegment) -> str:
    """What a call's end waits for; `program`: one of XLA's, which is divided later."""
    if segment.delay:
        return DELAYS[segment.delay]
    if _is_program(trace, segment.run) and trace.shares:
        return "program"
    node = trace.runs.node[segment.run]
    return _get_course(PHASES[trace.phase[node]], bool(trace.looped[node]))


def _get_course(phase: Phase, looped: bool) -> str:
    if phase in PASSES:
        return "chain" if looped else "computation"
    return phase if phase in COURSE else "host"


def _compute_course(trace: Trace, waits: Waits) -> dict[str, float]:
    """ms a step by part of COURSE, the longest first: what the ends of the calls waited for."""
    found = waits.sum_waits(lambda segment: _find_course(trace, segment))
    whole = found.pop("program", 0)
    out = {name: float(found.get(name, 0)) for name in COURSE}
    for (phase, looped), share in trace.shares.items():
        out[_get_course(phase, looped)] += whole * share
    return {name: trace.to_step_ms(time) for name, time in sorted(out.items(), key=lambda item: -item[1])}


def _summarise_critical_path(trace: Trace, step: float) -> dict[str, Any]:
    """The longest chain of each call: ms a step of all, its share, and what it consists of."""
    chains = find_longest_chains(trace.runs, trace.dependencies)
    rows = [pair for chain in chains for pair in zip(chain.runs.tolist(), chain.times.tolist(), strict=True)]
    length = trace.to_step_ms(sum(chain.length for chain in chains))
    phases: dict[str, float] = {}
    devices: dict[str, float] = {}
    kinds: dict[str, float] = {}
    loops = 0.0
    for run, time in rows:
        node, ms = trace.runs.node[run], trace.to_step_ms(time)
        _add(devices, trace.names[trace.device[node]], ms)
        _add(kinds, trace.graph.nodes[node].kind, ms)
        for phase, looped, share in _list_phases(trace, run):
            _add(phases, phase, share * ms)
            loops += share * ms * (looped and phase in PASSES)
    first = sorted(kinds, key=lambda kind: -kinds[kind])[:KINDS]
    return {
        "ms": length, "share": length / step, "operations": len(rows) / trace.steps, "loops_ms": loops,
        "phases": phases, "devices": devices,
        "kinds": {kind: kinds[kind] for kind in first}
        | {"others": sum(ms for kind, ms in kinds.items() if kind not in first)},
    }  # fmt: skip


def _list_phases(trace: Trace, run: int) -> Iterable[tuple[Phase, bool, float]]:
    """Phases of a run, whether in a loop, and the share of each."""
    node = trace.runs.node[run]
    if _is_program(trace, run) and trace.shares:
        return [(phase, looped, share) for (phase, looped), share in trace.shares.items()]
    return [(PHASES[trace.phase[node]], bool(trace.looped[node]), 1.0)]


def _is_program(trace: Trace, run: int) -> bool:
    return run != NOBODY and trace.graph.nodes[trace.runs.node[run]].kind in PROGRAMS


def _add(found: dict[str, float], name: str, ms: float) -> None:
    found[name] = found.get(name, 0.0) + ms
