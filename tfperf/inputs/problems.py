"""What is wrong with an input: rules on stages and their times. What is said of it in words is for others to write.

A rule tells what can be changed, not whether that makes a training faster: only where the step waits for input does it.
"""

import math
from collections.abc import Iterator

from tfperf.inputs.case import HALF, Case, InputProblem, ProblemKind
from tfperf.inputs.order_problems import ORDER_RULES
from tfperf.inputs.pipeline import Pipeline, Stage
from tfperf.inputs.sources import SourceDescription
from tfperf.inputs.stage_times import PipelineTimes
from tfperf.measure.environment import count_cores

PASSIVE = ("repeat", "take", "skip", "enumerate", "assert_cardinality", "zip")  # hand on what is there already
NEAR = 1.2  # how much more than the whole a stage may deliver, and still be what the whole waits for
LONG = 200e-6  # s of a call from which on what each call costs by itself, some microseconds, does not matter
# what a function may not do, so that one for a whole batch could take its place: by the beginning, or part, of names
SINGLE = ("Decode", "ReadFile", "Parse", "If", "While", "Case", "StatelessIf", "StatelessWhile", "StatelessCase")
SINGLE_PARTS = ("Dataset", "Random", "SampleDistorted", "PyFunc")


def find_problems(pipeline: Pipeline, times: PipelineTimes, cores: float | None = None) -> list[InputProblem]:
    """All that is wrong with a tf.data.Dataset, as `measure_stages` found it.

    What TensorFlow's defaults cure is not accused where they hold: a missing prefetch, and sequential maps of functions
    without a state. cores: that TensorFlow has threads for; those that the process may run on by default.
    """
    case = Case(pipeline, times, cores or count_cores())
    return [problem for rule in (*TIME_RULES, *ORDER_RULES) for problem in rule(case)]


def find_source_problems(source: SourceDescription) -> list[InputProblem]:
    """Of a source without stages: who makes its batches.

    >>> [one.kind for one in find_source_problems(SourceDescription("DataLoader", "DataLoader", workers=0))]
    ['one_worker']
    """
    if source.kind in ("iterable", "function"):
        return [InputProblem("python_generator")]
    if source.kind in ("PyDataset", "DataLoader") and (source.workers or 0) <= 1:
        return [InputProblem("one_worker", evidence={"workers": float(source.workers or 0)})]
    return []


def find_missing_prefetch(case: Case) -> Iterator[InputProblem]:
    """Work at the end that begins only when the step asks for the next element."""
    options, position = case.pipeline.options, len(case.pipeline.stages) - 1
    if options.autotune and options.inject_prefetch:
        return
    found: list[int] = []
    while not case.is_ahead(position):
        found.append(position)
        inputs = case.pipeline.stages[position].inputs
        if len(inputs) != 1:  # a source, or several: they are as late as this stage is
            found += case.pipeline.list_parents(position)
            break
        position = inputs[0]
    working = [one for one in found if case.pipeline.stages[one].kind not in PASSIVE]
    if case.is_notable(*working):
        late = sum(map(case.times.get_seconds, working))
        yield InputProblem("no_prefetch", tuple(sorted(working)), case.get_share(*working), {"late_seconds": late})


def find_sequential_maps(case: Case) -> Iterator[InputProblem]:
    """Maps of one call at a time; of those that compute in Python more calls would not help, so they are not meant."""
    for position, stage in enumerate(case.pipeline.stages):
        waits = case.get_wait_share(position) >= HALF
        if stage.kind == "map" and not case.is_parallel(position) and (waits or not stage.has_python):
            yield from _note_problem(case, "sequential_map", position)


def find_python_maps(case: Case) -> Iterator[InputProblem]:
    """Maps that compute in Python, of which one call runs at a time, however many are begun."""
    for position, stage in enumerate(case.pipeline.stages):
        if stage.has_python and not stage.is_generator and case.get_wait_share(position) < HALF:
            seconds = case.get_costs(position)[0] * (case.times.stages[position].per_output or 0.0)
            yield from _note_problem(case, "python_in_map", position, most_rate=1 / seconds if seconds else math.inf)


