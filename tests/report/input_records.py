"""Reports of made-up input studies, as tfperf/study/input.py has them before what follows from them is added."""

from typing import Any

from tfperf.inputs.calibration import MeasuredLoader, fit_loader
from tfperf.inputs.chain import LoaderLimits, find_knee

BATCH = 8


def make_figure(value, spread=0.02):
    return {"value": value, "low": value * (1 - spread), "high": value * (1 + spread)}


def make_ceiling(rate, cpu, spread=0.02):
    return {"rate": make_figure(rate, spread), "processor_seconds": cpu, "blocks": [rate] * 4, "steps": 10}


def make_found(model, data, both, source, cpu=(0.0, 0.0, 0.0), spread=0.02):
    """model, data, both: rates; cpu: CPU-s of a step, a batch, and both."""
    waits = 1 - both / model
    return {
        "batch": BATCH, "model": make_ceiling(model, cpu[0], spread), "data": make_ceiling(data, cpu[1], spread),
        "both": make_ceiling(both, cpu[2], spread), "source": source,
        "waits": {"value": waits, "low": waits - spread, "high": waits + spread},
    }  # fmt: skip


def make_stage(kind, name=None, *, inputs=(), parallel=None, python=(), random=(), buffer=None, size=None,
               cardinality=800.0, keeps_order=None, op=None):  # fmt: skip
    called = kind in ("map", "interleave", "flat_map")
    function = {"operations": [], "python": [*python], "random": [*random], "stateful": [], "files": [], "stages": []}
    return {
        "node": name or kind, "op": op or f"{kind.title()}Dataset", "kind": kind, "name": name, "inputs": [*inputs],
        "parallel": parallel, "keeps_order": keeps_order, "buffer": buffer, "size": size, "cardinality": cardinality,
        "function": function if called else None, "element_bytes": 300,
    }  # fmt: skip


def make_time(cpu=0.0, wait=0.0, rate=1e4, per_output=float(BATCH), chosen=None, buffer=None):
    """cpu, wait: s of an element of the stage; rate: its elements/s."""
    zero = {"value": 0.0, "low": 0.0, "high": 0.0}
    prefix = {"rate": make_figure(rate), "cpu": zero, "alone_cpu": zero, "alone_wait": zero, "read_characters": 0.0,
              "read_bytes": 0.0, "first_seconds": 0.1}  # fmt: skip
    tuning = {"elements": 10, "parallelism": chosen, "is_tuned": True, "buffer_size": buffer, "buffered_elements": 2,
              "buffered_bytes": 2500, "bytes_produced": 100, "is_parallelized": False}  # fmt: skip
    return {
        "prefix": prefix, "cpu": make_figure(cpu), "wait": make_figure(wait), "read_characters": 0.0,
        "read_bytes": 50.0, "per_output": per_output, "tuning": tuning,
    }  # fmt: skip


def make_source(stages, times, problems=(), ahead=None, **options):
    """stages: in a row, each after the one before."""
    for place, stage in enumerate(stages):
        stage["inputs"] = [place - 1] if place else []
    settings = {"autotune": True, "inject_prefetch": True, "parallelize_maps": True, "keeps_order": True,
                "threads": None, **options}  # fmt: skip
    return {
        "kind": "tf.data.Dataset", "has_workers": True, "ahead": ahead,
        "pipeline": {"stages": stages, "options": settings},
        "times": {"stages": times, "unordered_rate": None}, "problems": [*problems],
    }  # fmt: skip


def insert_stage(source, place, stage, time):
    """A stage in a row."""
    stages = source["pipeline"]["stages"]
    stages.insert(place, stage)
    source["times"]["stages"].insert(place, time)
    for position, one in enumerate(stages):
        one["inputs"] = [position - 1] if position else []


def make_problem(kind, *positions, share=0.8, **evidence):
    return {"kind": kind, "positions": [*positions], "share": share, "evidence": evidence}


