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
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

import yaml
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from reportlab.lib.colors import HexColor
from reportlab.lib.enums import TA_CENTER, TA_JUSTIFY, TA_LEFT, TA_RIGHT
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase.pdfmetrics import registerFont, registerFontFamily, stringWidth
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.platypus import (
    BaseDocTemplate,
    Frame,
    Indenter,
    NextPageTemplate,
    PageBreak,
    PageTemplate,
    Paragraph,
    Preformatted,
    Spacer,
    Table,
)
from reportlab.platypus.doctemplate import ActionFlowable
from reportlab.platypus.flowables import FrameBG

from localeval.records import BadInput

HERE = Path(__file__).parent
KEYS = {"title": str, "subtitle": str, "header": str, "edition": str, "columns": int, "front": int}
BODY_MARK = "<!-- body -->"
WIDTH, HEIGHT = A4
MARGIN, TOP, BOTTOM, GUTTER = 24 * mm, 27 * mm, 25 * mm, 8 * mm
INK, RULE, SHADE = HexColor("#1a1a1a"), HexColor("#7a7a7a"), HexColor("#eeeeea")
ALIGN = {"text-align:right": TA_RIGHT, "text-align:center": TA_CENTER}
# The built-in PDF fonts stop at Latin-1 (no ≤, no Greek); these come with matplotlib and may be embedded.
FACES = {
    "Text": ("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
    "Spare": ("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    "Sans": ("DejaVuSans-Bold",) * 4,
    "Mono": ("DejaVuSansMono",) * 4,
}


def load_fonts() -> dict[str, set[int]]:
    """Registers each family; the code points that all faces of a family can print."""
    folder = Path(find_spec("matplotlib").origin).parent / "mpl-data" / "fonts" / "ttf"
    printable = {}
    for family, files in FACES.items():
        fonts = {name: TTFont(name, str(folder / f"{name}.ttf")) for name in files}
        for font in fonts.values():
            registerFont(font)
        registerFontFamily(family, *files)
        printable[family] = set.intersection(*(set(font.face.charToGlyph) for font in fonts.values()))
    return printable


PRINTABLE = load_fonts()


def make_styles(columns: int) -> dict[str, ParagraphStyle]:
    """Paragraph styles by name; two columns are set a little smaller and tighter."""
    size, leading = (10.5, 14.0) if columns == 1 else (10.0, 12.6)
    text = ParagraphStyle(
        "text", fontName="STIXGeneral", fontSize=size, leading=leading, spaceAfter=leading * 0.5, textColor=INK,
        alignment=TA_JUSTIFY, allowWidows=0, allowOrphans=0,
    )  # fmt: skip
    flush = partial(ParagraphStyle, parent=text, alignment=TA_LEFT)
    heading = partial(flush, fontName="DejaVuSans-Bold", keepWithNext=1)
    small = size - 1
    scale = 1.0 if columns == 1 else 0.8
    styles = [
        text,
        flush("item", spaceAfter=leading * 0.2),
        flush("note", fontSize=small, leading=leading - 1, spaceAfter=4),
        flush("cell", fontSize=small, leading=small * 1.22, spaceAfter=0),
        flush("caption", fontSize=small, leading=small * 1.25, spaceBefore=4, spaceAfter=4, keepWithNext=1),
        flush("code", fontName="DejaVuSansMono", fontSize=size - 2.5, leading=size + 0.5, leftIndent=8),
        heading("h1", fontSize=20 * scale, leading=25 * scale, spaceAfter=14 * scale),
        heading("h2", fontSize=12.5 * scale, leading=16 * scale, spaceBefore=9, spaceAfter=5),
        heading("h3", fontSize=10.5 * scale, leading=14 * scale, spaceBefore=6, spaceAfter=3),
        flush("title", fontName="DejaVuSans-Bold", fontSize=28, leading=36, spaceAfter=12),
        flush("subtitle", fontSize=15, leading=20),
    ]
    return {style.name: style for style in styles}


def read_source(path: Path) -> tuple[dict, list[SyntaxTreeNode], list[SyntaxTreeNode]]:
    """Front matter, the blocks of the roman pages, the blocks of the body. Without a mark, `front: N` chapters are roman."""
    match = re.match(r"---\n(.*?\n)---\n", path.read_text(encoding="utf-8"), re.DOTALL)
    if not match:
        raise BadInput(f"{path.name}: no front matter; start the file with '---', 'title: ...', '---'")
    meta = {"subtitle": "", "edition": "", "columns": 1, "front": 0} | (yaml.safe_load(match[1]) or {})
    for key, value in meta.items():
        if not isinstance(value, KEYS.get(key, ())):
            raise BadInput(f"{path.name}: front matter '{key}: {value}' is not one of {', '.join(KEYS)} with its type")
    if "title" not in meta or meta["columns"] not in (1, 2):
        raise BadInput(f"{path.name}: the front matter needs a 'title', and 'columns' of 1 or 2")
    # The front matter becomes blank lines, so that line numbers in messages are those of the file.
    body = "\n" * match[0].count("\n") + match.string[match.end() :]
    blocks = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(body)).children
    return meta, *split_front(blocks, meta["front"])


def split_front(blocks: list[SyntaxTreeNode], chapters: int) -> tuple[list[SyntaxTreeNode], list[SyntaxTreeNode]]:
    for index, node in enumerate(blocks):
        if node.type == "html_block" and node.content.strip() == BODY_MARK:
            return blocks[:index], blocks[index + 1 :]
    starts = [index for index, node in enumerate(blocks) if node.type == "heading" and node.tag == "h1"]
    cut = starts[chapters] if chapters < len(starts) else 0
    return blocks[:cut], blocks[cut:]


def refuse(node: SyntaxTreeNode, what: str):
    while node.map is None and node.parent is not None:
        node = node.parent
    raise BadInput(f"line {node.map[0] + 1}: {what}")


def typed(text: str, node: SyntaxTreeNode, family: str = "Text") -> str:
    """Text as paragraph markup; runs that `family` cannot print are set in the spare face, powers as one run."""
    missing = sorted({c for c in text if ord(c) not in PRINTABLE["Spare"] | PRINTABLE[family] and c not in "\t\n"})
    if missing:
        refuse(node, f"no font has {missing[0]!r} (U+{ord(missing[0]):04X}); write it in other characters")

    def spare(match: re.Match) -> str:
        known = all(ord(c) in PRINTABLE[family] for c in match[0])
        return escape(match[0]) if known else f'<font name="Spare">{escape(match[0])}</font>'

    return re.sub(r"[²³¹⁰-₎]+|[^²³¹⁰-₎]", spare, text)


def inline(node: SyntaxTreeNode) -> str:
    """Paragraph markup of an inline node and its children."""
    inner = "".join(inline(child) for child in node.children)
    match node.type:
        case "text":
            return typed(node.content, node)
        case "inline" | "link":
            return inner
        case "strong":
            return f"<b>{inner}</b>"
        case "em":
            return f"<i>{inner}</i>"
        case "code_inline":
            return f'<font name="Mono" size="-1">{typed(node.content, node, "Mono")}</font>'
        case "softbreak":
            return " "
        case "hardbreak":
            return "<br/>"
        case "html_inline" if re.fullmatch(r"</?(sub|sup)>|<br ?/?>", node.content):
            return "<br/>" if node.content.startswith("<br") else node.content
    return refuse(node, f"{node.type} is not part of the dialect; write it as plain text")


def plain(node: SyntaxTreeNode) -> str:
    return "".join(child.content or " " for child in node.walk() if child.type in ("text", "code_inline", "softbreak"))


def blocks_to_story(blocks: list[SyntaxTreeNode], styles: dict, width: float, style: str = "text") -> list:
    """Flowables of a run of blocks. width: of the text area in points, which tables fill."""
    return [part for node in blocks for part in block(node, styles, width, style)]


def block(node: SyntaxTreeNode, styles: dict, width: float, style: str) -> list:
    match node.type:
        case "heading":
            return heading(node, styles)
        case "paragraph":
            markup = inline(node.children[0])
            return [Paragraph(markup, styles["caption" if markup.startswith("<b>Table") else style])]
        case "bullet_list" | "ordered_list":
            return list_items(node, styles, width, "note" if style == "note" else "item")
        case "blockquote":
            inner = blocks_to_story(node.children, styles, width - 24, "note")
            return [Spacer(0, 3), FrameBG(SHADE), Spacer(0, 5), Indenter(12, 12), *inner, Indenter(-12, -12),
                    Spacer(0, 3), FrameBG(start=False), Spacer(0, 9)]  # fmt: skip
        case "fence" | "code_block":
            typed(node.content, node, "Mono")
            code = styles["code"]
            fit = int((width - code.leftIndent) / stringWidth("m", code.fontName, code.fontSize))
            return [Preformatted(node.content.rstrip("\n"), code, maxLineLength=fit)]
        case "table":
            return [table(node, styles, width), Spacer(0, 10)]
    return refuse(node, f"{node.type} is not part of the dialect; leave it out")


def heading(node: SyntaxTreeNode, styles: dict) -> list:
    level = int(node.tag[1])
    if level > 3:
        refuse(node, "headings go down to '###'")
    text = plain(node)
    part = Paragraph(inline(node.children[0]), styles[node.tag])
    part.outline = (level - 1, text)
    return [ActionFlowable(("chapter", text)), PageBreak(), part] if level == 1 else [part]


def list_items(node: SyntaxTreeNode, styles: dict, width: float, style: str) -> list:
    """A bullet or numbered list; lists inside an item are indented once more."""
    story, indent = [], 16
    number = int(node.attrs.get("start", 1))
    for count, item in enumerate(node.children, number):
        mark = "•" if node.type == "bullet_list" else f"{count}."
        inner = blocks_to_story(item.children, styles, width - indent, style)
        if inner and isinstance(inner[0], Paragraph):
            inner[0] = Paragraph(inner[0].text, inner[0].style, bulletText=mark)
            inner[0].style = ParagraphStyle("marked", parent=inner[0].style, bulletIndent=-indent + 3)
        story += [Indenter(indent), *inner, Indenter(-indent)]
    return [*story, Spacer(0, styles["text"].spaceAfter * 0.6)]


def table(node: SyntaxTreeNode, styles: dict, width: float) -> Table:
    """Rows of paragraphs over the whole width; the header row is repeated where the table goes on to a new page."""
    lines = [line.children for part in node.children for line in part.children]
    rows = [[cell(entry, styles["cell"]) for entry in line] for line in lines]
    look = [
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("BACKGROUND", (0, 0), (-1, 0), SHADE),
        ("LINEABOVE", (0, 0), (-1, 0), 0.8, INK),
        ("LINEBELOW", (0, 0), (-1, 0), 0.5, INK),
        ("LINEBELOW", (0, 1), (-1, -2), 0.25, RULE),
        ("LINEBELOW", (0, -1), (-1, -1), 0.8, INK),
        ("LEFTPADDING", (0, 0), (-1, -1), 4),
        ("RIGHTPADDING", (0, 0), (-1, -1), 4),
        ("TOPPADDING", (0, 0), (-1, -1), 2),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 3),
    ]
    return Table(rows, column_widths(lines, styles["cell"].fontSize, width), style=look, repeatRows=1)


def cell(node: SyntaxTreeNode, style: ParagraphStyle) -> Paragraph:
    markup = inline(node.children[0]) if node.children else ""
    side = ALIGN.get(node.attrs.get("style", ""), TA_LEFT)
    return Paragraph(f"<b>{markup}</b>" if node.type == "th" else markup, ParagraphStyle("c", parent=style, alignment=side))


def column_widths(lines: list, size: float, width: float) -> list[float]:
    """Each column gets its longest word; what is left is shared out by the length of its longest cell."""
    columns = [[plain(entry) for entry in column] for column in zip(*lines, strict=True)]
    measure = partial(stringWidth, fontName="STIXGeneralBol", fontSize=size)
    least = [max(measure(word) for text in column for word in [*text.split(), "m"]) + 10 for column in columns]
    most = [max(measure(text) for text in column) + 10 for column in columns]
    spare, wish = width - sum(least), sum(most) - sum(least)
    if spare <= 0 or wish <= 0:
        return [width * one / sum(least) for one in least]
    return [low + spare * (high - low) / wish for low, high in zip(least, most, strict=True)]
