"""Print the papers' comparisons with this library's mechanisms:
`python notebooks/papers.py [--rounds N]`.

One module per part, each with `tables(rounds=)` that yields lines: papers_known, papers_stable. The
data are not part of the project; they are looked for in ../shared/data.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

PARTS = ("papers_known", "papers_stable")


def main() -> None:
    """Print every part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=50, help="draws for what has no closed form"
    )
    rounds = parser.parse_args().rounds
    sys.path.insert(0, str(Path(__file__).parent))
    for part in PARTS:
        for line in importlib.import_module(part).tables(rounds=rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
