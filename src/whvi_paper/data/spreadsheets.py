"""The numbers of a spreadsheet, without the words: as much of xlsx and of the older xls as the datasets need."""

import io
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

Cells = Mapping[tuple[int, int], float]
"""Row and column, from 0, and the number there."""

NUMBER, RK, MULTIPLE_RK, FORMULA, BOUND_SHEET, END = 0x0203, 0x027E, 0x00BD, 0x0006, 0x0085, 0x000A
NO_SECTOR = 0xFFFFFFFA
"""Numbers from here on mean the end of a chain and the like."""


def rows(cells: Cells, width: int) -> NDArray[np.float64]:
    """The rows (N, width) whose first ``width`` cells are numbers: no heads, no empty rows.

    >>> rows({(1, 0): 5.0, (1, 1): 6.0, (2, 0): 7.0}, width=2)
    array([[5., 6.]])
    """
    numbers = sorted({row for row, _ in cells})
    whole = [row for row in numbers if all((row, column) in cells for column in range(width))]
    return np.array([[cells[row, column] for column in range(width)] for row in whole]).reshape(-1, width)


def xlsx(content: bytes, sheet: int, width: int) -> NDArray[np.float64]:
    """Sheet number ``sheet``, from 1, of an Excel workbook: a zip archive of XML."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        root = ElementTree.fromstring(archive.read(f"xl/worksheets/sheet{sheet}.xml"))
    cells = {}
    for cell in root.iterfind(".//{*}c"):
        value = cell.find("{*}v")
        if cell.get("t", "n") == "n" and value is not None and value.text:
            cells[address(cell.get("r", ""))] = float(value.text)
    return rows(cells, width)


def address(text: str) -> tuple[int, int]:
    """Row and column of a cell, from 0.

    >>> address("A1"), address("AB12")
    ((0, 0), (11, 27))
    """
    found = re.fullmatch(r"([A-Z]+)(\d+)", text)
    if not found:
        raise ValueError(f"a cell is at {text!r}")
    column = 0
    for letter in found[1]:
        column = 26 * column + ord(letter) - ord("A") + 1
    return int(found[2]) - 1, column - 1


def xls(content: bytes, width: int) -> NDArray[np.float64]:
    """The first sheet of an Excel 97 workbook: a stream of records in a compound file."""
    stream = workbook(content)
    sheets = [struct.unpack_from("<I", data)[0] for kind, data in records(stream, 0) if kind == BOUND_SHEET]
    return rows(dict(cells_of(stream, sheets[0])), width)


def workbook(content: bytes) -> bytes:
    """The stream ``Workbook`` of a compound file.

    The file is a list of sectors. A table, itself in sectors that the head names, holds the successor of each, so that
    a stream is a chain of them; the directory is such a stream, of entries that say where each of the others begins.
    """
    if content[:8] != bytes.fromhex("d0cf11e0a1b11ae1"):
        raise ValueError("it is not an Excel 97 workbook")
    size = 1 << int(struct.unpack_from("<H", content, 30)[0])

    def sector(number: int) -> bytes:
        return content[size * (number + 1) : size * (number + 2)]

    table_sectors = [number for number in struct.unpack_from("<109I", content, 76) if number < NO_SECTOR]
    successors = np.frombuffer(b"".join(map(sector, table_sectors)), "<u4")

    def chain(number: int) -> bytes:
        parts = []
        while number < NO_SECTOR:
            parts.append(sector(number))
            if len(parts) > len(successors):
                raise ValueError("its sectors go round in a circle")
            number = int(successors[number])
        return b"".join(parts)

    directory = chain(struct.unpack_from("<I", content, 48)[0])
    for start in range(0, len(directory), 128):
        name_bytes = struct.unpack_from("<H", directory, start + 64)[0]
        if directory[start : start + max(0, name_bytes - 2)].decode("utf-16-le", "replace") == "Workbook":
            first, length = struct.unpack_from("<II", directory, start + 116)
            return chain(first)[:length]
    raise ValueError("there is no workbook in it")


def records(stream: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """Kind and data of the records from a place in the stream to its end or the next end of a part."""
    while start + 4 <= len(stream):
        kind, length = struct.unpack_from("<HH", stream, start)
        if kind == END:
            return
        yield kind, stream[start + 4 : start + 4 + length]
        start += 4 + length


def cells_of(stream: bytes, start: int) -> Iterator[tuple[tuple[int, int], float]]:
    """The cells of the sheet whose first record is at ``start``."""
    for kind, data in records(stream, start):
        if kind in (NUMBER, RK, MULTIPLE_RK, FORMULA):
            row, column = struct.unpack_from("<HH", data)
        if kind == NUMBER or (kind == FORMULA and data[12:14] != b"\xff\xff"):  # else its value is a word
            yield (row, column), struct.unpack_from("<d", data, 6)[0]
        elif kind == RK:
            yield (row, column), packed(struct.unpack_from("<I", data, 6)[0])
        elif kind == MULTIPLE_RK:
            for place in range((len(data) - 6) // 6):
                yield (row, column + place), packed(struct.unpack_from("<I", data, 6 + 6 * place)[0])


def packed(number: int) -> float:
    """A number in 32 bits: bit 0 says divided by 100, bit 1 a whole number rather than the top of a float64.

    >>> packed(0x3FF00000), packed(12345 << 2 | 3), packed((-7 << 2 & 0xFFFFFFFF) | 2)
    (1.0, 123.45, -7.0)
    """
    signed = number - (1 << 32) if number >> 31 else number
    value = float(signed >> 2) if number & 2 else struct.unpack("<d", struct.pack("<Q", (number & ~3) << 32))[0]
    return float(value / 100 if number & 1 else value)
