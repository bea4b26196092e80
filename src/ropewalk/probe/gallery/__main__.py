"""`python -m ropewalk.probe.gallery docs/gallery.md`: check every exhibit, write the verdicts into the page."""

import sys
from pathlib import Path

from ..checking import check
from . import exhibits, rewritten, verdict


def main(page: Path) -> None:
    """Check the whole gallery, extras included, and rewrite the table of a page."""
    verdicts = {}
    for one in exhibits(extra=True):
        print(one.id, file=sys.stderr)
        verdicts[one.id] = verdict(check(one.make(), expect=one.expect, **one.options))
    page.write_text(rewritten(page.read_text(encoding="utf-8"), verdicts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
