"""Tables and sentences of the notebooks on answers: when to abstain, and what an answer stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from localeval import stats
from localeval.figures import interval, minus
from localeval.report import publish
from localeval.views import span


def one(rows: pd.DataFrame, column: str, value: object) -> pd.DataFrame:
    """The rows with one value in a column."""
    return rows[rows[column] == value]


def best_per_base(useful: pd.DataFrame) -> pd.DataFrame:
    """Of the rows of `abstention.abstention`, in their order, the first of each base system, whatever reranks it."""
    return useful[~useful["system"].str.partition("+")[0].duplicated()]


def abstention(useful: pd.DataFrame) -> pd.DataFrame:
    """What the signals of `abstention.abstention` are worth: the share gained and AUROC, with intervals, and the counts behind them."""
    frame = useful[["system"]].assign(signal=useful["signal"].str.replace("_", " "))
    frame["right of all"] = _share(useful["correct"], useful["n"])
    for name, title in (("gained", "gained"), ("auroc", "AUROC")):
        frame[title] = interval(useful[name], useful[f"{name}_low"], useful[f"{name}_high"])
    return frame


def areas(useful: pd.DataFrame) -> pd.DataFrame:
    """The areas of `abstention.abstention` with intervals, each beside those of random order and of an oracle."""
    frame = useful[["system"]].assign(signal=useful["signal"].str.replace("_", " "))
    for name in ("aurc", "augrc"):
        frame[name.upper()] = interval(useful[name], useful[f"{name}_low"], useful[f"{name}_high"])
        ends = zip(useful[f"{name}_oracle"], useful[f"{name}_random"], strict=True)
        frame[f"oracle to random, {name.upper()}"] = [f"{oracle:.2f} to {random:.2f}" for oracle, random in ends]
    return frame


DIGITS = {"spread": 8}  # of a threshold; nearly equal shares differ late


def _thresholds(rows: pd.DataFrame) -> list[str | None]:
    """Thresholds with as many digits as their signal needs to tell one from the next."""
    return [
        None if pd.isna(value) else minus(f"{value:.{DIGITS.get(signal, 4)}g}")
        for signal, value in zip(rows["signal"], rows["threshold"], strict=True)
    ]


def auroc(row: pd.Series) -> str:
    """AUROC with its interval for prose; in words where there is no unanswerable question, or no answerable one."""
    return "not defined" if pd.isna(row["auroc"]) else interval(row["auroc"], row["auroc_low"], row["auroc_high"])


def auroc_best(useful: pd.DataFrame) -> str:
    """The highest AUROC of `abstention.abstention` with its signal and system, for prose."""
    if useful["auroc"].isna().all():
        return "not defined"
    row = useful.loc[useful["auroc"].idxmax()]
    return f"{auroc(row)} for {row['signal'].replace('_', ' ')} of {row['system']}"


# Abstention


def floors(rows: pd.DataFrame) -> pd.DataFrame:
    """`abstention.selective` to read: what each floor leaves, with the answers behind it."""
    frame = _by_signal(rows)
    frame["floor"] = rows["floor"].map("{:.2f}".format)
    frame["threshold"] = _thresholds(rows)
    frame["answered"] = _of(rows["answered"], rows["state"])
    frame["coverage"] = [None if pd.isna(share) else f"{share:.0%}" for share in rows["coverage"]]
    frame["accuracy"] = interval(rows["accuracy"], rows["low"], rows["high"])
    frame["unanswerable answered"] = _counts(rows["false_answers"], rows["unanswerable"])
    return frame


def _by_signal(rows: pd.DataFrame) -> pd.DataFrame:
    """A column that names a system with its signal."""
    return pd.DataFrame({"system": rows["system"] + " by " + rows["signal"].str.replace("_", " ")})


def _of(counts: pd.Series, states: pd.Series) -> list[str]:
    """A count, marked where it is thin; the state in its place where there is none."""
    return [
        state if pd.isna(count) else f"{count:.0f}{' (thin)' if state == 'thin' else ''}"
        for count, state in zip(counts, states, strict=True)
    ]


def _counts(counts: pd.Series, totals: pd.Series, share: str = "") -> list[str | None]:
    """ "3 of 32"; nothing where the count is not defined, "none asked" where there was nothing to count. share: how it is added."""
    return [
        "none asked"
        if not total
        else None
        if pd.isna(count)
        else f"{count:.0f} of {total:.0f}{share.format(count / total)}"
        for count, total in zip(counts, totals, strict=True)
    ]


def _share(counts: pd.Series, totals: pd.Series) -> list[str | None]:
    """ "3 of 32 (9.4%)", else as `_counts`."""
    return _counts(counts, totals, " ({:.1%})")


def certified(rows: pd.DataFrame) -> pd.DataFrame:
    """`abstention.certified` of one kind of risk to read: a row a system and fold."""
    frame = _by_signal(rows)
    frame["chosen on"] = [f"fold {fold}: {n}" for fold, n in zip(rows["fold"], rows["chosen_on"], strict=True)]
    frame["threshold"] = _thresholds(rows)
    frame["answered elsewhere"] = _counts(rows["answered"], rows["held_out"])
    frame["observed risk"] = interval(rows["observed"], rows["low"], rows["high"])
    frame["unanswerable answered"] = _counts(rows["false_answers"], rows["unanswerable"])
    return frame.assign(holds=rows["holds"])


def fusion_rows(useful: pd.DataFrame, few: pd.DataFrame) -> pd.DataFrame:
    """Fusion rules as rows to read: `abstention.abstention` beside `abstention.at_coverage`."""
    whole = useful.merge(few, on=["system", "signal"], suffixes=("", "_few"))
    frame = pd.DataFrame({"fusion": whole["system"], "signal": whole["signal"].str.replace("_", " ")})
    frame["right of all"] = _counts(whole["correct"], whole["n"])
    frame["gained"] = interval(whole["gained"], whole["gained_low"], whole["gained_high"])
    frame["AUROC"] = interval(whole["auroc"], whole["auroc_low"], whole["auroc_high"])
    frame["right of the most certain"] = _counts(whole["correct_few"], whole["answered"])
    frame["share of them"] = interval(whole["accuracy"], whole["low"], whole["high"])
    return frame


def reported_rate(counts: Sequence[int]) -> str:
    """A sentence on a rate that a source reported, [right, answered], with the interval that its counts allow; empty without one."""
    if not counts:
        return ""
    right, answered = counts
    low, high = stats.wilson(right, answered)
    return (
        f"A source reported {right} right of {answered} at its best threshold of a cosine: such counts allow any rate "
        f"from {low:.2f} to {high:.2f}."
    )


def certified_sentence(rows: pd.DataFrame, allowed: float, error: float) -> str:
    """What the thresholds with a bound came to, in one sentence."""
    parts = []
    for risk, own in rows.groupby("risk", sort=False):
        found = own[own["threshold"].notna()]
        held = int((found["holds"] == "yes").sum())
        said = f"{len(found)} of {len(own)} qualify"
        parts.append(
            f"{risk}, {said}" + (f" and {held} of these stay within it on the other fold" if len(found) else "")
        )
    bound = f"with a risk certified to be at most {allowed:.0%} (error {error:.0%})"
    return f"Of the thresholds {bound}: {'; '.join(parts)}."


# Groundedness


def rate_rows(rates: pd.DataFrame) -> pd.DataFrame:
    """`groundedness.rates` of one judge to read: a row a rate with its denominator, a column a generator."""
    shown = interval(rates["value"], rates["low"], rates["high"])
    cells = [
        f"{text} ({count} of {n})" if n else None
        for text, count, n in zip(shown, rates["count"], rates["n"], strict=True)
    ]
    rates = rates.assign(over=rates["population"] + ", " + rates["over"])
    keys = ["origin", "rate", "over"]
    wide = rates[[*keys, "generator"]].assign(cell=cells).pivot(index=keys, columns="generator", values="cell")
    order = pd.MultiIndex.from_frame(rates[keys].drop_duplicates())
    wide = (
        wide.reindex(index=order, columns=list(dict.fromkeys(rates["generator"])))
        .reset_index()
        .rename_axis(columns=None)
    )
    return wide.assign(rate=wide["rate"].str.replace("_", " "), over=wide.pop("over"))


def ended(states: pd.DataFrame) -> pd.DataFrame:
    """`groundedness.states` of one judge to read."""
    return states.drop(columns="judge").rename(columns=lambda name: name.replace("_", " "))


def stages(left: pd.DataFrame) -> pd.DataFrame:
    """`groundedness.waterfall` of one generator to read: a row a stage, a column an origin and group."""
    names = [f"{row['origin']}, {str(row['group']).replace('_', ' ')}" for row in left.to_dict("records")]
    counts = left.drop(columns=["generator", "origin", "group"]).set_axis(names).T
    return counts.rename_axis("stage").reset_index()


def others_sentence(rates: pd.DataFrame, first: str, origin: str) -> str:
    """What generators beside the first one do, and how often they decline; empty where there are none."""
    said = []
    for name, own in rates.groupby("generator", sort=False):
        if name != first:
            counts = own.set_index("rate")["count"]
            declined = [counts[kind] for kind in counts.index if kind.startswith("abstained")]
            asked = sum(declined) + sum(counts[kind] for kind in counts.index if kind.startswith("answered"))
            said.append(
                f"{name} declines {sum(declined)} of {asked} {origin} questions. {groundedness_sentence(own, origin)}"
            )
    return " ".join(said)


def refusals(rows: pd.DataFrame) -> pd.DataFrame:
    """`handcheck.refusals` to read."""
    frame = rows[["language"]].assign(**{"refusals found": _share(rows["found"], rows["declines"])})
    return frame.assign(**{"answers taken for refusals": _share(rows["wrong"], rows["answers"])})


def family_sentence(who: pd.DataFrame) -> str:
    """A warning where a judge is of the generator's family, with both names; else nothing."""
    pairs = [f"{row['judge']} judges {row['generator']}" for row in who[who["same family"] == "yes"].to_dict("records")]
    return f"Warning: {'; '.join(pairs)}, a model of its own family, which judges tend to prefer." if pairs else ""


