"""An SVG chart for light and dark backgrounds."""

from .measuring import median_rate
from .report import names, number, size_name

WIDTH, LEFT, RIGHT, BAR, GAP, TITLE = 760, 170, 90, 18, 7, 40
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 14px; }
.note { fill: #59636e; font-size: 12px; }
.ours { fill: #1a7f64; } .other { fill: #8c959f; } .limit { fill: #c4cbd3; }
.ground { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .note { fill: #9198a1; }
  .ours { fill: #3fb68b; } .other { fill: #6e7681; } .limit { fill: #444c56; }
  .ground { fill: #0d1117; }
}
"""


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def kind(name):
    if name.startswith("syncd"):
        return "ours"
    return "limit" if name == "bare route" else "other"


LEVELS = {"syncd": "syncd, FULL", "PocketBase": "PocketBase, NORMAL"}


def label(name, what):
    """The label of a bar. Writes state their durability."""
    return LEVELS.get(name, name) if what == "write" else name


def panel(title, what, rows, top):
    """A panel of bars that start at zero and share one scale."""
    most = max(value for _, value in rows)
    parts = [f'<text class="title" x="16" y="{top + 22}">{escaped(title)}</text>']
    y = top + TITLE - 6
    for name, value in rows:
        width = max(1, (WIDTH - LEFT - RIGHT) * value / most)
        middle = y + BAR - 5
        parts.append(f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escaped(label(name, what))}</text>')
        parts.append(
            f'<rect class="{kind(name)}" x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>')
        parts.append(f'<text x="{LEFT + width + 8:.1f}" y="{middle}">{number(value)}</text>')
        y += BAR + GAP
    return parts, y + 6


def svg(facts, figures):
    top, parts = 8, []
    titles = {"read": "Authorised reads of the caller's own document", "write": "Writes of the caller's own document"}
    for what in ("read", "write"):
        for size in sorted({row["size"] for row in figures if row["what"] == what}):
            rows = [(name, median_rate(figures, what, size, name)) for name in names(figures, what)]
            rows = sorted(((name, value) for name, value in rows if value), key=lambda row: (-row[1], row[0]))
            added, top = panel(f"{titles[what]}, {size_name(size)}: requests a second", what, rows, top)
            parts += added
    info = facts["machine"]
    note = (f"{info['processors']} processors ({info['processor']}), shared with wrk; median of "
            f"{facts['rounds']} rounds")
    parts.append(f'<text class="note" x="16" y="{top + 14}">{escaped(note)}</text>')
    height = top + 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="Requests a second of syncd and other servers">\n<style>{STYLE}</style>\n'
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>\n' + "\n".join(parts) + "\n</svg>\n")
