"""The cascade keeps the better text, and loses no page to a converter that is absent, wrong, slow or dead.

Docling and Marker are played by small packages with their documented shape, in an environment of their own that runs this
Python; with LOCALEVAL_DOCLING_PYTHON set, Docling itself is asked too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localeval import converters, corpus, pdf
from localeval.converters import Cascade, Tried
from localeval.corpus import Reading
from localeval.records import BadInput

pymupdf = pytest.importorskip("pymupdf", reason="pip install pymupdf==1.26.7")
GOOD = "The ferry leaves the small harbour at noon and returns before dark, and it is on time in all weather. " * 8
BAD = "7KH IHUU\\ OHDYHV WKH VPDOO KDUERXU DW QRRQ DQG UHWXUQV EHIRUH GDUN LW LV RQ WLPH LQ DOO ZHDWKHU " * 8
MARKER = {
    "__init__.py": "",
    "config/__init__.py": "",
    "converters/__init__.py": "",
    "config/parser.py": """
class ConfigParser:
    def __init__(self, options): self.options = options
    def generate_config_dict(self): return {"page_range": [int(self.options["page_range"])]}
    def get_processors(self): return None
    def get_renderer(self):
        assert self.options["output_format"] == "json"
        return "json"
""",
    "models.py": """
import os, pathlib
def create_model_dict():
    assert list(pathlib.Path(os.environ["MODEL_CACHE_DIR"]).glob("**/*.safetensors")) and os.path.isfile(os.environ["FONT_PATH"])
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    return {"layout": "stub"}
""",
    "converters/pdf.py": """
import json, os, subprocess, sys, time
from types import SimpleNamespace as Block
class PdfConverter:
    def __init__(self, config, artifact_dict, processor_list, renderer):
        self.pages = config["page_range"]
        assert artifact_dict == {"layout": "stub"} and renderer == "json"
    def __call__(self, path):
        does = os.environ.get("STUB_DOES", "")
        if does == "hang" and self.pages == [1]:
            helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            open(os.environ["STUB_PIDS"], "w").write(f"{os.getpid()} {helper.pid}")
            time.sleep(60)
        if does == "die": os.abort()
        if does == "raise": raise RuntimeError("no\\nlayout server")
        def leaf(kind, html, box): return Block(block_type=kind, html=html, bbox=box, children=None)
        texts = json.load(open(os.environ["STUB_TEXTS"]))
        group = Block(block_type="ListGroup", html="", bbox=[50, 200, 550, 240], children=[
            leaf("ListItem", "<li>first &amp; last</li>", [50, 200, 550, 220]),
            leaf("Table", "<table><tr><td>tide</td><td>4 m</td></tr><tr><td>moon</td><td>full</td></tr></table>", [50, 220, 550, 240])])
        page = Block(block_type="Page", bbox=[0, 0, 600, 800], html="", children=[
            leaf("SectionHeader", "<h2>Harbour</h2>", [50, 20, 200, 40]),
            leaf("Text", "<p>" + texts[self.pages[0]] + "</p>", [50, 50, 550, 180]), group, leaf("Picture", None, [0, 300, 9, 309])])
        return Block(children=[page] * (2 if does == "double" else 1))
""",
}
DOCLING = {
    "__init__.py": "",
    "datamodel/__init__.py": "",
    "datamodel/base_models.py": """
class InputFormat: PDF = "pdf"
""",
    "datamodel/pipeline_options.py": """
class Options:
    def __init__(self, **values): self.values = values
NativePdfPipelineOptions = PdfPipelineOptions = Options
""",
    "document_converter.py": """
import json, os
from types import SimpleNamespace as Some
class Box:
    def __init__(self, l, t, r, b): self.l, self.t, self.r, self.b = l, t, r, b
    def to_top_left_origin(self, page_height): return Box(self.l, page_height - self.t, self.r, page_height - self.b)
