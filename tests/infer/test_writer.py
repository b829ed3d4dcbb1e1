"""Rows on the disk: what the journal says is there is there, whatever was lost; nothing is there twice."""

import errno
import os
import random
import threading
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from tfperf.errors import RunDirectoryError, StorageError
from tfperf.infer import writer as infer_writer
from tfperf.infer.dataset_names import STATUS_CODES
from tfperf.infer.journal import JOURNAL, CommitProgress, group_failures, number_records, read_journal
from tfperf.infer.leases import RecordFailure
from tfperf.infer.output_file import OutputFile, OutputPlan, OutputSpec, create_output
from tfperf.infer.writer import Rows, RowWriter, recover
from tfperf.results import files, line_journal

RECORDS, WINDOW = 50, 16
PLAN = OutputPlan(RECORDS, (OutputSpec("rows", (3,), "float32"), OutputSpec("score", (), "float16")), "<i8",
                {"model_sha256": "abc"})  # fmt: skip


def make_truth():
    draws = np.random.default_rng(1)
    return {"rows": draws.normal(size=(RECORDS, 3)).astype("f4"), "score": draws.normal(size=RECORDS).astype("f2")}


def make_rows(window, numbers, failed=()):
    truth, records = make_truth(), np.asarray(numbers) + window * WINDOW
    values = {name: array[records] for name, array in truth.items()}
    for place, number in enumerate(numbers):
        if number in failed:
            for array in values.values():
                array[place] = np.nan
    failures = tuple(RecordFailure(window, number, "hung", "no answer") for number in failed)
    return Rows(window, tuple(numbers), values, 1000 + records, failures)


