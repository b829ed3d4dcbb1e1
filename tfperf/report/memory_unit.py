"""What the batch of a memory study counts, in the words of its workload."""

import re
from collections.abc import Sequence

SAMPLES = ("sample", "samples")  # of a workload that speaks of batches


def use_unit(text: str, unit: Sequence[str]) -> str:
    """A text about batches, for a workload that counts something else. unit: its word for one, and for several.

    >>> use_unit("train: largest batch 12, passed in 3 fresh processes; batch 13 failed", ("pixel", "pixels"))
    'train: largest: 12 pixels, passed in 3 fresh processes; 13 pixels failed'
    >>> use_unit("1 MB + 2 MB x batch, from batches 1 to 8", ("pixel", "pixels"))
    '1 MB + 2 MB x pixels, from 1 to 8 pixels'
    """
    if tuple(unit) == SAMPLES:
        return text
    one, many = unit
    text = re.sub(r"\b(largest|fastest) batch( measured)? ", r"\1\2: batch ", text)
    text = re.sub(r"\bbatches (\d+) to (\d+)", rf"\1 to \2 {many}", text)
    text = re.sub(r"\bbatch (\d+)", lambda found: f"{found[1]} {one if found[1] == '1' else many}", text)
    text = re.sub(r"\bx batch\b", f"x {many}", text)
    text = text.replace("examples/s", f"{many}/s").replace("each batch's", "their")
    text = re.sub(r"\bbatches (?:of )?(?=\d)", "", text)
    return re.sub(r"\bsample\b", one, re.sub(r"\bsamples\b", many, text))
