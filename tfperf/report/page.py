"""Pieces of a self-contained HTML page: everything inside the file, no script, no request; all text escaped."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

CSS = """
:root { --ink: #1c2430; --soft: #5d6876; --line: #d9dee5; --accent: #0b3d75; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); margin: 0 auto; max-width: 1140px;
       padding: 1.5rem 1.25rem 4rem; background: #fff; }
h1 { font-size: 1.55rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; padding-top: .5rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
nav a { color: var(--accent); margin-right: 1rem; white-space: nowrap; }
p { margin: .3rem 0 .7rem; max-width: 62rem; }
.soft { color: var(--soft); font-size: .9rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
.tile { border: 1px solid var(--line); border-radius: 6px; padding: .5rem .9rem; min-width: 8rem; }
.tile b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.warning { border-left: 4px solid #d1670c; background: #fdf4ec; padding: .6rem .9rem; margin: 1rem 0; }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .8rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th { font-weight: 600; } thead th { border-bottom: 2px solid var(--soft); vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
table.text td, table.text th { text-align: left; overflow-wrap: anywhere; } table.text { max-width: 100%; }
tfoot td { font-weight: 600; border-bottom: none; } tfoot tr:first-child td { border-top: 2px solid var(--soft); }
.bar { display: inline-block; height: .7em; background: #6f9fd8; }
figure { margin: .8rem 0; } img { max-width: 100%; height: auto; } figcaption { color: var(--soft); font-size: .9rem; }
pre { background: #f6f7f9; border: 1px solid var(--line); padding: .7rem; overflow-x: auto; font-size: .82rem; }
summary { cursor: pointer; color: var(--accent); }
@media print { nav { display: none; } h2 { break-after: avoid; } tr, figure { break-inside: avoid; } }
"""
# a browser that honours it makes no request and runs no script, whatever a title or a label contains
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(title: str, head: str, sections: Sequence[tuple[str, str, str]]) -> str:
    """The whole document: `head` and the sections' bodies are HTML, `sections` are (anchor, heading, body)."""
    links = "\n".join(f'<a href="#{anchor}">{escape(heading)}</a>' for anchor, heading, _ in sections)
    bodies = "\n".join(f'<section id="{a}">\n<h2>{escape(h)}</h2>\n{body}\n</section>' for a, h, body in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{head}\n<nav>\n{links}\n</nav>\n{bodies}\n</body>\n</html>\n"
    )


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], foot: Iterable[Sequence[str]] = (), kind: str = ""
) -> str:
    """A table; all cells are text. First column left, others right; `kind` "text": all left."""
    tag = f'<table class="{kind}">' if kind else "<table>"
    head = f"<thead>{_row(header, 'th')}</thead>\n" if header else ""
    end = "\n".join(_row(r, "td") for r in foot)
    return f"{tag}\n{head}<tbody>\n" + "\n".join(_row(r, "td") for r in rows) + (
        f"\n</tbody>\n<tfoot>\n{end}\n</tfoot>\n</table>" if end else "\n</tbody>\n</table>"
    )  # fmt: skip


def _row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"


def image(png: bytes, caption: str) -> str:
    """A picture inside the page, with its text for those who do not see it."""
    data, text = b64encode(png).decode(), escape(caption)
    source = f'<img src="data:image/png;base64,{data}" alt="{text}">'
    return f"<figure>{source}<figcaption>{text}</figcaption></figure>"


def tiles(pairs: Iterable[tuple[str, str]]) -> str:
    """Figures with their names, side by side."""
    inside = "".join(f'<div class="tile"><b>{escape(value)}</b>{escape(name)}</div>' for name, value in pairs)
    return f'<div class="tiles">{inside}</div>'


def paragraph(text: str, kind: str = "") -> str:
    """Text as a paragraph, with a class."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def folded(title: str, text: str) -> str:
    """Preformatted text that opens on a click."""
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
