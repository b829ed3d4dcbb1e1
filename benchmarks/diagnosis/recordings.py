"""Small profiles of programs and their twins, for tests that read them: FOLDER/NAME.tar.xz.

Of two programs whose pipelines have events for each sample there are fewer samples.

By default of all but those made after a complaint or without knowledge of the rules, which measure what the rules find
in programs not made for them.

python -m benchmarks.diagnosis.recordings FOLDER [NAME ...]
"""

import sys
import tarfile
import tempfile
from multiprocessing import get_context
from pathlib import Path

from benchmarks.diagnosis.child import load_programs, prepare, record
from benchmarks.diagnosis.program import PROGRAMS

STEPS = 8
FOLDERS = {True: "planted", False: "twin"}  # in an archive


def record_program(name: str, output: Path) -> None:
    """Record a program and its twin for a few steps, in this process, to an archive."""
    with tempfile.TemporaryDirectory() as folder:
        for planted, training in prepare(name, small=True).items():
            record(training, Path(folder, FOLDERS[planted]), STEPS)
        with tarfile.open(output, "w:xz", preset=9) as archive:
            for path in sorted(Path(folder).rglob("*.xplane.pb")) + sorted(Path(folder).rglob("tfperf.json")):
                path.write_bytes(hide_folders(path.read_bytes()))
                archive.add(path, str(path.relative_to(folder)))


def hide_folders(content: bytes) -> bytes:
    """A profile in which the folders of Python and of this repository have other names, as long as their own."""
    for folder in {sys.prefix, str(Path(__file__).parents[2])}:
        content = content.replace(folder.encode(), b"/" + b"x" * (len(folder.encode()) - 1))
    return content


def extract_recording(archive: Path, folder: Path) -> dict[bool, Path]:
    """The folders of the profiles of a program and of its twin."""
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return {planted: folder / where for planted, where in FOLDERS.items()}


def list_recorded() -> list[str]:
    """Names of the programs that have a recording by default: of those made for the rules."""
    load_programs()
    others = {name for name, program in PROGRAMS.items() if program.complaint or program.unseen}
    return [name for name in PROGRAMS if name not in others]


def main(folder: Path, names: list[str]) -> None:
    """Record each in a process of its own, as devices are fixed in one."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or list_recorded():
        output = folder / f"{name}.tar.xz"
        child = get_context("spawn").Process(target=record_program, args=(name, output))
        child.start()
        child.join()
        if child.exitcode:
            raise SystemExit(f"{name}: failed")
        print(f"{name}: {output.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
