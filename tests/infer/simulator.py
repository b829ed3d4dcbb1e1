"""Workers of planted rates that are given work by the real rules, without time passing."""

import heapq
from collections import defaultdict

from tfperf.infer.leases import LeaseBook, Load
from tfperf.infer.pace import IN_FLIGHT, Paces, UnitRule, WorkerPace


class Simulation:
    """Batches of costs through workers. speeds: of each, cost/s as a function of time; fixed: s of a batch."""

    def __init__(self, batches, costs, speeds, *, fixed=0.0, rule=None, ends=(), window=10**9):
        """ends: (time, worker, time of its replacement) of losses; window: batches that are known ahead."""
        self.book, self.paces, self.costs = LeaseBook(), Paces(rule or UnitRule()), costs
        self.waiting, self.window = list(batches), window
        self.speeds, self.fixed, self.events = list(speeds), fixed, []
        self.done, self.now, self.busy, self.units = 0.0, 0.0, defaultdict(float), defaultdict(list)
        self.epoch = defaultdict(int)
        for worker in range(len(speeds)):
            self._push(0.0, "join", worker)
        for time, worker, back in ends:
            self._push(time, "lose", worker)
            if back is not None:
                self.speeds.append(self.speeds[worker])
                self._push(back, "join", len(self.speeds) - 1)

    def _push(self, time, kind, worker, extra=None):
        heapq.heappush(self.events, (time, len(self.events), kind, worker, extra))

    def _get_cost(self, task):
        return self.costs[task.key]

    def _get_load(self, worker):
        costs = [self._get_cost(task) for task in self.book.get_leased(worker)]
        return Load(len(costs), sum(costs))

    def _seconds(self, worker, cost):
        return self.fixed + cost / self.speeds[worker](self.now)

    def _feed(self):
        while self.waiting and self.book.pending_load.batches < self.window:
            self.book.add([self.waiting.pop(0)])

    def _give(self):
        self._feed()
        for worker in sorted(self.alive, key=lambda one: -self._rate(one)):
            was_idle = not self.book.get_leased(worker)
            while len(self.units[worker]) < IN_FLIGHT:
                costs = [self._get_cost(one) for one in self.book.pending]
                backlog = {one: self._get_load(one) for one in self.alive}
                count = self.paces.choose_count(worker, costs, backlog)
                tasks = self.book.lease(worker, count) if count else []
                if not tasks:
                    break
                self.units[worker].append(len(tasks))
                self._feed()
            if was_idle and self.book.get_leased(worker):
                self._begin(worker)

    def _rate(self, worker):
        pace = self.paces.workers[worker]
        return pace.rate if pace.is_known else 0.0

    def _begin(self, worker):
        task = self.book.get_leased(worker)[0]
        self.book.start(worker, task.key)
        seconds = self._seconds(worker, self._get_cost(task))
        self._push(self.now + seconds, "done", worker, (seconds, self.epoch[worker]))

    def run(self):
        """Seconds until all is done."""
        self.alive = set()
        while self.waiting or not self.book.is_idle or not self.alive:
            self.now, _, kind, worker, extra = heapq.heappop(self.events)
            if kind == "join":
                self.alive.add(worker)
                self.book.join(worker)
                self.paces.workers[worker] = WorkerPace()
            elif kind == "lose" and worker in self.alive:
                self.alive.discard(worker)
                self.book.lose(worker, "crashed")
                self.epoch[worker] += 1
                self.units.pop(worker, None)
                del self.paces.workers[worker]
            elif kind == "done" and worker in self.alive and extra[1] == self.epoch[worker]:
                task = self.book.get_leased(worker)[0]
                self.book.finish(worker, task.key)
                cost = self._get_cost(task)
                self.paces.workers[worker].add(cost, extra[0])
                self.done, self.busy[worker] = self.done + cost, self.busy[worker] + extra[0]
                self.units[worker][0] -= 1
                if not self.units[worker][0]:
                    self.units[worker].pop(0)
                if self.book.get_leased(worker):
                    self._begin(worker)
            self._give()
        return self.now
