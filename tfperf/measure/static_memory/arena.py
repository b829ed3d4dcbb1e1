"""How TensorFlow's best-fit allocator (BFC) lays tensors into one region: which chunk each gets, and what that counts.

Source: tensorflow/third_party/xla/xla/tsl/framework/bfc_allocator.cc of TensorFlow 2.21. What it tells as bytes in use
are whole chunks: a free chunk that is less than twice too large is not split.
"""

from bisect import bisect_left, insort

ROUNDING = 256  # bytes
MOST_WASTE = 128 * 2**20  # of a chunk that is not split


class Arena:
    """One region without an end. The free chunk of the least size is taken, of equal ones that of the lowest address.

    >>> arena = Arena()
    >>> first, _ = arena.allocate(1000), arena.allocate(100)
    >>> arena.in_use
    1280
    >>> arena.release(first)
    >>> arena.allocate(600), arena.in_use
    (0, 1280)
    """

    def __init__(self) -> None:
        self.in_use = 0
        self._sizes: dict[int, int] = {}  # of chunks in use, by address
        self._end = 0  # what is behind has never been used
        self._free: list[tuple[int, int]] = []  # (size, address), sorted
        self._starts: dict[int, int] = {}  # sizes of free chunks by their address
        self._ends: dict[int, int] = {}  # their addresses by their end

    def allocate(self, size: int) -> int:
        """The address of a chunk for so many bytes; an empty tensor takes none, and gets -1."""
        if size == 0:
            return -1
        wanted = round_size(size)
        place = bisect_left(self._free, (wanted, -1))
        if place == len(self._free):
            address, self._end = self._take_end(wanted), self._end
            got = wanted
        else:
            got, address = self._free[place]
            self._remove(got, address)
            if got >= 2 * wanted or got - wanted >= MOST_WASTE:
                self._insert(got - wanted, address + wanted)
                got = wanted
        self._sizes[address] = got
        self.in_use += got
        return address

    def release(self, address: int) -> None:
        """Give a chunk back; free ones beside it become one with it."""
        if address < 0:
            return
        size = self._sizes.pop(address)
        self.in_use -= size
        end = address + size
        if (after := self._starts.get(end)) is not None:
            self._remove(after, end)
            end += after
        if (before := self._ends.get(address)) is not None:
            self._remove(address - before, before)
            address = before
        if end == self._end:
            self._end = address
        else:
            self._insert(end - address, address)

    def get_size(self, address: int) -> int:
        """Bytes of the chunk in use at an address."""
        return self._sizes.get(address, 0)

    def _take_end(self, wanted: int) -> int:
        address = self._end
        self._end += wanted
        return address

    def _insert(self, size: int, address: int) -> None:
        insort(self._free, (size, address))
        self._starts[address] = size
        self._ends[address + size] = address

    def _remove(self, size: int, address: int) -> None:
        del self._free[bisect_left(self._free, (size, address))]
        del self._starts[address], self._ends[address + size]


def round_size(size: int) -> int:
    """Bytes of the smallest chunk that holds so many."""
    return -(-size // ROUNDING) * ROUNDING
