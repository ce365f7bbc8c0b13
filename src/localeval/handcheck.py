"""How wrong is the judge? A person labels a stratified sample of judged answers; rates are then corrected, with the doubt that remains.

Strata are population and verdict. Labels name an answer by the hash of its text: a label for an answer that has since changed
counts for nothing. The sheet to fill in holds questions and answers and stays on this machine; the labels alone are kept with a study.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from localeval import abstention
from localeval.groundedness import RATES, UNANSWERABLE, Case, denominator, read_answer
from localeval.records import BadInput

LABELS = ("query_id", "answer_id", "supported", "answers_question", "by", "note")
SHEET = (
    "query_id",
    "answer_id",
    "population",
    "question",
    "gold",
    "answer",
    "passages",
    "supported",
    "answers_question",
    "by",
    "note",
)
WORDS = {"yes": True, "no": False}
DRAWS = 4000
VERDICTS = {"supported": "supported", "answers_question": "answers"}  # name on the sheet -> column of the run


def answer_id(answer: str) -> str:
    """Names an answer without showing it."""
    return hashlib.sha256(answer.encode()).hexdigest()[:12]


def sample(rows: pd.DataFrame, size: int) -> pd.DataFrame:
    """About `size` judged answers, spread evenly over population and verdicts; the smallest strata whole. Which ones follows from
    their ids alone."""
    judged = rows[rows["judged"] == "judged"]
    ordered = judged.iloc[judged["query_id"].map(lambda name: abstention.digest(name, 1)).argsort(kind="stable")]
    queues = [list(part.index) for _, part in ordered.groupby(["population", "supported", "answers"], sort=True)]
    taken: list[int] = []
    while len(taken) < size and any(queues):
        taken += [queue.pop(0) for queue in queues if queue][: size - len(taken)]
    return rows.loc[taken]


def write_sheet(rows: pd.DataFrame, cases: Sequence[Case], path: Path) -> None:
    """A CSV for a person to fill in: yes or no under supported and answers_question. The judge's verdict is not on it. A sheet that
    somebody has begun to fill in is left alone."""
    if path.is_file() and read_labels(path)[list(VERDICTS)].notna().any(axis=None):
        return
    by_id = {case.query_id: case for case in cases}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(SHEET)
        for row in rows.sort_values("query_id").to_dict("records"):
            case = by_id[row["query_id"]]
            texts = (case.question, " / ".join(case.quotes), row["answer"], "\n\n".join(case.passages))
            sheet.writerow([row["query_id"], answer_id(row["answer"]), row["population"], *texts, "", "", "", ""])


def labels_of(path: Path) -> pd.DataFrame:
    """`read_labels`; no rows where nobody has labelled yet."""
    return read_labels(path) if path.is_file() else pd.DataFrame(columns=list(LABELS[:5]))


def read_labels(path: Path) -> pd.DataFrame:
    """Hand labels: a filled sheet, or its columns LABELS alone. Blank cells: not labelled. Columns: query_id, answer_id, supported,
    answers_question (True, False or None), by (empty where nobody is named)."""
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError):
        raise BadInput(f"{path}: not a table in UTF-8; fill in the sheet and save it as CSV") from None
    for column in LABELS[:4]:
        if column not in frame.columns:
            raise BadInput(f"{path}: lacks the column {column!r}; keep the columns of the sheet")
    for column in VERDICTS:
        given = frame[column].str.strip().str.casefold()
        odd = frame.index[~given.isin([*WORDS, ""])]
        if len(odd):
            raise BadInput(
                f"{path}:{odd[0] + 2}: {column} is {frame.loc[odd[0], column]!r}; write yes or no, or leave it blank"
            )
        frame[column] = given.map(WORDS).astype(object).where(given != "", None)
    if frame["query_id"].duplicated().any():
        raise BadInput(f"{path}: {frame.loc[frame['query_id'].duplicated(), 'query_id'].iloc[0]} is labelled twice")
    return frame.assign(by=frame["by"].str.strip() if "by" in frame.columns else "")[list(LABELS[:5])]


def refusals(path: Path, sentinel: str) -> pd.DataFrame:
    """The detector of refusals against replies that were labelled by hand, a row a language. The file has the columns language, text,
    declined (yes or no). Columns: language, found, declines, wrong, answers: of the declines how many it found, of the answers
    how many it took for one. No rows where there is no file."""
    if not path.is_file():
        return pd.DataFrame(columns=["language", "found", "declines", "wrong", "answers"])
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    if not {"language", "text", "declined"} <= set(frame.columns) or not frame["declined"].isin(WORDS).all():
        raise BadInput(f"{path}: needs the columns language, text and declined, which is yes or no in every line")
    told = [read_answer(text, sentinel).state == "declined" for text in frame["text"]]
    frame = frame.assign(told=told, declined=frame["declined"].map(WORDS).astype(bool))
    cells = lambda part, label: (
        int(part.loc[part["declined"] == label, "told"].sum()),
        int((part["declined"] == label).sum()),
    )
    rows = [(name, *cells(part, True), *cells(part, False)) for name, part in frame.groupby("language", sort=False)]
    return pd.DataFrame(rows, columns=["language", "found", "declines", "wrong", "answers"])


def matched(rows: pd.DataFrame, labels: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The judged rows with human_supported and human_answers where a label speaks of the same answer, and how many labels speak of
    none of them."""
    ids = rows["answer"].map(answer_id)
    named = labels.drop(columns="by", errors="ignore").rename(
        columns={name: f"human_{column}" for name, column in VERDICTS.items()}
    )
    whole = rows.assign(answer_id=ids).merge(named, on=["query_id", "answer_id"], how="left")
    for column in VERDICTS.values():
        whole[f"human_{column}"] = whole[f"human_{column}"].astype(object).where(whole[f"human_{column}"].notna(), None)
    known = set(zip(rows["query_id"], ids, strict=True))
    return whole, sum((q, a) not in known for q, a in zip(labels["query_id"], labels["answer_id"], strict=True))


