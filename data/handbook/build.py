"""Typesets `sources/*.md` as `corpus/*.pdf`, byte for byte the same each time.

    python data/handbook/build.py [--check] [stem ...]

A source is CommonMark with tables below a YAML front matter; `<!-- body -->` ends the pages numbered i, ii, iii.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

import yaml
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode as Node
from pages import FACES, MONO, PRINTABLE, SHADE, SPARE, TABLE_LOOK, TEXT, Book, make_styles
from reportlab import platypus as rl
from reportlab.lib.enums import TA_CENTER, TA_LEFT, TA_RIGHT
from reportlab.lib.styles import ParagraphStyle as Style
from reportlab.lib.units import mm
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.platypus.doctemplate import ActionFlowable
from reportlab.platypus.flowables import FrameBG

from localeval.records import BadInput

HERE = Path(__file__).parent
DEFAULTS = {"title": "", "subtitle": "", "header": "", "edition": "", "columns": 1}
BODY_MARK = "<!-- body -->"
ALIGN = {"text-align:right": TA_RIGHT, "text-align:center": TA_CENTER}


def read_source(path: Path) -> tuple[dict, list[Node], list[Node]]:
    """Front matter, the blocks of the roman pages, the blocks of the body."""
    text = path.read_text(encoding="utf-8")
    match = re.match(r"---\n(.*?\n)---\n", text, re.DOTALL)
    try:
        meta = DEFAULTS | (yaml.safe_load(match[1]) if match else {})
    except (yaml.YAMLError, TypeError):
        raise BadInput("the front matter is not YAML of 'key: value' lines; quote values that hold a colon") from None
    if any(not isinstance(meta[key], type(DEFAULTS.get(key))) for key in meta) or not meta["title"]:
        raise BadInput(f"the front matter needs a 'title' and holds only {', '.join(DEFAULTS)}")
    # The front matter becomes blank lines, so that line numbers in messages are those of the file.
    body = "\n" * match[0].count("\n") + text[match.end() :]
    blocks = Node(MarkdownIt("commonmark").enable("table").parse(body)).children
    marks = [n for n, node in enumerate(blocks) if node.type == "html_block" and node.content.strip() == BODY_MARK]
    return (meta, blocks[: marks[0]], blocks[marks[0] + 1 :]) if marks else (meta, [], blocks)


def refuse(node: Node, what: str):
    while node.map is None and node.parent is not None:
        node = node.parent
    raise BadInput(f"line {node.map[0] + 1}: {what}")


def typed(node: Node, family: str = TEXT) -> str:
    """Text of a node as paragraph markup; what `family` cannot print is set in the spare face, a power as a whole."""
    missing = sorted({c for c in node.content if ord(c) not in PRINTABLE[SPARE] | PRINTABLE[family] and c != "\n"})
    if missing:
        refuse(node, f"no font has {missing[0]!r} (U+{ord(missing[0]):04X}); write it in other characters")

    def face(run: re.Match) -> str:
        known = all(ord(c) in PRINTABLE[family] for c in run[0])
        return escape(run[0]) if known else f'<font name="{SPARE}">{run[0]}</font>'

    return re.sub(r"[²³¹⁰-₎]+|[^²³¹⁰-₎]", face, node.content)


def inline(node: Node) -> str:
    """Paragraph markup of an inline node and its children."""
    inner = "".join(inline(child) for child in node.children)
    match node.type:
        case "inline" | "link":
            return inner
        case "text":
            return typed(node)
        case "strong":
            return f"<b>{inner}</b>"
        case "em":
            return f"<i>{inner}</i>"
        case "code_inline":
            return f'<font name="{MONO}" size="-1">{typed(node, MONO)}</font>'
        case "softbreak":
            return " "
        case "hardbreak":
            return "<br/>"
        case "html_inline" if re.fullmatch(r"</?(sub|sup)>|<br/?>", node.content):
            return node.content.replace("<br>", "<br/>")
    return refuse(node, f"{node.type} is not part of the dialect; write plain text")


def plain(node: Node) -> str:
    return "".join(child.content or " " for child in node.walk() if child.type in ("text", "code_inline", "softbreak"))


def blocks(nodes: list[Node], styles: dict, width: float, prose: str = "prose") -> list:
    """Flowables of a run of blocks. width: of the text area in points. prose: the style of plain paragraphs."""
    return [part for node in nodes for part in block(node, styles, width, prose)]


def block(node: Node, styles: dict, width: float, prose: str) -> list:
    match node.type:
        case "heading":
            return heading(node, styles)
        case "paragraph":
            markup = inline(node.children[0])
            part = rl.Paragraph(markup, styles["caption" if markup.startswith("<b>Table") else prose])
            return [held(part) if markup.endswith(":") else part]
        case "bullet_list" | "ordered_list":
            return [*items(node, styles, width, prose), rl.Spacer(0, 4)]
        case "blockquote":
            start = map(held, (rl.Spacer(0, 3), FrameBG(SHADE), rl.Spacer(0, 5), rl.Indenter(12, 12)))
            inner = blocks(node.children, styles, width - 24, "note")
            return [*start, *inner, rl.Indenter(-12, -12), FrameBG(start=False), rl.Spacer(0, 9)]
        case "fence" | "code_block":
            fit = int((width - 8) / stringWidth("m", MONO, styles["code"].fontSize))
            typed(node, MONO)
            return [rl.Preformatted(node.content.rstrip("\n"), styles["code"], maxLineLength=fit)]
        case "table":
            return [table(node, styles["cell"], width)]
    return refuse(node, f"{node.type} is not part of the dialect; leave it out")


def held(part: rl.Flowable) -> rl.Flowable:
    """The flowable, never the last on a page: a heading above a list must not be kept with a mere change of indent."""
    part.keepWithNext = 1
    return part


def heading(node: Node, styles: dict) -> list:
    """A heading that `Book` adds to the outline; a chapter starts a page."""
    if node.tag not in styles:
        refuse(node, "headings go down to '###'")
    part = rl.Paragraph(inline(node.children[0]), styles[node.tag])
    part.outline = (int(node.tag[1]) - 1, plain(node))
    return [ActionFlowable(("chapter",)), rl.PageBreak(), part] if node.tag == "h1" else [part]


def items(node: Node, styles: dict, width: float, prose: str) -> list:
    """A bullet or numbered list; lists inside an item are indented once more."""
    story, first = [], int(node.attrs.get("start", 1))
    indent = 16 if node.type == "bullet_list" else 20
    for number, item in enumerate(node.children, first):
        inner = blocks(item.children, styles, width - indent, "note" if prose == "note" else "item")
        if inner and isinstance(inner[0], rl.Paragraph):
            inner[0].bulletText = "•" if node.type == "bullet_list" else f"{number}."
        story += [held(rl.Indenter(indent)), *inner, rl.Indenter(-indent)]
    return story


def table(node: Node, style: Style, width: float) -> rl.Table:
    """Rows of paragraphs over the whole width; the header row comes again where the table goes on to a new page."""
    lines = [line.children for part in node.children for line in part.children]
    rows = [[cell(entry, style) for entry in line] for line in lines]
    widths = column_widths(lines, style.fontSize, width)
    return rl.Table(rows, widths, style=TABLE_LOOK, repeatRows=1, spaceBefore=2, spaceAfter=10)


def cell(node: Node, style: Style) -> rl.Paragraph:
    markup = "".join(map(inline, node.children))
    side = ALIGN.get(node.attrs.get("style"), TA_LEFT)
    return rl.Paragraph(f"<b>{markup}</b>" if node.type == "th" else markup, Style("cell", style, alignment=side))


def column_widths(lines: list[list[Node]], size: float, width: float) -> list[float]:
    """Each column gets its longest word; what is left is shared out by the length of its longest cell."""
    measure = partial(stringWidth, fontName=FACES[TEXT][1], fontSize=size)
    columns = [[plain(entry) for entry in column] for column in zip(*lines, strict=True)]
    least = [max(measure(word) for text in column for word in [*text.split(), "m"]) + 10 for column in columns]
    most = [max(measure(text) for text in column) + 10 for column in columns]
    spare, wish = width - sum(least), sum(most) - sum(least)
    if spare <= 0 or wish <= 0:
        return [width * low / sum(least) for low in least]
    return [low + spare * max(high - low, 0) / wish for low, high in zip(least, most, strict=True)]


def typeset(path: Path) -> bytes:
    """The PDF of one source."""
    meta, front, body = read_source(path)
    book = Book(file := io.BytesIO(), meta)
    styles = make_styles(1)
    story = [rl.Spacer(0, 60 * mm)]
    story += [rl.Paragraph(escape(meta[key]), styles[key]) for key in ("title", "subtitle")]
    story += [rl.Spacer(0, 90 * mm), rl.Paragraph(escape(meta["edition"]), styles["prose"])]
    for template, nodes, columns in zip(book.pageTemplates[1:], (front, body), (1, meta["columns"]), strict=True):
        story += [ActionFlowable((template.id,)), rl.NextPageTemplate(template.id)]
        if nodes and nodes[0].tag != "h1":
            story.append(rl.PageBreak())
        story += blocks(nodes, make_styles(columns), template.frames[0]._width)
    book.build(story)
    return file.getvalue()


def main() -> int:
    parser = argparse.ArgumentParser(description="typeset sources/*.md as corpus/*.pdf")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a PDF differs")
    parser.add_argument("stems", nargs="*", help="sources to build (default: all)")
    options = parser.parse_args()
    stale = []
    for stem in options.stems or sorted(path.stem for path in (HERE / "sources").glob("*.md")):
        source, target = HERE / "sources" / f"{stem}.md", HERE / "corpus" / f"{stem}.pdf"
        try:
            pdf = typeset(source)
        except (BadInput, OSError) as error:
            sys.exit(f"{source}: {error}")
        if not options.check:
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(pdf)
        elif not target.is_file() or target.read_bytes() != pdf:
            stale.append(target.name)
    if stale:
        print(f"not what the sources give: {', '.join(stale)}; run python data/handbook/build.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
