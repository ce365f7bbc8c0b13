"""Folders of files: what is read, what is refused and how, and texts that are the same on every system."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval import book, build, chunking, corpus, tables
from localeval.records import BadInput, Span

pymupdf = pytest.importorskip("pymupdf", reason="pip install pymupdf==1.26.7")

BAD_FILES = {
    "page.pdf": (b"<html><body>saved as pdf</body></html>", "not a PDF"),
    "empty.pdf": (b"", "an empty file"),
    "cut.pdf": (b"%PDF-1.4\n1 0 obj\n<<", "fetch or export it again"),
    "blank.txt": (b"  \n", r"no text in it \(an empty file\)"),
    "empty.md": (b"", "no text in it"),
    "latin.txt": (b"caf\xe9", "not UTF-8"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_one_line_that_names_them(tmp_path, name):
    content, message = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.txt").write_text("Something to read.")
    with pytest.raises(BadInput, match=message) as error:
        corpus.load(tmp_path)
    assert name in str(error.value) and "\n" not in str(error.value)
    read = corpus.load(tmp_path, strict=False)
    assert [doc.doc_id for doc in read.documents] == ["good.txt"] and list(read.failures) == [name]


def test_all_unreadable_files_are_named_in_one_line(tmp_path):
    for name, (content, _) in BAD_FILES.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput) as error:
        corpus.load(tmp_path)
    message = str(error.value)
    assert message.startswith(f"{tmp_path}: 6 files cannot be read: blank.txt (no text in it") and "\n" not in message
    assert "latin.txt (not UTF-8 (byte 3); save it as UTF-8), and 1 more" in message and "page.pdf" not in message
    with pytest.raises(BadInput, match="6 files cannot be read"):
        corpus.load(tmp_path, strict=False)  # nothing to go on with
    (tmp_path / "good.txt").write_text("Something to read.")
    read = corpus.load(tmp_path, strict=False)
    assert list(read.failures) == sorted(BAD_FILES) and read.failures["latin.txt"].startswith("not UTF-8")


def test_files_of_other_kinds_are_listed(tmp_path):
    for name in ("good.txt", "page.html", "sub.docx", "noname", ".hidden", "empty.md"):
        (tmp_path / name).write_text("text" if name != "empty.md" else "")
    read = corpus.load(tmp_path, strict=False)
    reason = "not one of .pdf, .md, .txt"
    assert read.skipped == {"noname": reason, "page.html": reason, "sub.docx": reason}
    frame = corpus.unread(read)
    assert frame["file"].tolist() == ["empty.md", "noname", "page.html", "sub.docx"]
    assert frame["outcome"].tolist() == ["could not be read"] + ["left alone"] * 3
    assert corpus.unread(corpus.Corpus((), {}, {})).empty


def test_linked_folders_are_followed_and_none_is_read_twice(tmp_path):
    folder, elsewhere = tmp_path / "corpus", tmp_path / "elsewhere"
    for place in (folder / "real", elsewhere / "deep"):
        place.mkdir(parents=True)
        (place / "a.txt").write_text("Text.")
    (folder / "also").symlink_to(folder / "real", target_is_directory=True)
    (folder / "far").symlink_to(elsewhere, target_is_directory=True)
    (elsewhere / "deep" / "circle").symlink_to(elsewhere, target_is_directory=True)
    (folder / "up").symlink_to(tmp_path, target_is_directory=True)
    (folder / "file.txt").symlink_to(elsewhere / "deep" / "a.txt")
    read = corpus.load(folder)
    assert [doc.doc_id for doc in read.documents] == ["far/deep/a.txt", "file.txt", "real/a.txt"]
    assert list(read.skipped) == ["also", "far/deep/circle", "up"]
    (folder / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    with pytest.raises(BadInput, match=r"gone.txt: cannot be read \(No such file"):
        corpus.load(folder)


def test_folders_that_are_missing_or_empty(tmp_path):
    with pytest.raises(BadInput, match="no such folder"):
        corpus.load(tmp_path / "none")
    (tmp_path / "notes.docx").write_bytes(b"x")
    (tmp_path / ".hidden.txt").write_text("x")
    with pytest.raises(BadInput, match=r"no .pdf, .md, .txt file in it"):
        corpus.load(tmp_path)


def test_documents_are_named_by_their_place_and_come_in_order(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.md").write_text("# B\n\nText.")
    (tmp_path / "a.md").write_text("# A\n\nText.")
    (tmp_path / "index.md").write_text("# Top\n\nText.")
    read = corpus.load(tmp_path)
    assert [doc.doc_id for doc in read.documents] == ["a.md", "b/index.md", "index.md"]
    assert [read.layouts[doc.doc_id].title for doc in read.documents] == ["A", "B", "Top"]
    assert corpus.inventory(read)["headings"].tolist() == [1, 1, 1]


def test_line_ends_and_byte_order_marks_change_nothing(tmp_path):
    (tmp_path / "unix.md").write_bytes(b"# Kiln\nbc")
    (tmp_path / "windows.md").write_bytes(b"\xef\xbb\xbf# Kiln\r\nbc")
    unix, windows = corpus.load(tmp_path).documents
    assert unix.text == windows.text == "# Kiln\nbc" and unix.text_sha256 == windows.text_sha256
    assert unix.source_sha256 != windows.source_sha256
    assert unix[Span("unix.md", 7, 9)] == "bc"


def test_null_characters_are_dropped(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\x00b")
    assert corpus.load(tmp_path).documents[0].text == "ab"


def test_headings_outside_code_only(tmp_path):
    (tmp_path / "a.md").write_text("# One\n\n```\n# not one\n```\n\n## Two\n#hash\n")
    document, layout = corpus.read_plain(tmp_path / "a.md", "a.md")
    assert [(document.text[h.start : h.end], h.level) for h in layout.headings] == [("# One", 1), ("## Two", 2)]


FENCES = {
    "closed by the same character only": ("```\n~~~\n# no\n```\n# yes", ["# yes"]),
    "closed by as many or more": ("````\n```\n# no\n`````\n# yes", ["# yes"]),
    "closed by nothing but the fence": ("```\n# no\n```python\n# no\n``` \t\n# yes", ["# yes"]),
    "code within a line": ("```x = 1``` is code\n\n# yes", ["# yes"]),
    "tildes may hold backticks": ("~~~ a`b\n# no\n~~~\n# yes", ["# yes"]),
    "indented by up to three spaces": ("   ```\n# no\n  ```\n# yes", ["# yes"]),
    "indented further is no fence": ("text\n\n    ```\n\n# yes", ["# yes"]),
    "does not close when indented further": ("```\n# no\n    ```\n# no", []),
    "unclosed runs to the end": ("# yes\n```\n# no\n", ["# yes"]),
    "two are too few": ("``\n# yes\n``", ["# yes"]),
}


@pytest.mark.parametrize("what", FENCES)
def test_code_fences_are_those_of_commonmark(tmp_path, what):
    text, expected = FENCES[what]
    (tmp_path / "a.md").write_text(text)
    document, layout = corpus.read_plain(tmp_path / "a.md", "a.md")
    assert [document.text[h.start : h.end] for h in layout.headings] == expected


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_newlines_end_a_line(tmp_path, separator):
    (tmp_path / "a.md").write_text(
        f"one{separator}# no\r\n# yes{separator}too\n\n## last", encoding="utf-8", newline=""
    )
    document, layout = corpus.read_plain(tmp_path / "a.md", "a.md")
    assert [document.text[h.start : h.end] for h in layout.headings] == [f"# yes{separator}too", "## last"]


@pytest.mark.parametrize("name", ["README.MD", "Readme.Md"])
def test_markdown_is_known_whatever_the_case_of_its_suffix(tmp_path, name):
    (tmp_path / name).write_text("# One\n\nText.")
    (document,) = corpus.load(tmp_path).documents
    assert document.doc_id == name and len(corpus.load(tmp_path).layouts[name].headings) == 1


def test_a_corpus_survives_its_file(tmp_path):
    (tmp_path / "a.md").write_text("# One\n\nText with ü.")
    read = corpus.load(tmp_path)
    corpus.write_jsonl(read, tmp_path / "documents.jsonl")
    assert corpus.read_jsonl(tmp_path / "documents.jsonl") == read


def test_files_that_gave_no_document_are_read_back_too(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, text in {"a.md": "Text.", "empty.md": "", "page.html": "x"}.items():
        (folder / name).write_text(text)
    read = corpus.load(folder, strict=False)
    corpus.write_jsonl(read, tmp_path / "documents.jsonl")
    corpus.unread(read).to_csv(tmp_path / "unread.csv", index=False)
    assert corpus.read_jsonl(tmp_path / "documents.jsonl", tmp_path / "unread.csv") == read
    alone = corpus.read_jsonl(tmp_path / "documents.jsonl", tmp_path / "none.csv")
    assert alone.failures == alone.skipped == {} and alone.documents == read.documents


def scan(path, pages=2):
    """A PDF of pages that hold a drawing and no text; the last one holds a word."""
    book = pymupdf.open()
    for number in range(pages):
        page = book.new_page(width=300, height=300)
        page.draw_rect((50, 50, 250, 250), fill=(0, 0, 0))
        if number == pages - 1 and pages > 2:
            page.insert_text((50, 280), "word")
    book.save(path)


def test_a_scan_without_text_is_a_failure_that_keeps_its_layout(tmp_path):
    scan(tmp_path / "scan.pdf")
    (tmp_path / "good.txt").write_text("Something to read.")
    read = corpus.load(tmp_path, strict=False)
    assert list(read.failures) == ["scan.pdf"] and [doc.doc_id for doc in read.documents] == ["good.txt"]
    assert len(read.layouts["scan.pdf"].pages) == 2 and read.layouts["scan.pdf"].signals[0].vectors == 2
    assert [unit.span.doc_id for unit in read.pages() + read.wholes()] == ["good.txt"] * 2
    assert corpus.inventory(read)["doc_id"].tolist() == ["good.txt"]


def test_pages_without_text_are_named(tmp_path):
    scan(tmp_path / "mixed.pdf", pages=4)
    (notes,) = corpus.inventory(corpus.load(tmp_path))["notes"]
    assert notes == "no text layer on pages 1, 2, 3 of 4 (counted from 1): images or drawings only"


def test_what_reads_pages_again_is_handed_every_pdf(tmp_path):
    scan(tmp_path / "scan.pdf")
    (tmp_path / "good.txt").write_text("Something to read.")
    seen = []

    def again(path, pages, readings):
        seen.append((path.name, len(pages)))
        pages[0]["blocks"] = [[("Read anew", (10, 10, 90, 20), 10.0, False, True)]]
        return [corpus.Reading("replaced", "engine 1"), *readings[1:]]

    read = corpus.load(tmp_path, reread=[again])
    assert seen == [("scan.pdf", 2)] and read["scan.pdf"].text.strip() == "Read anew"
    assert [reading.state for reading in read.layouts["scan.pdf"].readings] == ["replaced", "native"]


NEEDS_OCR = {
    "none installed": (["wanted", "wanted"], "install it", ": 2 of 2 pages want OCR; install it"),
    "broke on one": (["kept", "timed_out"], "too slow", ": 1 of 2 pages want OCR; too slow"),
    "found nothing": (["kept", "kept"], "", ": OCR found none either on 2 of 2 pages; scan it again, or remove it"),
    "not asked": (
        ["native", "native"],
        "",
        r" \(a scan without a text layer, or an empty file\); remove it or add OCR",
    ),
}


@pytest.mark.parametrize("what", NEEDS_OCR)
def test_a_document_without_text_says_what_it_wants(tmp_path, what):
    states, reason, message = NEEDS_OCR[what]
    scan(tmp_path / "scan.pdf")
    readings = [corpus.Reading(state, reason=reason) for state in states]
    with pytest.raises(BadInput, match=f"scan.pdf: no text in it{message}$"):
        corpus.load(tmp_path, reread=[lambda path, pages, before: readings])


def test_progress_tells_pace_and_time_left(tmp_path):
    for name, size in {"a.txt": 100, "b.txt": 100, "c.txt": 300}.items():
        (tmp_path / name).write_text("x" * size)
    said, seconds = [], iter([10.0, 12.0, 14.0])  # when it began, and before the second and the third file
    corpus.load(tmp_path, progress=said.append, clock=lambda: next(seconds))
    assert said == [
        "1 of 3: a.txt",
        "2 of 3: b.txt (0.5 pages a second, about 8 s left)",
        "3 of 3: c.txt (0.5 pages a second, about 6 s left)",
    ]


def test_a_document_is_found_by_its_id_without_a_walk_through_all():
    documents = tuple(corpus.make_document(f"{i}.txt", str(i), b"") for i in range(3))
    read = corpus.Corpus(documents, {}, {})
    assert read["2.txt"] is documents[2] and read._by_id is read._by_id
    assert read == corpus.Corpus(documents, {}, {})
    with pytest.raises(KeyError, match="3.txt"):
        read["3.txt"]


def test_the_fingerprint_knows_texts_and_not_order(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_text("two")
    read = corpus.load(tmp_path)
    mark = corpus.fingerprint(read.documents)
    assert mark == corpus.fingerprint(reversed(read.documents)) and mark.startswith("sha256:")
    (tmp_path / "a.txt").write_text("One")
    assert corpus.fingerprint(corpus.load(tmp_path).documents) != mark


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(0, 80), st.integers(1, 40))
def test_a_span_belongs_to_the_page_it_overlaps_most(lengths, start, length):
    edges = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    pages = tuple(corpus.Page(i, str(i), a, b) for i, (a, b) in enumerate(pairwise(edges)))
    span = Span("d", start, start + length)
    shares = [span.overlap(Span("d", page.start, page.end)) for page in pages]
    expected = shares.index(max(shares)) if max(shares) else None
    assert corpus.Layout("d", pages=pages).page_of(span) == expected


def test_the_notebook_lists_what_was_not_read_and_goes_on_when_asked(project):
    folder = project / "data/toy/corpus"
    (folder / "bad.pdf").write_bytes(b"<html>")
    (folder / "page.html").write_text("<p>Text.</p>")
    with pytest.raises(BadInput, match=r"bad.pdf: not a PDF"):
        build.run(project, "toy", "10_ingest", say=lambda text: None)
    build.run(project, "toy", "10_ingest", {"strict": "false"}, say=lambda text: None)
    (page,) = (project / "runs").rglob("10_ingest.ipynb")
    text = page.read_text()
    assert "bad.pdf" in text and "not one of .pdf, .md, .txt" in text
    assert book.check_notebook(page) == []


def test_headings_of_a_wiki_page(tmp_path):
    text = (
        "Intro.\n\n== One ==\nAlpha == beta.\n=== Deep===\nGamma.\n== not = one ==\n= no =\n======= too many =======\n"
    )
    (tmp_path / "kiln.txt").write_text(text)
    document, layout = corpus.read_plain(tmp_path / "kiln.txt", "kiln.txt")
    assert [(document.text[h.start : h.end], h.level) for h in layout.headings] == [
        ("== One ==", 1),
        ("=== Deep===", 2),
    ]
    assert layout.title == "kiln"
    assert [unit.context for unit in chunking.section(document, layout)] == ["kiln", "kiln > One", "kiln > One > Deep"]


@pytest.mark.parametrize("language", ["", "english", "EN", "a/b"])
def test_a_language_is_two_letters(tmp_path, language):
    (tmp_path / "a.md").write_text("Tea.")
    with pytest.raises(BadInput, match="two letters of ISO 639-1"):
        corpus.load(tmp_path, language)


def test_an_empty_path_is_not_the_whole_project(tmp_path):
    with pytest.raises(BadInput, match="names data is empty"):
        tables.Run("toy", "10_ingest", root=tmp_path).data("")
