"""Rows of a sweep over placements, made by hand."""

from tfperf.study.finished_trials import PROOF_FAILED, FinishedTrial

MEMORY = {"kept_bytes": {"host": 3e6}, "peak_bytes": {}, "peak_rss_bytes": 5e8}
COURSE = {
    "chain": 18.0, "computation": 7.0, "merge": 3.0, "update": 6.0, "transfer": 1.0, "input": 0.5, "queue": 2.0,
    "runtime": 2.0, "host": 0.5,
}  # fmt: skip
STEPS = 20


def phases(
    devices,
    forward=10.0,
    step_ms=40.0,
    timed_ms=40.0,
    slower=1.0,
    course=None,
    waits=None,
    unattributed=0.0,
    beside_ms=None,
):
    """Of a step as place/tracing.py tells them."""
    course = {name: ms * step_ms / 40.0 for name, ms in COURSE.items()} if course is None else course
    busy = {
        "forward": forward,
        "backward": 15.0,
        "merge": 2.0,
        "update": 1.0,
        "transfer": 1.0,
        "input": 0.0,
        "other": 0.0,
    }
    waits = {"passes": step_ms - (sum(busy.values()) - 1.0) - 3.0, "runtime": 3.0} if waits is None else waits
    one = {
        "busy": busy, "overlap": 1.0, "overlaps": {"forward + update": 1.0}, "waiting": sum(waits.values()),
        "waits": waits, "unattributed": unattributed * step_ms,
    }  # fmt: skip
    return {
        "step_ms": step_ms, "steps": STEPS, "calls": 2, "imbalance": 1.0,
        "devices": {f"device:{k}": one for k in range(devices)} | {"host": one | {"waiting": 30.0}},
        "mean": {"forward": forward, "backward": 15.0}, "course": course, "unattributed": unattributed,
        "critical": {
            "ms": 0.6 * step_ms, "share": 0.6, "operations": 1000.0, "loops_ms": 16.0,
            "phases": {"forward": 8.0, "backward": 0.6 * step_ms - 10.0, "update": 2.0}, "devices": {"device:0": 24.0},
            "kinds": {"MatMul": 20.0, "others": 4.0},
        },
        "traced_ms": step_ms, "timed_ms": timed_ms, "beside_ms": timed_ms if beside_ms is None else beside_ms,
        "slower": slower, "agrees": step_ms / timed_ms,
    }  # fmt: skip


def work(devices, scaling, batch, content="text"):
    """What the steps of a point compute; scaling as the card has it, batch: in all for strong scaling."""
    pairs = batch if scaling == "strong" else batch * devices
    lengths = f"{content} {batch} columns"
    batches = f"{lengths} {pairs} pairs"
    return {
        "scaling": scaling, "steps": STEPS, "pairs": pairs, "batch": pairs // devices, "batches": batches,
        "lengths": lengths, "columns": 22.5, "words": 10 * pairs * STEPS, "padding_share": 0.2, "straggler_waste": 0.0,
    }  # fmt: skip


def record(
    devices, ms, traced=False, scaling="strong", batch=8, logical=False, forward=10.0, lstm="plain", gflops=50.0,
    content="text", step_ms=40.0, turn_ms=0.1, **more,
):  # fmt: skip
    """Of a trial whose steps take so many milliseconds."""
    done = work(devices, scaling, batch, content)
    out = {
        "devices": devices, "logical": logical, "merge": "summed on the host", "work": done, "memory": MEMORY,
        "words_per_second": 1e3 * 10 * done["pairs"] / ms, "pairs_per_second": 1e3 * done["pairs"] / ms,
        "ms_per_step": {"median": ms}, "left_out": 0,
    }  # fmt: skip
    if traced:
        out |= {
            "phases": phases(devices, forward, step_ms, ms, **more), "proof": {"places": {"update": {"CPU:0": 3}}},
            "bound": {"bound_ms": 22.0, "computation_ms": 20.0, "update_ms": 2.0, "sent_ms": None, "sent_bytes": 4e6,
                      "chain_ms": 80 * turn_ms, "turn_ms": turn_ms, "turn": [batch, 64, "float32", lstm],
                      "gflops": gflops, "bandwidth_gb_s": 30.0},
            "kernels": {"lstm": lstm, "embedding_gradients": "sparse", "xla": False},
        }  # fmt: skip
    return out


def point(name, devices, times, values=None, **keys):
    """The rows of a point: a trial for each time, the first with proof and trace."""
    values = {"placement.preset": name, "placement.devices": devices} | (values or {})
    if keys.get("scaling", "strong") != "strong":
        values["data.scaling"] = keys["scaling"]
    return [FinishedTrial(values, i, 1.0, record(devices, ms, traced=i == 1, **keys)) for i, ms in enumerate(times, 1)]


def disproved(name, devices, repeat=1):
    """A trial whose placement did not take place."""
    values = {"placement.preset": name, "placement.devices": devices}
    return FinishedTrial(values, repeat, 1.0, error=f"{PROOF_FAILED}update of a: ran on CPU:0; must be CPU:1")