def judge_errors(rows: pd.DataFrame, untold: Mapping[str, str]) -> pd.DataFrame:
    """`handcheck.confusion` to read; a judge that could not run has its state. untold: name -> what it would take."""
    names = {
        "both yes": "both yes",
        "judge yes": "judge only",
        "label yes": "label only",
        "both no": "both no",
        "no verdict": "no verdict",
    }
    frame = rows[["judge", "verdict"]].assign(**{title: rows[name].astype("Int64") for name, title in names.items()})
    frame["agree"] = _counts(rows["both yes"] + rows["both no"], rows["n"])
    frame["kappa"] = interval(rows["kappa"], rows["kappa_low"], rows["kappa_high"])
    whole = frame.reindex(range(len(frame) + len(untold)))
    whole.loc[len(frame) :, "judge"] = [f"{name}: not run" for name in untold]
    return whole


def judge_sentence(rows: pd.DataFrame) -> str:
    """How every judge agrees with the labels on what an answer answers, in one sentence; empty without labels."""
    parts = []
    for row in rows[rows["verdict"] == "answers"].to_dict("records"):
        asked = row["n"] + row["no verdict"]
        if asked:
            kappa = (
                "not defined" if pd.isna(row["kappa"]) else interval(row["kappa"], row["kappa_low"], row["kappa_high"])
            )
            given = f"gives a verdict on {row['n']} of {asked}"
            agreed = (
                f", of which {row['both yes'] + row['both no']} agree with the label (kappa {kappa})"
                if row["n"]
                else ""
            )
            parts.append(f"{row['judge']} {given}{agreed}")
    return f"Asked whether a labelled answer answers its question: {'; '.join(parts)}." if parts else ""


