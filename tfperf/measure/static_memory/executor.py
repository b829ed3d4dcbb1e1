"""Runs a program without its numbers, as TensorFlow's executor would: operations when their inputs are there.

Source: tensorflow/core/common_runtime/executor.cc and propagator_state.cc of TensorFlow 2.21.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tfperf.errors import UnknownSizeError
from tfperf.measure.static_memory.frames import Frame, Iteration, Task, count_enters, find_bounds
from tfperf.measure.static_memory.heap import Heap, Tensor, Value
from tfperf.measure.static_memory.kernels import CONSTANT, Kernels
from tfperf.measure.static_memory.lists import Results
from tfperf.measure.static_memory.program import Node, OptimizedGraph
from tfperf.measure.static_memory.shapes import read_constant

MOST_RUNS = 400_000  # of operations, after which an estimate is given up


class Executor:
    """Tells which operations are ready, and carries one out in two halves: what it allocates, and what it frees.

    results: what a step gives, held for the caller; runs: operations so far; steps: how often it has begun.
    """

    def __init__(self, program: OptimizedGraph, heap: Heap, given: Mapping[str, Value], branch: bool = True) -> None:
        """given: what stands for variables and arguments, by node. branch: what is taken where it is not known."""
        self._nodes, self._given, self._branch = program.nodes, given, branch
        self._heap, self._kernels = heap, Kernels(heap)
        self._wanted, self._enters = program.wanted, count_enters(program.nodes)
        self._bounds = find_bounds(program.nodes)
        self._constants: dict[int, Tensor] = {}
        self._frames: dict[tuple[object, ...], Frame] = {}
        self.results: list[Value] = []
        self.has_unknown_branch, self.runs, self.steps = False, 0, 0
        for node in program.nodes:
            if node.op == "Const" and node.shapes[0] is not None:
                made = heap.make_tensor(node.shapes[0], node.widths[0], node.name, CONSTANT)
                made.value = read_constant(node)
                self._constants[node.index] = made

    def begin(self) -> list[Task]:
        """What is ready before anything has run."""
        self.steps += 1
        root = Iteration(Frame((), None, 1, 0), 0)
        root.frame.iterations[0] = root
        ready = [Task(node, root, False) for node in self._nodes if not node.inputs and not node.waits]
        root.running = len(ready) + 1  # never done
        return ready

    def start(self, task: Task) -> tuple[Results, list[Tensor]]:
        """Results, and what goes when it is done. Raises: UnknownSizeError."""
        self.runs += 1
        if self.runs > MOST_RUNS:
            raise UnknownSizeError(f"more than {MOST_RUNS} operations would run")
        node = task.node
        inputs = task.place.inputs.get(node.index, [])
        if node.op == "Merge":
            return self._merge(node, inputs), []
        if node.op in ("Switch", "RefSwitch"):
            return self._switch(node, inputs), []
        if node.op in ("Enter", "Exit", "NextIteration"):
            assert inputs[0] is not None
            self._heap.keep(inputs[0])
            return [inputs[0]], []
        if node.op == "Const" and node.index in self._constants:
            self._heap.keep(self._constants[node.index])
            return [self._constants[node.index]], []
        if node.name in self._given:
            self._heap.keep(self._given[node.name])
            return [self._given[node.name]], []
        if node.op == "Placeholder":
            raise UnknownSizeError(f"the argument {node.name} has no shape")
        results, temporary = self._kernels.run(node, [one for one in inputs if one is not None])
        if node.index in self._bounds:
            _settle_condition(results[0], inputs)
        return results, temporary

    def finish(self, task: Task, results: Results, temporary: Sequence[Tensor]) -> list[Task]:
        """Free what nobody needs any more; what is ready now."""
        for one in temporary:
            self._heap.release(one)
        for given in task.place.inputs.pop(task.node.index, []):
            if given is not None:
                self._heap.release(given)
        ready: list[Task] = []
        self._send_results(task, results, ready)
        task.place.running -= 1
        self._close(task.place, ready)
        return ready

    def _merge(self, node: Node, inputs: Sequence[Value | None]) -> Results:
        given = next(one for one in inputs if one is not None)
        self._heap.keep(given)
        if len(node.widths) < 2 or not any(port == 1 for port, _, _ in node.edges):
            return [given, None]
        return [given, self._heap.make_tensor((), 4, node.name, "result")]

    def _switch(self, node: Node, inputs: Sequence[Value | None]) -> Results:
        given, which = inputs
        assert given is not None
        self._heap.keep(given)
        value = which.value if isinstance(which, Tensor) else None
        if value is None:
            if self._nodes[node.inputs[1][0]].op == "LoopCond":
                raise UnknownSizeError(f"how often the loop of {node.name} runs is not known before it does")
            self.has_unknown_branch = True
        is_taken = self._branch if value is None else bool(value)
        return [None, given] if is_taken else [given, None]

    def _send_results(self, task: Task, results: Results, ready: list[Task]) -> None:
        node, place = task.node, task.place
        if node.op == "Enter":
            self._send_into_frame(node, place, None if task.dead else results[0], ready)
        elif node.op == "Exit":
            if task.dead:
                if place.index == place.frame.last:
                    place.frame.dead_exits.append(node)
            else:
                assert place.frame.parent is not None
                self._give_results(place.frame.parent, node, results, False, ready)
        elif node.op == "NextIteration":
            if not task.dead:
                self._send_onward(node, place, results[0], ready)
        else:
            self._give_results(place, node, results, task.dead, ready)

    def _send_into_frame(self, node: Node, place: Iteration, value: Value | None, ready: list[Task]) -> None:
        key = (id(place), node.attr["frame_name"].s)
        frame = self._frames.get(key)
        if frame is None:
            frame = Frame(key, place, int(node.attr["parallel_iterations"].i), self._enters[key[1]])
            frame.iterations[0] = Iteration(frame, 0)
            self._frames[key] = frame
            place.running += 1
        frame.enters -= 1
        if node.attr["is_constant"].b and value is not None:
            frame.constant.append((node, value))
            for iteration in list(frame.iterations.values()):
                self._heap.keep(value)
                self._give_results(iteration, node, [value], False, ready)
        else:
            self._give_results(frame.iterations[0], node, [value], value is None, ready)
        if 0 in frame.iterations:
            self._close(frame.iterations[0], ready)

    def _send_onward(self, node: Node, place: Iteration, value: Value | None, ready: list[Task]) -> None:
        frame = place.frame
        assert value is not None
        if place.index < frame.last:
            self._give_results(frame.iterations[place.index + 1], node, [value], False, ready)
        elif len(frame.iterations) >= frame.most:
            frame.waiting.append((node, value))
        else:
            self._begin_iteration(frame, ready)
            self._give_results(frame.iterations[frame.last], node, [value], False, ready)

    def _begin_iteration(self, frame: Frame, ready: list[Task]) -> None:
        frame.last += 1
        frame.dead_exits.clear()
        made = frame.iterations[frame.last] = Iteration(frame, frame.last)
        waiting, frame.waiting = frame.waiting, []
        for node, value in waiting:
            self._give_results(made, node, [value], False, ready)
        for node, value in frame.constant:
            self._heap.keep(value)
            self._give_results(made, node, [value], False, ready)

    def _close(self, place: Iteration, ready: list[Task]) -> None:
        """Forget an iteration that is done, and those behind it; after the last the frame."""
        frame = place.frame
        while not place.running and frame.parent is not None:
            if frame.enters if place.index == 0 else place.index - 1 in frame.iterations:
                return
            if frame.iterations.pop(place.index, None) is None:
                return
            for given in place.inputs.values():
                self._release(given)
            if frame.waiting:
                self._begin_iteration(frame, ready)
            after = frame.iterations.get(place.index + 1)
            if after is None:
                if not frame.iterations:
                    self._end(frame, ready)
                return
            place = after

    def _end(self, frame: Frame, ready: list[Task]) -> None:
        assert frame.parent is not None
        del self._frames[frame.key]
        for _, value in frame.constant:
            self._heap.release(value)
        for node in frame.dead_exits:
            self._give_results(frame.parent, node, [], True, ready)
        frame.parent.running -= 1
        self._close(frame.parent, ready)

    def _give_results(self, place: Iteration, node: Node, results: Results, dead: bool, ready: list[Task]) -> None:
        """Give results to those that take them. The caller's reference of each goes."""
        for port, target, slot in node.edges:
            value = None if dead or port >= len(results) else results[port]
            self._deliver(place, self._nodes[target], slot, value, ready)
        for target in node.controls:
            self._deliver(place, self._nodes[target], -1, None, ready, dead)
        for port, value in enumerate(() if dead else results):
            if value is not None:
                if (node.index, port) in self._wanted:
                    self._heap.keep(value)
                    self.results.append(value)
                self._heap.release(value)

    def _deliver(
        self, place: Iteration, node: Node, slot: int, value: Value | None, ready: list[Task], dead: bool = False
    ) -> None:
        """slot: -1 of a control edge, of which `dead` tells whether it is dead."""
        key = node.index
        if node.op == "Merge":
            self._deliver_to_merge(place, node, slot, value, ready)
            return
        left = place.waits.get(key, len(node.inputs) + node.waits) - 1
        place.waits[key] = left
        if dead if slot < 0 else value is None:
            place.dead[key] = 1
        if slot >= 0 and value is not None:
            self._heap.keep(value)
            place.inputs.setdefault(key, [None] * len(node.inputs))[slot] = value
        if left == 0:
            self._make_ready(place, node, bool(place.dead.pop(key, 0)), ready)

    def _deliver_to_merge(
        self, place: Iteration, node: Node, slot: int, value: Value | None, ready: list[Task]
    ) -> None:
        """It is ready with the first value; with none when all its inputs are dead."""
        key = node.index
        left = place.waits.get(key, 1 + 2 * node.waits)
        if slot < 0:
            left -= 2
            place.waits[key] = left
            if left == 0 or (left == 1 and place.dead.get(key, 0) == len(node.inputs)):
                self._make_ready(place, node, left == 1, ready)
        elif value is None:
            place.dead[key] = place.dead.get(key, 0) + 1
            if place.dead[key] == len(node.inputs) and left == 1:
                self._make_ready(place, node, True, ready)
        elif left & 1:
            place.waits[key] = left - 1
            self._heap.keep(value)
            place.inputs.setdefault(key, [None] * len(node.inputs))[slot] = value
            if left == 1:
                self._make_ready(place, node, False, ready)

    def _make_ready(self, place: Iteration, node: Node, dead: bool, ready: list[Task]) -> None:
        place.waits.pop(node.index, None)
        place.running += 1
        ready.append(Task(node, place, dead))

    def _release(self, given: Sequence[Value | None]) -> None:
        for one in given:
            if one is not None:
                self._heap.release(one)


def _settle_condition(condition: Value | None, parts: Sequence[Value | None]) -> None:
    """A loop that may end sooner than its count says goes on as long as all that is known of its condition is true."""
    known = [one.value for one in parts if isinstance(one, Tensor) and one.value is not None]
    if isinstance(condition, Tensor) and condition.value is None and known:
        condition.value = np.array(all(map(bool, known)))
