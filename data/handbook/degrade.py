"""Damaged twins of some handbook pages: scans at four levels of damage, as bare images and with an OCR layer.

    python data/handbook/degrade.py [--check] [--ocr]
    python data/handbook/degrade.py --record tesseract|rapidocr [--levels heavy,medium,light,clean] [--python PROGRAM]
    python data/handbook/degrade.py --fidelity

    twins/pdf/original/<document>.pdf        the pages as they were typeset: what the twins are made of
    twins/pdf/image/<level>/<document>.pdf   the same pages as images, without any text
    twins/pdf/ocr/<level>/<document>.pdf     the images over the words that an OCR engine read on them, invisible
    twins/ocr/<level>/<document>.tsv         those words, one a row, in the order in which the engine read them
    twins/ocr/engine.txt                     the engine that read them
    twins/fidelity.csv                       how much of the original the words of each page kept

The PDFs are built from the originals and the words, byte for byte the same each time, so that no OCR engine is needed.
`--ocr` starts over: it takes the pages from `corpus/` and has them read by Tesseract, if that is installed.

    twins/recorded/<engine>/<level>.jsonl.gz  what an OCR engine read on every page of `corpus/`, drawn and damaged: a page a line
    twins/recorded/<engine>/engine.txt        the engine, its setting, and the machine whose seconds the lines hold
    twins/recorded/fidelity.csv               how much of each page it kept

`--record` makes those files, a page at a time; a page that is recorded already is skipped, so it can be stopped at any time.
RapidOCR runs in an environment of its own (`make ocr` makes one): `--python` names its interpreter. `--fidelity` works out the
last file anew, from the records alone.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from itertools import groupby, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pymupdf
from PIL import Image, ImageFilter

from localeval import corpus, engines, ocr, pdf, twins
from localeval.provenance import machine

HERE = Path(__file__).parent
TWINS = HERE / "twins"
# Page indices from 0. In this order: one column, two columns, tables.
PAGES = {"drinking-water": (2, 6), "calendars": (7, 8), "home-food-safety": (3, 8)}
INK, PAPER, CUT = 30, 235, 165  # grey values, 0 is black: ink, paper, and where a black-and-white scanner divides them
ENGINE = "tesseract"
ENGINES = ("tesseract", "rapidocr")
PARTS = HERE.parents[1] / "runs" / ".cache" / "recorded"  # pages read so far, of a level that is not finished


@dataclass(frozen=True, slots=True)
class Damage:
    """What a scanner does to a page, in the order in which it is done.

    dpi: dots an inch. skew: degrees, to either side. blur: standard deviation of a Gaussian, in dots. noise: standard
    deviation in grey values of 256. dust: share of dots that turn to ink or paper. quality: of the JPEG, from 1 to 95; 0
    stores one bit a dot.
    """

    dpi: int
    skew: float
    blur: float
    noise: float
    dust: float
    quality: int


LEVELS = {
    "clean": Damage(dpi=150, skew=0.0, blur=0.5, noise=0, dust=0.0, quality=24),
    "light": Damage(dpi=150, skew=0.5, blur=0.6, noise=8, dust=0.0, quality=18),
    "medium": Damage(dpi=150, skew=1.0, blur=0.6, noise=18, dust=0.002, quality=0),
    "heavy": Damage(dpi=120, skew=1.5, blur=0.7, noise=14, dust=0.0015, quality=14),
}


class Word(NamedTuple):
    """A word as the engine read it. page: index from 0; line: number on the page; the box in points from the top left
    corner; confidence: the engine's own, from 0 to 100."""

    page: int
    line: int
    left: float
    top: float
    right: float
    bottom: float
    confidence: float
    word: str


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How much of one original page its OCR words keep. One row of fidelity.csv.

    Text is compared in NFKC, split at white space. Precision, recall and F1 count words as multisets, whatever their order.
    Character error rates are edit distances (insertions, deletions, replacements) over the characters of the original,
    words joined by one space, the original in the order in which `localeval.pdf` reads it. `cer`: against the words in the
    engine's order. `cer_as_read`: against what `localeval.pdf` reads from the twin, so wrong order counts as error too.
    """

    document: str
    level: str
    page: int  # index from 0, in the twin
    source_page: int  # and in the document of corpus/
    source_words: int
    ocr_words: int
    precision: float
    recall: float
    f1: float
    cer: float
    cer_as_read: float
    confidence: float  # mean of the engine's confidence in its words, from 0 to 100


def original(stem: str) -> bytes:
    """The chosen pages of a document of `corpus/`, with their page labels."""
    source, target = pymupdf.open(HERE / "corpus" / f"{stem}.pdf"), pymupdf.open()
    for page in PAGES[stem]:
        target.insert_pdf(source, from_page=page, to_page=page)
    target.set_page_labels(
        [{"startpage": n, "style": "D", "firstpagenum": int(source[p].get_label())} for n, p in enumerate(PAGES[stem])]
    )
    target.set_metadata({"title": source.metadata["title"]})
    return target.tobytes(garbage=4, deflate=True, no_new_id=True)


def scan(page: pymupdf.Page, damage: Damage, seed: list[int]) -> bytes:
    """The image of a damaged page: a grey JPEG, or a PNG of one bit a dot. The same seed gives the same bytes."""
    drawn, rng = page.get_pixmap(dpi=damage.dpi, colorspace=pymupdf.csGRAY), np.random.default_rng(seed)
    image = Image.frombytes("L", (drawn.width, drawn.height), drawn.samples)
    image = image.rotate(damage.skew * rng.choice([-1, 1]), Image.Resampling.BICUBIC, fillcolor=255)
    grey = np.asarray(image.filter(ImageFilter.GaussianBlur(damage.blur)), float)
    grey = INK + grey * (PAPER - INK) / 255 + rng.normal(0, damage.noise, grey.shape)
    dust = rng.random(grey.shape)
    grey[dust < damage.dust / 2], grey[dust > 1 - damage.dust / 2] = INK, PAPER
    image, file = Image.fromarray(grey.round().clip(0, 255).astype(np.uint8)), io.BytesIO()
    if damage.quality:
        image.save(file, "JPEG", quality=damage.quality)
    else:
        Image.fromarray(np.asarray(image) >= CUT).save(file, "PNG")
    return file.getvalue()


def scans(stem: str, level: str, pages: pymupdf.Document) -> list[bytes]:
    """The images of a twin's pages; each page of each twin has its own seed."""
    place = list(LEVELS).index(level), list(PAGES).index(stem)
    return [scan(page, LEVELS[level], [*place, page.number]) for page in pages]