def item(page, label, top, text="", grid=None):
    data = Some(data=Some(grid=[[Some(text=cell) for cell in row] for row in grid])) if grid else Some(orig=text)
    data.label, data.prov = Some(value=label), [Some(page_no=page, bbox=Box(50, 800 - top, 550, 800 - top - 20))]
    return data
class Document:
    def __init__(self, numbers):
        self.pages = {number: Some(size=Some(width=600.0, height=800.0)) for number in numbers}
    def iterate_items(self, page_no, included_content_layers):
        assert included_content_layers == {"body", "furniture"}
        text = json.load(open(os.environ["STUB_TEXTS"]))[page_no - 1]
        yield item(page_no, "section_header", 20, "Harbour"), 1
        yield item(page_no, "text", 60, text), 1
        yield item(page_no, "table", 100, grid=[["tide", "4 m"], ["moon", "full"]]), 1
        yield Some(label="group"), 1
class Option:
    def __init__(self, pipeline_options): self.values = pipeline_options.values
class NativePdfFormatOption(Option): asked = {"parser_threads": 1}
class PdfFormatOption(Option): asked = {"do_ocr": False, "do_table_structure": False}
class DocumentConverter:
    def __init__(self, allowed_formats, format_options):
        option = format_options["pdf"]
        assert option.asked.items() <= option.values.items(), option.values
    def convert(self, path, page_range):
        open(os.environ["STUB_PIDS"], "a").write(f"{page_range[0]}-{page_range[1]} ")
        last = page_range[1] - (os.environ.get("STUB_DOES") == "lose")
        count = int(os.environ["STUB_PAGES"])
        return Some(input=Some(page_count=count), document=Document(range(page_range[0], last + 1)))
""",
}
CORE = {
    "__init__.py": "",
    "types/__init__.py": "",
    "types/doc.py": "class ContentLayer: BODY, FURNITURE = 'body', 'furniture'",
}
PDFIUM = """
import os
class PdfDocument(list):
    def __init__(self, path): super().__init__(range(int(os.environ.get("STUB_PAGES", "2"))))
    def close(self): pass
"""


def environment(folder: Path, packages: dict[str, dict[str, str]], records=()) -> Path:
    """A Python with packages of its own beside those of this one; returns its `bin/python`."""
    site = folder / "lib/python3.11/site-packages"
    for package, files in packages.items():
        for name, text in files.items():
            path = site / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for record in records:
        (site / record).mkdir(parents=True)
    python = folder / "bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def make(path: Path, *texts: str) -> Path:
    """A page a text, set line by line as it would be in print."""
    document = pymupdf.open()
    for text in texts:
        page = document.new_page(width=600, height=800)
        words = text.split()
        for row in range(0, len(words), 12):
            page.insert_text((50, 60 + row), " ".join(words[row : row + 12]), fontsize=10)
    document.save(path)
    return path


@pytest.fixture(autouse=True)
def inside(monkeypatch):
    """PyMuPDF's pass without the time a process takes: these tests are about the other converters."""

    def messages(path, page_seconds):
        told = (json.loads(json.dumps(message)) for message in pdf._told(str(path)))
        yield from (message for message in told if not message.get("done"))

    monkeypatch.setattr(pdf, "messages", messages)


@pytest.fixture
def behave(tmp_path, monkeypatch):
    """Says what the played converters read and how they behave."""

    def behave(texts=(GOOD, GOOD), does="", pages=2):
        (tmp_path / "texts.json").write_text(json.dumps(list(texts)))
        for name, value in {
            "TEXTS": tmp_path / "texts.json",
            "DOES": does,
            "PAGES": pages,
            "PIDS": tmp_path / "pids",
        }.items():
            monkeypatch.setenv(f"STUB_{name}", str(value))

    behave()
    return behave


