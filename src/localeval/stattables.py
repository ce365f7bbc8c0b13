"""Tables and sentences of the notebooks on statistics, ranks, simulation and labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from localeval import clusters, equivalence, figures, recommend, simulation, stats
from localeval.figures import DASH, interval, minus
from localeval.metrics import JUDGED
from localeval.report import publish
from localeval.views import PAIR, UNKNOWN, judged, p_text, slug, span

# Statistics: tests, documents, margins, slices, ranks, a recommendation


def side_by_side(comparisons: pd.DataFrame, effect: float, documents: pd.DataFrame) -> pd.DataFrame:
    """The tests of every comparison that ran beside each other, the smallest difference that they could show, and the questions it would
    take to show `effect`: of independent questions, and with the design effect of shared documents. documents: of
    `clusters.compare_designated`."""
    numbers = pd.Series(range(1, len(comparisons) + 1), index=comparisons.index)
    ran = comparisons[comparisons["n"] > 0]
    sd = ran["mde"] * ran["n"] ** 0.5 / 2.8
    effects = numbers[ran.index].map(dict(zip(documents["number"], documents["design_effect"], strict=True)))
    wide = pd.Series(
        [clusters.widened(one, known) for one, known in zip(sd, effects, strict=True)], index=ran.index, dtype=float
    )
    needed, shared = (
        pd.array([stats.questions_needed(one, effect) for one in some], dtype="Int64") for some in (sd, wide)
    )
    return pd.DataFrame(
        {
            PAIR: _numbered(ran, numbers[ran.index]), "p": ran["p_value"].map(p_text), "p (t)": ran["p_t"].map(p_text),
            "agree": ran["tests_disagree"].map({True: "NO", False: "yes"}), "test": ran["test"], "n": ran["n"],
            "differ": ran["differ"].astype("Int64"), "MDE": ran["mde"], "MDE, documents": ran["mde"] * wide / sd,
            "questions needed": needed, "needed, documents": shared,
        }
    )  # fmt: skip


def _numbered(rows: pd.DataFrame, numbers: pd.Series) -> pd.Series:
    return numbers.astype(str) + ". " + rows["candidate"] + " − " + rows["baseline"]


def agreement(comparisons: pd.DataFrame) -> str:
    """In how many comparisons t and permutation test say different things."""
    ran = comparisons[comparisons["n"] > 0]
    apart = int(ran["tests_disagree"].sum())
    if not len(ran):
        return "There is no test to compare."
    if not apart:
        return "Student's t and the permutation test agree on which side of the level each comparison falls."
    where = "fall on different sides of the level: too close to call."
    return f"In {apart} of {len(ran)} comparisons Student's t and the permutation test {where}"


def clustered(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `clusters.compare_designated` to read."""
    return pd.DataFrame(
        {
            PAIR: _numbered(rows, rows["number"]), "difference": interval(rows["delta"], rows["low"], rows["high"], "+.3f"),
            "p": rows["p_value"].map(p_text), "n": rows["n"], "documents": rows["clusters"],
            "design effect": rows["design_effect"].map("{:.2f}".format).replace("nan", figures.DASH),
            "effective n": rows["n_effective"].map("{:.0f}".format).replace("nan", figures.DASH), "would help": rows["advice"],
        }
    )  # fmt: skip


def advised(rows: pd.DataFrame) -> str:
    """What the words of the last column mean, for its caption; those that occur."""
    words = [word for word in clusters.ADVICE if word in set(rows["advice"])]
    return " ".join(f"{word.capitalize()}: {clusters.ADVICE[word]}." for word in words)


def clustered_sentence(rows: pd.DataFrame, across: int) -> str:
    """How far documents change the picture, in words."""
    known = rows.dropna(subset=["design_effect"])
    if known.empty:
        return "There are too few documents, or no comparison that varies, to say what shared documents cost."
    effects, fewest = known["design_effect"], int(known["clusters"].min())
    flips = int(((known["low"] <= 0) & (known["high"] >= 0)).sum())
    said = f"The design effect lies between {effects.min():.2f} and {effects.max():.2f}; with documents resampled {flips} of {len(known)} "
    said += f"intervals hold zero. {across} questions have evidence in several documents."
    if fewest < clusters.FEW_CLUSTERS:
        said += f" {fewest} documents are few: such intervals tend to be too narrow, and the design effect itself is uncertain."
    return said


