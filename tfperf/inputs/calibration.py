"""A loader measured with one worker and with one for each core: what the prediction of other numbers rests on."""

from dataclasses import dataclass, replace

from tfperf.inputs.chain import LoaderCosts, LoaderLimits, PredictedRate, fit_wait, predict_rate

MOST_APART = 0.5  # of the CPU time of an element that other threads than the only worker's may have
SCALES = 0.85  # of what cores and waiting allow; a loader that gets less holds something that its workers share
IDLE = 0.8  # of the cores that workers could use: whoever uses less leaves some idle


@dataclass(frozen=True)
class MeasuredLoader:
    """What was measured with so many workers."""

    workers: int
    cpu_seconds: float  # of an element, of all threads and processes that make it
    rate: float  # elements/s, held up by nothing but the loader itself

    def __post_init__(self) -> None:
        """Raises: ValueError where something is not above zero, but for the CPU time."""
        if self.workers < 1 or self.cpu_seconds < 0 or self.rate <= 0:
            raise ValueError(f"a measured loader has workers, and a rate above 0: {self}")


@dataclass(frozen=True)
class LoaderModel:
    """Costs of an element for any number of workers.

    The CPU time of an element depends on how many are made at once, since they share caches and memory: it is the
    straight line through the two numbers that were measured, and beyond the second, which has a worker for each core,
    what it is there, since no more compute at once. The waiting time is the same for all.
    """

    one: MeasuredLoader
    many: MeasuredLoader
    costs: LoaderCosts  # of one worker: its own CPU time, the waiting time of both

    def get_costs(self, workers: int) -> LoaderCosts:
        """Of so many workers."""
        first, last = self.one, self.many
        if first.workers == last.workers or first.cpu_seconds == 0:
            return self.costs
        slope = (last.cpu_seconds - first.cpu_seconds) / (last.workers - first.workers)
        seconds = first.cpu_seconds + slope * (min(workers, last.workers) - first.workers)
        apart = self.costs.apart_seconds * seconds / first.cpu_seconds
        return replace(self.costs, cpu_seconds=seconds, apart_seconds=apart)

    def predict(self, limits: LoaderLimits, most_workers: int) -> list[PredictedRate]:
        """Rates of 1, 2, ... most_workers."""
        return [predict_rate(self.get_costs(n), limits, n) for n in range(1, most_workers + 1)]


def fit_loader(one: MeasuredLoader, many: MeasuredLoader, free_cores: float) -> LoaderModel:
    """The model of a loader from two measurements, the second with more workers, or the same one on a single core.

    free_cores: while it was measured. Where the second is far below what cores and waiting allow, and leaves cores
    idle, its workers share something that one has at a time, and no number of them will be faster than the second was.
    Raises: ValueError where the second has fewer workers than the first.
    """
    if many.workers < one.workers:
        raise ValueError(f"the second measurement has fewer workers: {many.workers} after {one.workers}")

    def fit(*measured: MeasuredLoader) -> LoaderModel:
        wait = fit_wait(
            [each.cpu_seconds for each in measured], [each.rate for each in measured],
            [each.workers for each in measured], free_cores,
        )  # fmt: skip
        apart = _find_apart(one) if wait == 0 else 0.0
        return LoaderModel(one, many, LoaderCosts(one.cpu_seconds, wait, apart_seconds=apart))

    if one.workers == many.workers:
        return fit(one)
    alone = fit(one)
    leaves_idle = many.cpu_seconds * many.rate < IDLE * min(free_cores, many.workers)
    if leaves_idle and many.rate < SCALES * alone.predict(LoaderLimits(free_cores), many.workers)[-1].rate:
        return replace(alone, costs=replace(alone.costs, shared_seconds=1 / many.rate))
    return fit(one, many)


def _find_apart(one: MeasuredLoader) -> float:
    """CPU-s of an element that are not the worker's: what it has used beyond the time there was."""
    if one.workers > 1:
        return 0.0
    return min(max(0.0, one.cpu_seconds - 1 / one.rate), MOST_APART * one.cpu_seconds)
