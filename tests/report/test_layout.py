"""Pages at the widths of a screen and of a telephone: nothing is broken in two, and only wide tables scroll."""

import html
import json
import re
import subprocess

import pytest

from tests.report.pages import PAGES
from tests.report.test_browser import CHROMIUM
from tfperf.report.page import CSS, render_table, render_tiles

WIDTHS = (1280, 400)
WIDE = {"placements": 4, "profile": 1}  # tables that may scroll: speeds with nine columns, operations with fifteen
# what a browser has laid out: pixels by which the page is too wide, cells that it broke, tables that scroll
MEASURE = r"""
const found = {};
for (const frame of document.querySelectorAll('iframe')) {
  const page = frame.contentDocument, root = page.documentElement, out = {broken: [], scrolling: 0};
  out.excess = root.scrollWidth - frame.contentWindow.innerWidth;
  out.shown = frame.contentWindow.innerWidth;
  for (const cell of page.querySelectorAll('td, .tile b')) {
    const text = cell.textContent, range = page.createRange();
    range.selectNodeContents(cell);
    const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top))).size;
    if (lines > 1 && (!/\s/.test(text) && text.length <= 36 || /^[-+]?\d/.test(text) && text.length <= 24))
      out.broken.push(text);
    for (const part of cell.childNodes) {  // no word of a sentence is broken either
      if (part.nodeType != 3 || cell.className == 'long') continue;
      for (const word of part.data.matchAll(/[\w.]+/g)) {
        range.setStart(part, word.index); range.setEnd(part, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) out.broken.push(word[0]);
      }
    }
  }
  for (const one of page.querySelectorAll('.wide')) out.scrolling += one.scrollWidth > one.clientWidth;
  out.cells = page.querySelectorAll('td').length;
  found[frame.id] = out;
}
document.body.textContent = JSON.stringify(found);
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Measures of each page by its name and width, all from one start of the browser."""
    folder = tmp_path_factory.mktemp("pages")
    frame = '<iframe id="{}-{}" style="width:{}px;height:900px" frameborder="0" srcdoc="{}"></iframe>'
    pages = {name: html.escape(make(folder)) for name, make in PAGES.items()}
    frames = "".join(frame.format(name, width, width, page) for name, page in pages.items() for width in WIDTHS)
    outer, script = folder / "outer.html", f"window.onload = () => {{{MEASURE}}}"
    outer.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{frames}<script>{script}</script>')
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'browser'}", "--dump-dom",
         outer.as_uri()], check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    body = re.search(r"<body>(\{.*\})", done.stdout.decode())
    assert body is not None
    return json.loads(html.unescape(body[1]))


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_broken_and_the_page_does_not_scroll_sideways(measured, name, width):
    found = measured[f"{name}-{width}"]
    assert found["shown"] == width and found["cells"] > 20
    assert found["excess"] <= 0
    assert found["broken"] == []
    assert width == 400 or found["scrolling"] <= WIDE.get(name, 0)


def cells(*texts):
    """Class of each cell of a row, and the row's HTML."""
    row = render_table((), [texts])
    return [found or "" for found in re.findall(r'<td(?: class="(\w+)")?>', row)], row


def test_numbers_and_keys_stay_on_one_line_and_paths_break_at_separators():
    whole = [
        "engine.steps_per_call",
        "0.983",
        "0.792 [0.642, 0.942]",
        "140 s (2.3 min)",
        "device",
        "HERA_NC_318GEV_EAVG",
    ]
    assert cells(*whole)[0] == [""] * len(whole)
    assert cells("summed on one device a variable")[0] == ["prose"]
    path = "while/body/_1/gradient_tape/while/dense/MatMul:MatMul"
    kinds, row = cells(path)
    assert kinds == ["long"] and "while/<wbr>body/<wbr>" in row and re.sub("<[^>]*>", "", row).strip() == path


def test_each_table_scrolls_by_itself_and_no_rule_breaks_words():
    assert render_table(("a",), [("b",)]).startswith('<div class="wide"><table>')
    rules = dict(re.findall(r"([^{}]+?) \{([^{}]*)\}", CSS.partition("@media")[0].replace("\n", " ")))
    rules = {name.strip(): rule for name, rule in rules.items()}
    assert "overflow-x: auto" in rules[".wide"] and "nowrap" in rules["th, td"] and "nowrap" in rules[".tile b"]
    assert [name for name, rule in rules.items() if "anywhere" in rule or "break-all" in rule] == [".long"]
    assert "<b>0.983</b>" in render_tiles([("chi2", "0.983")])