def find_generators(case: Case) -> Iterator[InputProblem]:
    """Python generators: one thread, whatever runs beside it."""
    for position, stage in enumerate(case.pipeline.stages):
        if stage.is_generator:
            yield from _note_problem(case, "python_generator", position)


def find_late_batches(case: Case) -> Iterator[InputProblem]:
    """Short functions that are called for each example, and could be for each batch."""
    for position in range(len(case.pipeline.stages)):
        *between, last = [position, *_list_next(case, position)]
        batch = case.pipeline.stages[last]
        # a batch that goes before a function goes before all that follow it
        if between and batch.kind == "batch" and all(_is_short(case, one) for one in between):
            yield from _note_problem(case, "batch_after_map", position, batch=float(batch.size or 0))


def find_sequential_interleaves(case: Case) -> Iterator[InputProblem]:
    """Files that are read one after the other, though reading them waits."""
    for position, stage in enumerate(case.pipeline.stages):
        reads = stage.kind in ("interleave", "flat_map") and stage.reads_files and not case.is_parallel(position)
        if reads and case.get_wait_share(position) >= HALF:
            yield from _note_problem(case, "sequential_interleave", position)


def find_small_pools(case: Case) -> Iterator[InputProblem]:
    """Stages that wait, and have as many calls as there are threads: AUTOTUNE gives no more, though more could wait."""
    for position, stage in enumerate(case.pipeline.stages):
        seen = case.times.stages[position].tuning
        is_left = stage.parallel == "auto" or case.is_parallelized(position)
        calls = seen.parallelism if seen is not None else None
        if is_left and calls is not None and calls >= case.threads and case.get_wait_share(position) >= HALF:
            yield from _note_problem(case, "thread_pool_limits", position, calls=calls, threads=float(case.threads))


def find_few_calls(case: Case) -> Iterator[InputProblem]:
    """Stages that wait, of a number of calls that the user set, which is what the whole waits for."""
    for position, stage in enumerate(case.pipeline.stages):
        one, seconds = case.times.stages[position], sum(case.get_costs(position))
        if not isinstance(stage.parallel, int) or not seconds or not one.per_output:
            continue
        ceiling = stage.parallel / seconds / one.per_output  # elements of the dataset a second
        if ceiling <= NEAR * case.times.rate.value and case.get_wait_share(position) >= HALF:
            yield from _note_problem(case, "few_parallel_calls", position, calls=float(stage.parallel), ceiling=ceiling)


TIME_RULES = (
    find_missing_prefetch, find_sequential_maps, find_python_maps, find_generators, find_late_batches,
    find_sequential_interleaves, find_small_pools, find_few_calls,
)  # fmt: skip


def _note_problem(case: Case, kind: ProblemKind, position: int, **evidence: float) -> Iterator[InputProblem]:
    """One stage, where its time is worth a change."""
    if case.is_notable(position):
        cpu, wait = case.get_costs(position)
        figures: dict[str, float | str] = {"cpu_seconds": cpu, "wait_seconds": wait, **evidence}
        yield InputProblem(kind, (position,), case.get_share(position), figures)


def _list_next(case: Case, position: int) -> list[int]:
    """The stages after one, up to the first that is no map."""
    found = []
    for later in case.pipeline.list_children(position):
        found.append(later)
        if case.pipeline.stages[later].kind != "map":
            break
    return found


def _is_short(case: Case, position: int) -> bool:
    """Whether a stage is a map of a short function, that could be for a whole batch."""
    stage = case.pipeline.stages[position]
    return stage.kind == "map" and _is_vectorisable(stage) and case.get_costs(position)[0] < LONG


def _is_vectorisable(stage: Stage) -> bool:
    """Whether its function only computes, by operations that mostly take more dimensions, too."""
    kinds = stage.function.operations if stage.function is not None else frozenset()
    if stage.function is not None and set(stage.function.stateful) - set(stage.function.random):
        return False  # what it leaves behind would be of batches
    return not any(kind.startswith(SINGLE) or any(part in kind for part in SINGLE_PARTS) for kind in kinds)
