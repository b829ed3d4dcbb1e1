"""An input study in words and tables: who waits for whom, how many workers would do, what to write."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.inputs.bound import Bound, find_bound, has_shared_cores
from tfperf.measure.confidence import ConfidenceInterval
from tfperf.report.input_ahead import find_store_gain
from tfperf.report.input_applied import list_applied_lines
from tfperf.report.input_code import Cure, list_cures
from tfperf.report.input_device import list_device_lines
from tfperf.report.input_stages import (
    HEADERS,
    NOTABLE,
    StageRow,
    find_costliest,
    get_free_cores,
    list_stage_cells,
    list_stage_rows,
)
from tfperf.report.input_tuning import list_tuning_lines
from tfperf.report.input_verdict import describe_ahead, describe_waiting, describe_workers
from tfperf.report.numbers import format_seconds

PROBLEMS = {
    "no_prefetch": "no prefetch: the next batch is made only when the step asks for it",
    "sequential_map": "one call at a time",
    "python_in_map": "runs Python code, which holds the interpreter's lock: more parallel calls do not help",
    "python_generator": "a Python generator makes all elements in one thread",
    "batch_after_map": "is called for each example, though its function could take whole batches",
    "cache_after_random": "the cache is behind random changes, which are then the same in each epoch",
    "cache_of_endless": "the cache is of a dataset without an end, so that it is never complete",
    "small_shuffle": "its buffer holds a small part of the dataset, which is hardly shuffled",
    "order_kept": "to keep the order of elements, fast calls wait for slow ones",
    "sequential_interleave": "reads one file at a time",
    "thread_pool_limits": "calls wait for a thread: AUTOTUNE starts no more calls than the pool has threads",
    "few_parallel_calls": "num_parallel_calls is so low that the whole pipeline waits for this stage",
    "one_worker": "one worker makes all batches",
}


SCATTER = 0.25  # of a rate, to either side, from which on a reader is warned


def conclude(report: dict[str, Any]) -> None:
    """Add what follows from the figures of a report: `bound`, `cures`, `ahead`, `lines`, three of them a verdict."""
    found, rows = report["as_it_is"], list_stage_rows(report["as_it_is"]["source"])
    cores = get_free_cores(report)
    bound = find_bound(found, cores)
    threads = float((found["source"]["pipeline"]["options"]["threads"] if rows else None) or report["cores"])
    gain = find_store_gain(report, rows, threads) if rows else None
    cures = list_cures(report, rows, bound)
    report["bound"], report["ahead"] = bound, None if gain is None else asdict(gain)
    report["cures"] = [asdict(one) for one in cures]
    report["lines"] = [
        describe_waiting(found, bound, cores), describe_workers(report, rows, cures),
        describe_ahead(report, rows, bound, gain), *_list_notes(report, rows, bound, cures),
        *(() if report.get("applied") is None else list_applied_lines(report["applied"])),
    ]  # fmt: skip


def _list_notes(
    report: Mapping[str, Any], rows: Sequence[StageRow], bound: Bound, cures: Sequence[Cure]
) -> Iterator[str]:
    if bound in ("input", "turns"):
        yield "more or faster devices are not advised: they would wait for the same input"
    yield from _describe_scatter(report["as_it_is"])
    yield from _describe_beginning(report["as_it_is"]["source"], rows, bound)
    if bound in ("input", "turns", "cores") and not any(one.rate is not None for one in cures):
        yield _describe_rest(report, rows)
    if bound == "unknown":
        yield "a longer --seconds, in another folder and with nothing else running, may tell"
    yield from list_device_lines(report["as_it_is"])
    yield from _list_problem_lines(report["as_it_is"]["source"], rows)
    yield from list_tuning_lines(report, rows)
    if bound in ("model", "unknown") and report["as_it_is"]["source"]["problems"]:
        seen = "none of this is seen to make" if bound == "model" else "it is not known whether any of this makes"
        yield f"{seen} the training slower, so nothing is advised for speed"


def _describe_scatter(found: Mapping[str, Any]) -> Iterator[str]:
    """Where rates are so uncertain that other conclusions could be drawn from the next measurement."""
    names = {"model": "the step", "data": "the data", "both": "both together"}
    wide = [name for side, name in names.items() if not ConfidenceInterval(**found[side]["rate"]).is_within(SCATTER)]
    if wide:
        yield (
            f"unsteady: the rate of {', '.join(wide)} is not known within {SCATTER:.0%}; measure again in another "
            "folder, longer (--seconds), with nothing else running"
        )


def _describe_beginning(source: Mapping[str, Any], rows: Sequence[StageRow], bound: Bound) -> Iterator[str]:
    """Where beginning a pass takes a notable part of it, as of a short one, or behind a large shuffle buffer."""
    begin, last = source.get("begin_seconds"), rows[-1] if rows else None
    if begin is None or last is None or not last.rate or not last.cardinality or bound == "model":
        return
    share = begin / (begin + last.cardinality / last.rate)  # 0 where a pass has no end
    if share >= NOTABLE:
        yield (
            f"beginning a pass takes {format_seconds(begin)}, {share:.0%} of the time of its {last.cardinality:.0f} "
            "batches, and is in no rate of a stage: dataset.repeat(), with as many steps_per_epoch, begins once"
        )


def _describe_rest(report: Mapping[str, Any], rows: Sequence[StageRow]) -> str:
    """What is left where no change of the code promises anything."""
    most = find_costliest(rows, rows)
    why = (
        "all free cores are in use" if has_shared_cores(report["as_it_is"], get_free_cores(report)) else "none is known"
    )
    told = f"no change of how the pipeline is put together is expected to help: {why}"
    return told if most is None else f"{told}; what could be made cheaper first is {most}"


def _list_problem_lines(source: Mapping[str, Any], rows: Sequence[StageRow]) -> Iterator[str]:
    for one in source["problems"]:
        names = ", ".join(dict.fromkeys(rows[place].name for place in one["positions"])) or "data"
        share = "" if one["share"] is None else f" ({one['share']:.0%} of the time of all stages)"
        yield f"{names}{share}: {PROBLEMS[one['kind']]}"


def make_input_tables(report: Mapping[str, Any]) -> RenderableType:
    """All of a study for the terminal."""
    rows = list_stage_rows(report["as_it_is"]["source"])
    parts: list[RenderableType] = [Text(line) for line in report["lines"]]
    if rows:
        parts.append(_make_table("stages (ms and bytes of a batch)", HEADERS, list_stage_cells(rows)))
    if report["workers"] is not None:
        parts.append(
            _make_table(
                "workers (batches/s; * the knee with the step, o cores minus one)",
                WORKER_HEADERS,
                list_worker_cells(report),
            )
        )
    for one in report["cures"]:
        parts += [Text(f"\n{describe_cure(one, report)}"), Text(one["code"])]
    return Group(*parts)


WORKER_HEADERS = ("workers", "data alone", "limited by", "with the step", "limited by", "data alone, measured", "error")


def list_worker_cells(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Batches/s of each number of workers, predicted and measured; the knee has a star, cores minus one an o.

    What the prediction rests on has no error: "fitted" stands in its place.
    """
    workers, cells = report["workers"], list[tuple[str, ...]]()
    swept = {one["workers"] for one in workers["sweep"] or ()}
    measured = list_measured_rates(workers)
    for alone, capped in zip(workers["predicted"], workers["with_step"], strict=True):
        count, seen = alone["workers"], measured.get(alone["workers"])
        marks = " *" * (count == workers["knee_with_step"]) + " o" * (count == report["cores"] - 1)
        middle = average_rates(seen)
        cells.append((
            f"{count}{marks}", f"{alone['rate']:.4g}", alone["cap"], f"{capped['rate']:.4g}", capped["cap"],
            "" if seen is None else " ".join(f"{rate:.4g}" for rate in seen),
            "" if middle is None else f"{alone['rate'] / middle - 1:+.0%}" if count in swept else "fitted",
        ))  # fmt: skip
    return cells


