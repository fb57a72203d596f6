"""Parsers against small files that are written here as the originals are."""

import dataclasses
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
from python_calamine import CalamineError

from whvi_paper.data import DATASETS, formats
from whvi_paper.data.table import Arrays


def zipped(**files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def line(*values: object, between: str = ",") -> str:
    return between.join(map(str, values)) + "\n"


def check(arrays: Arrays, x: object, y: object) -> None:
    np.testing.assert_array_equal(arrays[0], np.asarray(x, float))
    np.testing.assert_array_equal(arrays[1], y)
    assert arrays[1].dtype == np.asarray(y).dtype


def test_columns_between_spaces() -> None:
    check(formats.numbers(b" 0.1  2.5e-1 3\n  4 5   6\n\n"), [[0.1, 0.25], [4, 5]], [[3.0], [6.0]])


@pytest.mark.parametrize(
    ("parse", "content", "x", "y"),
    [
        (formats.kin8nm, "theta1,theta2,y\n0.5,1,2\n", [[0.5, 1]], [[2.0]]),
        (formats.protein, "RMSD,F1,F2\n17.284,13558.30,4305\n6,1,2\n", [[13558.3, 4305], [1, 2]], [[17.284], [6.0]]),
        (formats.letter, "T,2,8\nA,5,12\nZ,1,0\n", [[2, 8], [5, 12], [1, 0]], [19, 0, 25]),
        (formats.magic, f"{line(*range(10), 'g')}{line(*range(1, 11), 'h')}", [range(10), range(1, 11)], [0, 1]),
        (formats.eeg, "@RELATION r\r\n\r\n@ATTRIBUTE F7 NUMERIC\r\n@DATA\r\n1.5,1\r\n2,0\r\n", [[1.5], [2]], [1, 0]),
        (formats.drive, line(*range(48), 11, between=" "), [range(48)], [10]),
    ],
)  # fmt: skip
def test_columns(parse: Callable[[bytes], Arrays], content: str, x: object, y: object) -> None:
    check(parse(content.encode()), x, y)


def test_naval_is_in_a_folder_of_its_archive() -> None:
    data = b"   1.0   3.0   0.95   0.975   \n"
    archive = zipped(**{"__MACOSX/UCI CBM Dataset/._data.txt": b"junk", "UCI CBM Dataset/data.txt": data})
    check(formats.naval(archive), [[1, 3]], [[0.95, 0.975]])


def test_miniboo_counts_its_classes_in_the_first_line() -> None:
    rows = [np.arange(50.0), np.full(50, -999.0), np.arange(50.0) / 4]
    content = " 1 2\n" + "".join(line(*(f"{value:.6e}" for value in row), between="  ") for row in rows)
    check(formats.miniboo(content.encode()), rows, [0, 1, 1])
    with pytest.raises(ValueError, match="states 1 \\+ 3 rows but has 3"):
        formats.miniboo(content.replace(" 1 2\n", " 1 3\n").encode())


def postures(*rows: tuple[object, ...]) -> bytes:
    names = [f"{axis}{marker}" for marker in range(12) for axis in "XYZ"]
    lines = [line("Class", "User", *names), line(*[0] * 38), *(line(*row) for row in rows)]
    return zipped(**{"Postures.csv": "".join(lines).encode(), "Postures.txt": b"what it is"})


def test_mocap_has_a_dummy_record_and_missing_markers() -> None:
    seen = [0.25 * number - 3 for number in range(9)]
    arrays = formats.mocap(postures((1, 14, *seen, *"?" * 27), (5, 0, *range(36))))
    check(arrays, [[14, *seen, *[0] * 27], [0, *range(36)]], [0, 4])
    assert len(DATASETS["mocap"].features) == arrays[0].shape[1] == 37
    assert DATASETS["mocap"].features[:4] == ("User", "X0", "Y0", "Z0")


def test_cifar10_has_its_batches_in_order() -> None:
    generator = np.random.default_rng(0)
    pixels, labels = generator.integers(0, 256, (12, 3, 32, 32), np.uint8), generator.integers(0, 10, 12)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for place, name in reversed(list(enumerate(["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                                                    "data_batch_5", "test_batch"]))):  # fmt: skip
            records = b"".join(bytes([labels[i]]) + pixels[i].tobytes() for i in (2 * place, 2 * place + 1))
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            entry.size = len(records)
            archive.addfile(entry, io.BytesIO(records))
    x, y = formats.cifar10(content.getvalue())
    np.testing.assert_array_equal(x, pixels)
    np.testing.assert_array_equal(y, labels)


def test_xlsx_keeps_the_rows_of_numbers() -> None:
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    links = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    kinds = "http://schemas.openxmlformats.org/package/2006/relationships"

    def sheet(*rows: str) -> bytes:
        lines = "".join(f'<row r="{number}">{row}</row>' for number, row in enumerate(rows, 1))
        return f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>'.encode()

    second = sheet(
        '<c r="A1" t="str"><v>a</v></c><c r="B1" t="str"><v>b</v></c>',  # words
        '<c r="A2"><v>0.5</v></c><c r="B2"><v>1E-2</v></c><c r="C2"><v>7</v></c>',
        '<c r="B3"><v>4</v></c>',  # half of a row
        '<c r="A4" t="n"><v>-3</v></c><c r="B4"><v>12</v></c>',
    )
    sheets = "".join(f'<sheet name="S{i}" sheetId="{i}" r:id="r{i}"/>' for i in (1, 2))
    targets = "".join(
        f'<Relationship Id="r{i}" Type="{links}/worksheet" Target="worksheets/sheet{i}.xml"/>' for i in (1, 2)
    )
    root = f'<Relationship Id="r" Type="{links}/officeDocument" Target="xl/workbook.xml"/>'
    content = zipped(**{
        "_rels/.rels": f'<Relationships xmlns="{kinds}">{root}</Relationships>'.encode(),
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{links}"><sheets>{sheets}</sheets></workbook>'.encode(),
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{kinds}">{targets}</Relationships>'.encode(),
        "xl/worksheets/sheet1.xml": sheet('<c r="A1"><v>9</v></c>'),
        "xl/worksheets/sheet2.xml": second,
    })  # fmt: skip
    np.testing.assert_array_equal(formats.sheet(content, 1, width=2), [[0.5, 0.01], [-3, 12]])
    assert formats.sheet(content, 0, width=2).shape == (0, 2)


def record(kind: int, layout: str, *values: object) -> bytes:
    data = struct.pack("<" + layout, *values)
    return struct.pack("<HH", kind, len(data)) + data


def compound(stream: bytes) -> bytes:
    """A compound file with the workbook in sectors that lie backwards."""
    pieces = [stream[start : start + 512].ljust(512, b"\0") for start in range(0, len(stream), 512)]
    last = 1 + len(pieces)  # sector 0 is the table, sector 1 the directory, and the stream goes from the last to 2
    successors = [0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFE, *range(2, last)]
    table = struct.pack("<128I", *successors, *[0xFFFFFFFF] * (128 - len(successors)))

    def entry(name: str, kind: int, first: int, length: int) -> bytes:
        text = name.encode("utf-16-le")
        return struct.pack("<64sHBB3I36xII4x", text, len(text) + 2, kind, 1, *[0xFFFFFFFF] * 3, first, length)

    directory = entry("Root Entry", 5, 0xFFFFFFFE, 0) + entry("Workbook", 2, last, len(stream)) + bytes(256)
    # Version 3, sectors of 2^9 bytes, one of the table, the directory in sector 1, no small sectors, no further table.
    head = struct.pack(
        "<8s16xHHHHH6xIII4xIII", bytes.fromhex("d0cf11e0a1b11ae1"), 62, 3, 0xFFFE, 9, 6, 0, 1, 1, 4096, 0xFFFFFFFE, 0
    )
    head += struct.pack("<II", 0xFFFFFFFE, 0)
    return head + struct.pack("<109I", 0, *[0xFFFFFFFF] * 108) + table + directory + b"".join(reversed(pieces))


def workbook() -> bytes:
    begin, end = record(0x0809, "HH", 0x0600, 5), record(0x000A, "")
    sheets = 2 * (4 + 9) + len(begin + end)
    cells = [
        record(0x00FD, "HHHI", 0, 0, 15, 0),  # a word
        *(record(0x0203, "HHHd", row, 0, 15, row / 7) for row in range(1, 90)),
        *(record(0x027E, "HHHI", row, 1, 15, row << 2 | 3) for row in range(1, 90)),
        *(record(0x00BD, "HHHIHIH", row, 2, 15, row << 2 | 2, 15, 0x3FE00000, 3) for row in range(1, 90)),
        *(record(0x0006, "HHHdHIH", row, 4, 15, -row / 3, 0, 0, 0) for row in range(1, 90)),
        record(0x0006, "HHH6sHHIH", 90, 4, 15, b"\0", 0xFFFF, 0, 0, 0),  # a formula whose value is a word
    ]
    second = sheets + len(begin) + sum(map(len, cells)) + len(end)
    names = record(0x0085, "IHBBs", sheets, 0, 1, 0, b"A") + record(0x0085, "IHBBs", second, 0, 1, 0, b"B")
    return begin + names + end + begin + b"".join(cells) + end + begin + record(0x0203, "HHHd", 1, 0, 15, 5.0) + end


def test_xls_reads_each_kind_of_number() -> None:
    rows = np.arange(1, 90)[:, None]
    expected = np.hstack([rows / 7, rows / 100, rows, 0 * rows + 0.5, -rows / 3])
    np.testing.assert_array_equal(formats.sheet(compound(workbook()), 0, width=5), expected)


@pytest.mark.parametrize("content", [b"", b"PK" + bytes(2000), compound(workbook())[:600]])
def test_what_is_no_workbook_is_refused(content: bytes) -> None:
    with pytest.raises(CalamineError):
        formats.sheet(content, 0, width=5)


@pytest.mark.parametrize("parse", [formats.numbers, formats.kin8nm, formats.letter, formats.drive, formats.miniboo])
@pytest.mark.parametrize("content", [b"", b"a,b\n", b"1 2 3\n4 5\n"])
def test_text_that_is_not_a_table_is_refused(parse: Callable[[bytes], Arrays], content: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(content)


def test_labels_are_whole() -> None:
    with pytest.raises(ValueError, match="whole"):
        formats.classification(np.array([[1.0, 0.5]]))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((2, 10)), np.zeros(3, int), "x is"),
        (np.zeros((3, 9)), np.zeros(3, int), "x is"),
        (np.full((3, 10), np.nan), np.array([0, 1, 1]), "finite"),
        (np.zeros((3, 10)), np.array([0, 1, 2]), "0 ... 2, wanted 0 ... 1"),
        (np.zeros((3, 10)), np.array([0, 0, 1]), r"\(2, 1\) rows, wanted \(1, 2\)"),
    ],
)
def test_the_catalogue_knows_a_dataset_again(x: np.ndarray, y: np.ndarray, message: str) -> None:
    small = dataclasses.replace(DATASETS["magic"], rows=3, class_sizes=(1, 2))
    small.check(np.zeros((3, 10)), np.array([1, 0, 1]))
    with pytest.raises(ValueError, match=message):
        small.check(x, y)