def consistency(rows: pd.DataFrame) -> pd.DataFrame:
    """`generation.consistency` to read: a row a judge and way."""
    told = [
        f"{same:.0f} of {n:.0f} [{low:.2f}, {high:.2f}]"
        for same, n, low, high in rows[["same", "compared", "low", "high"]].to_numpy(float)
    ]
    same = pd.Series(told, rows.index, dtype=object)
    same = same.mask(rows["compared"] == 0, "no second verdict").mask(rows["status"] != "ok", rows["status"])
    frame = rows[["judge", "way"]].assign(**{"same verdict": same})
    changed = rows["changed"].replace("", "none").mask((rows["compared"] == 0) | (rows["status"] != "ok"), None)
    return frame.assign(**{"no second verdict": rows["alone"].astype("Int64"), "not the same": changed})


def spent(tallies: Mapping[str, Mapping]) -> pd.DataFrame:
    """What each model took, over all replies that this page rests on, whenever they were made. tallies: of `generation.spent`."""
    counted = lambda one: (
        (None, None) if one["uncounted"] == one["replies"] else (one["prompt_tokens"], one["completion_tokens"])
    )
    return pd.DataFrame(
        [
            (name, one["replies"], one["uncounted"], *counted(one), one["cut"], one["median_seconds"], one["longest_seconds"])
            for name, one in tallies.items() if one["replies"]
        ],
        columns=[
            "model", "replies", "without a count", "tokens read", "tokens written", "prompts cut to fit", "seconds, median", "longest",
        ],
    )  # fmt: skip