def list_measured_rates(workers: Mapping[str, Any]) -> dict[int, list[float]]:
    """Batches/s by number of workers, of the data alone: those that the prediction rests on, or those of a sweep."""
    measured = {one["workers"]: [one["rate"]] for one in workers["measured"]}
    return measured | {one["workers"]: one["rates"] for one in workers["sweep"] or ()}


def average_rates(rates: Sequence[float] | None) -> float | None:
    """Their geometric mean; None of none."""
    return math.prod(rates) ** (1 / len(rates)) if rates else None


def describe_cure(cure: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """What stands over its code."""
    if cure["kind"] == "together":
        what = f"{cure['stage']}, all together"
    else:
        said = (
            "elements that are the same in each pass are made anew"
            if cure["kind"] == "cache"
            else PROBLEMS[cure["kind"]]
        )
        what = f"{cure['stage']}: {said}"
    if cure["rate"] is None:
        return f"{what}; write:"
    now, most = report["as_it_is"]["both"]["rate"]["value"], "at most " if cure["is_limit"] else ""
    return f"{what}; expected {most}{cure['rate']:.4g} steps/s, now {now:.4g}; write:"


def _make_table(title: str, headers: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    table = Table(title=Text(title), box=box.ASCII_DOUBLE_HEAD, title_justify="left")
    for number, header in enumerate(headers):
        table.add_column(header, justify="right" if number else "left")
    for row in cells:
        table.add_row(*map(Text, row))
    return table
