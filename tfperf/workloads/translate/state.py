"""What run.json keeps of a translation."""

from dataclasses import field

from pydantic.dataclasses import dataclass

from tfperf.results.rundir import RunDirectory
from tfperf.results.state import STRICT, Part, Sha256

VOCABULARIES = "vocabularies"  # folder of a run: the pieces of each language


@dataclass(config=STRICT)
class VocabularyDigests:
    """What run.json keeps of a translation: the sha256 of each language's pieces, which a resumed run must share."""

    sha256: dict[str, Sha256] = field(default_factory=dict)


TranslationPart = Part[VocabularyDigests]
TranslationRun = RunDirectory[VocabularyDigests]