def claims(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `equivalence.claims` to read; one that did not run says why."""
    words = rows["verdict"].where(rows["verdict"] != "not_run", "not run: " + rows["reason"].fillna(""))
    return pd.DataFrame(
        {
            "claimed": rows["candidate"] + " is as good as " + rows["baseline"], "verdict": words,
            "difference [90 %]": interval(rows["delta"], rows["low"], rows["high"], "+.3f"), "n": rows["n"],
            "p as good": rows["p_as_good"].map(p_text), "p equivalent": rows["p_equivalent"].map(p_text),
            "questions needed": _if_open(rows), "measure": rows["metric"] + ", " + rows["rule"], "questions": rows["origin"],
        }
    )  # fmt: skip


def _if_open(rows: pd.DataFrame) -> pd.Series:
    """How many questions a claim would take if both sides were equal, where it is neither shown nor refuted, and more than there are."""
    open_ = rows["verdict"].isin(["not shown", "tests disagree"]) & ~(rows["high"] < 0)  # such sides are hardly equal
    if "n" in rows:
        open_ &= ~(rows["needed"] <= rows["n"])
    return rows["needed"].where(open_).astype("Int64")


def slices(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `stats.slices` to read."""
    return pd.DataFrame(
        {
            "cut": rows["cut"], "slice": rows["slice"], "verdict": rows["verdict"],
            "difference": interval(rows["delta"], rows["low"], rows["high"], "+.3f"), "n": rows["n"],
            "p": rows["p_value"].map(p_text), "p (BH)": rows["p_adjusted"].map(p_text),
        }
    )  # fmt: skip


def with_judged(shown: pd.DataFrame, rows: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """Comparisons to read with one more column: how much of the first hits of candidate and baseline somebody judged.

    shown: of `views.differences(rows)`. summary: `metrics.csv`. A rule that judges nothing, such as that of times, has a dash."""
    texts, rules = judged(summary), set(summary["rule"])

    def both(row) -> str:
        found = [texts.get((side, row.rule, row.origin), UNKNOWN) for side in (row.candidate, row.baseline)]
        return DASH if row.rule not in rules else UNKNOWN if set(found) == {UNKNOWN} else f"{found[0]} and {found[1]}"

    return shown.assign(**{f"{JUDGED} of both": [both(row) for row in rows.itertuples()]})


def judged_caption(what: str = "candidate and baseline") -> str:
    """What the column of `with_judged` says, for its caption."""
    return f"{JUDGED}: share of the first units of {what} that hold marked evidence or that a person read and refused."


def leaderboard(rows: pd.DataFrame, summary: pd.DataFrame, rule: str, origin: str) -> pd.DataFrame:
    """The table of `ranking.ranks` to read: ranges as "1 to 4". summary: `metrics.csv`, which says how much is judged."""
    shares = judged(summary)
    ends = {"ranks": ("rank_low", "rank_high"), "resampled": ("band_low", "band_high")}
    texts = {name: rows[low].astype(str) + " to " + rows[high].astype(str) for name, (low, high) in ends.items()}
    return pd.DataFrame(
        {
            "system": rows["system"], "mean": interval(rows["mean"], rows["low"], rows["high"]), "ranks not ruled out": texts["ranks"],
            "tie group": rows["group"], "ranks in 95 % of resamples": texts["resampled"], "first in": rows["p_first"].map("{:.0%}".format),
            JUDGED: [shares.get((system, rule, origin), UNKNOWN) for system in rows["system"]],
        }
    )  # fmt: skip


def optimism_sentence(found, metric: str) -> str:
    """What the best reported, and what to expect of it."""
    if found.systems < 2:
        return "There is one system, so nothing was chosen and no luck is in its mean."
    return (
        f"The best of {found.systems} systems, {found.system}, reported {found.reported:.3f} {metric}; after taking away what choosing the "
        f"best of them gained on these {found.n} questions, expect {found.expected:.3f}."
    )


def held_out_sentence(rows: pd.DataFrame, few: int) -> str:
    """What the system chosen on one part of the questions is worth on the other."""
    if rows.empty:
        return f"The gold set has no two parts of at least {few} scored questions each, so nothing could be held out."
    dev, other = rows.to_dict("records")
    return (
        f"Chosen on the {dev['n']} questions of the part dev, {dev['system']} has {interval(dev['mean'], dev['low'], dev['high'])} there "
        f"and {interval(other['mean'], other['low'], other['high'])} on the {other['n']} held-out questions. The two parts hold different "
        "questions, so their means may also differ for other reasons than the luck of choosing."
    )


def considered(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of a recommendation to read, cheapest first."""
    return pd.DataFrame(
        {
            "system": rows["system"], "verdict": rows["verdict"], "P95 ms": rows["p95_ms"].map("{:.1f}".format), "mean": rows["mean"],
            "minus best [90 %]": interval(rows["delta"], rows["low"], rows["high"], "+.3f"),
            "p as good (Holm)": rows["p_as_good"].map(p_text),
            "questions needed": _if_open(rows),
        }
    )  # fmt: skip


def verdicts_caption(verdicts: pd.Series) -> str:
    """What the verdicts that a table of `considered` holds mean; all are against the best and corrected over the table."""
    told = [f"{name}: {equivalence.VERDICTS[name]}" for name in equivalence.VERDICTS if name in set(verdicts)]
    return f"Beside the best, corrected over all of them (Holm): {'; '.join(told)}." if told else ""


def board(panel, price: pd.DataFrame) -> pd.DataFrame:
    """What a leaderboard is made of, in counts."""
    timed = int(price["system"].isin(panel.systems).sum())
    counts = {
        "systems": len(panel.systems),
        "with a latency": timed,
        "questions": len(panel.query_ids),
        "left out": panel.left_out,
    }
    return pd.DataFrame({"what": list(counts), "count": list(counts.values())})


def first_sentence(rows: pd.DataFrame) -> str:
    """How many systems may be first, and how far the tests part the table."""
    first = int((rows["rank_low"] == 1).sum())
    if len(rows) < 2:
        return "There is one system, so there is nothing to part."
    groups = int(rows["group"].max())
    parted = f"They fall into {groups} tie groups." if groups > 1 else "They are one tie group."
    return f"For {first} of {len(rows)} systems the first rank is not ruled out. {parted}"


def tied(panel, price: pd.DataFrame, **draws) -> tuple[str, int]:
    """The pick of `recommend.cheapest_tied` and how many it calls tied; "none" where no latency was measured."""
    rows = recommend.against_best(panel, price, **draws)
    if rows.empty:
        return "none, since no latency was measured", 0
    pick, names = recommend.cheapest_tied(rows)
    return pick, len(names)


def held_out(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `ranking.held_out` to read."""
    means = interval(rows["mean"], rows["low"], rows["high"])
    return pd.DataFrame({"questions": rows["questions"], "system": rows["system"], "mean": means, "n": rows["n"]})


# Simulation


def rates(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Simulated rates as "4.9% [4.4%, 5.5%]" with their Monte-Carlo error, and where several comparisons are one, the range over them."""
    frame = rows[list(names)].copy()
    frame["rate"] = interval(rows["rate"], rows["low"], rows["high"], ".1%")
    if "lowest" in rows:
        ends = zip(rows["lowest"], rows["highest"], rows["comparisons"], strict=True)
        frame["of single ones"] = [span(low, high, ".1%", DASH) if n > 1 else DASH for low, high, n in ends]
        frame["comparisons"] = rows["comparisons"]
    return frame.assign(simulations=rows["simulations"])


def power_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """`simulation.power_at_mde`: a row a comparison, its MDE, and how often the permutation test finds it in each of the two ways."""
    own = rows[rows["test"] == "sign-flip permutation"]
    cells = own.assign(text=interval(own["rate"], own["low"], own["high"], ".0%"))
    wide = cells.pivot(index="name", columns="way", values="text")
    wide = wide.reindex(index=dict.fromkeys(own["name"]), columns=["shifted", "signs by coin"])
    first = own.drop_duplicates("name").set_index("name")[["n", "mde"]]
    return first.join(wide).rename_axis(columns=None, index="comparison").reset_index()


def simulation_answer(coverage, level, called, at_mde, alpha: float, n_pairs: int) -> str:
    """What the simulations found, in a few sentences; that there was nothing to draw from, where that is so."""
    if not n_pairs:
        return "No comparison of this study could be made, so there is nothing to draw samples from."
    plain = ~coverage["of"].eq(simulation.SHARED) & ~coverage["kind"].str.startswith("confidence sequence")
    held = coverage[plain].set_index("of")["rate"]
    tests = level.set_index(["null", "test"])["rate"]
    rules = called.set_index(["of", "rule"])["rate"]
    shifted, coin = (
        at_mde[(at_mde["way"] == way) & (at_mde["test"] == "sign-flip permutation")]["rate"]
        for way in ("shifted", "signs by coin")
    )
    verdict = [tests[null, "verdict"] for null in ("signs by coin", "centred")]
    with_holm, without = (
        rules["family", rule] for rule in ("verdict (Holm and interval)", "each at the level by itself")
    )
    sides = f", and in {span(coin.min(), coin.max(), '.0%')} when the questions fall on both sides" if len(coin) else ""
    parts = [
        f"Intervals that say {1 - alpha:.0%} hold the truth in {span(held.min(), held.max(), '.1%')} of the samples, "
        "by kind of interval over questions.",
        f"Where nothing differs, the verdict on one comparison calls out {span(min(verdict), max(verdict), '.1%')} of the time at a level "
        f"of {alpha:.0%}. A family of size {n_pairs} calls something out in {with_holm:.1%} of the samples with Holm's correction and in "
        f"{without:.1%} without, and the gate fails in {rules['gate', 'both: the gate fails']:.1%}.",
        f"A difference as large as the minimum detectable effect is found in {span(shifted.min(), shifted.max(), '.0%')} of the samples "
        f"when every question shifts by as much{sides}.",
    ]
    return " ".join([*parts, *_when_it_is_harder(coverage, rules)])


def _when_it_is_harder(coverage: pd.DataFrame, rules: pd.Series) -> Iterator[str]:
    """What documents that are drawn, and looks that are repeated, make of the rates; nothing where neither was simulated."""
    shared = coverage[coverage["of"] == simulation.SHARED].set_index("kind")["rate"]
    if len(shared):
        yield (
            f"Where whole documents are drawn, an interval over questions holds the truth in {shared['questions resampled']:.1%}, one over "
            f"documents in {shared['documents resampled']:.1%}."
        )
    modes = [f"fails at some of {simulation.LOOKS} looks, mode {mode}" for mode in ("fixed", "anytime")]
    if ("gate", modes[0]) in rules.index:
        fixed, anytime = (rules["gate", mode] for mode in modes)
        yield (
            f"Looked at {simulation.LOOKS} times, the gate fails in vain in {fixed:.1%} of the histories in mode fixed, and in "
            f"{anytime:.1%} in mode anytime."
        )


def publish_simulated(coverage: pd.DataFrame, level: pd.DataFrame, called: pd.DataFrame) -> None:
    """Glues every pooled rate of the simulation under the slug of what it is the rate of."""
    for rows, names in ((coverage, ("of", "kind")), (level, ("null", "test")), (called, ("of", "rule"))):
        for row in rows.dropna(subset=["rate"]).to_dict("records"):
            publish(slug(*(row[name] for name in names)), row["rate"])


# Labels and their holes


def label_rows(before: pd.DataFrame, after: pd.DataFrame, metric: str) -> pd.DataFrame:
    """`holes.by_system` of one metric, of the gold set alone and with what was judged since, one row a system."""
    one, two = (frame[frame["metric"] == metric].set_index("system") for frame in (before, after))
    rows = pd.DataFrame(index=two.index)
    rows["n"] = two["n"]
    rows["judged, gold alone"], rows["judged now"] = (
        one["judged"].map("{:.1%}".format),
        two["judged"].map("{:.1%}".format),
    )
    rows[f"{metric}, gold alone"] = one["plain"]
    rows[f"{metric} now (worst to best case)"] = [
        f"{now:.3f} ({low:.3f} to {high:.3f})" if pd.notna(low) else now
        for now, low, high in zip(two["plain"], two["low"], two["high"], strict=True)
    ]
    rows["condensed"] = two["condensed"]
    return rows.reset_index()


def robust_rows(after: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """`holes.by_system`: every metric plain, and condensed where the whole name allows it, one row a system."""
    rows = after.drop_duplicates("system")[["system", "n"]].set_index("system")
    for name in names:
        own = after[after["metric"] == name].set_index("system")
        rows[name] = own["plain"]
        if name not in ("bpref", "infap"):
            rows[f"{name}, condensed"] = own["condensed"]
    return rows.reset_index()


def flip_rows(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """`holes.comparison_table` of the gold set alone and with what was judged since, one row a comparison."""
    measure = after["metric"] + ", " + after["rule"] + ", " + after["origin"]
    ends = [
        minus(f"{low:+.3f} to {high:+.3f}") if n else None
        for low, high, n in zip(after["low"], after["high"], after["n"], strict=True)
    ]
    return pd.DataFrame(
        {
            "candidate − baseline": after["candidate"] + " − " + after["baseline"], "measure": measure, "n": after["n"],
            "difference, gold alone": before["delta"].map(_signed), "order, gold alone": before["flips"],
            "difference now": after["delta"].map(_signed), "it could be": ends, "order now": after["flips"],
            "open hits": after["open"], "answers that suffice": after["answers"].map(lambda count: None if pd.isna(count) else f"{count}"),
        }
    )  # fmt: skip


def _signed(value: float) -> str | None:
    return None if pd.isna(value) else minus(f"{value:+.3f}")


def worklist_rows(worklist: pd.DataFrame, count: int, most: int = 400) -> pd.DataFrame:
    """The first rows of a worklist to read: question, the text of the hit (cut short), where it stands, and what hangs on it."""
    rows = worklist.head(count)
    texts = rows["text"].map(lambda text: " ".join(text.split()))
    shown = texts.where(texts.str.len() <= most, texts.str[:most] + " …")
    return pd.DataFrame(
        {
            "query_id": rows["query_id"], "question": rows["question"], "text of the hit": shown, "span": rows["span"],
            "influence": rows["influence"], "comparisons": rows["comparisons"], "systems": rows["systems"],
        }
    )  # fmt: skip


def judged_sentence(rows: pd.DataFrame, metric: str, cut: int) -> str:
    """How much of the top the best system's hits are judged, and between what its score lies."""
    own = rows[(rows["metric"] == metric) & rows["plain"].notna()]
    if own.empty:
        return "No question here has a value, so there is nothing that a judgement could change."
    best = own.loc[own["plain"].idxmax()]
    ends = (
        ""
        if pd.isna(best["low"])
        else f" Its {metric} of {best['plain']:.2f} could be anything from {best['low']:.2f} to {best['high']:.2f}."
    )
    return f"Of the first {cut} hits of {best['system']}, somebody judged {best['judged']:.0%}; the others count as misses.{ends}"


def flip_sentence(before: pd.DataFrame, after: pd.DataFrame) -> str:
    """How many comparisons the holes leave open, before and after hits were judged."""
    if not (after["n"] > 0).any():
        return "No designated comparison has figures."
    counts = [int(frame["flips"].isin(["can flip", "may flip"]).sum()) for frame in (before, after)]
    held = int((after["flips"] == "cannot flip").sum())
    known = int((after["n"] > 0).sum())
    turned = f"open hits could turn {counts[1]} round ({counts[0]} by the gold set alone)"
    return f"Of {known} designated comparisons, {turned}; the sign of {held} stands whatever they hold."
