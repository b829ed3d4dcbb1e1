"""One capture of a card's steps, as a program of its own.

`python -m tfperf.study.profile_capture`. A request holds `card` (a path), `overrides`, `folder`, `naive` and
`group`, by which captures that belong together are known.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfperf.measure import parent_watch


def record_capture(request: Mapping[str, Any]) -> dict[str, Any]:
    """Record; the record says where. UserError for faults of the card, or of the folder."""
    from tfperf.runs.recording import record_card
    from tfperf.trace.notes import read_notes, write_notes
    from tfperf.trace.planes import find_profile_files
    from tfperf.workloads.cards import load_checked_card

    folder = Path(request["folder"])
    card = load_checked_card(Path(request["card"]), request["overrides"])
    record_card(card, folder, 1, request["naive"], quiet=True)
    session = find_profile_files(folder)[0].parent
    write_notes(session, replace(read_notes(session), group=request["group"]))
    return {"session": str(session)}


if __name__ == "__main__":
    parent_watch.answer_request(record_capture)
