"""The leaderboard: an honest submission passes, and every way of cheating that we know is caught and named."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest
import yaml

from conftest import PROJECT
from localeval import cli, leaderboard, tables
from localeval.provenance import digest_path
from localeval.records import BadInput, Graded, Span

RULE = "chunk/contains"


@pytest.fixture(scope="session")
def exported(executed, tmp_path_factory):
    """The executed toy study with two submissions, exported by the command; not to be written to."""
    root = tmp_path_factory.mktemp("board") / "project"
    shutil.copytree(executed[0], root)
    for system in ("section/bm25", "fixed/bm25"):
        leaderboard.export(root, "toy", system)
    return root


@pytest.fixture(scope="session")
def now(exported):
    return leaderboard.study_at(exported, "toy")


@pytest.fixture
def honest(exported, tmp_path):
    """A copy of one honest submission, in a folder of the right names."""
    folder = tmp_path / "toy" / "section_bm25"
    shutil.copytree(exported / "leaderboard/toy/section_bm25", folder)
    return folder


def sign(folder):
    """As a cheat would: the changed files signed again, so that only what is wrong with them can give them away."""
    path = folder / "provenance.json"
    record = json.loads(path.read_text())
    record["artefacts"] = {
        one.name: digest_path(one) for one in folder.iterdir() if one.name not in ("provenance.json", "submission.yml")
    }
    path.write_text(json.dumps(record))


def rewrite_gains(folder, change, *, metrics_too=True):
    """Rows of gains.jsonl.gz changed in place; metrics.csv made from them again, and the rankings left out, as a careful cheat does."""
    from localeval import metrics, stats

    rows = [json.loads(line) for line in gzip.decompress((folder / "gains.jsonl.gz").read_bytes()).splitlines()]
    tables.write_jsonl([row for row in map(change, rows) if row], folder / "gains.jsonl.gz")
    if metrics_too:
        names = tables.read_csv(folder / "metrics.csv")["metric"].unique()
        with suppress(IndexError, ZeroDivisionError):  # from some impossible gains no metric follows
            scores = metrics.scores_of(tables.read_gains(folder / "gains.jsonl.gz"), names)
            tables.write_csv(stats.summary(scores, is_binary=metrics.is_binary), folder / "metrics.csv")
    (folder / leaderboard.HITS).unlink(missing_ok=True)
    sign(folder)


def describe(folder, **changes):
    path = folder / "submission.yml"
    about = yaml.safe_load(path.read_text()) | changes
    path.write_text(yaml.safe_dump({key: value for key, value in about.items() if value is not ...}))


def problems(folder, now):
    return [one.text for one in leaderboard.check(folder, now) if one.level == "problem"]


def only(query, rule=RULE, **changes):
    """A change of one row of the gains."""
    return lambda row: row | changes if (row["query_id"], row["rule"]) == (query, rule) else row


def test_an_honest_submission_has_no_finding(honest, now):
    assert leaderboard.check(honest, now) == []
    assert {path.name for path in honest.iterdir()} == {*leaderboard.FILES, leaderboard.HITS}


@pytest.mark.parametrize("name", leaderboard.FILES)
def test_a_missing_file_is_named(honest, now, name):
    (honest / name).unlink()
    assert problems(honest, now) == [f"{name}: missing"]


def test_an_inflated_metric_is_found_to_nine_digits(honest, now):
    path = honest / "metrics.csv"
    table = tables.read_csv(path)
    table.loc[0, "mean"] = table.loc[0, "mean"] + 1e-8
    tables.write_csv(table, path)
    sign(honest)
    row = table.iloc[0]
    assert problems(honest, now) == [
        f"metrics.csv: {row.system} {row['rule']} {row.metric}: mean does not re-derive from gains.jsonl.gz"
    ]
    table.loc[0, "mean"] = table.loc[0, "mean"] - 1e-8 + 1e-11
    tables.write_csv(table, path)
    sign(honest)
    assert problems(honest, now) == []


def test_a_file_changed_after_signing_is_found(honest, now):
    path = honest / "runs.csv"
    path.write_text(path.read_text().replace(",100,", ",200,"))
    assert "runs.csv: not the file that provenance.json signs" in problems(honest, now)


CHEATS = {
    "more relevant units than there are": (only("t1", gains=[[1, 2.0], [2, 2.0]]), "more, or better, relevant units than the corpus holds"),
    "a higher grade": (only("t1", gains=[[1, 3.0]]), "more, or better, relevant units"),
    "a smaller ideal": (only("t4", ideal=[1.0], gains=[[1, 1.0]], covers=[[1, [1]]]), "ideal of t4 is not what the gold gives"),
    "an ideal left out": (only("t4", ideal=[]), "ideal of t4 is not what the gold gives"),
    "a hard question called unanswerable": (
        only("t4", status="unanswerable", gains=[], covers=[], ideal=[], evidence=[]), "status of t4 is not what the gold gives"),
    "an unanswerable one answered": (
        only("t8", status="scored", gains=[[1, 2.0]], covers=[[1, [0]]], ideal=[2.0], evidence=[2], ranked=5), "status of t8"),
    "labels changed": (only("t4", evidence=[2], covers=[[1, [0]]]), "evidence of t4 is not what the gold gives"),
    "evidence covered twice": (only("t4", covers=[[1, [0, 1, 1]]]), "evidence is covered twice"),
    "evidence that is not there": (only("t1", covers=[[1, [0, 5]]]), "where nothing was gained, or is not there"),
    "covered without a gain": (only("t1", covers=[[1, [0]], [2, []]]), "where nothing was gained"),
    "a rank of zero": (only("t1", gains=[[0, 2.0]], covers=[[0, [0]]]), "a gain outside of what was ranked"),
    "a rank below one": (only("t1", gains=[[0.5, 2.0]], covers=[[0.5, [0]]]), "ranks are not whole numbers that rise"),
    "the same rank twice": (only("t4", gains=[[1, 2.0], [1, 2.0]]), "ranks are not whole numbers that rise"),
    "deeper than the system keeps": (only("t1", ranked=5000), "5000 units ranked, where the system keeps 100"),
    "a question moved to another stratum": (only("t4", origin="drafted"), "origin of t4 is not what the gold gives"),
    "a hard question left out": (lambda row: None if row["query_id"] == "t4" else row, "1 of 9 questions are missing (t4)"),
    "a question of one's own": (
        lambda row: row | {"query_id": "t10"} if row["query_id"] == "t7" else row, "question 't10' is not in the gold (did you mean"),
}  # fmt: skip


@pytest.mark.parametrize("cheat", CHEATS)
def test_gains_that_cannot_be_are_found_though_metrics_follow_from_them(honest, now, cheat):
    change, message = CHEATS[cheat]
    rewrite_gains(honest, change)
    assert any(message in text for text in problems(honest, now)), problems(honest, now)


def test_an_easy_question_counted_twice_is_found(honest, now):
    rows = [json.loads(line) for line in gzip.decompress((honest / "gains.jsonl.gz").read_bytes()).splitlines()]
    tables.write_jsonl([*rows, *(row for row in rows if row["query_id"] == "t1")], honest / "gains.jsonl.gz")
    sign(honest)
    assert any("question 't1' has 2 rows" in text for text in problems(honest, now))


def test_possible_gains_that_never_happened_are_found_by_the_rankings(exported, now, tmp_path):
    """t5 lies at rank 2 of fixed/bm25; rank 1 is possible, and only the ranking knows better. Without it, that is a warning."""
    folder = tmp_path / "toy" / "fixed_bm25"
    shutil.copytree(exported / "leaderboard/toy/fixed_bm25", folder)
    hits = (folder / leaderboard.HITS).read_bytes()
    rewrite_gains(folder, only("t5", gains=[[1, 2.0]], covers=[[1, [0]]]))
    found = leaderboard.check(folder, now)
    assert [one.level for one in found] == ["warning"] and "possible, not for having happened" in found[0].text
    (folder / leaderboard.HITS).write_bytes(hits)
    sign(folder)
    assert problems(folder, now) == [f"{RULE}: gains of t5 do not follow from {leaderboard.HITS}"]


def test_a_unit_that_holds_everything_is_none_of_the_chunker(honest, now):
    rows = [json.loads(line) for line in gzip.decompress((honest / leaderboard.HITS).read_bytes()).splitlines()]
    rows[0]["span"] = "tea.md#0-437"
    tables.write_jsonl(rows, honest / leaderboard.HITS)
    sign(honest)
    assert any("tea.md#0-437 is no unit of chunker 'section'" in text for text in problems(honest, now))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": "sha256:0"}, "corpus is 'sha256:0', the study at hand has"), ({"gold": "x"}, "gold is 'x'"),
        ({"name": "other"}, "name is 'other'"), ({"study": "handbook"}, "study is 'handbook'"), ({"system": "a/b"}, "system is 'a/b'"),
        ({"harness": ...}, "lacks 'harness'"), ({"weights": ...}, "lacks 'weights'"), ({"harnes": 1}, "did you mean 'harness'"),
        ({"created": "yesterday"}, "created must be a day"), ({"note": "ask me: someone@example.org"}, "a submission names none"),
        ({"note": "see https://example.org"}, "a submission names none"),
        ({"weights": {"minilm": {"sha256": "0" * 64}}}, "'minilm' is no model of this system"),
    ],
)  # fmt: skip
def test_a_description_that_does_not_fit_is_named(honest, now, changes, message):
    describe(honest, **changes)
    assert any(message in text for text in problems(honest, now)), problems(honest, now)


def as_dense(folder, weights):
    """The submission as if its system had used a model."""
    path = folder / "runs.csv"
    path.write_text(path.read_text().replace("section,bm25,,", "section,dense,minilm,"))
    describe(folder, weights=weights)
    sign(folder)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "'minilm' needs the sha256"), (None, "'minilm' needs the sha256"), ({"minilm": {"sha256": "abc"}}, "needs the sha256"),
        ({"minilm": {"revision": "main"}}, "needs the sha256"), ({"minilm": {"sha256": "0" * 64}}, "not that of the weights this project"),
        ({"minilm": "x"}, "needs the sha256"),
    ],
)  # fmt: skip
def test_a_model_needs_the_hash_of_its_weights(honest, now, weights, message):
    as_dense(honest, weights)
    assert any(message in text for text in problems(honest, now)), problems(honest, now)


def test_the_right_hash_is_enough(honest, now):
    as_dense(honest, {"minilm": {"sha256": leaderboard.CARDS["minilm"].sha256}})
    assert problems(honest, now) == []


@pytest.mark.parametrize("name", [*leaderboard.RECORDED, "fingerprint", "artefacts"])
def test_missing_provenance_is_named(honest, now, name):
    path = honest / "provenance.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != name}))
    assert f"provenance.json: lacks {name!r}" in problems(honest, now)


def test_mixed_fingerprints_are_found(honest, now):
    path = honest / "provenance.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"fingerprint": "sha256:other"}))
    assert problems(honest, now) == ["corpus fingerprints of provenance.json and submission.yml differ"]


def test_another_system_in_the_gains_is_found(honest, now):
    rewrite_gains(honest, lambda row: row | {"system": "section/better"}, metrics_too=False)
    assert any("name different systems" in text for text in problems(honest, now))


def test_a_system_that_did_not_run_is_no_submission(honest, now):
    path = honest / "runs.csv"
    path.write_text(path.read_text().replace(",ok,", ",failed,"))
    sign(honest)
    assert "runs.csv: the system did not run (failed)" in problems(honest, now)


def test_an_unknown_chunker_brings_its_chunks_or_is_refused(honest, now):
    path = honest / "runs.csv"
    path.write_text(
        path.read_text().replace(",section,", ",mine,", 1).replace("section/bm25,section,", "section/bm25,mine,")
    )
    sign(honest)
    assert any("add its chunks as units.jsonl" in text for text in problems(honest, now))
    tables.write_units({"mine": now.chunks["section"]}, honest / leaderboard.UNITS)
    sign(honest)
    assert problems(honest, now) == []


def test_whole_documents_as_chunks_are_said(honest, now):
    """Under chunk/contains a chunk that is a whole document holds whatever its document answers."""
    path = honest / "runs.csv"
    path.write_text(path.read_text().replace("section/bm25,section,", "section/bm25,mine,"))
    units = [replace(now.chunks["section"][0], span=Span(one.doc_id, 0, len(one.text))) for one in now.corpus.documents]
    said = []
    for chunks in (units, now.chunks["section"]):
        tables.write_units({"mine": chunks}, honest / leaderboard.UNITS)
        sign(honest)
        found = [one.text for one in leaderboard.check(honest, now) if one.level == "warning"]
        said.append([text for text in found if "times as long as the longest of the study's chunkers" in text])
    assert [len(some) for some in said] == [1, 0]


def test_chunks_of_chosen_places_are_said_and_those_of_a_known_chunker_refused(honest, now):
    answers = {item.span for query in now.queries.values() for item in query.evidence}
    units = [replace(now.chunks["section"][0], span=span) for span in sorted(answers)]
    tables.write_units({"section": units}, honest / leaderboard.UNITS)
    sign(honest)
    assert any("'section' is one of the study" in text for text in problems(honest, now))
    path = honest / "runs.csv"
    path.write_text(path.read_text().replace("section/bm25,section,", "section/bm25,mine,"))
    tables.write_units({"mine": units}, honest / leaderboard.UNITS)
    sign(honest)
    said = [one.text for one in leaderboard.check(honest, now) if one.level == "warning"]
    assert any("% of the corpus" in text for text in said), said


@pytest.mark.parametrize(
    ("reranker", "needed"),
    [
        ("maxsim:int8", []),
        ("maxsim:fly", []),
        ("ms-marco-minilm:int8", ["ms-marco-minilm"]),
        ("llm:gguf", ["llm:gguf"]),
    ],
)
def test_how_a_reranker_is_run_is_no_model(reranker, needed):
    assert leaderboard.needed_weights({"model": "", "retriever": "bm25", "reranker": reranker}) == needed


@pytest.mark.parametrize(
    "name", ["gains.jsonl.gz", "runs.csv", "metrics.csv", "provenance.json", "submission.yml", leaderboard.HITS]
)
def test_a_file_of_garbage_is_a_problem_and_no_crash(honest, now, name):
    (honest / name).write_bytes(b"\x00{not anything")
    assert problems(honest, now)


def test_not_a_number_is_no_score(honest, now):
    rewrite_gains(honest, only("t1", gains=[[1, float("nan")]]))
    assert problems(honest, now)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""), ({"gains": (), "covers": ()}, ""), ({"gains": ((1, 1.0),), "covers": ((1, (1,)),)}, ""),
        ({"gains": ((1, 2.0),), "covers": ()}, "covers no evidence"), ({"gains": ((1, 1.0),), "covers": ((1, (0,)),)}, "gains less"),
        ({"gains": ((1, 2.0),), "covers": ((1, (1,)),)}, "gains more than the evidence"), ({"ranked": 0}, "outside"),
        ({"ranked": -1}, "-1 units"),
    ],
)  # fmt: skip
def test_what_one_ranking_can_gain_by_hand(change, why):
    """Two pieces of evidence, of grades 2 and 1, in two units; the first was found at rank 1."""
    good = {"gains": ((1, 2.0),), "covers": ((1, (0,)),), "ideal": (2.0, 1.0), "evidence": (2, 1), "ranked": 10}
    said = leaderboard.impossible(Graded("q", "scored", **(good | change)), 100)
    assert bool(said) == bool(why) and why in said


# The board, and the command


def call(capsys, *words):
    capsys.readouterr()
    code = cli.main(list(words))
    return code, *capsys.readouterr()


def test_the_table_has_ranks_n_and_rule_and_ranks_nobody_by_what_it_hides(exported, monkeypatch, capsys):
    monkeypatch.setenv("LOCALEVAL_ROOT", str(exported))
    code, said, _ = call(capsys, "leaderboard", "toy", "--json")
    (board,) = json.loads(said)["boards"]
    assert code == 0 and (board["metric"], board["rule"], board["origin"]) == ("evidence_ndcg@10", RULE, "human")
    assert [row["name"] for row in board["rows"]] == ["section_bm25", "fixed_bm25"]
    assert all(row["n"] == 7 and 1 <= row["rank_low"] <= row["rank_high"] <= 2 for row in board["rows"])
    assert board["rows"][0]["low"] is None and "no variation" in board["rows"][0]["note"]
    code, said, _ = call(capsys, "leaderboard", "--check", "--strict")
    assert (
        code == 0
        and "check: 0 problems, 0 warnings (strict)" in said
        and "evidence_ndcg@10 under chunk/contains" in said
    )


def test_a_cheat_is_not_ranked_and_the_check_fails(exported, tmp_path, monkeypatch, capsys):
    root = tmp_path / "project"
    shutil.copytree(exported, root)
    monkeypatch.setenv("LOCALEVAL_ROOT", str(root))
    rewrite_gains(root / "leaderboard/toy/fixed_bm25", only("t4", gains=[[1, 2.0], [2, 2.0]]))
    code, said, _ = call(capsys, "leaderboard")
    assert code == 0 and "fixed_bm25    not ranked" in said
    code, said, _ = call(capsys, "leaderboard", "--check")
    assert code == 1 and "problem: leaderboard/toy/fixed_bm25" in said
    describe(root / "leaderboard/toy/section_bm25", harness="0.0.9")
    code, said, _ = call(capsys, "leaderboard", "--check", "--strict")
    levels = Counter(line.partition(":")[0] for line in said.splitlines())
    assert (
        code == 1
        and levels["warning"] >= 1
        and "section_bm25  not ranked: submission.yml: made with localeval '0.0.9'" in said
    )


def test_export_refuses_what_is_there_what_did_not_run_and_what_is_unknown(exported):
    for system, message in (("section/bm25", "is there already"), ("section/bm52", "did you mean 'section/bm25'")):
        with pytest.raises(BadInput, match=message):
            leaderboard.export(exported, "toy", system, name="section_bm25" if "25" in system else "")
    with pytest.raises(BadInput, match="use letters"):
        leaderboard.export(exported, "toy", "section/bm25", name="../../elsewhere")
    assert sorted(path.name for path in (exported / "leaderboard/toy").iterdir()) == ["fixed_bm25", "section_bm25"]


def test_no_submission_yet_says_how_to_make_one(executed, monkeypatch, capsys):
    monkeypatch.setenv("LOCALEVAL_ROOT", str(executed[0]))
    code, said, _ = call(capsys, "leaderboard", "--check")
    assert code == 0 and "no submission yet" in said
    code, _, problem = call(capsys, "leaderboard", "toy")
    assert code == 2 and "--export SYSTEM" in problem
    code, _, problem = call(capsys, "leaderboard", "--export", "section/bm25")
    assert code == 2 and "name the study as well" in problem


def test_a_board_that_cannot_be_read_stops_no_other(exported, monkeypatch, capsys, tmp_path):
    root = tmp_path / "project"
    shutil.copytree(exported, root)
    (root / "leaderboard/gone/mine").mkdir(parents=True)
    monkeypatch.setenv("LOCALEVAL_ROOT", str(root))
    code, said, problem = call(capsys, "leaderboard", "--check")
    assert code == 2 and "gone: no board: study 'gone' has no results" in said and problem == ""
    assert "section_bm25" in said and "check: 0 problems" in said
    code, said, _ = call(capsys, "leaderboard", "--json")
    assert code == 2 and [one["study"] for one in json.loads(said)["unread"]] == ["gone"]
    code, _, problem = call(capsys, "leaderboard", "gone")
    assert code == 2 and "has no results" in problem
    assert call(capsys, "leaderboard", "toy", "--check")[0] == 0


def test_a_board_says_how_much_of_each_ranking_is_judged(exported, honest, now):
    """From the rankings that came along; without them nobody knows."""
    one = leaderboard.open_submission(honest)
    share = leaderboard.judged(one, now, RULE, "human")
    hits = tables.read_hits(honest / leaderboard.HITS)
    shown = [
        hits[one.row["system"], query.query_id]
        for query in now.queries.values()
        if query.origin == "human" and query.answerable
    ]
    holding = [
        sum(bool(held(hit.span, query)) for hit in some[:10]) / min(10, len(some))
        for some, query in zip(
            shown,
            [query for query in now.queries.values() if query.origin == "human" and query.answerable],
            strict=True,
        )
    ]
    assert 0 < share < 1 and share == pytest.approx(sum(holding) / len(holding))
    (honest / leaderboard.HITS).unlink()
    assert leaderboard.judged(one, now, RULE, "human") != leaderboard.judged(one, now, RULE, "human"), "not a number"


def held(span, query):
    """By hand: the pieces of evidence that lie whole in a chunk."""
    return [item for item in query.evidence if span.contains(item.span)]


# What is committed


@pytest.fixture(scope="module")
def handbook():
    return leaderboard.study_at(PROJECT, "handbook", "results/handbook")


def test_the_committed_submissions_pass_the_strict_check(handbook):
    folders = leaderboard.folders(PROJECT, "handbook")
    assert len(folders) > 1
    for folder in folders:
        assert leaderboard.check(folder, handbook) == [], folder.name


def test_a_committed_submission_with_an_inflated_metric_fails(handbook, tmp_path):
    folder = tmp_path / "handbook" / leaderboard.folders(PROJECT, "handbook")[0].name
    shutil.copytree(PROJECT / "leaderboard" / "handbook" / folder.name, folder)
    assert leaderboard.check(folder, handbook) == []
    table = tables.read_csv(folder / "metrics.csv")
    tables.write_csv(table.assign(mean=table["mean"] + 1e-6), folder / "metrics.csv")
    sign(folder)
    assert any("mean does not re-derive" in text for text in problems(folder, handbook))


def test_the_page_of_the_gate_shows_the_boards(exported, tmp_path):
    page = tmp_path / "gate.md"
    page.write_text((PROJECT / "book/gate.md").read_text())
    assert leaderboard.MARK in page.read_text()
    leaderboard.show(exported, page)
    text = page.read_text().replace("<wbr>", "")
    assert (
        leaderboard.MARK not in text
        and "section_bm25" in text
        and "Submitted for toy: evidence_ndcg@10 under chunk/contains" in text
    )
    assert "judged@10" in text and "from its rankings" in text
    page.write_text(leaderboard.MARK)
    leaderboard.show(tmp_path, page)
    assert page.read_text() == "Nothing was submitted yet."
    leaderboard.show(tmp_path, tmp_path / "no.md")
    assert not (tmp_path / "no.md").exists()
