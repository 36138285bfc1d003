"""Finds the unused bytes of a SQLite file, by its format (https://www.sqlite.org/fileformat2.html)."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error

MAGIC = b"SQLite format 3\0"
LOCK_BYTE = 0x40000000
"""SQLite uses the page at this offset for locks only."""

TABLE, INDEX, LEAF = 5, 2, 8
"""Types of pages; LEAF is set in the type of leaf pages."""
ROOT, FREE, OVERFLOW_HEAD, OVERFLOW, CHILD = 1, 2, 3, 4, 5
"""The page types of the pointer map."""

ZEROS = bytes(65536)
HEADER, BLOCK, NUMBER, TRUNK, LINK = map(Struct, (">BHHHB", ">HH", ">I", ">II", ">BI"))


class Refused(Exception):
    """The file does not have exactly the expected format. Nothing was written."""


class Walk:
    """Visits every page of a database once. Refused if anything does not have exactly the documented format."""

    def __init__(self, data: mmap.mmap, *, lock_byte: int = LOCK_BYTE) -> None:
        self.data = data
        self.freelist = 0
        self.stale: dict[int, list[tuple[int, int]]] = {}
        """By page, its unused ranges that are not all zero."""
        self._pointers: dict[int, Struct] = {}
        self._read_header()
        self._taken = bytearray(self.pages + 1)
        self._links = bytearray(5 * (self.pages + 1) if self._largest_root else 0)
        """The expected contents of the pointer map."""
        self._lock_page = lock_byte // self.size + 1

    def run(self) -> None:
        """Walks the whole file."""
        maps = self._take_fixed_pages()
        roots = self._schema(self._tree(1))
        for root in roots:
            self._tree(root)
        self._free_pages()
        if self._largest_root:
            if self._largest_root != max(roots, default=1):
                raise Refused("the largest root page in the header differs from the schema")
            for number in maps:
                self._pointer_map(number)
        lost = self._taken.find(0, 1)
        if lost > 0:
            raise Refused(f"page {lost} is not in use and not free")
        if self.usable < self.size:
            self._reserved()

    def visit(self, numbers: Iterable[int]) -> None:
        """Checks only these pages, each by its type in the pointer map, and the list of free pages."""
        if not self._largest_root:
            self.run()  # without a pointer map, only a walk over everything shows the type of a page
            return
        self._free_pages()
        wanted = {one for one in numbers if 0 < one <= self.pages and one != self._lock_page and not self._taken[one]}
        maps = set(filter(self.is_map, wanted))
        for number in maps:
            self._pointer_map(number, compare=False)
        for number in self._owners(wanted - maps):
            self._tree_page(number, [])

    def _owners(self, numbers: set[int]) -> set[int]:
        """The pages of b-trees among these pages, and those whose rows continue on the other pages."""
        owners, seen = set(), set()
        for number in numbers:
            while number not in seen:
                seen.add(number)
                at = self._map_of(number)
                link, above = LINK.unpack_from(self._page(at), 5 * (number - at - 1)) if number > 1 else (ROOT, 0)
                if link in (ROOT, CHILD):
                    owners.add(number)
                elif link in (OVERFLOW_HEAD, OVERFLOW) and 0 < above <= self.pages:
                    number = above  # noqa: PLW2901
                else:
                    raise Refused(f"page {number} has a wrong type in the pointer map")
        return owners

    def is_map(self, number: int) -> bool:
        """True for a page of the pointer map. How much of it is in use depends on the size of the file."""
        return bool(self._largest_root) and number == self._map_of(number)

    def _map_of(self, number: int) -> int:
        """The page of the pointer map with the entry of a page. A page of the map itself has none."""
        span = self.usable // 5 + 1
        at = (number - 2) // span * span + 2
        return at + (at == self._lock_page)

    def _read_header(self) -> None:
        head = self.data[:100]
        if len(head) < 100 or head[:16] != MAGIC:
            raise Refused("it is not a SQLite database")
        self.size = int.from_bytes(head[16:18], "big")
        self.size = 65536 if self.size == 1 else self.size
        if self.size < 512 or self.size & (self.size - 1):
            raise Refused(f"the page size is {self.size}")
        self.usable = self.size - head[20]
        if self.usable < 480 or head[21:24] != b"\x40\x20\x20" or any(head[72:92]):
            raise Refused("the header is malformed")
        numbers = Struct(">25I").unpack(head)
        self.pages, self._trunk, self._free_count, self._largest_root = *numbers[7:10], numbers[13]
        if numbers[6] != numbers[23] or self.pages * self.size != len(self.data):
            raise Refused("the size of the file differs from the header")
        # Rows up to these lengths are stored in their page; longer ones with at least `_least` bytes there.
        self._most_table = self.usable - 35
        self._most_index = (self.usable - 12) * 64 // 255 - 23
        self._least = (self.usable - 12) * 32 // 255 - 23

    def _take_fixed_pages(self) -> list[int]:
        """Takes the pages at fixed positions; returns those of the pointer map."""
        if self._lock_page <= self.pages:
            self._take(self._lock_page, 0, 0)
            self._unused(self._lock_page, self._page(self._lock_page), 0, self.usable)
        if not self._largest_root:
            return []
        maps = range(2, self.pages + 1, self.usable // 5 + 1)
        numbers = [number + (number == self._lock_page) for number in maps]
        for number in numbers:
            self._take(number, 0, 0)
        return numbers

    def _take(self, number: int, link: int, owner: int) -> None:
        """Marks a page as used by `owner`. A page has only one owner."""
        if not 0 < number <= self.pages:
            raise Refused(f"page {owner} refers to page {number}, which does not exist")
        if self._taken[number]:
            raise Refused(f"page {owner} refers to page {number}, which has another owner")
        self._taken[number] = 1
        if self._links:
            LINK.pack_into(self._links, 5 * number, link, owner)

    def _page(self, number: int) -> bytes:
        return self.data[(number - 1) * self.size : number * self.size]

    def _unused(self, number: int, page: bytes, start: int, end: int) -> None:
        """Records an unused range of a page, if it is not all zero."""
        if not ZEROS.startswith(page[start:end]):
            self.stale.setdefault(number, []).append((start, end))

    # -- b-trees

    def _tree(self, root: int) -> list[int]:
        """Visits a b-tree level by level; returns its leaves."""
        self._take(root, ROOT, 0)
        level, family = [root], 0
        while True:
            below: list[int] = []
            kinds = {self._tree_page(number, below) for number in level}
            kind = kinds.pop()
            if kinds or family not in (0, kind & ~LEAF):
                raise Refused(f"the tree of page {root} has pages of different types on one level")
            if kind & LEAF:
                return level
            level, family = below, kind

    def _tree_page(self, number: int, below: list[int]) -> int:
        """Checks every byte of a page; adds its child pages to `below`. Returns its type."""
        page, start = self._page(number), 100 if number == 1 else 0
        kind, block, count, top, loose = HEADER.unpack_from(page, start)
        if kind & ~LEAF not in (TABLE, INDEX):
            raise Refused(f"page {number} is not a b-tree page")
        array = start + (8 if kind & LEAF else 12)
        gap, top = array + 2 * count, top or 65536
        if not gap <= top <= self.usable:
            raise Refused(f"page {number} has cells outside the page")
        pointers = self._pointers.get(count) or self._pointers.setdefault(count, Struct(f">{count}H"))
        starts = sorted(pointers.unpack_from(page, array))
        try:
            ends = self._ends(number, page, kind, starts)
        except (IndexError, struct_error):
            raise Refused(f"a cell extends beyond page {number}") from None
        self._unused(number, page, gap, top)
        if block:
            starts, ends = self._with_blocks(number, page, top, block, starts, ends)
        # Cells and free blocks fill the rest of the page, except for the number of loose bytes in its header.
        starts.append(self.usable)
        ends.insert(0, top)
        if starts != ends:
            loose -= self._between(number, page, ends, starts)
        if loose:
            raise Refused(f"page {number} has a wrong count of loose bytes")
        if not kind & LEAF:
            for at in (*pointers.unpack_from(page, array), array - 4):
                child = NUMBER.unpack_from(page, at)[0]
                self._take(child, CHILD, number)
                below.append(child)
        return int(kind)

    def _ends(self, number: int, page: bytes, kind: int, starts: list[int]) -> list[int]:
        """The end of each cell. Takes their overflow pages."""
        if kind == TABLE:
            return [_after(page, start + 4) for start in starts]
        if kind == TABLE | LEAF:
            return self._row_ends(number, page, starts)
        if kind == INDEX | LEAF:
            lengths = [page[start] for start in starts]
            if lengths and min(lengths) > 2 and max(lengths) <= min(self._most_index, 127):
                return [start + length + 1 for start, length in zip(starts, lengths, strict=True)]
        ends = []
        for start in starts:
            length, at = _varint(page, start if kind & LEAF else start + 4)
            if length <= self._most_index:
                at += length
            else:
                at = self._long(number, page, at, length, self._most_index)
            if at < start + 4:  # the smallest cell size
                self._unused(number, page, at, start + 4)
                at = start + 4
            ends.append(at)
        return ends

    def _row_ends(self, number: int, page: bytes, starts: list[int]) -> list[int]:
        """The end of each row in a leaf of a table. Most pages are such leaves, so this takes most of the time."""
        ends = []
        most = self._most_table
        for start in starts:
            length = page[start]
            if length < 128:
                at = start + 1
            elif page[start + 1] < 128:
                length = (length & 127) << 7 | page[start + 1]
                at = start + 2
            else:
                length, at = _varint(page, start)
            last = at + 8
            while page[at] > 127 and at < last:  # `_after`, inlined
                at += 1
            at += 1
            if length <= most:
                ends.append(at + length)
            else:
                ends.append(self._long(number, page, at, length, most))
        return ends

    def _long(self, number: int, page: bytes, at: int, length: int, most: int) -> int:
        """The end of a cell whose row has overflow pages; takes them."""
        local = self._local(length, most)
        self._overflow(number, NUMBER.unpack_from(page, at + local)[0], length - local)
        return at + local + 4

    def _local(self, length: int, most: int) -> int:
        """How many bytes of a row with overflow pages are in its own page."""
        local = self._least + (length - self._least) % (self.usable - 4)
        return local if local <= most else self._least

    def _overflow(self, owner: int, number: int, length: int) -> None:
        """Takes the overflow pages of a row, which hold its last `length` bytes."""
        link, room = OVERFLOW_HEAD, self.usable - 4
        while length > 0:
            self._take(number, link, owner)
            owner, link = number, OVERFLOW
            if length < room:
                self._unused(number, self._page(number), 4 + length, self.usable)
            number = NUMBER.unpack_from(self.data, (number - 1) * self.size)[0]
            length -= room
        if number:
            raise Refused(f"page {owner} has a next page after the end of a row")

    def _with_blocks(
        self, number: int, page: bytes, top: int, block: int, starts: list[int], ends: list[int]
    ) -> tuple[list[int], list[int]]:
        """Cells and free blocks together, in order. The header of a free block is in use; the rest of it is unused."""
        spans = list(zip(starts, ends, strict=True))
        least = top
        while block:
            if not least <= block <= self.usable - 4:
                raise Refused(f"page {number} has a free block at a wrong position")
            after, length = BLOCK.unpack_from(page, block)
            if length < 4:
                raise Refused(f"page {number} has a free block of {length} bytes")
            self._unused(number, page, block + 4, block + length)
            spans.append((block, block + length))
            least = block + length + 4  # SQLite merges free blocks that are closer
            block = after
        spans.sort()
        return [start for start, _ in spans], [end for _, end in spans]

    def _between(self, number: int, page: bytes, ends: list[int], starts: list[int]) -> int:
        """Records the unused bytes between cells and free blocks; returns their number."""
        loose = 0
        for end, start in zip(ends, starts, strict=True):
            if end > start:
                raise Refused(f"page {number} has cells that overlap")
            if end < start:
                self._unused(number, page, end, start)
                loose += start - end
        return loose

    # -- the schema

    def _schema(self, leaves: list[int]) -> list[int]:
        """The root pages in the schema, which is the table with these leaves."""
        roots = []
        for number in leaves:
            page, start = self._page(number), 100 if number == 1 else 0
            count = HEADER.unpack_from(page, start)[2]
            for cell in Struct(f">{count}H").unpack_from(page, start + 8):
                length, at = _varint(page, cell)
                root = _root(self._row(page, _after(page, at), length))
                if root:
                    roots.append(root)
        return roots

    def _row(self, page: bytes, at: int, length: int) -> bytes:
        """A complete row of a table. Its overflow pages were taken before."""
        if length <= self._most_table:
            return page[at : at + length]
        local = self._local(length, self._most_table)
        row = page[at : at + local]
        number = NUMBER.unpack_from(page, at + local)[0]
        while number:
            more = self._page(number)
            row += more[4 : self.usable]
            number = NUMBER.unpack_from(more)[0]
        return row[:length]

    # -- other pages

    def _free_pages(self) -> None:
        """Takes the pages of the free list: trunk pages, which list unused leaf pages."""
        number = self._trunk
        while number:
            self._take(number, FREE, 0)
            page = self._page(number)
            after, count = TRUNK.unpack_from(page)
            if count > self.usable // 4 - 2:
                raise Refused(f"page {number} lists more free pages than it can hold")
            self._unused(number, page, 8 + 4 * count, self.usable)
            for leaf in Struct(f">{count}I").unpack_from(page, 8):
                self._take(leaf, FREE, 0)
                self._unused(leaf, self._page(leaf), 0, self.usable)
            self.freelist += 1 + count
            number = after
        if self.freelist != self._free_count:
            raise Refused("the number of free pages differs from the header")

    def _pointer_map(self, number: int, *, compare: bool = True) -> None:
        """Checks the end of a page of the pointer map, and compares the rest with the pages that were found."""
        page = self._page(number)
        first = number + 1
        last = min(self.pages, number - (number - 2) % (self.usable // 5 + 1) + self.usable // 5)
        expected = self._links[5 * first : 5 * (last + 1)]
        if compare and not page.startswith(expected):
            raise Refused(f"page {number}, of the pointer map, is wrong")
        self._unused(number, page, len(expected), self.usable)

    def _reserved(self) -> None:
        """Refused if an extension of SQLite uses the reserved end of a page, for example for a checksum."""
        for end in range(self.size, len(self.data) + 1, self.size):
            if not ZEROS.startswith(self.data[end - self.size + self.usable : end]):
                raise Refused(f"an SQLite extension uses the end of page {end // self.size}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and the offset after it."""
    value = 0
    for place in range(at, at + 8):
        byte = data[place]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9


def _after(data: bytes, at: int) -> int:
    """The offset after the number at `at`."""
    last = at + 8
    while data[at] > 127 and at < last:
        at += 1
    return at + 1


def _root(row: bytes) -> int:
    """The root page in a row of the schema: type, name, table, root page, sql. 0 if it has none."""
    try:
        at, place = _varint(row, 0)
        kinds: list[int] = []
        while len(kinds) < 4:
            kind, place = _varint(row, place)
            kinds.append(kind)
        for kind in kinds[:3]:
            if kind < 13 or kind % 2 == 0:
                raise Refused("the schema is malformed")
            at += (kind - 13) // 2
        if kinds[3] in (0, 8, 9):
            return int(kinds[3] == 9)
        width = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}[kinds[3]]
    except (IndexError, KeyError):
        raise Refused("the schema is malformed") from None
    return int.from_bytes(row[at : at + width], "big", signed=True)
