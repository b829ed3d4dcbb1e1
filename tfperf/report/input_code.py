"""What to write, as code for the user's kind of dataset, with the rate that each change is expected to give."""

import json
import keyword
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfperf.inputs.bound import Bound
from tfperf.report.input_rates import CHEAPER, PARALLEL, WAITS, ExpectedRates, list_before
from tfperf.report.input_stages import StageRow, format_small, get_free_cores

CACHE_SHARE = 0.5  # of the memory that is free, which a cache may take
SMALL_CACHE = 10e6  # bytes that there is always room for
GAIN = 1.02  # of the rate, which a change has to promise
MAP = "dataset = dataset.map({function}, num_parallel_calls=tf.data.AUTOTUNE, name={name})"
POOL = """options = tf.data.Options()
options.threading.private_threadpool_size = {threads}
dataset = dataset.with_options(options)  # at the end of the pipeline"""
CLASS = """class Batches(keras.utils.PyDataset):
    def __len__(self):
        return count  # batches of a pass

    def __getitem__(self, number):
        return make_batch(number)  # what the generator gives as its batch of that number


data = Batches(workers={workers}, use_multiprocessing={processes}, max_queue_size={queue})"""
TEMPLATES = {
    "sequential_map": MAP,
    "few_parallel_calls": MAP,
    "python_in_map": "# {function}: with TensorFlow's operations, without tf.py_function and tf.numpy_function\n" + MAP,
    "python_generator": CLASS,
    "no_prefetch": "dataset = dataset.prefetch(tf.data.AUTOTUNE)  # at the end of the pipeline",
    "batch_after_map": "# {function}: for examples with one more axis in front\n"
    "dataset = dataset.batch({size}).map({function}, num_parallel_calls=tf.data.AUTOTUNE, name={name})",
    "sequential_interleave": "dataset = dataset.interleave(\n    {function}, cycle_length={threads}, "
    "num_parallel_calls=tf.data.AUTOTUNE, name={name}\n)",
    "thread_pool_limits": POOL,
    "order_kept": "options = tf.data.Options()\noptions.deterministic = False  # elements come in any order\n"
    "dataset = dataset.with_options(options)  # at the end of the pipeline",
    "cache_after_random": "dataset = dataset.cache()  # before {name}, which is random",
    "cache_of_endless": "dataset = dataset.cache().repeat()",
    "small_shuffle": "dataset = dataset.shuffle({elements}, name={name}){note}",
    "cache": "dataset = dataset.cache()  # behind {name}: {elements} elements, {held}, stay in memory",
    "cache_and_shuffle": "# behind {name}, in place of the shuffle before it, whose order a cache would keep:\n"
    "# {elements} elements, {held}, stay in memory\ndataset = dataset.cache().shuffle({elements})",
}  # fmt: skip
WORKERS = {
    "PyDataset": "data.workers, data.use_multiprocessing, data.max_queue_size = {workers}, {processes}, {queue}",
    "DataLoader": "loader = torch.utils.data.DataLoader(\n    dataset, batch_size={batch}, num_workers={workers}, "
    "prefetch_factor=2, persistent_workers=True\n)",
    "iterable": CLASS,
    "function": CLASS,
}
RIGHT = ("cache_after_random", "cache_of_endless", "small_shuffle")  # a matter of what is learnt, not of time


@dataclass(frozen=True)
class Cure:
    """Something to write."""

    kind: str  # of the problem
    stage: str
    code: str
    rate: float | None  # steps/s that the training is expected to take then; None: it is no matter of time
    is_limit: bool = False  # the rate is the most that may be had: what the new code costs is not known


def list_cures(report: Mapping[str, Any], rows: Sequence[StageRow], bound: Bound) -> list[Cure]:
    """Of an input study, those with the most to gain first, and at the end all together.

    Where the step does not wait, or may be waiting by chance, nothing is advised for speed; where model and data share
    all cores only what takes less of them.
    """
    if not rows:
        return [*_list_worker_cures(report, bound)]
    found, rates = report["as_it_is"], ExpectedRates(report, rows)
    # a change has to promise more than what the same figures say of no change
    now = max(found["both"]["rate"]["value"], rates.predict([]))
    problems = [one for one in list_curable(found["source"]) if one["kind"] in RIGHT or _is_asked(one["kind"], bound)]
    cures = _merge([_make_cure(report, rows, rates, one) for one in problems])
    worth = [one for one in cures if one.rate is None or one.rate >= GAIN * now]
    wanted = sorted(worth, key=lambda one: -(one.rate or 0.0))
    # two that limit each other help only together
    parts = [one for one in cures if one.rate is not None and one.kind != "cache"]
    slow = [one for one in problems if one["kind"] not in (*RIGHT, "cache")]
    together = rates.predict(slow) if len(parts) > 1 else 0.0
    if together >= GAIN * max([now, *(one.rate or 0.0 for one in parts)]):
        code = "\n".join(one.code for one in parts)
        stages = ", ".join(dict.fromkeys(one.stage for one in parts))
        wanted.insert(0, Cure("together", stages, code, together, any(one.is_limit for one in parts)))
    return wanted