@pytest.fixture
def docling(tmp_path, monkeypatch, behave):
    """A docling that can run, with the weights of a layout model."""
    packages = {"docling": DOCLING, "docling_core": CORE}
    python = environment(tmp_path / "docling", packages, ["docling-2.143.0.dist-info"])
    (tmp_path / "artifacts/a--layout-b").mkdir(parents=True)
    (tmp_path / "artifacts/a--layout-b/model.safetensors").write_bytes(b"")
    monkeypatch.setenv("LOCALEVAL_DOCLING_PYTHON", str(python))
    monkeypatch.setenv("LOCALEVAL_DOCLING_ARTIFACTS", str(tmp_path / "artifacts"))
    return behave


@pytest.fixture
def marker(tmp_path, monkeypatch, behave):
    """A marker that can run; `marker(does=...)` says how it behaves, `marker(texts=...)` what it reads."""
    python = environment(
        tmp_path / "marker", {"marker": MARKER, "pypdfium2": {"__init__.py": PDFIUM}}, ["marker_pdf-2.0.0.dist-info"]
    )
    models, font = tmp_path / "models", tmp_path / "font.ttf"
    (models / "layout").mkdir(parents=True)
    (models / "layout/model.safetensors").write_bytes(b"")
    font.write_bytes(b"")
    monkeypatch.setenv("LOCALEVAL_MARKER_PYTHON", str(python))
    monkeypatch.setenv("LOCALEVAL_MARKER_MODELS", str(models))
    monkeypatch.setenv("LOCALEVAL_MARKER_FONT", str(font))
    return behave


def read(path: Path, *names: str, **options):
    document, layout = pdf.read(path, path.name, reread=[Cascade(names, **options)])
    return document.text, layout.readings


# Which converters there are


def test_the_default_is_complete_alone(tmp_path):
    path = make(tmp_path / "a.pdf", GOOD)
    assert converters.available("pymupdf")[0]
    plain, _ = pdf.read(path, "a.pdf")
    text, readings = read(path, "pymupdf")
    assert text == plain.text and readings == (Reading(),)


