"""The command line: `localeval`, or `python -m localeval`."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import sys
from pathlib import Path

from localeval import __version__, commands
from localeval.provenance import digest_path, machine
from localeval.records import BadInput

EPILOG = """\
a first afternoon:
  localeval doctor                         is everything here that a run needs?
  localeval run handbook                   execute what is not fresh; again: nothing to do
  localeval book                           build the site from it, and print where it is
  localeval run handbook 30_sweep -p repeats=5   one notebook (and what it reads) with another parameter
  localeval list                           studies, their notebooks, and which are fresh
  localeval check                          do the published numbers still follow from the published gains?
  localeval gate handbook                  is this run worse than the committed baseline?

files of your own, anywhere (no project needed):
  localeval score --qrels qrels.txt --run bm25.run       metrics of any system's run, with intervals
  localeval compare --qrels qrels.txt --run bm25.run --run dense.run --metric ndcg@10
  localeval quality scans/                 are these pages fit to be searched?

exit codes: 0 good; 1 a check or the gate failed, or a notebook broke; 2 bad input (one line says which file and what to do)
"""


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code; bad input is one line on standard error."""
    arguments = _parser().parse_args(argv)
    try:
        return arguments.command(arguments)
    except BadInput as error:
        print(f"localeval: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"localeval: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(f"localeval: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nlocaleval: interrupted; what was finished is kept, the same command goes on from there", file=sys.stderr
        )
        return 130


DESCRIPTIONS = {
    "run": "Executes the notebooks of params/STUDY whose cells, parameters, inputs, code or pins changed. Results go to "
    "runs/STUDY/base, or with -p to a folder named after what changed.",
    "book": "Builds the static site into _build/html: local runs where they exist, else the published pages. It works "
    "from the file system.",
    "check": "Fails when a published metric does not re-derive from its gains, a page holds an error, an unexecuted cell, "
    "an absolute path or a typed number, or the built site a dead link.",
    "list": "Shows every study, its notebooks, and whether the local and the published run are fresh.",
    "doctor": "Looks at Python, packages, models and OCR engines. Opens no connection.",
    "gate": "Compares the run at hand with the baseline, as params/STUDY/gate.yml says: did a mean fall significantly and by more than "
    "the minimum effect, was a must-hit question lost, did every expected system run, did both sides measure the same? "
    "Exit code 0: OK, WARN, REPORT-ONLY; 1: FAIL, MISSING; 2: ERROR, NOT COMPARABLE.",
    "baseline": "Makes the run at hand the baseline of the gate. While the gate does not pass, this needs a reason, which is "
    "recorded in the file.",
    "leaderboard": "Shows submitted results with rank ranges. --check derives every number again from the submitted gains and "
    "compares questions, labels, corpus, weights and version with the study at hand.",
    "score": "Scores the run of any system against judgements. Says which queries are missing, not judged or without a relevant "
    "document, and which tie rule, gain and level were used. No judged query is dropped.",
    "compare": "Compares two runs on the same judgements: paired difference, interval, permutation test, and the smallest "
    "difference that this many queries could show.",
    "quality": "Classes every page of a PDF or of a folder of documents, and gives a verdict on each document. Files that "
    "cannot be read are listed with the reason; the exit code is 1 when none could be.",
    "judge": "Reads a worklist of 55_labels that somebody filled in, checks every line, and adds its judgements to "
    "data/STUDY/judgments.jsonl. Nothing is added where one line is wrong, and nothing that was there is changed.",
}
HELP = {
    "run": "execute the notebooks of a study that are not fresh",
    "book": "build the site",
    "check": "check published numbers and pages",
    "list": "studies and their notebooks, with their state",
    "doctor": "is everything here that a run needs?",
    "gate": "is the run at hand worse than the baseline?",
    "baseline": "make the run at hand the baseline of the gate",
    "leaderboard": "submitted results: show, check, or export one",
    "score": "score a run against judgements (TREC, BEIR)",
    "compare": "compare two runs on the same judgements",
    "quality": "page classes and verdicts of PDF files",
    "judge": "take a filled worklist into the judgements of a study",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "localeval",
        description="Evaluate retrieval over your own documents: offline, on this machine.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"localeval {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    functions = {"run": _run, "book": _book, "check": _check, "list": _list, "doctor": _doctor}
    functions |= {"gate": _gate, "baseline": _baseline, "leaderboard": _leaderboard}
    functions |= {"score": commands.score, "compare": commands.compare, "quality": commands.quality}
    functions |= {"judge": commands.judge}
    parsers = {
        name: subparsers.add_parser(name, help=HELP[name], description=DESCRIPTIONS[name], allow_abbrev=False)
        for name in functions
    }
    for name, function in functions.items():
        parsers[name].set_defaults(command=function)
    commands.add_arguments(parsers)
    _add_judging(parsers)
    run, publish = parsers["run"], "afterwards make this run the published one (book/STUDY, results/STUDY)"
    run.add_argument("study", help="a folder of params/, or 'all'")
    run.add_argument("notebook", nargs="?", default="", help="only this notebook and what it reads, e.g. 30_sweep")
    reach = "reaches every notebook that declares NAME; VALUE is YAML"
    run.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE", help=reach)
    run.add_argument("--publish", action="store_true", help=publish)
    parsers["check"].add_argument(
        "--strict", action="store_true", help="also fail for pages older than code, parameters or data"
    )
    return parser


def _add_judging(parsers: dict[str, argparse.ArgumentParser]) -> None:
    gate, baseline, leaderboard = (parsers[name] for name in ("gate", "baseline", "leaderboard"))
    for parser in (gate, baseline):
        parser.add_argument("study", help="a folder of params/ with a gate.yml")
        where = "folder of the run to judge; default: runs/STUDY/base where it has results, else results/STUDY"
        parser.add_argument("--run", default="", metavar="FOLDER", help=where)
        look = "which look at this baseline this is, from 1; mode anytime needs it"
        parser.add_argument("--look", type=commands.positive, metavar="N", help=look)
    gate.add_argument("--baseline", type=Path, metavar="FILE", help="default: results/STUDY/baseline.json")
    gate.add_argument("--json", action="store_true", help="print the whole report as JSON, and nothing else")
    baseline.add_argument("--reason", default="", metavar="TEXT", help="why the gate's verdict is overridden; recorded")
    leaderboard.add_argument("study", nargs="?", default="", help="only this study")
    leaderboard.add_argument("--check", action="store_true", help="derive everything again; problems give exit code 1")
    leaderboard.add_argument("--strict", action="store_true", help="with --check: warnings are problems too")
    leaderboard.add_argument(
        "--export", metavar="SYSTEM", help="write the folder of a submission from the run at hand of STUDY"
    )
    leaderboard.add_argument(
        "--name", default="", help="with --export: name of the folder; default: made from the system's name"
    )
    leaderboard.add_argument("--run", default="", metavar="FOLDER", help="with --export: folder of the run")
    leaderboard.add_argument("--json", action="store_true", help="print JSON")


def _gate(arguments: argparse.Namespace) -> int:
    from localeval import gatereport
    from localeval.tables import find_root

    try:
        report = gatereport.of_study(find_root(), arguments.study, arguments.run, arguments.baseline, arguments.look)
    except BadInput as error:
        if arguments.json:
            commands.print_json(gatereport.error(arguments.study, str(error)))
        raise
    commands.print_json(report) if arguments.json else commands.write("\n".join(gatereport.lines(report)))
    return report["exit_code"]


def _baseline(arguments: argparse.Namespace) -> int:
    from localeval import gatereport
    from localeval.tables import find_root

    done, said = gatereport.make(find_root(), arguments.study, arguments.run, arguments.reason, arguments.look)
    commands.write("\n".join(said))
    return int(not done)


def _leaderboard(arguments: argparse.Namespace) -> int:
    from localeval import leaderboard
    from localeval.tables import find_root

    root = find_root()
    if arguments.export:
        if not arguments.study:
            raise BadInput("--export: name the study as well: localeval leaderboard STUDY --export SYSTEM")
        folder = leaderboard.export(root, arguments.study, arguments.export, arguments.name, arguments.run)
        _say(f"written: {folder.relative_to(root)}")
        return 0
    report = leaderboard.read(root, arguments.study, check=arguments.check, strict=arguments.strict)
    commands.print_json(report) if arguments.json else commands.write("\n".join(leaderboard.lines(report)))
    return 2 if report["unread"] else int(arguments.check and report["problems"] > 0)


def _run(arguments: argparse.Namespace) -> int:
    from localeval import build
    from localeval.tables import find_root

    root = find_root()
    given = [_assignment(text) for text in arguments.parameter]
    overrides = dict(given)
    if len(overrides) < len(given):
        twice = next(name for place, (name, _) in enumerate(given) if name in dict(given[:place]))
        raise BadInput(f"-p {twice}: given twice; keep one")
    if arguments.publish and (overrides or arguments.notebook):
        raise BadInput(
            "--publish: only a whole study with its own parameters can be published; drop the notebook and -p"
        )
    for study in build.studies(root) if arguments.study == "all" else [arguments.study]:
        try:
            build.run(root, study, arguments.notebook, overrides, say=_say)
        except build.NotFetched as missing:
            if arguments.study != "all":
                raise
            _say(f"{study}: not run; {missing}")
            continue
        if arguments.publish:
            build.publish(root, study, say=_say)
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise BadInput(f"-p {text}: expected NAME=VALUE, as in -p repeats=5")
    return name.strip(), value


def _book(arguments: argparse.Namespace) -> int:
    from localeval import book, build, leaderboard
    from localeval.tables import find_root

    root = find_root()
    staged, site = build.stage(root, root / "_build" / "stage"), root / "_build" / "html"
    leaderboard.show(root, staged / "book" / "gate.md")
    sources = digest_path(staged) + digest_path(Path(book.__file__))
    stamp = root / "_build" / "html.key"
    if stamp.is_file() and stamp.read_text() == sources + digest_path(site):
        _say("book: nothing changed")
    else:
        stamp.unlink(missing_ok=True)
        _say("book: building")
        book.build(staged, site)
        stamp.write_text(sources + digest_path(site))
    _say(f"open {site / 'index.html'}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from localeval import book, build
    from localeval.tables import find_root

    root = find_root()
    problems, old = [], []
    for source in sorted((root / "notebooks").glob("*.ipynb")):
        problems += book.check_source(source)
    pages = [path for path in (root / "book").rglob("*") if path.suffix in (".md", ".ipynb")]
    problems += book.check_prose(sorted(pages)) + book.check_glue(root / "book")
    for path in sorted(path for path in pages if path.suffix == ".ipynb"):
        problems += book.check_notebook(path)
    for study in build.studies(root):
        problems += build.check(root, study)
        old += build.stale(root, study)
    if (root / "_build" / "html" / "index.html").is_file():
        problems += book.check_links(root / "_build" / "html")
    for line in [*problems, *(f"stale: {line}" for line in old)]:
        print(line.replace(f"{root}/", ""))
    failed = len(problems) + (len(old) if arguments.strict else 0)
    print(f"check: {len(problems)} problems, {len(old)} pages not fresh" + ("" if failed else "; good"))
    return int(bool(failed))


def _list(arguments: argparse.Namespace) -> int:
    from localeval import build
    from localeval.tables import find_root

    root = find_root()
    for study in build.studies(root):
        print(study)
        for step in build.plan(root, study):
            local, published = build.state(root, f"runs/{study}/base", step), build.state(root, "", step)
            print(f"  {step.notebook:<18} local: {local:<10} published: {published}")
        for variant in build.variants(root, study):
            folder = variant.relative_to(root).as_posix()
            states = [build.state(root, folder, step) for step in build.steps_now(root, study, variant)]
            print(f"  {folder}: {states.count('fresh')} of {len(states)} notebooks fresh")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from localeval import embedding, engines
    from localeval.tables import find_root

    root = find_root()
    lines = [_python(), *_pins(root / "requirements.txt")]
    for card in embedding.CARDS.values():
        lines.append(_model(card, embedding.locate(card, root), embedding.verify))
    lines += [_ocr(engine) for engine in engines.installed(root)]
    for state, text in lines:
        print(f"{state:<9} {text}")
    about = machine()
    print(f"machine   {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']}")
    return int(any(state == "missing" for state, _ in lines))


def _python() -> tuple[str, str]:
    version = sys.version.split()[0]
    return (
        "ok" if sys.version_info >= (3, 11) else "missing"
    ), f"Python {version} (3.11 is the version that is tested)"


def _pins(requirements: Path) -> list[tuple[str, str]]:
    lines = []
    for line in requirements.read_text().splitlines() if requirements.is_file() else ():
        match = re.match(r"([\w.-]+)==([\w.!+-]+)", line)
        if not match:
            continue
        name, wanted = match.groups()
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            lines.append(("missing", f"{name} {wanted}: not installed; pip install -r requirements.txt"))
            continue
        if found.partition("+")[0] != wanted:
            lines.append(
                ("differs", f"{name}: {found} installed, {wanted} pinned; published timings and digits may differ")
            )
    return lines or [("ok", "all pinned packages installed")]


def _ocr(engine) -> tuple[str, str]:
    there, about = engine.available("en")
    return ("ok", f"OCR engine {about}") if there else ("optional", f"OCR engine: {about}")


def _model(card, folder, verify) -> tuple[str, str]:
    if folder is None:
        needed = card.package and card.requirements == "requirements.txt"
        return ("missing" if needed else "optional"), f"model {card.name}: {card.how_to_get}"
    try:
        return "ok", f"model {card.name}: {card.title}, sha256 {verify(card, folder)[:12]}"
    except BadInput as error:
        return "missing", str(error)
