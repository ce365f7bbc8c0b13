"""Typesets `sources/*.md` as `corpus/*.pdf`, byte for byte the same each time.

    python data/handbook/build.py [--check] [stem ...]

A source is CommonMark with tables below a YAML front matter. Further markup, none of it needed:

    <!-- body -->           on a line of its own: ends the pages numbered i, ii, iii
    <!-- contents -->       on a line of its own: all headings below it, with dotted leaders and page labels
    <!-- index -->          on a line of its own, just below a heading '#': the index, in two columns
    <!-- index: a; b -->    within a paragraph, heading or cell (not at its beginning): entries of the index;
                            `a = b` is set as "a, see b"
    word.[^1]               a footnote, set at the foot of the column; not in tables or headings
    [^1]: Its text.         a paragraph of its own, anywhere; the name is printed as the number
    ```formula 2.1          a fenced block, set centred, here with the number (2.1); *a* is italic, <sup>, <sub> work
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from functools import partial
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import yaml
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode as Node
from pages import FACES, MONO, PRINTABLE, SHADE, SPARE, TABLE_LOOK, TEXT, Book, Entry, make_styles
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
BODY_MARK, CONTENTS_MARK, INDEX_MARK = "<!-- body -->", "<!-- contents -->", "<!-- index -->"
ALIGN = {"text-align:right": TA_RIGHT, "text-align:center": TA_CENTER}


def read_source(path: Path) -> tuple[dict, list[Node], list[Node], dict[str, str]]:
    """Front matter, the blocks of the roman pages, the blocks of the body, the footnotes' markup by name."""
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
    names = re.findall(r"^\[\^(\w+)\]: ", body, re.MULTILINE)
    for name in names:
        body = re.sub(rf"(?<!\n)\[\^{name}\]", f"<!-- note: {name} -->", body)
    blocks = Node(MarkdownIt("commonmark").enable("table").disable("reference").parse(body)).children
    notes = {}
    for node in [node for node in blocks if node.type == "paragraph"]:
        if found := re.match(r"\[\^(\w+)\]: ", node.children[0].content):
            notes[found[1]] = inline(node.children[0]).removeprefix(found[0])
            blocks.remove(node)
    if sorted(notes) != sorted(names):
        raise BadInput("give each footnote its own name, and its text a paragraph of its own")
    marks = [n for n, node in enumerate(blocks) if is_mark(node, BODY_MARK)]
    return (meta, blocks[: marks[0]], blocks[marks[0] + 1 :], notes) if marks else (meta, [], blocks, notes)


def is_mark(node: Node, mark: str) -> bool:
    return node.type == "html_block" and node.content.strip() == mark


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
        case "html_inline" if found := re.fullmatch(r"<!-- (note|index): (.+) -->", node.content):
            call = f"<onDraw name={quoteattr(found[1])} label={quoteattr(found[2])}/>"
            return f"<super>{escape(found[2])}</super>{call}" if found[1] == "note" else call
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
        case "fence" if node.info.split()[:1] == ["formula"]:
            return [formula(node, styles["formula"], width)]
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
    part.outline = (int(node.tag[1]) - 1, plain(node), re.sub("<onDraw .*?/>", "", part.text), node.map[0])
    return [ActionFlowable(("chapter",)), rl.PageBreak(), part] if node.tag == "h1" else [part]


def formula(node: Node, style: Style, width: float) -> rl.Table:
    """Lines set centred, with the number after the word "formula" at the right edge."""
    typed(node)
    lines = (Node(MarkdownIt("commonmark").parseInline(line)) for line in node.content.splitlines())
    markup = "<br/>".join(inline(line.children[0]) for line in lines)
    number = "".join(f"({number})" for number in node.info.split()[1:])
    side = stringWidth(number, style.fontName, style.fontSize)
    row = ["", rl.Paragraph(markup, style), rl.Paragraph(number, Style("number", style, alignment=TA_RIGHT))]
    look = [
        ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
        ("LEFTPADDING", (0, 0), (-1, -1), 0),
        ("RIGHTPADDING", (0, 0), (-1, -1), 0),
    ]
    return rl.Table([row], [side, width - 2 * side, side], style=look, spaceAfter=6)