def test_what_is_missing_is_named_step_by_step(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DOCLING_PYTHON", "DOCLING_ARTIFACTS", "MARKER_PYTHON", "MARKER_MODELS", "MARKER_FONT"):
        monkeypatch.delenv(f"LOCALEVAL_{name}", raising=False)
    assert converters.available("docling")[1].startswith("no .engines/docling/bin/python; 'make docling' makes it")
    environment(tmp_path / ".engines/docling", {})
    assert converters.available("docling-native") == (False, "docling is not installed there; 'make docling'")
    site = tmp_path / ".engines/docling/lib/python3.11/site-packages"
    (site / "docling").mkdir(parents=True)
    (site / "docling/__init__.py").write_text("raise SystemExit('imported')")
    for record in ("docling_core-9.9.dist-info", "docling-2.143.0.dist-info"):
        (site / record).mkdir()
    assert converters.available("docling-native") == (True, "2.143.0")
    assert "set LOCALEVAL_DOCLING_ARTIFACTS to their folder" in converters.available("docling")[1]
    (tmp_path / "weights/x-layout-y").mkdir(parents=True)
    monkeypatch.setenv("LOCALEVAL_DOCLING_ARTIFACTS", str(tmp_path / "weights"))
    assert f"{tmp_path / 'weights'}: no *layout*" in converters.available("docling")[1]
    (tmp_path / "weights/x-layout-y/model.safetensors").write_bytes(b"")
    assert converters.available("docling") == (True, "2.143.0")
    monkeypatch.chdir(site)  # found from any folder below
    assert converters.available("docling-native") == (True, "2.143.0")


def test_marker_is_never_left_to_fetch_its_weights_or_its_font(marker, tmp_path, monkeypatch):
    assert converters.known()["marker"] == (True, "2.0.0")
    monkeypatch.setenv("LOCALEVAL_MARKER_FONT", str(tmp_path / "none.ttf"))
    assert "set LOCALEVAL_MARKER_FONT" in converters.available("marker")[1]
    (tmp_path / "models/layout/model.safetensors").unlink()
    assert "no **/*.safetensors there" in converters.available("marker")[1]


def test_asking_what_there_is_imports_nothing_and_starts_nothing(marker):
    code = """
import socket, subprocess, sys
def refuse(*args, **more): raise SystemExit("started or asked something")
subprocess.Popen.__init__ = socket.socket.connect = socket.getaddrinfo = refuse
from localeval import converters
assert set(converters.known()) == {"pymupdf", "docling-native", "docling", "marker"}
assert not {"torch", "docling", "marker", "pymupdf", "pandas"} & set(sys.modules), sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_child_needs_only_the_standard_library():
    code = "import sys; sys.modules |= {'numpy': None, 'pandas': None}; import localeval.converters"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("names", "message"),
    [(["doclin"], "unknown 'doclin' \\(did you mean 'docling'"), (["marker", "marker"], "named twice")],
)
def test_unknown_converters_are_bad_input(names, message):
    with pytest.raises(BadInput, match=message):
        Cascade(names)
    with pytest.raises(BadInput, match="between 0 and 1"):
        Cascade([], margin=5.0)


# Which text is kept


def page(*texts, **more):
    lines = [[text, [50, 50 + 12 * row, 550, 60 + 12 * row], 10.0, False, True] for row, text in enumerate(texts)]
    return {"label": "1", "width": 600.0, "height": 800.0, "blocks": [lines], "signals": {}} | more


def tried(text, engine="x"):
    return Tried(engine, page(text)["blocks"], 1.0)


def scored(monkeypatch, scores):
    monkeypatch.setattr(converters, "confidence_of", lambda page, blocks: scores[blocks[0][0][0]])


@pytest.mark.parametrize(
    ("own", "others", "state", "engine"),
    [
        (0.50, [0.54], "kept", "a"),  # better, not by the margin
        (0.50, [0.55], "replaced", "a"),  # just by the margin
        (0.50, [0.60, 0.60], "replaced", "a"),  # a tie goes to the earlier
        (0.50, [0.60, 0.61], "replaced", "b"),  # not to the first that answered
        (0.90, [0.10, 0.20], "kept", "b"),
    ],
)
def test_the_best_by_the_margin_is_kept(monkeypatch, own, others, state, engine):
    scored(monkeypatch, {"own": own, "a": others[0], "b": others[-1]})
    one = page("own")
    reading = converters._settle(one, Reading(), [tried(name, name) for name in "ab"[: len(others)]], 0.05)
    assert (reading.state, reading.engine) == (state, engine)
    assert (reading.before, reading.after) == (own, max(others))
    assert one["blocks"][0][0][0] == (engine if state == "replaced" else "own")


def test_without_a_margin_an_equal_text_changes_nothing(monkeypatch):
    scored(monkeypatch, {"own": 0.7, "a": 0.7})
    assert converters._settle(page("own"), Reading(), [tried("a", "a")], 0.0).state == "kept"


def test_what_another_reading_replaced_is_not_called_the_text_of_the_file(monkeypatch):
    scored(monkeypatch, {"own": 0.7, "a": 0.6})
    earlier = Reading("replaced", "tesseract 5")
    assert converters._settle(page("own"), earlier, [tried("a", "a")], 0.05) is earlier
    assert converters._settle(page("own"), earlier, [Tried("a", None, None, "failed", "a: no")], 0.05) is earlier


def test_a_failure_is_told_beside_the_answer_of_another(monkeypatch):
    scored(monkeypatch, {"own": 0.2, "a": 0.6})
    broken = Tried("docling 2", None, 3.0, "timed_out", "docling: page 7 was stopped")
    reading = converters._settle(page("own"), Reading(), [broken, tried("a", "a")], 0.05)
    assert (reading.state, reading.engine, reading.reason) == ("replaced", "a", "docling: page 7 was stopped")


def test_glyphs_without_a_name_and_controls_count_against_a_reading():
    assert converters._plain("GLYPH<c=3,font=/AB+C>GLYPH<4>a\x02\nb ") == "\ufffd\ufffda\ufffd b"


def test_lines_take_their_style_and_their_paragraph_from_the_file():
    own = page("Title", "first", "second")
    own["blocks"] = [[["Title", [50, 50, 90, 64], 14.0, True, True]], own["blocks"][0][1:]]
    lines = [
        ("Title", (50, 50, 90, 64), False),
        ("first", (50, 62, 90, 72), False),
        ("second", (50, 74, 90, 84), False),
    ]
    answer = {"width": 600.0, "height": 800.0, "blocks": [[line] for line in lines]}
    blocks = converters._in_the_files_style(answer, own)
    assert [[line[0] for line in block] for block in blocks] == [["Title"], ["first", "second"]]
    assert blocks[0][0][2:] == (14.0, True, True) and blocks[1][0][2:] == (10.0, False, True)
    half = answer | {"width": 300.0, "height": 400.0, "blocks": [[("x", (25, 25, 45, 32), True)]]}
    ((line,),) = converters._in_the_files_style(half, own)
    assert line[1] == [50, 50, 90, 64]
    ((line,),) = converters._in_the_files_style(half, own | {"blocks": []})
    assert line[2:] == (converters.HEADING_SIZE, True, True)


# Through a child


def test_a_better_text_replaces_that_of_the_file_page_by_page(tmp_path, marker):
    text, readings = read(make(tmp_path / "a.pdf", BAD, GOOD), "marker")
    assert [one.state for one in readings] == ["replaced", "kept"]
    assert {one.engine for one in readings} == {"marker 2.0.0"}
    assert readings[0].after - readings[0].before >= converters.MARGIN and readings[0].seconds > 0
    first, second = text.split("\n\nfirst & last\ntide 4 m\nmoon full\n\n")
    assert first == f"Harbour\n\n{GOOD.strip()}" and " ".join(second.split()) == GOOD.strip()


def test_signals_stay_those_of_the_file(tmp_path, marker):
    path = make(tmp_path / "a.pdf", BAD, GOOD)
    _, plain = pdf.read(path, "a.pdf")
    _, layout = pdf.read(path, "a.pdf", reread=[Cascade(["marker"])])
    assert layout.signals == plain.signals and len(layout.pages) == len(layout.readings) == 2
    assert all(line.box[2] <= 600 and line.box[3] <= 800 for line in layout.lines)


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ({"does": "raise"}, "marker: RuntimeError: no layout server"),
        ({"does": "die"}, "marker: it stopped by itself after 0 pages"),
        ({"pages": 3}, "marker: 3 pages came out of 2"),
        ({"does": "double"}, "marker: ValueError: 2 pages came out for page 1"),
        ({"texts": [GOOD]}, "marker: IndexError"),
    ],
)
def test_a_converter_that_breaks_takes_nothing_away(tmp_path, marker, behaviour, reason):
    path = make(tmp_path / "a.pdf", BAD, GOOD)
    marker(**behaviour)
    text, readings = read(path, "marker")
    assert {one.state for one in readings} == {"failed"} and len(readings) == 2
    assert all(one.reason.startswith(reason) for one in readings), readings[0].reason
    assert text == pdf.read(path, "a.pdf")[0].text


def test_a_page_that_hangs_is_stopped_with_all_that_it_started(tmp_path, marker):
    path = make(tmp_path / "a.pdf", BAD, GOOD)
    marker(does="hang")
    begun = time.monotonic()
    text, readings = read(path, "marker", page_seconds=1.0)
    assert time.monotonic() - begun < 20
    assert {(one.state, one.reason) for one in readings} == {
        ("timed_out", "marker: page 2 took longer than 1 s and was stopped")
    }
    assert text == pdf.read(path, "a.pdf")[0].text
    for number in (tmp_path / "pids").read_text().split():
        assert not _runs(int(number)), "a process of the converter is still there"


def _runs(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("name", ["docling-native", "docling"])
def test_docling_reads_pages_tables_and_running_heads(tmp_path, docling, name):
    text, readings = read(make(tmp_path / "a.pdf", BAD, GOOD), name)
    assert [one.state for one in readings] == ["replaced", "kept"] and readings[0].engine == f"{name} 2.143.0"
    assert text.startswith(f"Harbour\n\n{GOOD.strip()}\n\ntide 4 m\nmoon full\n\n") and "7KH" not in text


def test_docling_reads_a_batch_at_a_time(tmp_path, docling):
    docling(texts=list("abcde"), pages=5)
    (tmp_path / "pids").write_text("")
    read_pages = list(converters.messages("docling", make(tmp_path / "a.pdf", *"vwxyz"), 5))
    assert [one["blocks"][1][0][0] for one in read_pages] == list("abcde")
    assert (tmp_path / "pids").read_text().split() == ["1-4", "5-5"]


def test_a_page_that_docling_loses_is_noticed(tmp_path, docling):
    docling(does="lose")
    _, readings = read(make(tmp_path / "a.pdf", BAD, GOOD), "docling-native")
    assert {(one.state, one.reason) for one in readings} == {
        ("failed", "docling-native: ValueError: pages 1 to 2 were asked for, 1 came")
    }


def test_when_one_converter_breaks_the_next_can_still_win(tmp_path, docling, marker):
    said = []
    path = make(tmp_path / "a.pdf", BAD, GOOD)
    marker(does="raise")
    _, layout = pdf.read(path, "a.pdf", reread=[Cascade(["marker", "docling-native"], progress=said.append)])
    assert [one.state for one in layout.readings] == ["replaced", "kept"]
    assert layout.readings[0].engine == "docling-native 2.143.0"
    assert layout.readings[0].reason == "marker: RuntimeError: no layout server"
    assert said == ["a.pdf: marker reads 2 pages", "a.pdf: docling-native reads 2 pages"]


def test_a_python_that_cannot_be_started_is_a_failure(tmp_path, docling):
    (tmp_path / "docling/bin/python").chmod(0o644)
    _, readings = read(make(tmp_path / "a.pdf", GOOD), "docling-native")
    assert readings[0].state == "failed" and "cannot be started (Permission denied)" in readings[0].reason


def test_pages_beyond_one_child_come_from_the_next(tmp_path, marker, monkeypatch):
    monkeypatch.setattr(converters, "PAGES_A_CHILD", 2)
    marker(texts=["a", "b", "c"], pages=3)
    read_pages = list(converters.messages("marker", make(tmp_path / "a.pdf", "x", "y", "z"), 3))
    assert [one["blocks"][1][0][0] for one in read_pages] == ["a", "b", "c"]


def test_an_absent_converter_is_wanted_and_named(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCALEVAL_MARKER_PYTHON", str(tmp_path / "none"))
    text, readings = read(make(tmp_path / "a.pdf", GOOD), "marker")
    assert readings[0].state == "wanted" and "none; 'make marker' makes it" in readings[0].reason and text


def test_every_state_is_a_known_one(tmp_path, marker):
    states = {converters.NotConverted("failed", "").state, "wanted", "kept", "replaced", "timed_out"}
    assert states <= set(corpus.READING_STATES)


@pytest.mark.skipif(not os.environ.get("LOCALEVAL_DOCLING_PYTHON"), reason="set LOCALEVAL_DOCLING_PYTHON")
def test_docling_itself(tmp_path):
    path = make(tmp_path / "a.pdf", BAD, GOOD)
    text, readings = read(path, "docling-native")
    assert {one.state for one in readings} == {"kept"}, readings
    assert all(abs(one.before - one.after) < 0.02 for one in readings), "the same letters, read twice"
    assert text == pdf.read(path, "a.pdf")[0].text
    (first, _) = converters.messages("docling-native", path, 2)
    assert first["blocks"][0][0][0].startswith("7KH IHUU")
