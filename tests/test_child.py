"""The bounded child: what it says, when it is late, when it dies, when another thread has had enough of it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from itertools import repeat

import pytest

from localeval import child

DONE = "print('{\"done\": true}')"


def said(code, patience=None, **more):
    return child.messages([sys.executable, "-c", code], patience or repeat(20.0), **more)


def test_messages_come_whole_and_in_order():
    code = f"import json\nfor n in range(3): print(json.dumps({{'n': n, 'text': 'x' * 100_000}}), flush=True)\n{DONE}"
    assert [(message["n"], len(message["text"])) for message in said(code)] == [(n, 100_000) for n in range(3)]


def test_a_silent_child_is_late_and_gone():
    code = "import time\nprint('{\"n\": 1}', flush=True)\ntime.sleep(60)"
    with pytest.raises(child.TimedOut, match=r"within 0\.2 s") as late:
        list(said(code, iter([20.0, 0.2])))
    assert (late.value.heard, late.value.seconds) == (1, 0.2)


@pytest.mark.parametrize(
    ("code", "heard"), [("", 0), ("print('{\"n\": 1}')", 1), ("print('{\"n\": 1}\\n{', end='')", 1)]
)
def test_a_child_that_ends_too_soon_has_died(code, heard):
    with pytest.raises(child.Died) as died:
        list(said(code))
    assert died.value.heard == heard


def test_another_thread_ends_the_child_without_a_fault(monkeypatch):
    children, stop, heard = [], threading.Event(), []

    class Watched(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            children.append(self)

    monkeypatch.setattr(child.subprocess, "Popen", Watched)
    code = "import time\nprint('{\"n\": 1}', flush=True)\ntime.sleep(60)"
    start = time.monotonic()
    for message in said(code, stop=stop):
        heard.append(message)
        stop.set()
    assert heard == [{"n": 1}] and children[0].returncode is not None
    assert time.monotonic() - start < 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")
def test_what_the_child_starts_ends_with_it(tmp_path):
    code = f"""import subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print('{{"pid": %d}}' % grandchild.pid, flush=True)
time.sleep(60)
{DONE}"""
    with contextlib.closing(said(code)) as messages:
        pid = next(messages)["pid"]
    for _ in range(100):  # a killed process may linger until its parent's parent has seen it
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.05)
                continue
        return
    pytest.fail("the child's own child still runs")
