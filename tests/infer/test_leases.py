"""All orders of finishing, failing, losing and joining: each record comes out exactly once, or is marked."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfperf.infer.leases import MOST_DEPARTURES, MOST_LOSSES, LeaseBook, Mode
from tfperf.infer.micro_batches import BatchRule, cut_window

WINDOW = 12


class Play:
    """Workers that run tasks of a book; some records are bad, and workers die of nothing, too."""

    def __init__(self, lengths, bad, per_batch):
        self.book, self.bad, self.rows, self.held, self.losses = LeaseBook(), bad, {}, {}, 0
        self.batches = [one for w, part in enumerate(lengths) for one in cut_window(w, part, BatchRule(per_batch))]
        self.next_worker, self.workers = 0, []

    def join(self):
        self.book.join(self.next_worker)
        self.workers.append(self.next_worker)
        self.next_worker += 1

    def lose(self, worker, reason="crashed"):
        self.workers.remove(worker)
        self.losses += 1
        self.book.lose(worker, reason)

    def run(self, worker, dies_at=None):
        """The task that it is at; dies_at: before so many records of a task, which is no record's fault."""
        task = self.book.get_leased(worker)[0]
        if not task.is_single:
            self.book.start(worker, task.key)
            kinds = {self.bad.get((task.batch.window, one)) for one in task.batch.records} - {None}
            if dies_at is not None or kinds & {"crashed", "hung"}:
                return self.lose(worker)
            if kinds:
                return self.book.raise_batch(worker, task.key, "bad")
            assert self.book.finish(worker, task.key)
            return self.keep(task, {one: "whole" for one in task.batch.records})
        for place, one in enumerate(task.records):
            if dies_at == place:
                return self.lose(worker)  # between two records
            self.book.start(worker, task.key, one)
            kind = self.bad.get((task.batch.window, one))
            if kind in ("crashed", "hung"):
                return self.lose(worker, kind)
            if kind == "raised":
                self.book.fail_record(worker, task.key, one, "bad")
                continue
            self.book.pass_record(worker, task.key, one)
            self.held.setdefault(task.key, {})[one] = "single"
        held = self.held.pop(task.key, {})
        if self.book.finish(worker, task.key):
            self.keep(task, held)

    def keep(self, task, rows):
        for one, how in rows.items():
            assert (task.batch.window, one) not in self.rows, "a record came out twice"
            self.rows[task.batch.window, one] = how

    def end(self):
        """Until all is done; in a bounded number of turns."""
        for _ in range(20 * WINDOW * len(self.batches) + 20):
            if self.book.is_idle:
                return
            if not self.workers:
                self.join()
            worker = self.workers[0]
            if not self.book.get_leased(worker) and not self.book.lease(worker, 2):
                worker = next(one for one in self.workers if self.book.get_leased(one))
            self.run(worker)
        raise AssertionError("it does not end")


moves = st.lists(st.tuples(st.sampled_from(["join", "lease", "run", "die", "add"]), st.integers(0, 7)), max_size=60)
records = st.tuples(st.integers(0, 1), st.integers(0, WINDOW - 1))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=WINDOW), min_size=1, max_size=2),
    st.dictionaries(records, st.sampled_from(["raised", "crashed", "hung"]), max_size=4), st.integers(1, 5), moves,
)  # fmt: skip
def test_each_record_comes_out_once_or_is_marked(lengths, bad, per_batch, played):
    play, added = Play(lengths, bad, per_batch), 0
    for move, number in played:
        worker = play.workers[number % len(play.workers)] if play.workers else None
        if move == "add" and added < len(play.batches):
            play.book.add(play.batches[added : added + 2])
            added += 2
        elif move == "join":
            play.join()
        elif worker is not None and move == "lease":
            play.book.lease(worker, 1 + number % 3)
        elif worker is not None and move == "run" and play.book.get_leased(worker):
            play.run(worker, dies_at=number if number < 3 else None)
        elif worker is not None and move == "die":
            play.lose(worker)
    play.book.add(play.batches[added:])
    play.end()
    everything = {(window, one) for window, part in enumerate(lengths) for one in range(len(part))}
    wrong = {key for key in bad if key in everything}
    marked = {(one.window, one.number): one.reason for one in play.book.failures}
    assert marked == {key: bad[key] for key in wrong} and len(marked) == len(play.book.failures)
    assert set(play.rows) == everything - wrong
    # what is computed otherwise than whole shares a batch with a record that failed
    spoilt = {(one.window, n) for one in play.batches if any((one.window, n) in wrong for n in one.records)
              for n in one.records}  # fmt: skip
    assert {key for key, how in play.rows.items() if how == "single"} == spoilt - wrong


def make_book(count=4, per_batch=2):
    book = LeaseBook()
    book.add(cut_window(0, [1] * count, BatchRule(per_batch)))
    book.join(0)
    return book


def test_a_bad_record_costs_two_losses_and_no_more():
    play = Play([[1] * 10], {(0, 4): "hung"}, 5)
    play.book.add(play.batches)
    play.end()
    assert play.losses == 2 and [one.number for one in play.book.failures] == [4] and len(play.rows) == 9


def test_a_batch_that_fails_whole_and_whose_records_do_not_is_kept_as_it_came():
    book = make_book(2)
    for how in (Mode.WHOLE, Mode.AGAIN):
        (task,) = book.lease(0, 9)
        assert task.mode is how
        book.start(0, task.key)
        book.raise_batch(0, task.key, "out of memory")
        (task,) = book.lease(0, 9)
        for one in task.records:
            book.start(0, task.key, one)
            book.pass_record(0, task.key, one)
        assert book.finish(0, task.key) is (how is Mode.AGAIN)
    assert book.is_idle and not book.failures


def test_workers_that_die_of_nothing_leave_no_trace():
    book = make_book(2)
    for loss in range(MOST_LOSSES):
        (task,) = book.lease(loss, 1)
        assert task.mode is (Mode.AGAIN if loss else Mode.WHOLE)
        book.start(loss, task.key)
        book.lose(loss, "crashed")
        book.join(loss + 1)
        (task,) = book.lease(loss + 1, 1)
        assert task.mode is (Mode.ACCEPTED if loss + 1 == MOST_LOSSES else Mode.SINGLY)
        assert book.finish(loss + 1, task.key) is (loss + 1 == MOST_LOSSES)


def test_the_loss_of_a_machine_is_no_records_fault_unless_it_is_lost_over_and_over():
    book = make_book(2)
    for worker in range(MOST_DEPARTURES + 2):
        (task,) = book.lease(worker, 1)
        assert task.mode is (Mode.WHOLE if worker <= MOST_DEPARTURES else Mode.SINGLY)
        record = task.records[0] if task.is_single else None
        book.start(worker, task.key, record)
        failed = book.lose(worker, "gone", "left")
        assert (failed is not None) is (worker > MOST_DEPARTURES)
        book.join(worker + 1)
    assert [(one.number, one.reason) for one in book.failures] == [(0, "crashed")]


def test_suspects_are_leased_alone():
    book = make_book(6)
    assert len(book.lease(0, 2)) == 2
    book.start(0, (0, 0))
    book.lose(0, "crashed")
    book.join(1)
    assert [one.mode for one in book.lease(1, 9)] == [Mode.SINGLY] and not book.lease(1, 9)


def test_reports_of_others_are_refused():
    book = make_book()
    book.lease(0, 1)
    with pytest.raises(ValueError, match="worker 0 reports batch"):
        book.finish(0, (3, 3))
    with pytest.raises(ValueError, match="there already"):
        book.join(0)