def _merge(cures: Sequence[Cure]) -> list[Cure]:
    """Those of several stages that are one and the same code, as a pool's, as one."""
    found: dict[str, Cure] = {}
    for one in cures:
        other = found.get(one.code)
        if other is None:
            found[one.code] = one
        else:
            rate = max((rate for rate in (one.rate, other.rate) if rate is not None), default=None)
            found[one.code] = replace(other, stage=f"{other.stage}, {one.stage}", rate=rate)
    return list(found.values())


def list_curable(source: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Problems of a pipeline, and as one more that elements which are the same in each pass are made anew."""
    found, stages, ahead = list(source["problems"]), source["pipeline"]["stages"], source.get("ahead")
    if ahead is None or any(one["kind"] == "cache" for one in stages):
        return found
    place = ahead["position"]
    before = [stages[one] for one in list_before(stages, place)]
    is_shuffled = any(one["kind"].startswith("shuffle") for one in before) and not any(
        one["kind"].startswith("shuffle") and place in list_before(stages, later) for later, one in enumerate(stages)
    )
    if is_shuffled and any(one["kind"].endswith("batch") for one in before):
        return found  # samples that have once come together would come together in each pass
    held = (stages[place]["cardinality"] or math.inf) * ahead["element_bytes"]
    if held <= CACHE_SHARE * (ahead.get("available_bytes") or math.inf) < math.inf or held < SMALL_CACHE:
        evidence = {"bytes": held, "is_shuffled": is_shuffled}
        found.append({"kind": "cache", "positions": [place], "evidence": evidence})
    return found


def _is_asked(kind: str, bound: Bound) -> bool:
    return bound in ("input", "turns") or (bound == "cores" and kind in (*CHEAPER, "cache"))


def _make_cure(
    report: Mapping[str, Any], rows: Sequence[StageRow], rates: ExpectedRates, problem: Mapping[str, Any]
) -> Cure:
    kind, row = problem["kind"], rows[problem["positions"][0]]
    elements = row.cardinality if kind == "cache" else problem["evidence"].get("elements")
    held, note = problem["evidence"].get("bytes"), ""
    if kind == "small_shuffle":
        each = report["as_it_is"]["source"]["pipeline"]["stages"][row.position]["element_bytes"]
        held = float(elements or 0) * (each or 0)
        if held > SMALL_CACHE:
            note = f"  # holds {format_small(held)}; names or numbers, shuffled before they are read, hold less"
    words = {
        "name": json.dumps(row.name), "function": name_function(row), "threads": rates.threads,
        "size": int(problem["evidence"].get("batch") or row.size or 1), "elements": int(elements or 0),
        "held": format_small(held), "note": note, **_count_workers(report),
    }  # fmt: skip
    code = TEMPLATES[_choose_template(problem, row)].format(**words)
    if kind in PARALLEL and rates.is_waiting(row.position):
        code += "\n" + POOL.format(**words)
    rate = None if kind in RIGHT else rates.predict([problem])
    return Cure(kind, row.name, code, rate, kind in (*CHEAPER, "cache"))


def _choose_template(problem: Mapping[str, Any], row: StageRow) -> str:
    kind: str = problem["kind"]
    if kind == "few_parallel_calls" and row.kind == "interleave":
        return "sequential_interleave"
    return "cache_and_shuffle" if kind == "cache" and problem["evidence"]["is_shuffled"] else kind


def name_function(row: StageRow) -> str:
    """The user's name of a stage, which is often that of its function, where Python can have such a name."""
    usable = row.name.isidentifier() and not keyword.iskeyword(row.name) and row.name != row.kind
    return row.name if usable else "function"


def _count_workers(report: Mapping[str, Any]) -> dict[str, Any]:
    """As a PyDataset or a DataLoader takes them: processes where computing, and not waiting, takes the time."""
    workers = report["workers"]
    if workers is None:
        costs = {"cpu_seconds": 1.0, "wait_seconds": 0.0}  # not known: processes are of use in any case
        workers = {"knee_with_step": 1, "free_cores": get_free_cores(report), "costs": costs}
    costs = workers["costs"]
    count = workers["knee_with_step"]
    processes = costs["wait_seconds"] < WAITS * (costs["cpu_seconds"] + costs["wait_seconds"])
    if processes:  # threads share Python's lock
        count = max(count, math.ceil(workers["free_cores"]))
    return {"workers": count, "processes": processes, "queue": max(4, 2 * count),
            "batch": report["as_it_is"]["batch"] or "batch"}  # fmt: skip


def _list_worker_cures(report: Mapping[str, Any], bound: Bound) -> Iterator[Cure]:
    found, workers = report["as_it_is"], report["workers"]
    source = found["source"]
    if bound not in ("input", "turns") or source["kind"] not in WORKERS:
        return
    words, cores, step = _count_workers(report), get_free_cores(report), found["model"]["rate"]["value"]
    if words["workers"] <= (source.get("workers") or 0):
        return
    rate = min(step, words["workers"] * found["data"]["rate"]["value"])
    if workers is not None and (source.get("are_processes") or not words["processes"]):
        rate = workers["with_step"][min(words["workers"], len(workers["with_step"])) - 1]["rate"]
    if (cpu := found["both"]["processor_seconds"]) > 0:
        rate = min(rate, cores / cpu)
    if rate >= GAIN * found["both"]["rate"]["value"]:
        code = WORKERS[source["kind"]].format(**words)
        yield Cure("one_worker", source["type_name"], code, rate, bool(words["processes"]))