def confusion(whole: pd.DataFrame) -> pd.DataFrame:
    """Judges against hand labels, a row a judge and verdict: counts of the sample, labelled answers without a verdict, agreement, Cohen's
    kappa (1960) with an interval, and the base rate: how often the label is yes, without which a kappa cannot be read. Not
    weighted: the sample is even over the strata."""
    rows = []
    for judge, part in whole.groupby("judge", sort=False):
        for column in VERDICTS.values():
            labelled = part[part[f"human_{column}"].notna()]
            own = labelled[labelled["judged"] == "judged"]
            said, label = (own[name].astype(bool).to_numpy() for name in (column, f"human_{column}"))
            cells = [int(x.sum()) for x in (said & label, said & ~label, ~said & label, ~said & ~label)]
            n = len(own)
            agree, base = ((cells[0] + cells[3]) / n, (cells[0] + cells[2]) / n) if n else (math.nan, math.nan)
            known = kappa(np.array([cells]))[0]
            ends = (math.nan, math.nan) if math.isnan(known) else _kappa_interval(cells)
            rows.append((judge, column, *cells, n, len(labelled) - n, agree, known, *ends, base))
    names = [
        "judge",
        "verdict",
        "both yes",
        "judge yes",
        "label yes",
        "both no",
        "n",
        "no verdict",
        "agreement",
        "kappa",
    ]
    return pd.DataFrame(rows, columns=[*names, "kappa_low", "kappa_high", "base rate"])


def kappa(cells: np.ndarray) -> np.ndarray:
    """Cohen's kappa of tables (m, 4): both yes, judge yes only, label yes only, both no. NaN where either always says the same."""
    n = cells.sum(axis=1)
    judge, person = cells[:, 0] + cells[:, 1], cells[:, 0] + cells[:, 2]
    varies = (judge > 0) & (judge < n) & (person > 0) & (person < n)
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = (judge * person + (n - judge) * (n - person)) / n**2
        return np.where(varies, ((cells[:, 0] + cells[:, 3]) / n - chance) / (1 - chance), np.nan)


def _kappa_interval(cells: Sequence[int], seed: int = 0) -> tuple[float, float]:
    """From draws of the table's shares with a prior of a half in each cell, so that few labels give a wide interval."""
    drawn = kappa(np.random.default_rng(seed).dirichlet(np.array(cells) + 0.5, DRAWS))
    return tuple(float(end) for end in np.quantile(drawn, [0.025, 0.975]))


# Corrected rates

CORRECTED = {
    "grounded_when_answered": ("supported", True), "correct_when_answered": ("answers", True),
    "correct_when_answered_without_span": ("answers", True), "hallucination_rate": ("supported", False),
    "unsupported_when_unanswerable": ("supported", False),
}  # fmt: skip


