"""Builds the report's pages and checks them: links, typed numbers, executed notebooks, source notebooks.

Each check returns its problems as single lines that begin with the file; an empty list means that nothing was found.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from localeval.records import BadInput, near

MAX_CELL_LINES, MAX_PARAMETERS = 15, 20


# Building


def build(source: Path, output: Path) -> Path:
    """Builds the book in `source` into the folder `output` and returns its `index.html`.

    source holds `_config.yml` and `book/_toc.yml`. Any warning fails the build: `BadInput` with the first one, and
    `output` keeps what it held. Everything is built afresh, since an incremental build leaves old numbers in prose.
    """
    source, output = Path(source).resolve(), Path(output).resolve()
    for needed in ("_config.yml", "book/_toc.yml"):
        if not (source / needed).is_file():
            raise BadInput(f"{source / needed}: no such file; a staged book needs it")
    if (source / "book/_static").exists():
        raise BadInput(f"{source}/book/_static: every script below it would load on every page; rename it to assets")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".book-", dir=output.parent) as work:
        done = _jupyter_book(source, Path(work))
        if done.returncode != 0:
            raise BadInput(_build_problem(done.stdout, done.stderr, source))
        html = Path(work) / "_build/html"
        for unused in html.rglob("*.map"):  # half of the site's size, for debuggers only
            unused.unlink()
        if output.exists():
            shutil.rmtree(output)
        html.rename(output)
    return output / "index.html"


def _jupyter_book(source: Path, work: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(source / "book")]
    options = ["--path-output", str(work), "--config", str(source / "_config.yml"), "--all", "-W", "-n", "--keep-going"]
    environment = os.environ | {"NO_COLOR": "1", "PYTHONWARNINGS": "ignore", "PYTHONUTF8": "1"}
    captured = {"capture_output": True, "encoding": "utf-8", "errors": "replace"}
    return subprocess.run([*command, *options], cwd=source, env=environment, **captured)


def _build_problem(stdout: str, stderr: str, source: Path) -> str:
    """The first warning with its page, and how many more there are; for a crash its last line and the page it read."""
    lines = [_plain_line(line, source) for line in stderr.splitlines()]
    found = list(dict.fromkeys(line for line in lines if re.search(r"\b(?:WARNING|ERROR|CRITICAL|SEVERE): ", line)))
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"{found[0]}{more}; fix the page and build again"
    pages = re.findall(r"(?:reading sources|writing output)\.\.\. \[ *\d+%\] (\S+)", stdout)
    reason = next((line for line in reversed(lines) if line and not line.startswith(("-", "=", "#"))), "no message")
    return f"book/{pages[-1] if pages else '_toc.yml'}: the build broke: {reason}"


def _plain_line(line: str, source: Path) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line).replace(f"{source}/", "").strip()


# Pages


def check_links(html_root: Path) -> list[str]:
    """Problems of built pages: dead links and anchors, loads from elsewhere, pictures without words, shared ids."""
    from bs4 import BeautifulSoup

    root = Path(html_root).resolve()
    paths = sorted(path for path in root.rglob("*.html") if "_static" not in path.relative_to(root).parts)
    if not paths:
        return [f"{html_root}: no page in it; build the book first"]
    pages = {path: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser") for path in paths}
    anchors = {path: _anchors(page) for path, page in pages.items()}
    problems = []
    for path, page in pages.items():
        found = [*_dead_links(path, page, anchors), *(problem for rule in PAGE_RULES for problem in rule(page))]
        problems += [f"{path.relative_to(root)}: {problem}" for problem in dict.fromkeys(found)]
    for path in sorted(root.rglob("*.css")):
        found = _style_loads(path.read_text(encoding="utf-8"), path)
        problems += [f"{path.relative_to(root)}: {problem}" for problem in found]
    return problems


LINKS = {"a": "href", "link": "href", "script": "src", "img": "src", "source": "src", "iframe": "src", "embed": "src",
         "object": "data", "video": "src", "audio": "src", "track": "src", "image": "href", "use": "href"}  # fmt: skip
NOT_LOADED = {"canonical", "next", "prev", "author", "license", "search", "index", "alternate"}


def _references(page) -> Iterator[tuple[str, str, bool]]:
    """Every `(tag, address, loads)` of a page; a link only points, everything else is fetched with the page."""
    for tag, attribute in LINKS.items():
        for element in page.find_all(tag):
            loads = tag != "a" and not (tag == "link" and set(element.get("rel", ())) & NOT_LOADED)
            for address in filter(None, (element.get(attribute), element.get("xlink:href"))):
                yield tag, address.strip(), loads
            for candidate in element.get("srcset", "").split(","):
                if candidate.strip():
                    yield tag, candidate.split()[0], True
    for element in page.find_all("meta", attrs={"http-equiv": re.compile("^refresh$", re.I)}):
        _, _, address = element.get("content", "").partition("url=")
        if address:
            yield "meta refresh", address.strip(), True


def _outside(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data", "mailto", "javascript", "about")


def _anchors(page) -> set[str]:
    return {element["id"] for element in page.find_all(id=True)} | {
        element["name"] for element in page.find_all("a", attrs={"name": True})
    }


def _dead_links(path: Path, page, anchors: dict[Path, set[str]]) -> Iterator[str]:
    for tag, address, _ in _references(page):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        if not target.is_file():
            yield f"<{tag}> points to a missing file: {address}"
        elif parts.fragment and target in anchors and unquote(parts.fragment) not in anchors[target]:
            yield f"<{tag}> points to a missing anchor: {address}"


def _formulas(page) -> Iterator[str]:
    """Formulas: the book carries no MathJax, so they would show as raw TeX."""
    for element in page.select("span.math, div.math"):
        yield f"holds a formula, which nothing here can set: {element.get_text().strip()[:40]!r}; write it as text"


def _outside_loads(page) -> Iterator[str]:
    for tag, address, loads in _references(page):
        if loads and _outside(address):
            yield f"<{tag}> loads from elsewhere: {address[:100]}"
    for script in page.find_all("script", src=False):
        for address in re.findall(r"https?://[^\s\"'`]+?\.(?:mjs|js|css)\b", script.get_text()):
            yield f"an inline script names an outside file: {address[:100]}"
    styles = [style.get_text() for style in page.find_all("style")] + [e["style"] for e in page.find_all(style=True)]
    for style in styles:
        yield from _style_loads(style)


def _style_loads(css: str, path: Path | None = None) -> Iterator[str]:
    """Addresses in a style sheet that lie elsewhere or, for a file at `path`, do not exist."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    addresses = re.findall(r"url\(\s*[\"']?([^\"')]+)", css) + re.findall(r"@import\s+[\"']([^\"']+)", css)
    for address in dict.fromkeys(address.strip() for address in addresses):
        if _outside(address):
            yield f"a style loads from elsewhere: {address[:100]}"
        elif path and not address.startswith(("data:", "#")) and not (path.parent / urlsplit(address).path).is_file():
            yield f"a style names a missing file: {address[:100]}"


def _silent_pictures(page) -> Iterator[str]:
    for image in page.find_all("img"):
        alt = image.get("alt", "").strip()
        if not alt:
            yield f"<img> without alt text: {image.get('src', '')[-60:]}"
        elif re.fullmatch(r"\S*(?:/\S*|\.(?:png|svg|jpe?g|gif|webp))", alt):
            yield f"<img> whose alt text is a file name: {alt[-60:]}"
    for svg in page.find_all("svg"):
        named = svg.get("aria-label") or svg.get("aria-labelledby") or svg.get("aria-hidden") == "true"
        if not named and not svg.find_parent("svg"):
            yield "<svg> without aria-label"


def _shared_ids(page) -> Iterator[str]:
    counts = Counter(element["id"] for element in page.find_all(id=True))
    for name, count in counts.items():
        if count > 1:
            yield f"{count} elements share the id {name!r}"


PAGE_RULES = (_outside_loads, _silent_pictures, _shared_ids, _formulas)


# Typed numbers

# Not preceded by a letter, a dot or an at sign: BM25, P95 and ndcg@10 are names.
NUMBER = re.compile(r"(?<![\w@.])[+−-]?(?:\d[\d.,]*(?:%|\s?‰)?|[¼½¾⅓⅔])")
CODE_DIRECTIVES = re.compile(r"(?:code|code-block|code-cell|literalinclude|include|raw|math|toctree|glue.*|image)$")
NAMED_DIRECTIVES = re.compile(r"(?:figure|div|image|card-carousel|grid.*)$")  # their argument is a name or a size
NOT_PROSE = re.compile(
    r"\{[\w:.+-]+\}(`+)(?:(?!`).)*?\1"  # a role, {glue:text} among them
    r"|(`+)(?!`).*?(?<!`)\2(?!`)"  # inline code
    r"|\]\([^)]*\)|\]\[[^\]]*\]|\[\^[^\]]+\]:?"  # targets of links, footnotes
    r"|https?://[^\s)>]+|<[^>]+>|&#?\w+;"
    r"|\{[#.][^}]*\}"  # attributes
    r"|^\([^)]+\)=\s*$|^\[[^\]]+\]:\s.*$"  # labels, link definitions
    r"|^\s*:[\w-]+:.*$"  # options of a directive
    r"|^[\s>]*\d+[.)]\s"  # numerals of a list
)


def check_prose(paths: Iterable[Path]) -> list[str]:
    """Numbers typed into Markdown pages, and into the Markdown cells of notebooks, where a cell should supply them.

    Left alone: roles, code, link targets, options of directives, list numerals, and digits that belong to a name.
    """
    problems = []
    for path in map(Path, paths):
        if path.suffix == ".ipynb":
            try:
                cells = _cells(path)
            except BadInput as error:
                problems.append(str(error))
                continue
            texts = [(f"{path}: cell {n}", c["source"]) for n, c in cells if c["cell_type"] == "markdown"]
        else:
            texts = [(str(path), path.read_text(encoding="utf-8"))]
        for place, text in texts:
            problems += [
                f"{place}: line {line}: typed number {number!r} in: {excerpt}; glue it from a cell"
                for line, number, excerpt in _typed_numbers(text)
            ]
    return problems


def _typed_numbers(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in _prose_lines(text):
        for match in NUMBER.finditer(NOT_PROSE.sub(" ", line)):
            yield number, match[0].rstrip(".,"), " ".join(line.split())[:60]


def _prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines outside front matter, comments and code; of a directive its title and its body."""
    hide = lambda match: "\n" * match[0].count("\n")
    text = re.sub(r"\A---\n.*?\n---\n", hide, text, flags=re.S)
    text = re.sub(r"<!--.*?-->", hide, text, flags=re.S)
    open_fences, code = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*(`{3,}|~{3,}|:{3,})\s*(?:\{([\w:.-]+)\})?(.*)$", line)
        fence, name, rest = match.groups() if match else ("", "", line)
        if code:
            if fence.startswith(code) and not name and not rest.strip():
                code = ""
        elif not fence:
            yield number, line
        elif name and not CODE_DIRECTIVES.match(name):
            open_fences.append(fence)
            if not NAMED_DIRECTIVES.match(name):
                yield number, rest
        elif not name and not rest.strip() and open_fences and fence.startswith(open_fences[-1]):
            open_fences.pop()
        else:
            code = fence


# Quoted values

GLUE = re.compile(r"\{glue(?::\w*)?\}`([^`:]+)::([^`:]+)(?::[^`]*)?`")
GLUED_FIGURE = re.compile(r"```\{glue:\w*\} *(\S+)\n:doc: *(\S+)")


def check_glue(root: Path) -> list[str]:
    """Quotes of values that no published page holds, and pages that the table of contents does not list.

    root: the folder `book`. A quote names its page relative to its own, as in ``{glue:text}`30_sweep.ipynb::n:d` ``.
    """
    contents = (root / "_toc.yml").read_text(encoding="utf-8")
    problems, glued = [], {}
    for page in sorted(root.rglob("*.md")):
        text, own = _without_code(page.read_text(encoding="utf-8")), page.relative_to(root).with_suffix("").as_posix()
        if not re.search(rf"[\s'\"]{re.escape(own)}(?:\.md)?['\"]?\s*$", contents, flags=re.M):
            problems.append(f"{page}: not in book/_toc.yml, so nobody will see it; list it there")
        quotes = [(match.start(), match[1], match[2]) for match in GLUE.finditer(text)]
        quotes += [(match.start(), match[2], match[1]) for match in GLUED_FIGURE.finditer(text)]
        for at, target, name in sorted(quotes):
            source = (page.parent / target).resolve()
            if source not in glued:
                glued[source] = _glued(source)
            if name not in glued[source]:
                line = text.count("\n", 0, at) + 1
                problems.append(f"{page}: line {line}: {target} holds no value {name!r}{near(name, glued[source])}")
    return problems


def _without_code(text: str) -> str:
    """A page with its blocks of code blank, lines kept."""
    blank = lambda block: block[0] if block[1].startswith("{") else "\n" * block[0].count("\n")
    return re.sub(r"^```([^\n]*)\n.*?^```", blank, text, flags=re.S | re.M)


def _glued(path: Path) -> set[str]:
    """Names that an executed notebook has glued; none where there is no such page."""
    try:
        cells = _cells(path)
    except BadInput:
        return set()
    outputs = (output for _, cell in cells for output in cell.get("outputs", []))
    return {output.get("metadata", {}).get("scrapbook", {}).get("name", "") for output in outputs} - {""}


# Notebooks


def _cells(path: Path) -> list[tuple[int, dict]]:
    """Cells of a notebook, counted from 1, each `source` as one text."""
    return _read(path)[1]


def _read(path: Path) -> tuple[dict, list[tuple[int, dict]]]:
    try:
        notebook = json.loads(Path(path).read_text(encoding="utf-8"))
        cells = [cell | {"source": "".join(cell["source"])} for cell in notebook["cells"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: not a readable notebook ({type(error).__name__}); write it again") from None
    return notebook, list(enumerate(cells, 1))


def _tags(cell: dict) -> list[str]:
    return cell.get("metadata", {}).get("tags", [])


def check_notebook(path: Path) -> list[str]:
    """Problems of an executed notebook: errors, cells that did not run, traces of the machine, progress bars."""
    try:
        notebook, cells = _read(path)
    except BadInput as error:
        return [str(error)]
    problems, before = list(_notebook_problems(notebook, cells)), 0
    for number, cell in cells:
        found = list(_machine_paths(cell.get("metadata", {}), "its metadata"))
        if cell["cell_type"] == "code" and cell["source"].strip():
            count = cell.get("execution_count")
            if count is None:
                found.append("was not executed; run the notebook")
            elif count <= before:
                found.append(f"executed out of order (count {count} after {before}); run it from the top")
            before = max(before, count or 0)
            found += [problem for output in cell.get("outputs", []) for problem in _output_problems(output)]
        problems += [f"cell {number}: {problem}" for problem in found]
    return [f"{path}: {problem}" for problem in dict.fromkeys(problems)]


def _notebook_problems(notebook: dict, cells: list[tuple[int, dict]]) -> Iterator[str]:
    metadata = notebook.get("metadata", {})
    if metadata.get("kernelspec", {}).get("name") != "python3":
        yield f"kernel {metadata.get('kernelspec', {}).get('name')!r}; it has to be 'python3'"
    if "widgets" in metadata:
        yield "holds widget state; show text or a table instead"
    yield from _machine_paths(metadata, "the metadata")
    yield from _parameter_cells(cells)
    injected = sum("injected-parameters" in _tags(cell) for _, cell in cells)
    if injected > 1:
        yield f"{injected} cells of injected parameters; run it from its source"


def _parameter_cells(cells: list[tuple[int, dict]]) -> Iterator[str]:
    count = sum("parameters" in _tags(cell) for _, cell in cells)
    if count != 1:
        yield f"{count} cells tagged 'parameters'; it needs exactly one"


def _output_problems(output: dict) -> Iterator[str]:
    kind = output.get("output_type")
    if kind == "error":
        yield f"ended with {output.get('ename')}: {' '.join(str(output.get('evalue')).split())[:80]}"
    text = "".join(output.get("text", ""))
    if "\r" in text.replace("\r\n", "\n"):
        yield "holds frames of a progress bar; turn the bar off"
    for mime in output.get("data", {}):
        if "widget" in mime or mime == "text/latex":
            yield f"has an output of type {mime}; the pages cannot show it"
    yield from _machine_paths([text, output.get("data", {}), output.get("traceback", [])], "its output")


ROOTS = "home|Users|root|tmp|var|usr|opt|mnt|srv|work|workspace|builds|private|content|app|data|github|media|run"
REST = r"[^\s\"'<>,;)]*"
MACHINE_PATH = re.compile(
    rf"(?<![\w./:<>-])/(?:{ROOTS})/[\w.@+-]{REST}|\bfile://{REST}|\b[A-Z]:(?:\\+|/+(?=(?:{ROOTS})/))\w{REST}"
)


def _machine_paths(value, where: str) -> Iterator[str]:
    """Absolute paths below the folders that machines usually have, anywhere in a JSON value."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for part in value:
            yield from _machine_paths(part, where)
    elif isinstance(value, str):
        for match in dict.fromkeys(MACHINE_PATH.findall(value)):
            yield f"an absolute path in {where}: {match[:80]}"


FORBIDDEN = {
    ast.FunctionDef: "def", ast.AsyncFunctionDef: "def", ast.ClassDef: "class",
    ast.For: "for", ast.AsyncFor: "for", ast.While: "while",
}  # fmt: skip


def check_source(path: Path) -> list[str]:
    """Problems of a source notebook: outputs, logic that belongs in the package, long cells, parameters, captions."""
    try:
        _, cells = _read(path)
    except BadInput as error:
        return [str(error)]
    problems = list(_parameter_cells(cells))
    for number, cell in cells:
        if cell["cell_type"] == "code":
            problems += [f"cell {number}: {problem}" for problem in _source_problems(cell)]
    return [f"{path}: {problem}" for problem in problems]


def _source_problems(cell: dict) -> Iterator[str]:
    if cell.get("outputs") or cell.get("execution_count") is not None:
        yield "holds outputs; clear them, executed notebooks live in the book"
    try:
        tree = ast.parse(cell["source"])
    except SyntaxError as error:
        yield f"is not plain Python (line {error.lineno}); no magics, no shell"
        return
    if "parameters" in _tags(cell):
        yield from _parameter_problems(tree)
        if len(tree.body) > MAX_PARAMETERS:
            yield f"has {len(tree.body)} parameters; at most {MAX_PARAMETERS}"
        return
    lines = len(cell["source"].strip().splitlines())
    if lines > MAX_CELL_LINES:
        yield f"has {lines} lines; at most {MAX_CELL_LINES}, move the rest into the package"
    for node in ast.walk(tree):
        if type(node) in FORBIDDEN:
            yield f"line {node.lineno}: {FORBIDDEN[type(node)]!r}; move it into the package"
        elif isinstance(node, ast.Call):
            yield from _call_problems(node)


def _parameter_problems(tree: ast.Module) -> Iterator[str]:
    """A parameters cell holds `name = literal` and `name: type = literal`, nothing else."""
    for node in tree.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            continue
        simple = isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if not simple or not all(isinstance(target, ast.Name) for target in targets) or not _literal(node.value):
            yield f"line {node.lineno}: parameters are literals only: {ast.unparse(node)[:50]}"


def _literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _call_problems(call: ast.Call) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if isinstance(call.func, ast.Name) and name == "print":
        yield f"line {call.lineno}: print(); end the cell with the value or a table"
    texts = [word.value for word in call.keywords if word.arg in ("caption", "alt")]
    if name == "table" and len(call.args) > 1:
        texts.append(call.args[1])
    for text in texts:
        for match in NUMBER.finditer(_typed_text(text)):
            number = match[0].rstrip(".,")
            yield f"line {call.lineno}: typed number {number!r} in a caption; take it from a value"


def _typed_text(node: ast.expr) -> str:
    """The literal parts of a string, an f-string or a sum of them; an inserted value leaves a gap."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "␣" for part in node.values)
    if isinstance(node, ast.BinOp):
        return f"{_typed_text(node.left)} {_typed_text(node.right)}"
    return "␣"
