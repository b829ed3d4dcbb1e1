"""A pipeline with its times, as the rules for problems look at it."""

from dataclasses import dataclass, field
from typing import Literal

from tfperf.inputs.operations import is_free_of_state
from tfperf.inputs.pipeline import Pipeline, Stage
from tfperf.inputs.stage_times import PipelineTimes

NOTABLE = 0.1  # of all CPU and waiting time: what takes less is not worth a change
HALF = 0.5  # of a stage's time, from which on it mostly waits

ProblemKind = Literal[
    "no_prefetch", "sequential_map", "python_in_map", "python_generator", "batch_after_map", "cache_after_random",
    "cache_of_endless", "small_shuffle", "order_kept", "sequential_interleave", "thread_pool_limits",
    "few_parallel_calls", "one_worker",
]  # fmt: skip


@dataclass(frozen=True)
class InputProblem:
    """Something that is wrong, and what tells so."""

    kind: ProblemKind
    positions: tuple[int, ...] = ()  # of the stages
    share: float | None = None  # of the CPU and waiting time of all stages: theirs. None: it is not a matter of time
    evidence: dict[str, float | str] = field(default_factory=dict)  # figures in s, elements or elements/s, by name


@dataclass(frozen=True)
class Case:
    """The stages of a pipeline with what each takes."""

    pipeline: Pipeline
    times: PipelineTimes
    cores: float  # that TensorFlow has threads for where the options name no number

    @property
    def threads(self) -> float:
        """Of the pool that the functions of stages run in."""
        return self.pipeline.options.threads or self.cores

    def is_notable(self, *positions: int) -> bool:
        """Whether these stages take a share of all time that is worth a change."""
        return self.get_share(*positions) >= NOTABLE

    def get_share(self, *positions: int) -> float:
        """Of all CPU and waiting time."""
        return sum(map(self.times.get_share, positions))

    def get_wait_share(self, position: int) -> float:
        """Of a stage's own time, what it waits."""
        cpu, wait = self.get_costs(position)
        return wait / (cpu + wait) if cpu + wait else 0.0

    def get_costs(self, position: int) -> tuple[float, float]:
        """CPU and waiting time [s] of a stage's own element; 0 where noise is larger."""
        one = self.times.stages[position]
        return max(0.0, one.cpu.value), max(0.0, one.wait.value)

    def is_parallelized(self, position: int) -> bool:
        """Whether TensorFlow runs a map in parallel that is written as sequential: seen, or else by its own rule."""
        options, stage, seen = self.pipeline.options, self.pipeline.stages[position], self.times.stages[position].tuning
        if stage.op != "MapDataset" or not (options.autotune and options.parallelize_maps) or stage.function is None:
            return False
        return seen.is_parallelized if seen is not None else is_free_of_state(stage.function.operations)

    def is_parallel(self, position: int) -> bool:
        """Whether several calls of it run at once."""
        return self.pipeline.stages[position].parallel not in (None, 1) or self.is_parallelized(position)

    def is_ahead(self, position: int) -> bool:
        """Whether it works while nobody asks it for an element: it has a thread of its own."""
        stage: Stage = self.pipeline.stages[position]
        return (
            stage.kind in ("prefetch", "map_and_batch") or stage.parallel is not None or self.is_parallelized(position)
        )
