"""Checks before a release, ``python .github/release.py [tag]``: tag, version, citation and changelog must agree."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def problems(tag: str | None) -> list[str]:
    """What does not fit; without a tag, only what holds between releases too."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = []
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        found.append(f"CITATION.cff does not state version {version}")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, flags=re.MULTILINE):
        found.append(f"CHANGELOG.md has no heading '## [{version}] - YYYY-MM-DD'")
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag is {tag}, but pyproject.toml states version {version}; tag v{version}")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(problems(sys.argv[1] if len(sys.argv) > 1 else None)) or None)
