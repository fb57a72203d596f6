"""Records of studies that compare variants."""

from pathlib import Path

from whvi_paper.bench.record import fill, stored


def test_a_study_measures_what_is_missing_and_keeps_each_measurement(tmp_path: Path) -> None:
    path, measured = tmp_path / "record.json", []

    def measure(place: str, variant: str) -> dict[str, int]:
        kept = [(p, v) for p, variants in stored(path).items() for v in variants]
        assert kept == sorted(measured, key=lambda one: (one[0] != "a", one[1]))  # a killed run loses one at most
        measured.append((place, variant))
        return {"order": len(measured)}

    fill(path, ["a"], ["x"], measure)
    fill(path, ["a", "b"], ["x", "y"], measure)
    assert measured == [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")]
    assert stored(path)["a"] == {"x": {"order": 1}, "y": {"order": 3}}