def recognise(image: bytes, page: int, dpi: int) -> list[Word]:
    """The words that the engine finds on the image."""
    read = engines.Tesseract().recognise(image, dpi, "en")
    return [Word(page, word.line, *word[:5], word.text) for word in read.words]


# Every page of the handbook, damaged and read: only what was read is kept


class Read(NamedTuple):
    """What an engine read on one image. seconds: processor time, not the time on the wall, so that other work on the
    machine does not count."""

    words: tuple[ocr.Word, ...]
    seconds: float


def tesseract(images: Iterator[tuple[bytes, int]]) -> Iterator[Read]:
    """Reads one image after the other, one process each. images: the image and its dots an inch."""
    for image, dpi in images:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = engines.Tesseract().recognise(image, dpi, "en").words
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield Read(words, round(spent, 3))


def rapidocr(images: Iterator[tuple[bytes, int]], python: str) -> Iterator[Read]:
    """Reads one image after the other in one process of another Python, after its models are loaded."""
    worker = subprocess.Popen([python, str(TWINS / "read_rapidocr.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with worker:
        for image, dpi in images:
            worker.stdin.write(len(image).to_bytes(8, "big") + image)
            worker.stdin.flush()
            answer = worker.stdout.readline()
            if not answer:
                sys.exit(f"{python} stopped; is rapidocr installed there, with onnxruntime?")
            said = json.loads(answer)
            yield Read(engines.in_order(said["boxes"], said["width"], dpi), round(said["seconds"], 3))


def version_of(engine: str, python: str) -> str:
    """Version of an engine; stops with what to install where there is none."""
    command = [ENGINE, "--version"] if engine == "tesseract" else [python, str(TWINS / "read_rapidocr.py"), "--version"]
    try:
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()[0].split()[-1]
    except (OSError, subprocess.CalledProcessError):
        sys.exit(f"{engine} is not installed ({command[0]} does not answer), so nothing was read")


def record(engine: str, levels: list[str], python: str) -> None:
    """Has an engine read every page of every handbook at these levels of damage, and keeps what it read."""
    version, folder = version_of(engine, python), TWINS / "recorded" / engine
    about = f"{engine} {version}, one thread, processor time on {machine()['cpu']}\n"
    write(folder / "engine.txt", about.encode())
    for level in levels:
        held, part = folder / f"{level}.jsonl.gz", PARTS / engine / f"{level}.jsonl"
        part.parent.mkdir(parents=True, exist_ok=True)
        known = [record for path in (held, part) if path.exists() for record in ocr.read_records(path)]
        done = {(Path(record.document).stem, record.page): record for record in known}
        wanted = [(stem, page) for stem, count in page_counts().items() for page in range(count)]
        missing = [place for place in wanted if place not in done]
        images = ((damaged_page(*place, level), LEVELS[level].dpi) for place in missing)
        read = tesseract(images) if engine == "tesseract" else rapidocr(images, python)
        for number, (place, got) in enumerate(zip(missing, read, strict=True), len(done) + 1):
            done[place] = record_of(place, engine, version, level, got)
            ocr.write_records(part, done.values())
            print(f"{engine}, {level}: page {number} of {len(wanted)}", file=sys.stderr)
        ocr.write_records(held, [done[place] for place in wanted])
        part.unlink(missing_ok=True)


def record_of(place: tuple[str, int], engine: str, version: str, level: str, got: Read) -> ocr.Record:
    stem, page = place
    size = pymupdf.open(HERE / "corpus" / f"{stem}.pdf")[page].rect
    read = ocr.Recognised(engine, version, LEVELS[level].dpi, "en", got.seconds, got.words)
    return ocr.Record(f"{stem}.pdf", page, round(size.width, 2), round(size.height, 2), read)


def write_fidelity(folder: Path) -> None:
    """fidelity.csv of all that is recorded, engine by engine, level by level."""
    source, tables = corpus.load(HERE / "corpus"), []
    for engine, level in product(ENGINES, LEVELS):
        held = TWINS / "recorded" / engine / f"{level}.jsonl.gz"
        if held.exists():
            records = ocr.read_records(held)
            tables.append(twins.fidelity(source, twins.twin_corpus(source, records, str(held)), records, level))
    write(folder / "fidelity.csv", pd.concat(tables).to_csv(index=False, lineterminator="\n").encode())


def page_counts() -> dict[str, int]:
    """Pages of each handbook, in order of their names."""
    return {path.stem: len(pymupdf.open(path)) for path in sorted((HERE / "corpus").glob("*.pdf"))}


def damaged_page(stem: str, page: int, level: str) -> bytes:
    """The image of a page of `corpus/`; each page at each level has its own seed."""
    place = list(LEVELS).index(level), list(page_counts()).index(stem), page
    return scan(pymupdf.open(HERE / "corpus" / f"{stem}.pdf")[page], LEVELS[level], [len(LEVELS), *place])


def write_words(words: list[Word]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in [Word._fields, *words])


def read_words(text: str) -> list[Word]:
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return [Word(int(page), int(line), *map(float, numbers), word) for page, line, *numbers, word in rows]


# A font without glyphs, as OCR programs use it: codes are UTF-16, each half an em wide.
OCR_FONT = (
    "<</Type/Font/Subtype/Type0/BaseFont/GlyphLessFont/Encoding/Identity-H/DescendantFonts[{} 0 R]/ToUnicode {} 0 R>>",
    "<</Type/Font/Subtype/CIDFontType2/BaseFont/GlyphLessFont/CIDToGIDMap/Identity/DW 500/FontDescriptor {} 0 R"
    "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>",
    "<</Type/FontDescriptor/FontName/GlyphLessFont/Flags 5/FontBBox[0 -200 500 800]/Ascent 800/Descent -200/CapHeight 700"
    "/ItalicAngle 0/StemV 80>>",
)
TO_UNICODE = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap
/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def /CMapName /Adobe-Identity-UCS def /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
1 beginbfrange <0000> <FFFF> <0000> endbfrange
endcmap CMapName currentdict /CMap defineresource pop end end"""


def twin(images: list[bytes], pages: pymupdf.Document, words: list[Word] | None = None) -> bytes:
    """A PDF of the images on pages of the same size and labels, with the words as invisible text at their boxes."""
    book = pymupdf.open()
    font = add_font(book) if words is not None else 0
    for image, like in zip(images, pages, strict=True):
        page = book.new_page(width=like.rect.width, height=like.rect.height)
        page.insert_image(page.rect, stream=image)
        if font:
            here = [word for word in words if word.page == page.number]
            resources = int(book.xref_get_key(page.xref, "Resources")[1].split()[0])
            book.xref_set_key(resources, "Font", f"<</Words {font} 0 R>>")
            contents = page.get_contents()[-1]
            book.update_stream(contents, book.xref_stream(contents) + hidden(here, page.rect.height))
    book.set_page_labels(pages.get_page_labels())
    return book.tobytes(garbage=3, deflate=True, no_new_id=True)


def add_font(book: pymupdf.Document) -> int:
    whole, face, metrics, unicode = (book.get_new_xref() for _ in range(4))
    for xref, source in zip((whole, face, metrics), OCR_FONT, strict=True):
        book.update_object(xref, source.format(*((face, unicode) if xref == whole else (metrics,))))
    book.update_object(unicode, "<<>>")
    book.update_stream(unicode, TO_UNICODE)
    return whole


def hidden(words: list[Word], height: float) -> bytes:
    """Drawing operators: each word as wide as its box, on a straight line through the feet of the words of its line."""
    parts = ["\nBT 3 Tr"]
    for _, group in groupby(words, key=lambda word: word.line):
        line = list(group)
        size = float(np.median([word.bottom - word.top for word in line]))
        left, foot = (np.array([getattr(word, side) for word in line]) for side in ("left", "bottom"))
        slope = np.polyfit(left, foot, 1)[0] if len(line) > 2 else 0.0
        feet = np.median(foot - slope * left) + slope * left - 0.2 * size
        for word, y in zip(line, feet, strict=True):
            codes = word.word.encode("utf-16-be")
            stretch = 100 * (word.right - word.left) / (len(codes) / 2 * size / 2)
            parts.append(
                f"/Words {size:.2f} Tf {stretch:.2f} Tz 1 0 0 1 {word.left:.2f} {height - y:.2f} Tm <{codes.hex()}0020> Tj"
            )
    return "\n".join([*parts, "ET"]).encode()


def fidelity(stem: str, level: str, words: list[Word], source: Path, twin: Path) -> list[Fidelity]:
    rows = []
    for page, (before, after) in enumerate(zip(page_words(source), page_words(twin), strict=True)):
        found = [word for word in words if word.page == page]
        kept = " ".join(word.word for word in found)
        seen = unicodedata.normalize("NFKC", kept).split()
        shared = (Counter(before) & Counter(seen)).total()
        shares = shared / max(1, len(seen)), shared / len(before), 2 * shared / (len(before) + len(seen))
        truth = " ".join(before)
        errors = (edit_distance(truth, " ".join(text)) / len(truth) for text in (seen, after))
        confidence = sum(word.confidence for word in found) / max(1, len(found))
        figures = (round(value, 4) for value in (*shares, *errors, confidence))
        rows.append(Fidelity(stem, level, page, PAGES[stem][page], len(before), len(seen), *figures))
    return rows


def page_words(path: Path) -> list[list[str]]:
    """The words of each page in the order in which the project reads them."""
    document, layout = pdf.read(path, path.name)
    return [unicodedata.normalize("NFKC", document.text[page.start : page.end]).split() for page in layout.pages]


def edit_distance(a: str, b: str) -> int:
    """The fewest insertions, deletions and replacements of characters that turn one text into the other."""
    codes = np.array(list(map(ord, b)), int)
    steps = row = np.arange(len(b) + 1)
    for number, char in enumerate(a, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (codes != ord(char)))
        row = np.minimum.accumulate(np.concatenate([[number], best]) - steps) + steps  # insertions, left to right
    return int(row[-1])


def build(folder: Path) -> None:
    """Writes below the folder all that follows from the originals and the words."""
    rows = []
    for stem, level in product(PAGES, LEVELS):
        source, name = TWINS / "pdf" / "original" / f"{stem}.pdf", Path(level) / f"{stem}.pdf"
        pages = pymupdf.open(source)
        images = scans(stem, level, pages)
        words = read_words((TWINS / "ocr" / level / f"{stem}.tsv").read_text(encoding="utf-8"))
        for form, layer in (("image", None), ("ocr", words)):
            write(folder / "pdf" / form / name, twin(images, pages, layer))
        rows += fidelity(stem, level, words, source, folder / "pdf" / "ocr" / name)
    lines = [[field.name for field in fields(Fidelity)], *map(astuple, rows)]
    write(folder / "fidelity.csv", "".join(",".join(map(str, line)) + "\n" for line in lines).encode())


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def read_again() -> None:
    """Takes the originals from `corpus/` and has the engine read all their scans."""
    if not shutil.which(ENGINE):
        sys.exit(f"{ENGINE} is not installed, so nothing was read again; without --ocr the committed words are used")
    version = subprocess.run([ENGINE, "--version"], capture_output=True, check=True, text=True).stdout.splitlines()[0]
    write(TWINS / "ocr" / "engine.txt", f"{version}, language eng\n".encode())
    for stem in PAGES:
        write(TWINS / "pdf" / "original" / f"{stem}.pdf", source := original(stem))
        for level, damage in LEVELS.items():
            images = scans(stem, level, pymupdf.open(stream=source))
            words = [word for page, image in enumerate(images) for word in recognise(image, page, damage.dpi)]
            write(TWINS / "ocr" / level / f"{stem}.tsv", write_words(words).encode())


def differences(folder: Path) -> list[str]:
    """Files below the folder that are not the same in `twins/`."""
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [
        str(name)
        for name in names
        if not (TWINS / name).is_file() or (TWINS / name).read_bytes() != (folder / name).read_bytes()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="build damaged twins of some pages of corpus/*.pdf")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a twin differs")
    parser.add_argument("--ocr", action="store_true", help=f"first take the pages anew and read them with {ENGINE}")
    parser.add_argument("--record", choices=ENGINES, help="only have this engine read every page of corpus/*.pdf")
    parser.add_argument("--fidelity", action="store_true", help="only work out recorded/fidelity.csv anew")
    parser.add_argument("--levels", default="heavy,medium,light,clean", help="with --record: in this order")
    parser.add_argument("--python", default=sys.executable, help="with --record rapidocr: the Python that has it")
    options = parser.parse_args()
    if (options.ocr or options.record or options.fidelity) and options.check:
        parser.error("--check writes nothing, and the other option does; choose one")
    if options.record:
        levels = options.levels.split(",")
        if set(levels) - set(LEVELS):
            parser.error(f"--levels: known are {', '.join(LEVELS)}")
        record(options.record, levels, options.python)
    if options.record or options.fidelity:
        write_fidelity(TWINS / "recorded")
        return 0
    if options.ocr:
        read_again()
    if not options.check:
        build(TWINS)
        return 0
    for stem in PAGES:
        if original(stem) != (TWINS / "pdf" / "original" / f"{stem}.pdf").read_bytes():
            print(f"note: corpus/{stem}.pdf has changed since its twins were made; --ocr takes its pages anew")
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        stale = differences(Path(folder))
    if stale:
        print(f"not what is built: {', '.join(stale)}; run python data/handbook/degrade.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
