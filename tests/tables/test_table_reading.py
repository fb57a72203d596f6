"""Tables from files and back."""

import gzip
import re
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from whvi.errors import ArgumentError
from whvi.io import atomic
from whvi_tables.columns import Columns
from whvi_tables.reading import read_table
from whvi_tables.writing import write_table


@pytest.mark.parametrize(
    "text", ["a,b\n007,x y\n,1e3\n", "\ufeffa;b\n007;x y\n;1e3\n", "a\tb\r\n007\tx y\r\n\t1e3\r\n"]
)
def test_fields_of_a_csv_stay_texts(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.csv").write_bytes(text.encode())
    found = read_table(tmp_path / "table.csv").frame
    assert found.columns.tolist() == ["a", "b"]
    assert found["b"].tolist() == ["x y", "1e3"]
    assert found["a"].iloc[0] == "007"
    assert pd.isna(found["a"].iloc[1])


@pytest.mark.parametrize("name", ["table.csv", "table.tsv", "table.parquet", "TABLE.CSV", "table.csv.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"NA": ["x", 'quoted, "text"'], "": ["1.5", "2"]})
    write_table(frame, tmp_path / "new" / name)
    found = read_table(tmp_path / "new" / name).frame
    if not name.endswith("parquet"):
        frame = frame.rename(columns={"": "unnamed_2"})
    assert_frame_equal(found, frame, check_dtype=False)


def test_parquet_keeps_types(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [1, 2], "t": pd.to_datetime(["2020-01-01", "2021-01-01"]), "b": [True, False]})
    write_table(frame, tmp_path / "table.parquet")
    assert read_table(tmp_path / "table.parquet").frame.dtypes.tolist() == frame.dtypes.tolist()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("empty.csv", b"", "is empty"),
        ("blank.csv", b"\n \n", "is empty"),
        ("header.csv", b"a,b\n", "a header but no rows"),
        ("picture.csv", b"\x89PNG\r\n\x1a\n\x03\x07", "is not text"),
        ("odd.csv", "a,b\n1,2\n".encode("utf-16") + b"!", "is not text"),
        ("twice.csv", b"a,b,a\n1,2,3\n", "more than one column called 'a': columns 1, 3; give each a name of its own"),
        ("thrice.csv", b"a,b,a,b,a\n1,2,3,4,5\n", r"'a': columns 1, 3, 5 \(so do 'b'\); give each"),
        ("cut.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "cannot be decompressed"),
        ("plain.csv.gz", b"a,b\n1,2\n", "cannot be decompressed"),
        ("table.parquet.gz", b"", "ends in '.parquet.gz'"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3"),
        ("wrong.parquet", b"not parquet", "cannot be read as parquet"),
        ("table.xlsx", b"", "ends in '.xlsx'"),
        ("table", b"", "a table ends in .csv, .tsv, .parquet"),
    ],
)
def test_file_that_is_no_table(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ArgumentError, match=message) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)


def read(path: Path, text: str) -> pd.DataFrame:
    path.write_text(text)
    return read_table(path).frame


@pytest.mark.parametrize("end", ["", "\n", "\n\n \n"])
def test_blank_line_of_one_column_is_a_row(tmp_path: Path, end: str) -> None:
    found = read(tmp_path / "table.csv", f'\n"a, b"\n1\n\n2\n""\n3{end}')
    assert found.columns.tolist() == ["a, b"]
    assert found["a, b"].fillna("none").tolist() == ["1", "none", "2", "none", "3"]
    assert len(read(tmp_path / "two.csv", f"a,b\n1,2\n\n3,4{end}")) == 2


def test_only_empty_fields_are_missing(tmp_path: Path) -> None:
    found = read(tmp_path / "table.csv", 'a,b\nNA,null\n,""\n')
    assert found.iloc[0].tolist() == ["NA", "null"]
    assert found.iloc[1].isna().all()


def test_separator_is_not_looked_for_in_quotes(tmp_path: Path) -> None:
    found = read(tmp_path / "table.csv", '"size, in m, or ""ft, in""";b\n1;2\n')
    assert found.columns.tolist() == ['size, in m, or "ft, in"', "b"]


def test_decimal_commas_stay_as_they_are_beside_semicolons(tmp_path: Path) -> None:
    """What they mean is decided by the column; where it has points by its model, they are read as these."""
    (tmp_path / "table.csv").write_text("a;b\n1,5;x, y\n-0,25e3; ,5 \n7;1,2,3\n1.5;\n")
    table = read_table(tmp_path / "table.csv")
    assert table.comma
    assert table.frame["a"].tolist() == ["1,5", "-0,25e3", "7", "1.5"]
    found = table.with_points(["a", "b", "absent"])
    assert found["a"].tolist() == ["1.5", "-0.25e3", "7", "1.5"]
    assert found["b"].tolist()[:3] == ["x, y", ".5", "1,2,3"]
    (tmp_path / "other.csv").write_text('a,b\n"1,5",2\n')
    assert read_table(tmp_path / "other.csv").with_points(["a"])["a"].tolist() == ["1,5"]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("a,b c\n1,x y\n2,z\n", None),
        ("a;b c\n1;x y\n2;z\n", "semicolons"),
        ("a\tb c\n1\tx y\n2\tz\n", "tabs"),
        ("a|b c\n1|x y\n2|z\n", "pipes"),
        ('a  "b c"\n 1  "x y"\n2 z\n', "spaces"),
    ],
)
@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("utf-8", False),
        ("utf-8", True),
        ("utf-16", True),
        ("utf-16-le", False),
        ("utf-16-be", False),
        ("latin-1", True),
    ],
)
def test_separators_encodings_and_packing_are_found_and_said(
    text: str, note: str | None, encoding: str, packed: bool, tmp_path: Path
) -> None:
    path, content = tmp_path / f"table.csv{'.gz' * packed}", text.replace("z", "é").encode(encoding)
    path.write_bytes(gzip.compress(content) if packed else content)
    found = read_table(path)
    assert found.frame.to_dict("list") == {"a": ["1", "2"], "b c": ["x y", "é"]}
    assert [f"fields are separated by {note}"] * bool(note) == [said for said in found.notes if "separated" in said]
    said = {"utf-8": "", "latin-1": "its text is in cp1252", "utf-16": "its text is in utf-16,"}
    assert (found.notes or ("",))[0].startswith(said.get(encoding, f"its text is in {encoding},"))