def make_workers(one, many, step, free_cores=2.0, most=8, sweep=None):
    """one, many: (workers, CPU-s, rate)."""
    first, last = MeasuredLoader(*one), MeasuredLoader(*many)
    model = fit_loader(first, last, free_cores)
    alone = [vars(each) for each in model.predict(LoaderLimits(free_cores), most)]
    capped = [vars(each) for each in model.predict(LoaderLimits(free_cores, steps_per_second=step), most)]
    return {
        "free_cores": free_cores, "measured": [vars(first), vars(last)], "costs": vars(model.costs),
        "predicted": alone, "with_step": capped, "knee": find_knee([each["rate"] for each in alone]),
        "knee_with_step": find_knee([each["rate"] for each in capped]), "sweep": sweep,
        "ram": {"workers": many[0], "one": 500_000_000, "many": 512_000_000, "each": 12_000_000},
    }  # fmt: skip


def make_waiting_report(step=1000.0, calls="auto", kind="thread_pool_limits", title="waits"):
    """A pipeline whose map waits 10 ms for each of 8 elements; two threads, so that a batch takes 40 ms."""
    stages = [make_stage("range", "numbers"), make_stage("map", "fetch", parallel=calls),
              make_stage("batch", size=BATCH, cardinality=100.0),
              make_stage("prefetch", buffer="auto", cardinality=100.0)]  # fmt: skip
    times = [make_time(rate=1e6), make_time(wait=0.01, rate=200.0, chosen=2.0 if calls == "auto" else None),
             make_time(rate=25.0, per_output=1.0), make_time(rate=25.0, per_output=1.0, buffer=4.0)]  # fmt: skip
    rate = 12.5 if calls is None else 25.0
    source = make_source(stages, times, [make_problem(kind, 1)])
    found = make_found(step, rate, min(step, rate) * 0.98, source, (0.0005, 0.001, 0.0015))
    return {
        "title": title, "cores": 2, "as_it_is": found,
        "workers": make_workers((1, 0.001, 12.5), (2, 0.001, rate), step),
    }  # fmt: skip


def make_decoding_report(step=200.0, random_at=None, both=24.0, cpu=(0.001, 0.0808, 0.0818), free_cores=2.0):
    """A pipeline that decodes, 10 ms of a core each, then changes the result; 2 cores, so 25 batches/s at most."""
    stages = [make_stage("range", "files"), make_stage("map", "decode", parallel="auto"),
              make_stage("map", "change", parallel="auto"),
              make_stage("batch", size=BATCH, cardinality=100.0)]  # fmt: skip
    ahead: Any = {"position": 1, "element_bytes": 300, "read_seconds": 1e-5}
    if random_at is not None:
        stages[random_at]["function"]["random"] = ["RandomUniform"]
        ahead = None if random_at == 1 else ahead
    times = [make_time(rate=1e6), make_time(cpu=0.01, rate=200.0, chosen=2.0),
             make_time(cpu=1e-4, rate=198.0, chosen=2.0), make_time(rate=24.5, per_output=1.0)]  # fmt: skip
    found = make_found(step, 24.5, both, make_source(stages, times, ahead=ahead), cpu)
    return {
        "title": "decodes", "cores": 2, "as_it_is": found,
        "workers": make_workers((1, 0.0808, 12.3), (2, 0.0808, 24.5), step, free_cores),
    }  # fmt: skip


def make_loader_report(kind="PyDataset", workers=0, costs=(0.001, 0.02), step=1000.0, are_processes=None):
    """costs: CPU-s and rate of one worker; two are twice as fast."""
    cpu, rate = costs[0], 1 / costs[1]
    source = {"kind": kind, "type_name": "Photos", "workers": workers, "are_processes": are_processes, "queue": None,
              "batches": 50, "batch": None, "held_bytes": None, "problems": [make_problem("one_worker")]}  # fmt: skip
    if kind in ("iterable", "function"):
        source["problems"] = [make_problem("python_generator")]
    found = make_found(step, rate, rate * 0.99, source, (1e-4, cpu, cpu + 1e-4))
    return {"title": "loads", "cores": 2, "as_it_is": found,
            "workers": make_workers((1, cpu, rate), (2, cpu, 2 * rate), step)}  # fmt: skip


def make_array_report():
    source = {"kind": "arrays", "has_workers": False, "type_name": "tuple", "workers": 0, "problems": []}
    found = make_found(100.0, 5000.0, 99.5, source, (0.01, 1e-4, 0.0101))
    return {"title": "in memory", "cores": 2, "free_cores": 2.0, "as_it_is": found, "workers": None}
