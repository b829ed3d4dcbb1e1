"""All replicas of a training: their state on the host, and on each device stacks of those that may still train.

R replicas.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName, Float32Array, Int32Array, ReplicaIndices, ReplicaWeights, Snapshot
from tfperf.console.stages import ShowStage, show_nothing
from tfperf.train.blueprints import Blueprints
from tfperf.train.contract import check_metric_names
from tfperf.train.epoch_rows import merge_rows
from tfperf.train.forms import LossForm
from tfperf.train.lanes import LaneLoop, TrainingLane
from tfperf.train.loop import Loop, select_best_weights
from tfperf.train.settings import Settings
from tfperf.train.shards import DeviceStacks, Shard, StackLayout, list_stack_devices, run_parallel, spread
from tfperf.train.stack import StackFactory
from tfperf.train.stack_records import NUMBERS, ROWS, SIZES, SLOTS, merge_states, record_stacks, select_state
from tfperf.train.stopping import ReplicaState

T = TypeVar("T")


class Ensemble:
    """R replicas. Those in stacks train, or have stopped since; the others have stopped or are broken.

    Stacks of several devices take their steps at the same time, and on a CPU as many as there are threads. One whose
    replicas have all stopped takes none.
    """

    def __init__(
        self, settings: Settings, factory: StackFactory, form: LossForm, stacks: int = 1, threads: int | None = None
    ) -> None:
        """stacks: how many there are on a CPU; several devices have one each.

        threads: how many stacks of a device take their steps at the same time; None: what TensorFlow was told.
        """
        if (one := factory.progress_metric) not in (known := [*factory.metrics]):
            raise ValueError(f"{type(factory).__name__}.progress_metric: got {one!r}, must be one of {known}")
        self.settings, self.factory, self.form = settings, factory, form
        self.replicas, self._stacks = factory.replicas, stacks
        self.devices = self._list_devices()
        self.threads = threads or tf.config.threading.get_intra_op_parallelism_threads()  # 0: nobody said how many
        self.device_stacks = self._spread(np.arange(self.replicas))
        self.sizes: list[tuple[int, int]] = [(0, self.replicas)]  # a step, and the slots of all stacks from it on
        self._host: Snapshot = {}  # state of all as last gathered; empty: no step was ever taken
        self._blueprints = {device: Blueprints() for device in (None, *self.devices)}

    def _list_devices(self) -> list[str | None]:
        wanted = getattr(self.form, "stacks", None)
        # of a form whose stacks have one replica each there are as many as replicas
        return list_stack_devices(self.settings.devices, wanted or self._stacks, wanted == self.replicas)

    def _spread(self, indices: ReplicaIndices, slots: Sequence[int] | None = None) -> list[DeviceStacks]:
        return spread(indices, self.devices, self.replicas, slots, self.threads)

    @property
    def shards(self) -> list[Shard]:
        """The stacks of all devices."""
        return [shard for one in self.device_stacks for shard in one.shards]

    @property
    def layout(self) -> StackLayout:
        """How the replicas were cut into stacks at the start, on the device that has most."""
        return max((one.layout for one in self.device_stacks), key=lambda layout: layout.replicas)

    def _run_parallel(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """The results of one call a stack, as many at a time as there are threads for."""
        return run_parallel(calls, sum(one.layout.side for one in self.device_stacks))

    @property
    def largest_loop(self) -> Loop:
        """The loop of the largest stack."""
        return self._get_loop(max(self.shards, key=lambda shard: shard.size))

    def _get_loop(self, shard: Shard) -> Loop:
        """A shard's loop; built when first needed, since a resumed training starts with a smaller one."""
        if shard.loop is None:
            with shard.use_device():
                shard.loop = self._build(shard)
        return shard.loop

    def _format_program_name(self, replicas: int) -> str:
        """The name of the programs of a stack: the same for all that compute the same, here and in other processes."""
        form = self.form
        return f"{form.name}_{form.products}_{replicas}_{self.factory.digest(form)[:12]}"

    def _build(self, shard: Shard) -> Loop:
        stack = self.factory.build(shard.indices, self.form)
        kind = LaneLoop if isinstance(stack, TrainingLane) else Loop
        loop = kind(self.settings, stack, self._format_program_name(shard.size), self._blueprints[shard.device])
        if self._host:
            loop.restore({n: v[shard.indices] if v.ndim else v for n, v in self._host.items()})
        else:
            self.factory.initialize(stack, shard.indices)
        return loop

    def build_side_loops(self) -> list[Loop]:
        """The loops of stacks that take their steps at the same time, the largest among them."""
        shards = sorted(self.device_stacks[0].shards, key=lambda shard: -shard.size)[: self.layout.side]
        return self._run_parallel([partial(self._get_loop, shard) for shard in shards])

    def build_loops(self) -> list[Loop]:
        """The loop of each shard, built side by side."""
        return self._run_parallel([partial(self._get_loop, shard) for shard in self.shards])

    def _list_loops(self) -> list[tuple[Shard, Loop]]:
        return [(shard, shard.loop) for shard in self.shards if shard.loop is not None]

    def _list_busy(self) -> list[Shard]:
        """Stacks that have running replicas."""
        return [shard for shard, n in zip(self.shards, self.count_running_each(self.shards), strict=True) if n]

    def _call_loops(self, call: Callable[[Loop], T]) -> list[tuple[Shard, T]]:
        """A call to the loop of each shard that has running replicas, as many at the same time as there can be."""
        busy = self._list_busy()

        def call_on_device(shard: Shard) -> T:
            loop = self._get_loop(shard)
            with shard.use_device():
                return call(loop)

        return list(zip(busy, self._run_parallel([partial(call_on_device, shard) for shard in busy]), strict=True))

    @property
    def size(self) -> int:
        """Slots of all stacks."""
        return sum(shard.size for shard in self.shards)

    @property
    def busy(self) -> int:
        """Slots of the stacks that take steps."""
        return sum(shard.size for shard in self._list_busy())

    @property
    def step(self) -> int:
        """Steps taken: those of the stacks that still go on."""
        return max([int(loop.step) for _, loop in self._list_loops()] or [int(self._host.get("step", 0))])

    def _gather_states(self) -> Int32Array:
        """Where each replica stands now (R)."""
        state = self._host["stopping/state"].copy() if self._host else np.zeros(self.replicas, np.int32)
        for shard, loop in self._list_loops():
            state[shard.indices] = loop.stopping.state.numpy()
        return state

    def count_running_each(self, held: Sequence[DeviceStacks] | Sequence[Shard]) -> list[int]:
        """Replicas that train, in each of those."""
        running = self._gather_states() == ReplicaState.RUNNING
        return [int(np.sum(running[one.indices])) for one in held]

    def count_running(self) -> int:
        """Replicas that train."""
        return sum(self.count_running_each(self.shards))

    def count_quarantined(self) -> int:
        """Replicas that broke."""
        return int(np.sum(self._gather_states() == ReplicaState.QUARANTINED))

    def is_done(self) -> bool:
        """True when no step is left to take."""
        return self.step >= self.settings.steps or not self.count_running()

    def run(self, count: int, xla: bool) -> None:
        """Take `count` steps, or fewer when every replica has stopped."""
        self._call_loops(lambda loop: loop.run(count, xla))

    def keep_best(self, xla: bool) -> None:
        """Let the weights after the last step be the best ones, too."""
        self._call_loops(lambda loop: loop.keep_best(xla))

    def warm_up(self, xla: bool, losses_xla: bool, show_stage: ShowStage = show_nothing) -> None:
        """Compile what a call needs, the first stack for all that are equal; takes no step."""
        programs: list[Callable[[Loop], Any]] = [lambda loop: loop.run(0, xla)]
        if not self.epoch:
            programs.append(partial(self._evaluate, xla=losses_xla))
        for number, program in enumerate(programs, 1):
            show_stage("compiling", number, len(programs))
            self._call_loops(program)

    def _evaluate(self, loop: Loop, xla: bool) -> dict[str, Float32Array]:
        metrics = loop.evaluate(xla)
        check_metric_names(self.factory, self.factory.metrics, metrics)
        return metrics

    def evaluate(self, xla: bool) -> dict[str, Float32Array]:
        """What the history keeps (R), as of the loops; nan for replicas that stopped."""
        out = {name: np.full(self.replicas, np.nan, np.float32) for name in self.factory.metrics}
        for shard, metrics in self._call_loops(partial(self._evaluate, xla=xla)):
            for name, values in metrics.items():
                out[name][shard.indices] = values
        return out

    def take_rows(self, xla: bool) -> tuple[list[int], dict[str, list[Float32Array]]]:
        """Rows for the history since it was last asked for: the step of each, and (R) of each metric.

        Of stacks that have epochs one for each that has ended, else one, of the weights as they are.
        """
        if not self.epoch:
            return [self.step], {name: [values] for name, values in self.evaluate(xla).items()}
        found = [(shard.indices, rows) for shard, loop in self._list_loops() for rows in loop.take_rows()]
        for _, rows in found:
            check_metric_names(self.factory, self.factory.metrics, rows.metrics)
        return merge_rows(found, self.factory.metrics, self.replicas)

    @property
    def epoch(self) -> int:
        """Steps between validations; 0: each step tells its monitor."""
        return self.largest_loop.stack.epoch

    def gather_state(self) -> Snapshot:
        """State of all replicas now; the scalars are common to all."""
        if not self._host:
            self.build_loops()
        found = [(shard.indices, loop.snapshot()) for shard, loop in self._list_loops()]
        if [len(indices) for indices, _ in found] == [self.replicas]:
            self._host = found[0][1]
            return self._host
        self._host = merge_states(self._host, found, self.replicas)
        return self._host

    def get_best_weights(self) -> ReplicaWeights:
        """Weights by name (R, ...) to be kept."""
        return select_best_weights(self.gather_state())

    def snapshot(self) -> Snapshot:
        """All that decides the future: the state, and who is in which stack."""
        return {**self.gather_state(), **record_stacks(self.shards, self.sizes, self.form.numbers)}

    def restore(self, snapshot: ArraysByName) -> str | None:
        """Go on from a snapshot; ValueError when it is not of such an ensemble.

        Where the snapshot is of another number of stacks its replicas are spread anew; returned is what is to be said
        about that.
        """
        state = select_state(snapshot, self.replicas)
        self.close()
        self._host, indices, slots = state, snapshot[ROWS], snapshot[SLOTS]
        same = len(slots) == len(self.shards) or (len(self.device_stacks) == 1 and len(slots) < len(self.devices))
        self.device_stacks = self._spread(indices, [*map(int, slots)] if same else None)
        self.form = self.form.replace_numbers(tuple(map(int, snapshot[NUMBERS])))
        self.sizes = [(int(step), int(size)) for step, size in snapshot[SIZES]]
        self.build_loops()  # built now: it says whether names and shapes are its own
        if same:
            return None
        return (
            f"replicas were spread over {len(slots)} stacks, are over {len(self.shards)}: "
            "bits may differ from an uninterrupted run"
        )

    def shrink(self, *sizes: int) -> None:
        """Go on with fewer or smaller stacks: slots for each device, which must hold all that run."""
        state = self.gather_state()["stopping/state"]
        kept = [g.select_slots(state[g.indices], size) for g, size in zip(self.device_stacks, sizes, strict=True)]
        step = self.step
        for one, slots in zip(self.device_stacks, kept, strict=True):
            if len(slots) < one.size:
                one.keep(slots)
        self.sizes.append((step, self.size))

    def use(self, form: LossForm) -> None:
        """Go on with another form of the losses."""
        # before the first step a candidate may have built one stack alone: then there is nothing to keep
        if self._host or len(self._list_loops()) == len(self.shards):
            self.gather_state()
        self.close()
        self.form = form

    def exchange(self, form: LossForm, loop: Loop | None) -> tuple[LossForm, Loop] | None:
        """Before the first step: go on with another form, and with its loop for the largest stack where it is given.

        The form before and its loop, which is still good, where it was built.
        """
        largest = max(self.shards, key=lambda shard: shard.size)
        before, left = self.form, largest.loop
        largest.loop = None
        self.close()
        self.form = form
        if (devices := self._list_devices()) != self.devices:
            self.devices = devices
            self.device_stacks = self._spread(np.arange(self.replicas))
            largest = max(self.shards, key=lambda shard: shard.size)
        largest.loop = loop
        return None if left is None else (before, left)

    def close(self) -> None:
        """Free the stacks' memory; the next use builds them again from the state last gathered."""
        for shard in self.shards:
            shard.close()