@pytest.mark.parametrize(
    "text", ["Ann Smith\nBob Jones\nEve Adams\n", "full name\nAnn Smith\nEve van Dyck\n", "1\n2\n"]
)
def test_words_are_no_columns(text: str, tmp_path: Path) -> None:
    assert read(tmp_path / "table.csv", text).shape[1] == 1


def test_the_euro_of_windows(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes("price,b\n5 €,é\n".encode("cp1252"))
    assert read_table(tmp_path / "table.csv").frame["price"].tolist() == ["5 €"]


def test_a_packed_file_that_fills_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(80):
            file.write(b"1,2\n" * (1 << 18))
    with pytest.raises(ArgumentError, match="when decompressed, which is unusual for a table"):
        read_table(path)


def test_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", ".a.tmp")

    monkeypatch.setattr(atomic, "write_bytes", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/table\.csv'"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "table.csv")


def test_folder_and_nothing_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ArgumentError, match="is not a file"):
        read_table(tmp_path / "folder.csv")
    with pytest.raises(ArgumentError, match="does not exist"):
        read_table(tmp_path / "nothing.csv")


def test_memory_of_reading_grows_with_the_table_and_no_faster(tmp_path: Path) -> None:
    """At the most 300 bytes for each field of a csv, on the way from its text to its features."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("this system does not say how much memory was used")
    rows, columns = 20_000, 10
    line = ",".join(["12.5"] * 8 + ["Ulm", "2024-05-01"]) + "\n"
    other = ",".join(["1.25"] * 8 + ["Bonn", "2023-01-31"]) + "\n"
    header = ",".join(f"x{place}" for place in range(columns)) + "\n"
    (tmp_path / "table.csv").write_text(header + (line + other) * (rows // 2))

    def kilobytes(name: str) -> int:
        return int(re.findall(rf"{name}:\s+(\d+) kB", status.read_text())[0])

    frame = read_table(tmp_path / "table.csv").frame
    Columns.learn(frame.iloc[:100])  # what pandas loads late is loaded here
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak
    before = kilobytes("VmRSS")
    frame = read_table(tmp_path / "table.csv").frame
    Columns.learn(frame).matrix(frame)
    assert (kilobytes("VmHWM") - before) * 1024 < 300 * rows * columns