def cut_in_batches(seed):
    """All records as they come in: batches of windows, mixed."""
    draws, found = random.Random(seed), []
    for window in range(-(-RECORDS // WINDOW)):
        numbers = list(range(min(WINDOW, RECORDS - window * WINDOW)))
        draws.shuffle(numbers)
        found += [make_rows(window, numbers[first : first + 5]) for first in range(0, len(numbers), 5)]
    draws.shuffle(found)
    return found


def write_all(folder, batches, clock=None):
    """Go on where the journal is; the progress."""
    progress = CommitProgress(WINDOW, RECORDS)
    recover(folder, progress)
    ticks = iter(range(10**6))
    with OutputFile(folder / "out.h5", PLAN, is_written=True) as file:
        writer = RowWriter(file, folder, progress, clock=clock or (lambda: float(next(ticks))))
        for rows in batches:
            done = progress.get_done(rows.window)
            left = [number for number in rows.numbers if not done[number]]
            if left:
                writer.add(make_rows(rows.window, left))
        writer.finish()
    return progress


def check_finished(path):
    with h5py.File(path) as file:
        for name, array in make_truth().items():
            np.testing.assert_array_equal(file[name][:], array)
        np.testing.assert_array_equal(file["ids"][:], 1000 + np.arange(RECORDS))
        assert np.all(file["status"][:] == STATUS_CODES["done"]) and file["finished"][0] == 1
        assert file.attrs["model_sha256"] == "abc" and file["rows"].attrs["units"] == "1"


def test_a_finished_file_is_plain_hdf5(tmp_path):
    create_output(tmp_path / "out.h5", PLAN)
    assert write_all(tmp_path, cut_in_batches(0)).is_complete
    check_finished(tmp_path / "out.h5")


class Disk:
    """What is written, in order, so that parts of it can be lost."""

    def __init__(self, monkeypatch, path):
        self.path, self.moves = path, []
        self.write, self.append = os.pwrite, files.append
        monkeypatch.setattr(os, "pwrite", self.note_write)
        monkeypatch.setattr(os, "fdatasync", self.note_sync)
        monkeypatch.setattr(line_journal, "append", self.note_append)

    def note_write(self, file, content, offset):
        self.moves.append(("write", offset, bytes(content)))
        return self.write(file, content, offset)

    def note_sync(self, file):
        if threading.current_thread() is threading.main_thread():  # one beside the writes promises nothing of them
            self.moves.append(("sync",))

    def note_append(self, path, text):
        self.moves.append(("append", text))
        self.append(path, text)

    def replay(self, folder, first, until, draws):
        """The disk as a loss of power after so many moves may leave it: `first` is the file before all."""
        content, journal = bytearray(first), ""
        synced = max([0, *(place for place, move in enumerate(self.moves[:until]) if move[0] == "sync")])
        for place, move in enumerate(self.moves[:until]):
            if move[0] == "write" and (place < synced or draws.random() < 0.5):
                content[move[1] : move[1] + len(move[2])] = move[2]
            elif move[0] == "append":
                is_last = place == until - 1  # its sync may not have ended
                journal += move[1][: draws.randrange(len(move[1]))] if is_last else move[1]
        (folder / "out.h5").write_bytes(content)
        (folder / JOURNAL).write_text(journal)


def test_a_loss_of_power_at_any_point_loses_nothing_that_the_journal_has(tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    whole.mkdir()
    create_output(whole / "out.h5", PLAN)
    first = (whole / "out.h5").read_bytes()
    monkeypatch.setattr(infer_writer, "HELD_BYTES", 100)  # so that much is written, and begun to be synced, before
    with monkeypatch.context() as patch:
        disk = Disk(patch, whole / "out.h5")
        write_all(whole, cut_in_batches(1))
    assert len([move for move in disk.moves if move[0] == "append"]) > 2
    draws = random.Random(2)
    for until in range(len(disk.moves) + 1):
        folder = tmp_path / str(until)
        folder.mkdir()
        disk.replay(folder, first, until, draws)
        progress = CommitProgress(WINDOW, RECORDS)
        recover(folder, progress)
        with OutputFile(folder / "out.h5", PLAN) as file:
            for entry, _ in read_journal(folder / JOURNAL):
                if entry is not None:
                    assert file.compute_checksum(number_records(entry, WINDOW)) == entry.checksum
        assert write_all(folder, cut_in_batches(3)).is_complete
        check_finished(folder / "out.h5")


def test_what_the_disk_refuses_beside_the_writes_ends_the_run(tmp_path, monkeypatch):
    create_output(tmp_path / "out.h5", PLAN)
    refused = []

    def refuse_once(file):
        if not refused and threading.current_thread() is not threading.main_thread():
            refused.append(file)
            raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fdatasync", refuse_once)
    monkeypatch.setattr(infer_writer, "HELD_BYTES", 100)
    with pytest.raises(StorageError, match="could not be written"):
        write_all(tmp_path, cut_in_batches(1), clock=lambda: 0.0)
    again = CommitProgress(WINDOW, RECORDS)
    assert refused and recover(tmp_path, again) == 0 and again.count < RECORDS


def test_ids_that_are_texts_have_room_for_the_longest_of_all(tmp_path):
    plan = OutputPlan(RECORDS, PLAN.outputs, "|S4")
    create_output(tmp_path / "out.h5", plan)
    progress = CommitProgress(WINDOW, RECORDS)
    with OutputFile(tmp_path / "out.h5", plan, is_written=True) as file:
        writer = RowWriter(file, tmp_path, progress)
        for rows in cut_in_batches(7):
            writer.add(replace(rows, ids=np.array([f"k{n - 1000}".encode() for n in rows.ids])))
        writer.finish()
    with h5py.File(tmp_path / "out.h5") as file:
        assert list(file["ids"][:]) == [f"k{n}".encode() for n in range(RECORDS)]


def test_what_failed_is_marked_with_its_reason(tmp_path):
    create_output(tmp_path / "out.h5", PLAN)
    progress = CommitProgress(WINDOW, RECORDS)
    with OutputFile(tmp_path / "out.h5", PLAN, is_written=True) as file:
        writer = RowWriter(file, tmp_path, progress)
        writer.add(make_rows(1, [4, 2, 3], failed=[3]))
        with pytest.raises(ValueError, match="47 records are missing"):
            writer.finish()
    again = CommitProgress(WINDOW, RECORDS)
    assert recover(tmp_path, again) == 0 and again.count == 3 and group_failures(again.failures) == {"hung": 1}
    assert list(np.flatnonzero(again.get_done(1))) == [2, 3, 4] and [*again.list_open()] == [0, 1, 2, 3]
    with h5py.File(tmp_path / "out.h5") as file:
        assert list(file["status"][18:21]) == [1, STATUS_CODES["hung"], 1] and np.all(np.isnan(file["rows"][19]))
        assert file["finished"][0] == 0


def test_a_flipped_byte_is_seen(tmp_path):
    create_output(tmp_path / "out.h5", PLAN)
    write_all(tmp_path, cut_in_batches(4))
    (entry, *_) = [entry for entry, _ in read_journal(tmp_path / JOURNAL) if entry is not None]
    records = number_records(entry, WINDOW)
    for name, size in (("rows", 12), ("score", 2), ("ids", 8), ("status", 1)):
        with h5py.File(tmp_path / "out.h5") as file:
            place = file[name].id.get_offset() + int(records[-1]) * size
        content = bytearray((tmp_path / "out.h5").read_bytes())
        content[place] ^= 1
        (tmp_path / "bad.h5").write_bytes(content)
        with OutputFile(tmp_path / "bad.h5", PLAN) as file:
            assert file.compute_checksum(records) != entry.checksum
    text = bytearray((tmp_path / JOURNAL).read_bytes())
    text[20] ^= 1
    (tmp_path / JOURNAL).write_bytes(text)
    assert recover(tmp_path, CommitProgress(WINDOW, RECORDS)) == 1


def test_a_full_disk_stops_and_the_same_goes_on(tmp_path, monkeypatch):
    create_output(tmp_path / "out.h5", PLAN)
    write, left = os.pwrite, [20]

    def fill_up(file, content, offset):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return write(file, content, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fill_up)
        with pytest.raises(StorageError, match="no space left"):
            write_all(tmp_path, cut_in_batches(5))
    write_all(tmp_path, cut_in_batches(6))
    check_finished(tmp_path / "out.h5")


def test_a_record_is_not_written_twice():
    progress = CommitProgress(WINDOW, RECORDS)
    entry = next(iter([make_entry(0, (1, 2))]))
    progress.add(entry)
    with pytest.raises(ValueError, match="there twice"):
        progress.add(make_entry(0, (2, 5)))
    with pytest.raises(ValueError, match="has no record"):
        progress.add(make_entry(3, (2,)))


def make_entry(window, numbers):
    from tfperf.infer.journal import JournalEntry

    return JournalEntry(window, numbers, 0)


def test_another_file_is_refused(tmp_path):
    create_output(Path(tmp_path / "out.h5"), OutputPlan(7, PLAN.outputs, "<i8"))
    with pytest.raises(RunDirectoryError, match="another shape"):
        OutputFile(tmp_path / "out.h5", PLAN)
