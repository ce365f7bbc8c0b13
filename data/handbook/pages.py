"""How a page looks: faces, paragraph styles, columns, footnotes, running headers, page labels and the outline."""

from __future__ import annotations

import io
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from reportlab import platypus as rl
from reportlab.lib.colors import HexColor
from reportlab.lib.enums import TA_CENTER, TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle as Style
from reportlab.lib.units import mm
from reportlab.pdfbase.pdfmetrics import registerFont, registerFontFamily
from reportlab.pdfbase.ttfonts import TTFont

WIDTH, HEIGHT = A4
MARGIN, TOP, BOTTOM, GUTTER = 24 * mm, 27 * mm, 25 * mm, 8 * mm
INK, RULE, SHADE = HexColor("#1a1a1a"), HexColor("#7a7a7a"), HexColor("#eeeeea")
# The built-in PDF fonts stop at Latin-1 (no ≤, no Greek); these come with matplotlib and may be embedded.
TEXT, SPARE, SANS, MONO = "STIXGeneral", "DejaVuSerif", "DejaVuSans-Bold", "DejaVuSansMono"
FACES = {
    TEXT: (TEXT, "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
    SPARE: (SPARE, "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    SANS: (SANS,) * 4,
    MONO: (MONO,) * 4,
}
TABLE_LOOK = [
    ("VALIGN", (0, 0), (-1, -1), "TOP"),
    ("BACKGROUND", (0, 0), (-1, 0), SHADE),
    ("LINEABOVE", (0, 0), (-1, 0), 0.8, INK),
    ("LINEBELOW", (0, 0), (-1, -2), 0.25, RULE),
    ("LINEBELOW", (0, -1), (-1, -1), 0.8, INK),
    ("LEFTPADDING", (0, 0), (-1, -1), 4),
    ("RIGHTPADDING", (0, 0), (-1, -1), 4),
    ("TOPPADDING", (0, 0), (-1, -1), 2),
]


def load_fonts() -> dict[str, set[int]]:
    """Registers each family; the code points that all faces of a family can print."""
    folder, printable = Path(find_spec("matplotlib").origin).parent / "mpl-data/fonts/ttf", {}
    for family, files in FACES.items():
        fonts = {name: TTFont(name, str(folder / f"{name}.ttf")) for name in files}
        for font in fonts.values():
            registerFont(font)
        registerFontFamily(family, *files)
        printable[family] = set.intersection(*(set(font.face.charToGlyph) for font in fonts.values()))
    return printable


PRINTABLE = load_fonts()


def make_styles(columns: int) -> dict[str, Style]:
    """Paragraph styles by name; two columns are set a little smaller and tighter."""
    size, leading, scale = (10.5, 14.0, 1.0) if columns == 1 else (10.0, 12.6, 0.8)
    text = Style("text", fontName=TEXT, fontSize=size, leading=leading, spaceAfter=leading / 2, textColor=INK)
    text.bulletFontName, text.bulletFontSize, text.bulletIndent = TEXT, size, -13
    text.allowWidows = text.allowOrphans = 0
    small = partial(Style, parent=text, fontSize=size - 1, leading=(size - 1) * 1.25)
    heading = partial(Style, parent=text, fontName=SANS, keepWithNext=1)
    styles = [
        Style("prose", parent=text, alignment=TA_JUSTIFY),
        Style("item", parent=text, spaceAfter=leading / 5),
        small("note", spaceAfter=4),
        small("cell", spaceAfter=0),
        small("caption", spaceBefore=4, spaceAfter=4, keepWithNext=1),
        small("code", fontName=MONO, fontSize=size - 2.5, leftIndent=8),
        small("footnote", fontSize=size - 2, leading=(size - 2) * 1.2, leftIndent=10, firstLineIndent=-10),
        small("entry", leftIndent=12, firstLineIndent=-12, spaceAfter=0),
        small("contents1", fontName=FACES[TEXT][1], leading=size * 1.06, spaceBefore=4, spaceAfter=0, rightIndent=36),
        small("contents2", leading=size * 1.06, spaceAfter=0, leftIndent=12, rightIndent=36),
        small("contents3", leading=size * 1.06, spaceAfter=0, leftIndent=30, rightIndent=36),
        Style("formula", parent=text, leading=leading * 1.2, alignment=TA_CENTER, spaceAfter=0),
        heading("h1", fontSize=20 * scale, leading=25 * scale, spaceAfter=14 * scale),
        heading("h2", fontSize=12.5 * scale, leading=16 * scale, spaceBefore=9, spaceAfter=5),
        heading("h3", fontSize=10.5 * scale, leading=14 * scale, spaceBefore=6, spaceAfter=3),
        heading("title", fontSize=28, leading=36, spaceAfter=12),
        Style("subtitle", parent=text, fontSize=15, leading=20),
    ]
    return {style.name: style for style in styles}


class Column(rl.Frame):
    """A frame that keeps room at its foot for the footnotes of the paragraphs in it, and draws them there."""

    notes = ()

    def room(self, notes: tuple) -> float:
        rule = 9 if notes and not self.notes else 0
        return rule + sum(note.wrap(self._width, 0)[1] + 2 for note in notes)

    def add(self, flowable, canv, trySplit=0):
        new, floor = footnotes(flowable, canv.book), self._y1p
        self._y1p += self.room(new)
        done = super().add(flowable, canv, trySplit)
        if done:
            self.notes += new
        else:
            self._y1p = floor
        return done

    def split(self, flowable, canv):
        floor = self._y1p
        self._y1p += self.room(footnotes(flowable, canv.book))
        parts = super().split(flowable, canv)
        self._y1p = floor
        return parts

    def draw_notes(self, canvas):
        y = self._y1p
        if self.notes:
            canvas.setLineWidth(0.4)
            canvas.line(self._x1, y - 5, self._x1 + 60, y - 5)
            y -= 9
        for note in self.notes:
            y -= note.wrap(self._width, 0)[1] + 2
            note.drawOn(canvas, self._x1, y)
        self.notes, self._y1p = (), self._y1


def footnotes(flowable: rl.Flowable, book: Book) -> tuple[rl.Paragraph, ...]:
    """The notes that a paragraph, or a group that stays together, refers to."""
    found = [note for part in getattr(flowable, "_content", ()) for note in footnotes(part, book)]
    for part in getattr(flowable, "frags", ()):
        # Once its lines are broken, a paragraph has words, [width, (fragment, text), ...], in place of fragments.
        for fragment in [pair[0] for pair in part[1:]] if isinstance(part, list) else [part]:
            mark = getattr(fragment, "cbDefn", None)
            if mark and mark.name == "note":
                found.append(book.notes[mark.label])
    return tuple(found)


class Entry(rl.Paragraph):
    """A line of the contents: a heading, dots, and the label of its page at the right edge."""

    def __init__(self, markup: str, style: Style, label: str):
        super().__init__(markup, style)
        self.label = label

    def draw(self):
        super().draw()
        style, last = self.style, self.blPara.lines[-1]
        end = self.width - style.rightIndent - (last[0] if isinstance(last, tuple) else last.extraSpace)
        y = style.leading - style.fontSize
        dots = int((self.width - 24 - end) / self.canv.stringWidth(" .", TEXT, style.fontSize))
        self.canv.setFont(TEXT, style.fontSize)
        self.canv.drawRightString(self.width - 24, y, " ." * dots)
        self.canv.setFont(style.fontName, style.fontSize)
        self.canv.drawRightString(self.width, y, self.label)


class Book(rl.BaseDocTemplate):
    """Page templates `title`, `front`, `body` and `index`, with the page labels, the outline and the running headers.

    notes: footnotes by name. headings, marked: what was set, with the page labels, for the contents and the index.
    """

    def __init__(self, file: io.BytesIO, meta: dict, notes: dict[str, rl.Paragraph]):
        about = {"title": meta["title"], "subject": meta["subtitle"], "lang": "en-GB", "invariant": 1}
        super().__init__(file, pagesize=A4, initialFontName=TEXT, **about)
        self.meta, self.chapter, self.front_pages, self.depth = meta, "", 0, -1
        self.notes, self.headings, self.marked = notes, [], []
        no_padding = dict.fromkeys(("leftPadding", "rightPadding", "topPadding", "bottomPadding"), 0)

        def columns(count: int) -> list[Column]:
            width = (WIDTH - 2 * MARGIN - GUTTER * (count - 1)) / count
            lefts = [MARGIN + n * (width + GUTTER) for n in range(count)]
            return [Column(left, BOTTOM, width, HEIGHT - TOP - BOTTOM, **no_padding) for left in lefts]

        self.addPageTemplates(rl.PageTemplate("title", columns(1)))
        self.addPageTemplates(rl.PageTemplate("front", columns(1), onPage=furniture))
        self.addPageTemplates(rl.PageTemplate("body", columns(meta["columns"]), onPage=furniture))
        self.addPageTemplates(rl.PageTemplate("index", columns(2), onPage=furniture))

    def beforeDocument(self):
        """What `<onDraw name="...">` in a paragraph calls."""
        self.canv.book = self
        self.canv.setNamedCB("note", lambda *_: None)
        self.canv.setNamedCB("index", lambda *call: self.marked.extend((t, self.label()) for t in call[2].split("; ")))

    def label(self) -> str:
        number = self.page - self.front_pages
        return str(number) if self.front_pages else roman(number)

    def afterPage(self):
        for frame in self.pageTemplate.frames:
            frame.draw_notes(self.canv)

    def handle_chapter(self):
        """Comes just before the page break of a chapter: its first page does not repeat its name above it."""
        self.chapter = ""

    def handle_front(self):
        """The title page is page i."""
        self.canv.addPageLabel(0, "ROMAN_LOWER", 1)

    def handle_body(self):
        """Comes on the last page of the front matter."""
        self.front_pages = self.page
        self.canv.addPageLabel(self.page, "ARABIC", 1)

    def afterFlowable(self, flowable):
        if hasattr(flowable, "outline"):
            level, text, markup, line = flowable.outline
            self.headings.append((level, markup, line, self.label()))
            self.chapter = self.chapter or text
            self.depth = min(level, self.depth + 1)
            key = f"{self.page}-{self.frame._y:.1f}-{text}"
            self.canv.bookmarkHorizontal(key, 0, self.frame._y + flowable.height)
            self.canv.addOutlineEntry(text, key, self.depth, closed=level > 0)


def furniture(canvas, book: Book):
    """Running header and page number at the outer edge: on odd pages to the right, and the header is the chapter."""
    number = book.page - book.front_pages
    draw, edge = (canvas.drawRightString, WIDTH - MARGIN) if number % 2 else (canvas.drawString, MARGIN)
    canvas.setFont(FACES[TEXT][2], 9.5)
    draw(edge, HEIGHT - 17 * mm, (number % 2 and book.chapter) or book.meta["header"] or book.meta["title"])
    canvas.setLineWidth(0.4)
    canvas.line(MARGIN, HEIGHT - 19 * mm, WIDTH - MARGIN, HEIGHT - 19 * mm)
    canvas.setFont(TEXT, 10)
    draw(edge, 14 * mm, book.label())


def roman(number: int) -> str:
    """Lower-case roman numeral of 1 to 39, as PDF page labels count."""
    tens, ones = divmod(number, 10)
    return "x" * tens + ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")[ones]