def contents(headings: list[tuple], styles: dict) -> list[rl.Flowable]:
    return [Entry(markup, styles[f"contents{level + 1}"], label) for level, markup, _, label in headings]


def index(marked: list[tuple[str, str]], style: Style) -> list[rl.Flowable]:
    """Terms in the order of the alphabet with the labels of their pages, a gap before each new letter."""
    labels, story = {}, []
    for term, label in marked:
        labels.setdefault(term, {})[label] = None
    for _, terms in groupby(sorted(labels, key=str.casefold), lambda term: term[0].casefold()):
        for term in terms:
            name, _, other = map(escape, term.partition(" = "))
            where = f"<i>see</i> {other}" if other else ", ".join(labels[term])
            story.append(rl.Paragraph(f"{name}, {where}", style))
        story.append(rl.Spacer(0, 6))
    return story


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
    if 'name="note"' in markup:
        refuse(node, "no footnotes in tables; write the note below the table")
    side = ALIGN.get(node.attrs.get("style"), TA_LEFT)
    return rl.Paragraph(f"<b>{markup}</b>" if node.type == "th" else markup, Style("cell", style, alignment=side))


def face_of(cell: Node) -> str:
    """The widest face in a cell."""
    return MONO if any(child.type == "code_inline" for child in cell.walk()) else FACES[TEXT][1]


def column_widths(lines: list[list[Node]], size: float, width: float) -> list[float]:
    """Each column gets its longest word; what is left is shared out by the length of its longest cell."""
    columns = [[(plain(entry), face_of(entry)) for entry in column] for column in zip(*lines, strict=True)]
    measure = partial(stringWidth, fontSize=size)
    least = [
        max(measure(word, face) for text, face in column for word in [*text.split(), "m"]) + 10 for column in columns
    ]
    most = [max(measure(text, face) for text, face in column) + 10 for column in columns]
    spare, wish = width - sum(least), sum(most) - sum(least)
    if spare <= 0 or wish <= 0:
        return [width * low / sum(least) for low in least]
    return [low + spare * max(high - low, 0) / wish for low, high in zip(least, most, strict=True)]


def typeset(path: Path) -> bytes:
    """The PDF of one source. It is set again until the page labels in its contents and its index are right."""
    source, known = read_source(path), ([], [])
    listing = any(is_mark(node, mark) for part in source[1:3] for node in part for mark in (CONTENTS_MARK, INDEX_MARK))
    while True:
        pdf, book = compose(*source, *known)
        found = (book.headings, book.marked)
        if not listing or found == known:
            return pdf
        known = found


def compose(meta: dict, front: list[Node], body: list[Node], notes: dict, headings: list, marked: list):
    """The PDF and its `Book`. headings, marked: those of the book before, for the contents and the index."""
    small = make_styles(meta["columns"])["footnote"]
    notes = {name: rl.Paragraph(f"<super>{name}</super> {markup}", small) for name, markup in notes.items()}
    book = Book(file := io.BytesIO(), meta, notes)
    styles = make_styles(1)
    story = [rl.Spacer(0, 60 * mm)]
    story += [rl.Paragraph(escape(meta[key]), styles[key]) for key in ("title", "subtitle")]
    story += [rl.Spacer(0, 90 * mm), rl.Paragraph(escape(meta["edition"]), styles["prose"])]
    for template, nodes, columns in zip(book.pageTemplates[1:3], (front, body), (1, meta["columns"]), strict=True):
        story += [ActionFlowable((template.id,)), rl.NextPageTemplate(template.id)]
        if nodes and nodes[0].tag != "h1":
            story.append(rl.PageBreak())
        styles = make_styles(columns)
        for node in nodes:
            if is_mark(node, CONTENTS_MARK):
                story += contents([heading for heading in headings if heading[2] > node.map[0]], styles)
            elif is_mark(node, INDEX_MARK):
                story += [*index(marked, styles["entry"]), rl.NextPageTemplate(template.id)]
            else:
                if node.next_sibling and is_mark(node.next_sibling, INDEX_MARK):
                    story.append(rl.NextPageTemplate("index"))
                story += block(node, styles, template.frames[0]._width, "prose")
    book.build(story)
    return file.getvalue(), book


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
