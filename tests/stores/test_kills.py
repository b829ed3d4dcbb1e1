"""A process that stores is killed again and again: nothing is lost, nothing is stored twice, the file is the same."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
import tensorflow as tf

import tfperf
from tests.stores import lives
from tests.stores.pipelines import make, read_bytes, store
from tfperf.errors import RunDirectoryError
from tfperf.results.files import remove
from tfperf.stores import writing
from tfperf.stores.element_file import FILE
from tfperf.stores.journal import JOURNAL, StoreJournal


class Lives:
    """Of one store, each ended by a signal, the last one by itself."""

    def __init__(self, folder):
        self.store, self.log = folder / "store", folder / "made.txt"
        self.words = folder / "words.txt"
        with self.words.open("w") as words:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.stores.lives", self.store, self.log], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=words, text=True,
            )  # fmt: skip

    def live(self, wait=None, number=signal.SIGKILL):
        """Exit code of a life; wait: blocks that its journal gains, or seconds, before the signal."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        child = int(self.process.stdout.readline())
        if wait is not None:
            self._wait(wait)
            with suppress(ProcessLookupError):  # it was faster
                os.kill(child, number)
        return int(self.process.stdout.readline())

    def _wait(self, wait):
        until = self.count_blocks() + wait
        end = time.monotonic() + (wait if isinstance(wait, float) else 30)
        while time.monotonic() < end and (isinstance(wait, float) or self.count_blocks() < until):
            time.sleep(0.002)

    def count_blocks(self):
        """Those that the journal has."""
        return len(StoreJournal.read(self.store).checksums)

    def finish(self):
        """Let it end by itself."""
        assert self.live() == 0, self.words.read_text()

    def end(self):
        """Of the process that makes lives."""
        self.process.communicate(timeout=60)


def prove_whole(chain, folder):
    """The file is that of a run without a kill; only what was not in the journal was made again."""
    tfperf.open_store(chain.store, verify=True)
    assert not (chain.store / JOURNAL).exists() and sorted(os.listdir(chain.store)) == [
        FILE, "lock", "sources.txt", "store.json"
    ]  # fmt: skip
    lives.live(folder / "truth", folder / "truth.txt", 0)
    assert (chain.store / FILE).read_bytes() == (folder / "truth" / FILE).read_bytes()
    dataset = lives.make(folder / "rest.txt", 0)
    assert read_bytes(tfperf.open_store(chain.store, pipeline=dataset)) == read_bytes(
        lives.make(folder / "rest.txt", 0)
    )
    counts = Counter(map(int, chain.log.read_text().split()))
    assert set(counts) == set(range(lives.COUNT))
    return sum(counts.values()) - lives.COUNT


@pytest.fixture
def chain(tmp_path):
    found = Lives(tmp_path)
    yield found
    found.end()


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("tfperf.stores.element_file.BLOCK_BYTES", lives.BLOCK)


@pytest.mark.slow
def test_two_kills_cost_what_was_not_in_the_journal(chain, tmp_path, small_blocks):
    codes = [chain.live(5), chain.live(8, signal.SIGTERM)]
    assert codes == [-signal.SIGKILL, 143] and 13 <= chain.count_blocks() < 40
    chain.finish()
    again = prove_whole(chain, tmp_path)
    assert again < 3 * 2 * 8 + 2 * 60  # the first elements are looked at twice; some were on their way


@pytest.mark.slow
def test_half_a_line_and_a_damaged_block_are_made_again(chain, tmp_path, small_blocks):
    chain.live(9)
    plan_blocks = chain.count_blocks()
    with open(chain.store / JOURNAL, "ab") as file:
        file.write(b'00000000 {"first": 9, "checksums": [1')
    content = bytearray((chain.store / FILE).read_bytes())
    place = content.find(np.random.default_rng(20).integers(0, 256, lives.SIZE, np.uint8).tobytes())
    assert place > 0 and plan_blocks >= 9
    content[place] ^= 1
    (chain.store / FILE).write_bytes(content)
    chain.finish()
    prove_whole(chain, tmp_path)


class KilledError(BaseException):
    """In the place of a signal that no program can catch."""


def prove_anew(folder):
    """What a kill has left is no hindrance to another store, nor a part of it."""
    store(folder, make("shuffled"))
    assert sorted(os.listdir(folder)) == [FILE, "lock", "sources.txt", "store.json"]
    assert read_bytes(tfperf.open_store(folder, pipeline=make("shuffled"))) == read_bytes(make("shuffled"))


def fill_longer(i):
    """One element, neither the first nor the last, is longer."""
    return tf.fill((1 + tf.cast(i == 1900, tf.int64),), 1.0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_kill_while_a_faulty_store_is_taken_away(count, tmp_path, monkeypatch):
    calls = []

    def remove_some(path):
        if path.exists():
            calls.append(path)
        if len(calls) > count:
            raise KilledError
        remove(path)

    longer = tf.data.Dataset.range(2000).map(fill_longer, name="prepare")
    with monkeypatch.context() as patch:
        patch.setattr("tfperf.stores.element_file.BLOCK_BYTES", 4000)
        patch.setattr(writing, "SYNC_SECONDS", 0.0)
        patch.setattr(writing, "remove", remove_some)
        with pytest.raises(KilledError):
            store(tmp_path / "store", longer)
    assert len(os.listdir(tmp_path / "store")) == 4 - count
    prove_anew(tmp_path / "store")


@pytest.mark.parametrize("name", ["sources.txt", FILE, "store.json"])
def test_a_kill_while_a_store_begins(name, tmp_path):
    (tmp_path / "store").mkdir()
    for left in ("lock", f".{name}.tmp"):
        (tmp_path / "store" / left).write_text("half")
    prove_anew(tmp_path / "store")


def test_a_kill_before_the_journal_of_a_finished_store_is_taken_away(tmp_path):
    store(tmp_path / "store", make("shuffled"))
    (tmp_path / "store" / JOURNAL).write_text("half")
    prove_anew(tmp_path / "store")


def test_a_journal_of_others_stays(tmp_path):
    (tmp_path / JOURNAL).write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"holds something else \(journal\)"):
        store(tmp_path, make("shuffled"))
    assert (tmp_path / JOURNAL).read_text() == "mine"


@pytest.mark.slow
def test_twenty_kills_at_random_moments(chain, tmp_path, small_blocks):
    draw, ends = random.Random(1), []
    while len(ends) < 20:
        wait = draw.choice([draw.uniform(0.0, 1.5), draw.randint(0, 2)])
        code = chain.live(wait)
        if code == 0:  # it was done before the kill: another store is begun
            prove_whole(chain, tmp_path)
            shutil.rmtree(chain.store)
            chain.log.unlink()
            continue
        assert code == -signal.SIGKILL, chain.words.read_text()
        ends.append((wait, chain.count_blocks()))
    print(ends)
    chain.finish()
    prove_whole(chain, tmp_path)
