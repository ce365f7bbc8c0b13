"""Pages read again: words become lines in reading order, the better reading wins, and every failure is a named state."""

from __future__ import annotations

import pytest

from localeval import ocr
from localeval.records import BadInput

WORDS = (
    ocr.Word(10.0, 20.0, 30.0, 30.0, 95.5, "Two", 0),
    ocr.Word(32.0, 20.0, 60.0, 30.0, 90.0, "words", 0),
    ocr.Word(10.0, 34.0, 90.0, 44.0, 60.0, "and three more", 1),
)
READ = ocr.Recognised("tesseract", "5.3.0", 200, "en", 1.25, WORDS)


# Records


@pytest.mark.parametrize("name", ["ocr.jsonl", "ocr.jsonl.gz"])
def test_records_survive_their_file(tmp_path, name):
    records = [
        ocr.Record("a/çay.pdf", 0, 595.0, 842.0, READ),
        ocr.Record("b.pdf", 3, 1.0, 2.0, READ._replace(words=())),
    ]
    ocr.write_records(tmp_path / name, records)
    assert ocr.read_records(tmp_path / name) == records
    written = (tmp_path / name).read_bytes()
    ocr.write_records(tmp_path / name, records)
    assert (tmp_path / name).read_bytes() == written and written.startswith(b"\x1f\x8b") == name.endswith(".gz")


def test_a_record_is_a_line_with_these_keys(tmp_path):
    ocr.write_records(tmp_path / "ocr.jsonl", [ocr.Record("b.pdf", 3, 595.0, 842.0, READ._replace(words=WORDS[:1]))])
    assert (tmp_path / "ocr.jsonl").read_text() == (
        '{"document":"b.pdf","page":3,"engine":"tesseract","version":"5.3.0","dpi":200,"language":"en","seconds":1.25,'
        '"width":595.0,"height":842.0,"words":[[0,10.0,20.0,30.0,30.0,95.5,"Two"]]}\n'
    )


@pytest.mark.parametrize("line", ["{", "[]", '{"document": "a"}', '{"words": [[1, 2]]}'])
def test_what_is_no_record_is_named_by_its_line(tmp_path, line):
    ocr.write_records(tmp_path / "ocr.jsonl", [ocr.Record("b.pdf", 3, 595.0, 842.0, READ)])
    with (tmp_path / "ocr.jsonl").open("a") as file:
        file.write(f"\n{line}\n")
    with pytest.raises(BadInput, match=r"ocr.jsonl:3: not an OCR record"):
        ocr.read_records(tmp_path / "ocr.jsonl")
    with pytest.raises(BadInput, match=r"none.jsonl: OCR records cannot be read \(No such file"):
        ocr.read_records(tmp_path / "none.jsonl")


def test_confidence_is_a_mean_over_words_and_a_box_may_hold_several():
    assert READ.confidence == pytest.approx((95.5 + 90 + 3 * 60) / 5)
    assert READ._replace(words=()).confidence is None