def corrected(whole: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Rates that rest on verdicts, as the judge gives them and corrected by the labels, for one generator, judge and origin.

    powered: prediction-powered: within each population, the judge's yes and no each count as often as the labels there bear them out
    (Angelopoulos et al. 2023; with a verdict of two values and a sample drawn within verdicts it is the post-stratified mean).
    rogan_gladen: (p + specificity - 1) / (sensitivity + specificity - 1) (Rogan and Gladen 1978), with a sensitivity and a
    specificity that all populations share. Interval: 95 % of draws from Beta and Dirichlet posteriors with Jeffreys priors over answers
    and labels alike, so that it is never narrower than the labels allow. Not defined where no label exists.
    """
    rng, rows = np.random.default_rng(seed), []
    for name, (column, wanted) in CORRECTED.items():
        own = denominator(whole, name)
        judged, n = own[own["judged"] == "judged"], len(own)
        labelled = int(judged[f"human_{column}"].notna().sum())
        raw = int((judged[column] == wanted).sum())
        both = [(math.nan,) * 3] * 2
        if labelled:
            both = [_powered(judged, n, column, wanted, rng), _rogan_gladen(whole, judged, n, column, wanted, rng)]
        rows.append((name, RATES[name][0], raw, n, labelled, raw / n if n else math.nan, *both[0], *both[1]))
    names = ["rate", "population", "count", "n", "labels", "as judged"]
    names += [f"{kind}{end}" for kind in ("powered", "rogan_gladen") for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=names)


def _told(point: float, draws: np.ndarray) -> tuple[float, float, float]:
    """A value with the interval of its draws; without a value of its own, the mean of the draws."""
    if np.isnan(draws).all():
        return (math.nan,) * 3
    low, high = (float(end) for end in np.nanquantile(draws, [0.025, 0.975]))
    return float(np.nanmean(draws)) if math.isnan(point) else point, low, high


def _borne_out(part: pd.DataFrame, column: str, wanted: bool, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """How often a person says `wanted` of the answers in one stratum: the share of the labels (NaN without one), and draws."""
    said = part.loc[part[f"human_{column}"].notna(), f"human_{column}"] == wanted
    return float(said.mean()) if len(said) else math.nan, rng.beta(said.sum() + 0.5, (~said).sum() + 0.5, DRAWS)


def _powered(
    judged: pd.DataFrame, n: int, column: str, wanted: bool, rng: np.random.Generator
) -> tuple[float, float, float]:
    """The rate in one population. n: of the denominator; what was declined is in it and can never be `wanted`."""
    strata = [judged[judged[column] == verdict] for verdict in (True, False)]
    counts = np.array([len(strata[0]), len(strata[1]), n - len(judged)])
    shares = rng.dirichlet(np.where(counts > 0, counts + 0.5, 1e-9), DRAWS)
    point, draws = 0.0, np.zeros(DRAWS)
    for place, part in enumerate(strata):
        if len(part):
            mean, drawn = _borne_out(part, column, wanted, rng)
            point, draws = point + mean * len(part) / n, draws + shares[:, place] * drawn
    return _told(point, draws)


def _rogan_gladen(
    whole: pd.DataFrame, judged: pd.DataFrame, n: int, column: str, wanted: bool, rng: np.random.Generator
) -> tuple[float, float, float]:
    """The rate with one sensitivity and specificity for all populations; not defined where the judge is no better than chance.

    Whether an answer conveys the gold span is asked of answerable questions only: for others the judge's no is no finding.
    """
    all_judged = whole[(whole["judged"] == "judged") & ((column != "answers") | (whole["population"] != UNANSWERABLE))]
    cells = [
        (verdict == wanted, len(part), _borne_out(part, column, wanted, rng))
        for (_, verdict), part in all_judged.groupby(["population", column], sort=True)
    ]
    positive = int((judged[column] == wanted).sum())
    shown = rng.beta(positive + 0.5, len(judged) - positive + 0.5, DRAWS)
    point = _inverted([(yes, size, mean) for yes, size, (mean, _) in cells], np.array(positive / len(judged)))
    draws = _inverted([(yes, size, drawn) for yes, size, (_, drawn) in cells], shown)
    return _told(float(point) * len(judged) / n, draws * len(judged) / n)


def _inverted(cells: Sequence[tuple], shown: np.ndarray) -> np.ndarray:
    """Rogan and Gladen's estimate. cells: (does the judge say wanted, answers, the share a person calls wanted)."""
    cells = [(yes, size, np.asarray(share, dtype=float)) for yes, size, share in cells]
    true, false = (sum(size * part(share) for _, size, share in cells) for part in (lambda x: x, lambda x: 1 - x))
    with np.errstate(divide="ignore", invalid="ignore"):
        sensitivity = sum(size * share for yes, size, share in cells if yes) / true
        specificity = 1 - sum(size * (1 - share) for yes, size, share in cells if yes) / false
        informed = sensitivity + specificity - 1
        return np.clip(np.where(informed > 0.05, (shown + specificity - 1) / informed, np.nan), 0, 1)
