"""Names and texts of others are shown as text on every page, and command no program that reads the files."""

import csv
import gzip
import json
import re
import struct
from html.parser import HTMLParser
from io import StringIO

import markdown
import pytest
from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]

from tests.make_result import make_result
from tests.report.pages import PAGES, placement_rows, profile_parts
from tfperf.report.placements_page import write_placements
from tfperf.report.plots_profile import draw_timeline
from tfperf.report.profile_files import format_csv, write_profile
from tfperf.report.style import apply_style, to_png
from tfperf.report.tensorboard import FILE
from tfperf.workloads.pdf.report.plots_data import draw_data

SCRIPT = "<script>alert(1)</script>"
MARKUP = f'"><img src=x onerror=alert(1)>{SCRIPT}</pre></td><a href="http://evil.example">&lt;'
# what would command a terminal, turn the direction of text, or is no character at all; no mathematics either
COMMANDS = "\x00\x1b[31m\x9b\u202e\u2066\udcff $\\frac{"
COMMANDING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
TAGS = (
    "html head meta title style body h1 h2 p div b nav a section table thead tbody tfoot tr th td wbr figure img "
    "figcaption details summary pre script button span canvas svg g rect text"
)
ATTRIBUTES = {
    "class", "id", "href", "src", "alt", "lang", "charset", "name", "content", "http-equiv", "type", "hidden", "open",
    "tabindex", "role", "aria-label", "viewbox", "x", "y", "width", "height", "fill",
}  # fmt: skip


class Elements(HTMLParser):
    """All text of a page as a reader sees it; elements that the package never writes are refused."""

    def __init__(self, page):
        super().__init__()
        self.text = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS.split()
        for name, value in attributes:
            assert name in ATTRIBUTES
            assert name != "src" or value.startswith("data:image/png;base64,")
            assert name != "href" or value.startswith("#")
            assert tag != "script" or (name, value) in (("type", "application/json"), ("id", "timeline-data"))

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize(
    ("name", "places"),
    [("fit", 24), ("translation", 25), ("profile", 26), ("placements", 40), ("input", 15), ("prediction", 18)],
)
def test_each_text_is_shown_as_text(name, places, tmp_path, blank_pictures):
    page = PAGES[name](tmp_path, MARKUP + COMMANDS)
    text = "".join(Elements(page).text)
    assert text.count(MARKUP) >= places
    assert not COMMANDING.search(page)
    assert r"\x00\x1b[31m\x9b\u202e\u2066" in text
    assert ("script-src" in page) == ("<script" in page) == (name == "profile")  # no other page may run one
    page.encode()


FORMULAS = [
    "=1+1",
    "+cmd",
    "-cmd|' /C calc'!A0",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "＝1",
    "-",
    "-inf",
    '=HYPERLINK("x")',
]


def test_cells_are_no_formulas_and_figures_stay_figures():
    figures = [-1.5, 2, "-1.5", "+3e-5", "plain", "a,b", 'a"b', "a\rb", "while/x"]
    text = format_csv(("name",), [[cell] for cell in (*FORMULAS, *figures)])
    cells = [row[0] for row in csv.reader(StringIO(text, newline=""))][1:]
    assert cells[: len(FORMULAS)] == [f"'{cell}" for cell in FORMULAS]
    assert cells[len(FORMULAS) :] == [str(cell) for cell in figures]
    assert float(cells[len(FORMULAS)]) == -1.5


def read_events(folder):
    """The events of folder/FILE: each record has its length (8 bytes) and a checksum (4) before it, another behind."""
    content = (folder / FILE).read_bytes()
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        yield Event.FromString(content[12 : 12 + length])
        content = content[16 + length :]


@pytest.fixture(scope="module")
def profile_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    found, record = profile_parts(folder, "/../../x\x00" + MARKUP + COMMANDS.replace("\udcff", ""))
    record["operations"][0]["name"] = "=1+1"
    write_profile(folder / "in" / "report", found, record, "../title")
    return folder


def test_names_lead_no_file_elsewhere(profile_folder):
    assert sorted(p.name for p in profile_folder.rglob("*") if p.is_file()) == sorted(
        [FILE, "operations.csv", "phases.csv", "report.html", "report.json", "trace.json.gz", "vm.xplane.pb"]
    )
    tags = {value.tag for event in read_events(profile_folder / "in" / "report") for value in event.summary.value}
    assert {"step_ms", "profile"} <= tags


def test_tables_and_traces_of_odd_names_are_whole(profile_folder):
    folder = profile_folder / "in" / "report"
    operations = list(csv.DictReader(StringIO((folder / "operations.csv").read_bytes().decode(), newline="")))
    assert operations[0]["name"] == "'=1+1" and MARKUP in operations[1]["name"]
    assert all(float(row["ms_per_step"]) > 0 for row in operations)
    trace = json.loads(gzip.decompress((folder / "trace.json.gz").read_bytes()), parse_constant=pytest.fail)
    assert any(MARKUP in event["name"] for event in trace["traceEvents"])
    json.loads((folder / "report.json").read_text(), parse_constant=pytest.fail)


def test_tensorboard_shows_names_as_text(tmp_path):
    found, record = profile_parts(tmp_path, "![x](http://evil.example/x.png) <img src=x> [a](http://evil.example) |")
    write_profile(tmp_path / "report", found, record, "")
    values = [value for event in read_events(tmp_path / "report") for value in event.summary.value]
    (text,) = [value for value in values if value.tag == "profile"]
    shown = markdown.markdown(text.tensor.string_val[0].decode(), extensions=["tables"])
    assert "<img" not in shown and "<a " not in shown and "![x](http://evil.example/x.png)" in shown


def test_points_of_a_sweep_have_files_of_their_own_names(tmp_path):
    (tmp_path / "sweep").mkdir()
    write_placements(tmp_path / "sweep", "a", placement_rows("/../../x" + MARKUP), "")
    assert {p.parent.name for p in tmp_path.rglob(FILE)} == {"point_0000", "point_0001"}
    assert {p.name for p in tmp_path.iterdir()} == {"sweep"}


@pytest.mark.parametrize(
    "text", [COMMANDS, "$\\frac{", "5 $", "$x$ $", "\ud800$x$", "two\nlines $", "$$\n$", "\\$ $\\"]
)
def test_any_name_is_drawn(text):
    result = make_result(sets=1)
    (dataset,) = result.datasets
    odd = type(dataset)(**{**vars(dataset), "name": text, "label": f"{text} label"})
    with apply_style():
        assert to_png(draw_data([odd], result.converged)).startswith(b"\x89PNG")


def test_any_thread_of_a_profile_is_drawn(tmp_path):
    found, _ = profile_parts(tmp_path, "$\\frac{$ \ud800")
    with apply_style():
        assert to_png(draw_timeline(found)).startswith(b"\x89PNG")
