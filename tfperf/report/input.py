"""An input study in words: who waits for whom, how many workers would do, what is in the way."""

from collections.abc import Mapping
from typing import Any

from tfperf.report.numbers import format_seconds

SURE = 0.05  # share of the time that a model waits, from which on its input bounds it
PROBLEMS = {
    "no_prefetch": "nothing is made ahead of the step: end the pipeline by .prefetch(tf.data.AUTOTUNE)",
    "sequential_map": "one call at a time: give the map num_parallel_calls=tf.data.AUTOTUNE",
    "python_in_map": "Python computes in it, one call at a time whatever it is told: write it in TensorFlow",
    "python_generator": "a Python generator makes all elements in one thread",
    "batch_after_map": "its function could take whole batches: put .batch before it",
    "cache_after_random": "the cache keeps what was drawn at random: put it before that",
    "cache_of_endless": "the cache is of a dataset without an end: put .repeat after it",
    "small_shuffle": "its buffer holds a small part of the dataset, which is hardly shuffled",
    "order_kept": "parallel calls wait for each other to keep the order",
    "sequential_interleave": "one file at a time: give it num_parallel_calls=tf.data.AUTOTUNE",
    "thread_pool_limits": "calls wait for a thread: options.threading.private_threadpool_size can be larger",
    "few_parallel_calls": "more parallel calls would use the cores that are free",
    "one_worker": "one worker makes all batches",
}


def list_input_lines(report: Mapping[str, Any]) -> list[str]:
    """The verdict, and what it rests on."""
    found = report["as_it_is"]
    step, batch = 1 / found["model"]["rate"]["value"], 1 / found["data"]["rate"]["value"]
    waits = found["waits"]
    limits = "" if waits["low"] is None else f" [{waits['low']:.0%}, {waits['high']:.0%}]"
    told = (
        f"a step needs {format_seconds(step)}, input alone delivers a batch in {format_seconds(batch)}; together "
        f"{format_seconds(1 / found['both']['rate']['value'])}, of which the step waits {waits['value']:.0%}{limits}"
    )
    return [f"{_name_bound(waits)}: {told}", *_list_worker_lines(report), *_list_problem_lines(found["source"])]


def _name_bound(waits: Mapping[str, Any]) -> str:
    if waits["low"] is not None and waits["low"] > SURE:
        return "input-bound"
    if waits["high"] is not None and waits["high"] < 2 * SURE:
        return "compute-bound"
    return "not told apart from chance"


def _list_worker_lines(report: Mapping[str, Any]) -> list[str]:
    workers = report["workers"]
    if workers is None:
        if report["as_it_is"]["source"]["kind"] == "arrays":
            return ["samples in memory: no workers make them"]
        return ["one thread makes all batches, whatever number of workers is asked for: none is predicted"]
    rates = [one["rate"] for one in workers["predicted"]]
    at = workers["knee"]
    return [
        f"data alone, predicted: {at} workers give 95 % of the best rate, {rates[at - 1]:.4g} batches/s on "
        f"{workers['free_cores']:.2g} free cores; one gives {rates[0]:.4g}; limited by "
        f"{workers['predicted'][at - 1]['cap']}"
    ]


def _list_problem_lines(source: Mapping[str, Any]) -> list[str]:
    stages = source.get("pipeline", {}).get("stages", [])
    found = []
    for one in source["problems"]:
        names = ", ".join(stages[place]["name"] or stages[place]["kind"] for place in one["positions"]) or "data"
        share = "" if one["share"] is None else f" ({one['share']:.0%} of its time)"
        found.append(f"{names}{share}: {PROBLEMS[one['kind']]}")
    return found
