"""Pieces of a self-contained HTML page: everything inside the file, no request; all text escaped.

No script, but for one of the package's own that a page may name, whose hash is in its policy.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape

from tfperf.console.words import escape_controls

CSS = """
:root { --ink: #1c2430; --soft: #5d6876; --line: #d9dee5; --accent: #0b3d75; color-scheme: light; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); margin: 0 auto; max-width: 1260px;
       padding: 1.5rem 1.25rem 4rem; background: #fff; overflow-wrap: break-word; text-size-adjust: 100%; }
h1 { font-size: 1.55rem; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; padding-top: .5rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
nav a { color: var(--accent); margin-right: 1rem; display: inline-block; }
p { margin: .3rem 0 .7rem; max-width: 62rem; text-wrap: pretty; }
.soft { color: var(--soft); font-size: .9rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
.tile { border: 1px solid var(--line); border-radius: 6px; padding: .5rem .9rem; min-width: 8rem; max-width: 100%; }
.tile b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; white-space: nowrap;
          overflow-x: auto; }
.warning { border-left: 4px solid #d1670c; background: #fdf4ec; padding: .6rem .9rem; margin: 1rem 0; }
.wide { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .22rem .7rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th { font-weight: 600; } thead th { border-bottom: 2px solid var(--soft); vertical-align: bottom; }
th:first-child, td:first-child, table.text td, table.text th { text-align: left; }
th, td { white-space: nowrap; } .prose, .long { white-space: normal; } .long { overflow-wrap: anywhere; }
td.prose { min-width: min(11rem, 40vw); } td.long { min-width: min(24rem, 60vw); }
th.prose, th.long { min-width: 6rem; }
tfoot td { font-weight: 600; border-bottom: none; } tfoot tr:first-child td { border-top: 2px solid var(--soft); }
figure { margin: .8rem 0; } img { max-width: 100%; height: auto; } figcaption { color: var(--soft); font-size: .9rem; }
pre { background: #f6f7f9; border: 1px solid var(--line); padding: .7rem; overflow-x: auto; font-size: .82rem; }
summary { cursor: pointer; color: var(--accent); }
.timeline { position: relative; }
.timeline canvas { width: 100%; margin: .4rem 0; display: block; cursor: grab; touch-action: pan-y; }
.timeline button { font: inherit; min-width: 2.1rem; padding: .1rem .5rem; border: 1px solid var(--line);
                   border-radius: 4px; background: #f6f7f9; color: var(--ink); cursor: pointer; }
#timeline-tip { position: absolute; z-index: 1; max-width: min(36rem, 100%); padding: .2rem .5rem; font-size: .82rem;
                background: var(--ink); color: #fff; border-radius: 4px; pointer-events: none; }
#timeline-legend span { display: inline-block; margin-right: .9rem; }
#timeline-legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .3rem; vertical-align: -.1rem; }
.flame { display: block; width: 100%; min-width: 40rem; height: auto; font: 11px system-ui, "DejaVu Sans", sans-serif; }
.flame text { pointer-events: none; } .flame rect { stroke: #fff; stroke-width: .6; }
.flame rect:hover { opacity: .75; }
@media (max-width: 600px) { body { padding: 1rem .8rem 3rem; } th, td { padding: .22rem .45rem; } }
@media print { nav { display: none; } h2 { break-after: avoid; } tr, figure { break-inside: avoid; }
               .wide, pre { overflow: visible; } pre { white-space: pre-wrap; } }
"""
WORD, FIGURE, HEADER = 36, 24, 12  # characters of what stays on one line: a key, a figure with its limits, a header
SEPARATOR = re.compile(r"[/,;:|=]+")  # behind which a path or a signature may be broken
# a browser that honours it makes no request and runs no script, whatever a title or a label contains
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def render_page(title: str, head: str, sections: Sequence[tuple[str, str, str]], script: str = "") -> str:
    """The whole document: `head` and the sections' bodies are HTML, `sections` are (anchor, heading, body).

    script: of the package's own; this one alone may run, once the page is there. It makes no request either.
    """
    links = "\n".join(f'<a href="#{anchor}">{escape_text(heading)}</a>' for anchor, heading, _ in sections)
    bodies = "\n".join(f'<section id="{a}">\n<h2>{escape_text(h)}</h2>\n{body}\n</section>' for a, h, body in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{make_policy(script)}">\n'
        f"<title>{escape_text(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f"<h1>{escape_text(title)}</h1>\n{head}\n<nav>\n{links}\n</nav>\n{bodies}\n"
        f"{f'<script>{script}</script>' if script else ''}\n</body>\n</html>\n"
    )


def make_policy(script: str = "") -> str:
    """What a browser lets a page do: nothing but show what is in it, and run a script with just this text."""
    if not script:
        return POLICY
    return f"{POLICY}; script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def render_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], foot: Iterable[Sequence[str]] = (), kind: str = ""
) -> str:
    """A table; all cells are text. First column left, others right; `kind` "text": all left.

    Numbers and keys stay on one line, prose wraps between words, paths behind a separator or else anywhere. A table
    that is wider than the page scrolls by itself.
    """
    tag = f'<div class="wide"><table class="{kind}">' if kind else '<div class="wide"><table>'
    head = f"<thead>{_render_row(header, 'th')}</thead>\n" if header else ""
    end = "\n".join(_render_row(r, "td") for r in foot)
    return f"{tag}\n{head}<tbody>\n" + "\n".join(_render_row(r, "td") for r in rows) + (
        f"\n</tbody>\n<tfoot>\n{end}\n</tfoot>\n</table></div>" if end else "\n</tbody>\n</table></div>"
    )  # fmt: skip


def _render_row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(_render_cell(c, tag) for c in cells) + "</tr>"


def _render_cell(text: str, tag: str) -> str:
    longest = max(map(len, text.split()), default=0)
    if longest > WORD:
        pieces = SEPARATOR.sub(r"\g<0>\n", text).split("\n")
        return f'<{tag} class="long">{"<wbr>".join(map(escape_text, pieces))}</{tag}>'
    whole = longest == len(text) or len(text) <= (HEADER if tag == "th" else FIGURE)
    return f"<{tag}>{escape_text(text)}</{tag}>" if whole else f'<{tag} class="prose">{escape_text(text)}</{tag}>'


def render_image(png: bytes, caption: str) -> str:
    """A picture inside the page, with its text for those who do not see it."""
    data, text = b64encode(png).decode(), escape_text(caption)
    source = f'<img src="data:image/png;base64,{data}" alt="{text}">'
    return f"<figure>{source}<figcaption>{text}</figcaption></figure>"


def render_tiles(pairs: Iterable[tuple[str, str]]) -> str:
    """Figures with their names, side by side."""
    inside = "".join(f'<div class="tile"><b>{escape_text(value)}</b>{escape_text(name)}</div>' for name, value in pairs)
    return f'<div class="tiles">{inside}</div>'


def render_paragraph(text: str, kind: str = "") -> str:
    """Text as a paragraph, with a class."""
    return f'<p class="{kind}">{escape_text(text)}</p>' if kind else f"<p>{escape_text(text)}</p>"


def render_details(title: str, text: str) -> str:
    """Preformatted text that opens on a click."""
    return f"<details><summary>{escape_text(title)}</summary><pre>{escape_text(text)}</pre></details>"


def escape_text(text: str) -> str:
    """Any text as HTML that shows it and does nothing else."""
    return escape(escape_controls(text))