def corrected(rows: pd.DataFrame) -> pd.DataFrame:
    """`handcheck.corrected` to read."""
    frame = rows[["rate", "population"]].assign(rate=rows["rate"].str.replace("_", " "))
    frame["as judged"] = [f"{count} of {n}" for count, n in zip(rows["count"], rows["n"], strict=True)]
    frame["judged rate"] = rows["as judged"]
    for name, title in (("powered", "prediction-powered"), ("rogan_gladen", "Rogan–Gladen")):
        frame[title] = interval(rows[name], rows[f"{name}_low"], rows[f"{name}_high"])
    return frame.assign(labels=rows["labels"])


def groundedness_sentence(rates: pd.DataFrame, origin: str) -> str:
    """Both directions of error in one sentence, each over its own questions."""
    by = rates.set_index("rate")
    part = lambda name: f"{by.loc[name, 'count']} of {by.loc[name, 'n']}"
    said = f"Of {origin} questions whose span was retrieved it answers {part('answered_when_retrieved')}"
    said += f" and, as judged, {part('correct_when_answered')} of these answers are right; it declines"
    said += f" {part('abstained_when_not_retrieved')} whose span was not retrieved"
    unasked = not by.loc["answered_when_unanswerable", "n"]
    return said + ("." if unasked else f", and answers {part('answered_when_unanswerable')} that have no answer.")


def corrected_sentence(rows: pd.DataFrame) -> str:
    """The headline rate corrected by the labels, or that there are none."""
    row = rows.set_index("rate").loc["correct_when_answered"]
    if pd.isna(row["powered"]):
        return "No answer of it was labelled by hand, so the judge's errors are not known."
    return (
        f"Corrected by {row['labels']} hand labels, {row['powered']:.0%} of its answers to retrieved questions are right "
        f"({row['powered_low']:.0%} to {row['powered_high']:.0%}); as judged, {row['as judged']:.0%}."
    )


def labelled_sentence(whole: pd.DataFrame) -> str:
    """How many answers of each generator in `handcheck.matched` rows have a label, by its name."""
    has = whole[["human_supported", "human_answers"]].notna().any(axis=1).groupby(whole["generator"], sort=False).sum()
    counts = ", ".join(f"{count or 'none'} of {name}" for name, count in has.items())
    return f"Answers labelled by hand: {counts}; where there are none, what the judge gets wrong is not known."


def labels_sentence(labels: pd.DataFrame, stale: int) -> str:
    """How many labels there are, who gave them, and how many speak of answers that are no longer given."""
    given = int(labels[["supported", "answers_question"]].notna().any(axis=1).sum()) if len(labels) else 0
    if not given:
        return "Nobody has labelled these answers yet: rates stand as judged, and the errors in them are not known."
    by = " and ".join(sorted(set(labels["by"]) - {""}))
    return f"{given} answers are labelled by hand{f' (by the {by})' if by else ''}" + (
        f"; {stale} of these labels speak of answers that are no longer given." if stale else "."
    )


def publish_groundedness(rates: pd.DataFrame, corrected: pd.DataFrame) -> None:
    """Glues value, interval and count of every rate that is defined, and its corrected interval where there is one."""
    for row in rates[rates["n"] > 0].to_dict("records"):
        publish(f"{row['rate']}__value", row["value"])
        publish(f"{row['rate']}__interval", span(row["low"], row["high"]))
        publish(f"{row['rate']}__count", f"{row['count']} of {row['n']}")
    for row in corrected[corrected["powered"].notna()].to_dict("records"):
        publish(f"{row['rate']}__corrected", f"{row['powered']:.2f}")
        publish(f"{row['rate']}__corrected_interval", span(row["powered_low"], row["powered_high"]))
