"""What a notebook calls to show values: glued numbers and tables. Drawings are in `figures`.

Everything here is deterministic: the same data gives the same bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from localeval.figures import DASH, heading, minus, require_text
from localeval.records import QUERY_STATES, RUN_STATES, BadInput

STATES = QUERY_STATES | RUN_STATES
NUMERIC = re.compile(r"(?:[<>] )?[+−-]?\.?\d[\d.,]*%?(?: (?:of [\d,]+|m?s|\[[^\]]*\]|\([^)]*\)))*")
NAMES = re.compile(r"[a-z]+(?:_[a-z]+)+(?:, [a-z]+(?:_[a-z]+)*)*")  # digital_clean, cross_document
WIDE = 7  # columns; from here on a table is set smaller

# Values


def publish(name: str, value) -> None:
    """Glues a value under `name` for `{glue:text}` and `{glue:}` on any page.

    numpy and pandas scalars become plain Python, since a numpy scalar cannot be formatted there. A value that is not
    defined (NaN, NA, None, infinite) is refused: prose must not quote it.
    """
    from myst_nb import glue

    glue(name, plain(value, name), display=False)


def plain(value, name: str = "value"):
    """A Python scalar for a numpy or pandas one; figures and tables pass through."""
    if hasattr(value, "_repr_html_"):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    undefined = value is None or value is pd.NA or value is pd.NaT
    if undefined or (isinstance(value, float) and not math.isfinite(value)):
        raise BadInput(f"publish({name!r}): the value is {value}, not defined; publish a count or words instead")
    if not isinstance(value, str | bool | int | float):
        kind = type(value).__name__
        raise BadInput(f"publish({name!r}): a {kind} cannot be quoted; publish a number, text, figure or table")
    return value


# Tables


@dataclass(frozen=True, slots=True)
class Table:
    """An HTML table and its caption."""

    html: str
    caption: str
    n_rows: int

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"[table, {self.n_rows} rows] {self.caption}"


def table(
    frame: pd.DataFrame,
    caption: str,
    *,
    formats: Mapping[str, str | Callable] | None = None,
    states: Iterable[str] | None = None,
    sortable: bool = True,
    folded: str = "",
) -> Table:
    """A frame as an HTML table whose first column names the rows.

    formats: column to format spec or function; integers default to `,d`, floats to `.3f`. states: columns whose words
    are shown as chips; by default every column that holds nothing but known states. What is not defined shows as a
    dash, digital_clean and the like as words: a column whose names have to be typed somewhere needs the format "". A named index
    becomes columns, an unnamed one is left out. folded: the line that opens a long table, which is shut until somebody wants it. A frame
    without rows is its caption as a plain paragraph, which no number counts.
    """
    require_text("table", caption=caption)
    if frame.columns.nlevels > 1 or frame.columns.has_duplicates:
        raise BadInput(f"table {caption!r}: columns must be flat and unique; rename them first")
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    if not len(frame):
        return Table(f'<p class="le-own">{escape(caption)}</p>', caption, 0)
    formats, columns = dict(formats or {}), list(frame.columns)
    unknown = (set(formats) | set(states or ())) - set(columns)
    if unknown:
        raise BadInput(f"table {caption!r}: no column {sorted(unknown)[0]!r}; it has {', '.join(map(str, columns))}")
    chips = set(states) if states is not None else {name for name in columns if _holds_states(frame[name])}
    cells = {name: [_cell(v, formats.get(name), name in chips) for v in frame[name]] for name in columns}
    long = {name for name in columns if max((len(str(value)) for value in frame[name]), default=0) > 40}
    kinds = {name: "le-num" if _is_numeric(frame[name], formats.get(name)) else "le-text" for name in columns}
    kinds = {name: f"{kind} le-prose" if name in long and kind == "le-text" else kind for name, kind in kinds.items()}
    head = "".join(
        f'<th scope="col" class="{kinds[name]}">{_breakable(escape(heading(name)))}</th>' for name in columns
    )
    body = "\n".join(_row([cells[name][i] for name in columns], kinds.values()) for i in range(len(frame)))
    classes = "le-table" + " le-sortable" * (sortable and len(frame) > 1) + " le-wide" * (len(columns) >= WIDE)
    html = (
        f'<div class="le-own le-scroll" role="group" tabindex="0" aria-label="Table: {escape(caption[:120])}">\n'
        f'<table class="{classes}">\n'
        f'<caption><span class="le-caption">{escape(caption)}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )
    if folded:
        html = f'<details class="le-own">\n<summary>{escape(folded)}</summary>\n{html}\n</details>'
    return Table(html, caption, len(frame))


def _holds_states(column: pd.Series) -> bool:
    words = column.dropna()
    return len(words) > 0 and words.map(lambda word: isinstance(word, str) and word in STATES).all()


def _is_numeric(column: pd.Series, spec) -> bool:
    """Right-aligned: numbers, and texts that are one, such as `0.71 [0.62, 0.80]` and `12 of 94 (12.8%)`."""
    if pd.api.types.is_bool_dtype(column):
        return False
    if pd.api.types.is_numeric_dtype(column):
        return True
    texts = [value for value in column if not _undefined(value) and value != DASH]
    if callable(spec):
        texts = [spec(value) for value in texts]
    return bool(texts) and all(NUMERIC.fullmatch(str(text)) for text in texts)


def _undefined(value) -> bool:
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def _cell(value, spec: str | Callable | None, is_state: bool) -> str:
    if _undefined(value) or value == DASH:
        return f'<span title="not defined">{DASH}</span>'
    if is_state:
        return chip(str(value))
    text = escape(_text(value, spec))
    if spec is None and NAMES.fullmatch(text):
        return heading(text)
    pieces = re.split(r" (?=[\[(])", text) if NUMERIC.fullmatch(text) else []
    return " ".join(f"<span>{piece}</span>" for piece in pieces) if len(pieces) > 1 else _breakable(text)


def _text(value, spec: str | Callable | None) -> str:
    if callable(spec):
        return str(spec(value))
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return minus(format(value, spec or (",d" if isinstance(value, int) else ".3f")))
    return format(str(value), spec or "")


def chip(state: str) -> str:
    """A state word as a chip; a known state explains itself in its title."""
    title = f' title="{escape(STATES[state])}"' if state in STATES else ""
    return f'<span class="le-state" data-state="{escape(state)}"{title}>{escape(heading(state))}</span>'


def _breakable(text: str) -> str:
    """A name such as section/hybrid:minilm+maxsim@40 or evidence_ndcg@10 may go on in the next line after a separator."""
    return re.sub(r"(?<=[A-Za-z0-9])(?:[/:+_](?=[A-Za-z])|(?=@))", r"\g<0><wbr>", text)


def _row(cells: Sequence[str], kinds: Iterable[str]) -> str:
    (first, kind), *rest = zip(cells, kinds, strict=True)
    head = f'<th scope="row" class="{kind}">{first}</th>'
    return f"<tr>{head}" + "".join(f'<td class="{kind}">{text}</td>' for text, kind in rest) + "</tr>"
