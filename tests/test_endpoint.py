"""A real server on this machine that misbehaves: no request twice, no verdict made up, the key nowhere."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pytest

from localeval import answertables, generation, groundedness, handcheck, prompts
from localeval import endpoint as endpoints
from localeval.endpoint import Address, Endpoint, NoReply
from localeval.records import BadInput
from localeval.replies import Replies, Tally, key_of

KEY = "sk-secret-7c1e"


def chat(text, **more):
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return json.dumps({"model": "m", "choices": [{"message": {"content": text}}], "usage": usage, **more}).encode()


class Stub(ThreadingHTTPServer):
    """Plays its script, one entry a request, the last one for ever. An entry is a text, (status, headers, body), or a word for a fault."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.seen, self.reply = ["fine"], [], None  # reply: what a judge says, from the request
        self.address_text = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        judged = self.server.reply and "supported" in body["messages"][0]["content"]
        step = (
            self.server.reply(body)
            if judged
            else self.server.script.pop(0)
            if len(self.server.script) > 1
            else self.server.script[0]
        )
        self.server.seen.append((self.path, self.headers.get("Authorization"), body))
        if step == "<hang>":
            self.server.release.wait(5)
        elif step == "<drip>":
            self.send_response(200)
            self.end_headers()
            for _ in range(200):
                if self.server.release.wait(0.02):
                    return
                self.wfile.write(b" ")
        elif step == "<half>":
            self.send_response(200)
            self.send_header("Content-Length", "500")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
        elif step == "<reset>":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            status, headers, content = step if isinstance(step, tuple) else (200, {}, chat(step))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *args):
        pass

    def handle(self):
        with contextlib.suppress(OSError, ValueError):
            super().handle()


@pytest.fixture
def server():
    stub = Stub()
    stub.release = threading.Event()
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield stub
    stub.release.set()
    stub.shutdown()
    stub.server_close()


@pytest.fixture
def asked(server, tmp_path):
    """Makes an endpoint of the stub; `waits` collects what it would have slept."""

    def make(*script, **fields):
        server.script = list(script)
        given = {
            "base_url": server.address_text,
            "model": "org/m",
            "key_variable": "STUB_KEY",
            "timeout": 5.0,
            "retries": 3,
        } | fields
        waits, environment = [], given.pop("environment", {"STUB_KEY": KEY})
        one = Endpoint(
            Address(**given),
            Replies(tmp_path / "replies.jsonl"),
            environment,
            sleep=waits.append,
            wall=lambda: 1_000_000_000.0,
        )
        one.waits = waits
        return one

    return make


ASK = [{"role": "user", "content": "?"}]


def test_what_is_sent_and_counted(server, asked):
    one = asked("an answer")
    assert one.complete(ASK) == "an answer"
    path, authorization, body = server.seen[0]
    assert path == "/v1/chat/completions" and authorization == f"Bearer {KEY}"
    assert body == {"model": "org/m", "messages": ASK, "temperature": 0, "max_tokens": 300}
    assert (one.tally.sent, one.tally.kept, one.tally.prompt_tokens, one.tally.completion_tokens) == (1, 0, 7, 3)
    assert one.tally.seconds > 0 and one.family == "org"


def test_a_request_is_made_once_and_again_only_on_purpose(server, asked):
    one = asked("first", "second", "third")
    assert [one.complete(ASK), one.complete(ASK)] == ["first", "first"]
    assert (one.tally.sent, one.tally.replies, one.tally.kept) == (1, 1, 0), "a request that is made again counts once"
    assert one.complete(ASK, attempt=1) == "second" and one.complete(ASK, repeat=1) == "third"
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "Sun, 09 Sep 2001 01:47:10 GMT"}, 30.0),
        ({"Retry-After": "86400"}, 300.0),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "soon"}, 1.0),
        ({}, 1.0),
    ],
)
def test_a_busy_server_is_waited_for(server, asked, headers, waited):
    one = asked((429, headers, b"slow down"), "then fine")
    assert one.complete(ASK) == "then fine" and one.waits == [waited]
    assert (one.tally.sent, one.tally.again) == (2, 1)


def test_waits_grow_and_end(server, asked):
    one = asked((503, {}, b""))
    with pytest.raises(NoReply, match="HTTP 503") as problem:
        one.complete(ASK)
    assert problem.value.state == "failed" and one.waits == [1.0, 2.0, 4.0] and len(server.seen) == 4
    server.script = ["well again"]
    assert one.complete(ASK) == "well again", "a failure is not kept"


def test_what_no_retry_can_mend_is_not_retried(server, asked):
    with pytest.raises(NoReply, match="HTTP 400"):
        asked((400, {}, b"bad")).complete(ASK)
    assert len(server.seen) == 1
    with pytest.raises(BadInput, match=r"refused the key \(HTTP 401\); see STUB_KEY"):
        asked((401, {}, f"bad key {KEY}".encode())).complete(ASK)
    with pytest.raises(BadInput, match="no model 'org/m'"):
        asked((404, {}, b"")).complete(ASK)


@pytest.mark.parametrize("fault", ["<hang>", "<drip>"])
def test_a_server_that_does_not_finish_is_timed_out(asked, fault):
    one = asked(fault, timeout=0.15, retries=1)
    with pytest.raises(NoReply, match="no reply within 0.15 s") as problem:
        one.complete(ASK)
    assert problem.value.state == "timed_out" and one.waits == [1.0]


@pytest.mark.parametrize("fault", ["<half>", "<reset>"])
def test_a_connection_that_breaks_is_tried_again(server, asked, fault):
    assert asked(fault, fault, "whole").complete(ASK) == "whole"
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"choices": []}', b'{"choices": [{"message": null}]}', b'{"choices": [{"mess']
)
def test_what_is_no_chat_completion_is_a_failure(asked, body):
    with pytest.raises(NoReply, match="not that of a chat completion"):
        asked((200, {}, body)).complete(ASK)


def test_a_redirect_is_not_followed(server, asked):
    with pytest.raises(NoReply, match="HTTP 302"):
        asked((302, {"Location": server.address_text + "/elsewhere"}, b"")).complete(ASK)
    assert len(server.seen) == 1, "the key would have gone there too"


def test_nobody_there_is_said_at_once(asked):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    one = asked("x", base_url=f"http://127.0.0.1:{port}/v1")
    with pytest.raises(BadInput, match="nothing answers at") as problem:
        one.complete(ASK)
    assert one.waits == [] and problem.value.__cause__ is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"base_url": "ftp://x/v1"}, "base_url must be"),
        ({"base_url": f"https://me:{KEY}@host/v1"}, "no name, key or query"),
        ({"base_url": "http://example.org/v1", "key_variable": "K"}, "a key would go to example.org unprotected"),
        ({"retries": -1}, "retries must be 0 or more"),
    ],
)
def test_addresses_that_cannot_be(fields, message):
    with pytest.raises(BadInput, match=message) as problem:
        Address(**({"base_url": "http://127.0.0.1/v1", "model": "m"} | fields))
    assert KEY not in str(problem.value)


def test_a_missing_or_broken_key_is_named_by_its_variable(tmp_path):
    address = Address(base_url="http://127.0.0.1/v1", model="m", key_variable="STUB_KEY")
    for value, message in (
        ("", "the environment has no STUB_KEY"),
        (f"{KEY}\nx", "STUB_KEY holds something that is no key"),
    ):
        with pytest.raises(BadInput, match=message) as problem:
            Endpoint(address, Replies(tmp_path / "r.jsonl"), {"STUB_KEY": value})
        assert KEY not in str(problem.value)


def test_the_key_is_nowhere(server, asked, tmp_path, caplog, capsys):
    """Sent back in a reply, in an error body and in a header; and in nothing that is kept, said or raised."""
    caplog.set_level(logging.DEBUG)
    one = asked(
        (500, {"X-Echo": KEY}, KEY.encode()),
        (200, {}, chat(f"you said Bearer {KEY}", model=KEY)),
        (400, {}, KEY.encode()),
    )
    assert one.complete(ASK) == f"you said Bearer {endpoints.HIDDEN}"
    with pytest.raises(NoReply) as problem:
        one.complete(ASK, attempt=1)
    said = capsys.readouterr()
    everything = repr(problem.value) + repr(one) + repr(one.address) + caplog.text + said.out + said.err
    everything += "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY not in everything and server.seen[0][1] == f"Bearer {KEY}"
    for trace in (problem.value.__cause__, problem.value.__context__):
        assert KEY not in repr(trace)


LONG = "sk/live+4f9A7c1e-0b2D"


def shown(text):
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "echo",
    [
        LONG, f"Bearer {LONG}", LONG.upper(), LONG[::-1], LONG[10:] + LONG[:10], quote(LONG, safe=""), LONG.encode().hex(),
        "".join(f"%{byte:02X}" for byte in LONG.encode()), shown(LONG), shown(f"Bearer {LONG}"), shown(f"me:{LONG}:"), shown(LONG[::-1]),
        base64.urlsafe_b64encode(b"x" + LONG.encode()).decode(), f"{LONG[:10]} and {LONG[10:]}",
    ],
)  # fmt: skip
def test_a_key_that_comes_back_in_disguise_is_not_kept(asked, tmp_path, echo):
    one = asked(f"so: {echo}.", key_variable="LONG_KEY", environment={"LONG_KEY": LONG})
    text = one.complete(ASK)
    assert text.startswith("so: ") and endpoints.HIDDEN in text
    kept = (tmp_path / "replies.jsonl").read_text()
    for form in endpoints.forms(LONG):
        assert form.casefold() not in (text + kept).casefold()
    assert len(text.replace(endpoints.HIDDEN, "")) < 20, "of the key no more than the ends of its code stay"


def test_words_that_are_no_key_stay(asked):
    said = "The live wire of 4 f; base64 is aGVsbG8gd29ybGQ=, 50%25."
    assert asked(said, key_variable="LONG_KEY", environment={"LONG_KEY": LONG}).complete(ASK) == said


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "One, "}, {"type": "text", "text": "two."}], "One, two."),
        ("half of a pair: \ud800", "half of a pair: ?"),
    ],
)
def test_contents_that_are_no_plain_text(asked, tmp_path, content, text):
    assert asked(content).complete(ASK) == text
    assert Replies(tmp_path / "replies.jsonl").kept, "it can be written"


@pytest.mark.parametrize("content", [0, 7, True, {"text": "x"}, ["x"], [{"type": "image_url"}], [{"text": 3}]])
def test_a_content_that_is_no_text_is_a_failure(asked, content):
    one = asked(content)
    assert groundedness.EndpointGenerator(one, WORDS, "X").answer(CASE).state == "failed"
    assert not one.replies.kept


@pytest.mark.parametrize(
    "usage",
    [
        None,
        [],
        "7",
        {},
        {"prompt_tokens": -7, "completion_tokens": 3},
        {"prompt_tokens": 7.5, "completion_tokens": True},
    ],
)
def test_tokens_that_are_not_counted_are_said(asked, usage):
    one = asked((200, {}, chat("fine", usage=usage)))
    assert one.complete(ASK) == "fine"
    assert (one.tally.prompt_tokens, one.tally.completion_tokens, one.tally.uncounted, one.tally.replies) == (
        0,
        0,
        1,
        1,
    )


def test_what_a_kept_reply_took_is_still_known(asked):
    one = asked("fine")
    one.complete(ASK)
    again = asked("another")
    assert again.complete(ASK) == "fine" and again.tally.seconds == one.tally.seconds > 0
    assert (again.tally.sent, again.tally.kept, again.tally.prompt_tokens) == (0, 1, 7)


def test_what_each_reply_took_is_told_by_its_middle_and_its_maximum():
    tally = Tally()
    assert tally.told()["median_seconds"] is tally.told()["longest_seconds"] is None
    for number, seconds in enumerate((1.0, 2.0, 60.0)):
        for _ in range(2):
            tally.take({"q": number}, {"text": "x", "seconds": seconds}, True)
    tally.take({"q": "untimed"}, {"text": "x"}, True)
    told = tally.told()
    assert (told["replies"], told["kept"], told["uncounted"]) == (4, 4, 4)
    assert (told["seconds"], told["median_seconds"], told["longest_seconds"]) == (63.0, 2.0, 60.0)
    row = answertables.spent({"m": told}).iloc[0]
    assert (row["replies"], row["seconds, median"], row["longest"]) == (4, 2.0, 60.0)


# Kept replies


def test_a_reply_is_keyed_by_the_whole_request():
    one = {"endpoint": "e", "model": "m", "messages": ASK, "max_tokens": 3}
    assert key_of(one) == key_of(dict(reversed(one.items())))
    changed = [{"endpoint": "f"}, {"model": "n"}, {"messages": [*ASK, *ASK]}, {"max_tokens": 4}, {"attempt": 1}]
    assert len({key_of(one | more) for more in changed} | {key_of(one)}) == 6


def test_a_torn_last_line_is_dropped_and_a_damaged_one_is_asked_again(tmp_path):
    path = tmp_path / "r.jsonl"
    first = Replies(path)
    for name in "abc":
        first.get({"q": name}, lambda name=name: {"text": name})
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(lines[0] + b"not json\n" + lines[2][:-9])
    again = Replies(path)
    assert len(again.kept) == 1 and path.read_bytes().endswith(b"not json\n")
    assert again.get({"q": "c"}, lambda: {"text": "new"}) == ({"text": "new"}, False)
    assert Replies(path).get({"q": "c"}, None) == ({"text": "new"}, True), "the new line stands alone behind the cut"


CHILD = """
import os, sys
from pathlib import Path
from localeval.endpoint import Address, Endpoint
from localeval.replies import Replies
one = Endpoint(Address(base_url=sys.argv[1], model="m"), Replies(Path(sys.argv[2])))
for number in range(6):
    one.complete([{"role": "user", "content": str(number)}])
    if number == int(sys.argv[3]):
        os.kill(os.getpid(), 9)
print(one.tally.sent, one.tally.kept)
"""


def test_a_killed_run_goes_on_without_asking_twice(server, tmp_path):
    command = [sys.executable, "-c", CHILD, server.address_text, str(tmp_path / "r.jsonl")]
    killed = subprocess.run([*command, "3"], env=os.environ, capture_output=True, check=False)
    assert killed.returncode == -9 and len(server.seen) == 4
    with (tmp_path / "r.jsonl").open("ab") as file:
        file.write(b'{"key": "half a li')
    done = subprocess.run([*command, "-1"], env=os.environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "4"]
    contents = [body["messages"][0]["content"] for _, _, body in server.seen]
    assert contents == list("012345"), "each question once"


# Generator and judge behind the stub

WORDS = prompts.PROMPTS["en"]
CASE = groundedness.Case(
    "q", "How long?", "human", groundedness.RETRIEVED, ("three hours",), ("It takes three hours.",)
)


@pytest.mark.parametrize(
    ("reply", "state", "how"),
    [
        ("Three hours.", "answered", ""),
        ("NOT_IN_PASSAGES", "declined", "sentinel"),
        ("I must say NOT_IN_PASSAGES, since nothing fits.", "declined", "sentinel"),
        ("The passages do not state how long it takes.", "declined", "words"),
        ("", "no_output", ""),
        ("  \n", "no_output", ""),
    ],
)
def test_what_a_generator_said(asked, reply, state, how):
    got = groundedness.EndpointGenerator(asked(reply), WORDS, "NOT_IN_PASSAGES").answer(CASE)
    assert (got.state, got.how) == (state, how)


def test_a_generator_that_cannot_be_reached_is_a_state(asked):
    assert groundedness.EndpointGenerator(asked((400, {}, b"")), WORDS, "X").answer(CASE).state == "failed"
    assert (
        groundedness.EndpointGenerator(asked("<hang>", timeout=0.1, retries=0), WORDS, "X").answer(CASE).state
        == "timed_out"
    )


GOOD = '{"supported": true, "answers_question": false, "reason": "has } and { in it"}'


def test_a_judge_gets_one_more_try_and_no_verdict_is_made_up(server, asked):
    judged = lambda *script: groundedness.EndpointJudge(asked(*script), WORDS).judge(CASE, "Three hours.")
    got = judged(GOOD)
    assert (got.state, got.supported, got.answers, got.attempts) == ("judged", True, False, 1)


@pytest.mark.parametrize(
    "bad", ["", "yes, but", '{"supported": true', '{"supported": "true", "answers_question": "true"}', "[true, true]"]
)
def test_no_clear_verdict_is_a_failed_judge(server, asked, bad):
    judge = groundedness.EndpointJudge(asked(bad), WORDS)
    got = judge.judge(CASE, "Three hours.")
    assert (got.state, got.supported, got.answers, got.attempts) == ("judge_failed", None, None, 2) and len(
        server.seen
    ) == 2
    server.script = [GOOD]
    assert judge.judge(CASE, "Three hours.").state == "judge_failed" and len(server.seen) == 2, "both replies are kept"
    assert judge.judge(CASE, "Three hours.", repeat=1).state == "judged", "asked anew on purpose"


def test_a_second_try_counts(asked):
    got = groundedness.EndpointJudge(asked("hm", f"```json\n{GOOD}\n```"), WORDS).judge(CASE, "x")
    assert (got.state, got.attempts, got.supported) == ("judged", 2, True)
    assert (
        groundedness.EndpointJudge(asked("<hang>", timeout=0.1, retries=0), WORDS).judge(CASE, "y").state == "timed_out"
    )


def test_a_judge_that_only_reads_the_beginning_is_found_by_turning_the_passages_round(server, asked):
    """The server's verdict depends on which passage stands first: asked again it says the same, with the order reversed it does not."""
    cases = [
        groundedness.Case(
            f"q{number}",
            "How long?",
            "human",
            groundedness.RETRIEVED,
            ("three hours",),
            ("Three hours.", f"Bake {number}."),
        )
        for number in range(3)
    ]
    no = GOOD.replace("true", "false")
    judge = groundedness.EndpointJudge(asked("-"), WORDS)
    server.reply = lambda body: (
        GOOD
        if body["messages"][0]["content"].index("Three hours.") < body["messages"][0]["content"].index("Bake")
        else no
    )
    rows = groundedness.run(cases, groundedness.EndpointGenerator(asked("Three hours."), WORDS, "X"), judge)
    told = generation.consistency(
        cases, handcheck.matched(rows, handcheck.labels_of(Path()))[0], [judge], 2, 10
    ).set_index("way")
    assert told["status"].tolist() == ["ok", "ok"] and told["compared"].tolist() == [3, 3]
    assert told["same"].tolist() == [3, 0] and told.loc["passages reversed", "changed"].count(",") == 2
    assert told.loc["asked again", "low"] > 0.4 and told.loc["passages reversed", "high"] < 0.6


def test_a_question_that_failed_is_asked_again_and_stands_once(server, asked, tmp_path):
    """An error, then an answer: one row, the last one; an error twice: a failure, counted in the new run, in no rate."""
    cases = [
        groundedness.Case(f"q{number}", f"Number {number}?", "human", groundedness.RETRIEVED, ("x",), ("x",))
        for number in range(4)
    ]
    judge = generation.judge("checker", generation.Setting(tmp_path, tmp_path, {}, "", "en", "X", 1, WORDS))
    refused = (400, {}, b"")
    first = groundedness.run(cases, groundedness.EndpointGenerator(asked("One.", "Two.", refused), WORDS, "X"), judge)
    assert first["state"].tolist() == ["answered", "answered", "failed", "failed"]
    server.seen.clear()
    again = groundedness.run(cases, groundedness.EndpointGenerator(asked("Three.", refused), WORDS, "X"), judge)
    assert (
        again["state"].tolist() == ["answered"] * 3 + ["failed"]
        and again["query_id"].is_unique
        and len(server.seen) == 2
    )
    rate = groundedness.rates(again).set_index("rate").loc["answered_when_retrieved"]
    assert (rate["count"], rate["n"]) == (3, 3)
    assert groundedness.states(again).iloc[0][["answered", "failed"]].tolist() == [3, 1]


def test_a_judge_of_the_same_maker_is_warned_of_by_both_names(asked):
    one, two = asked("x", model="orgA/x-70b"), asked("x", model="orgA/x-8b")
    made = generation.Made({"endpoint": groundedness.EndpointGenerator(one, WORDS, "X")}, {}, pd.DataFrame())
    who = generation.who(made, groundedness.EndpointJudge(two, WORDS))
    assert who["same family"].tolist() == ["yes"]
    said = answertables.family_sentence(who)
    assert "orgA/x-8b judges orgA/x-70b" in said and said.startswith("Warning")
    other = generation.who(made, groundedness.EndpointJudge(asked("x", model="orgB/y"), WORDS))
    assert answertables.family_sentence(other) == ""


def test_nothing_is_asked_that_the_parameters_do_not_name(tmp_path):
    setting = generation.Setting(tmp_path, tmp_path, {}, "", "en", "X", 1, WORDS)
    with pytest.raises(BadInput, match="no generator is named, and nothing is asked that is not"):
        generation.generators(["endpoint"], [], [], setting)
    with pytest.raises(BadInput, match="no judge is named"):
        generation.judge("endpoint", setting)
    for given, message in (
        ({"base_url": "http://127.0.0.1/v1"}, "generator needs model"),
        (
            {"base_url": "http://127.0.0.1/v1", "model": "m", "timout": 3.0},
            r"unknown 'timout' \(did you mean 'timeout'\?\)",
        ),
    ):
        with pytest.raises(BadInput, match=message):
            generation.Setting(tmp_path, tmp_path, {"generator": given}, "", "en", "X", 1, WORDS).endpoint("generator")
    with pytest.raises(BadInput, match="unknown role 'jugde'"):
        generation.Setting(tmp_path, tmp_path, {"jugde": {}}, "", "en", "X", 1, WORDS)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:99999/v1",
        "http://127.0.0.1:x/v1",
        "http://[::1/v1",
        "http://a b/v1",
        "https://h/\u00fc",
        "https://h/\n",
    ],
)
def test_an_address_that_is_none_is_bad_input(url):
    with pytest.raises(BadInput, match="base_url must be"):
        Address(base_url=url, model="m")


@pytest.mark.parametrize(
    "given", [{"timeout": "5"}, {"timeout": float("nan")}, {"timeout": None}, {"retries": 1.5}, {"max_tokens": "9"}]
)
def test_a_number_of_an_address_that_is_none_is_bad_input(given):
    with pytest.raises(BadInput, match="retries must be 0 or more"):
        Address(base_url="http://127.0.0.1/v1", model="m", **given)


def test_a_blank_key_is_no_key_and_a_placeholder_is_not_cut_out_of_words(tmp_path):
    address = Address(base_url="http://127.0.0.1/v1", model="m", key_variable="K")
    with pytest.raises(BadInput, match="has no K"):
        Endpoint(address, Replies(tmp_path / "a.jsonl"), {"K": "  "})
    body = b'{"choices": [{"message": {"content": "next text, long-secret"}}], "usage": [1]}'
    assert Endpoint(address, Replies(tmp_path / "a.jsonl"), {"K": "x"})._read(body)["text"] == "next text, long-secret"
    assert (
        Endpoint(address, Replies(tmp_path / "a.jsonl"), {"K": "long-secret"})._read(body)["text"] == "next text, [key]"
    )


def test_a_reply_too_deep_to_read_is_no_reply(tmp_path):
    one = Endpoint(Address(base_url="http://127.0.0.1/v1", model="m"), Replies(tmp_path / "a.jsonl"), {})
    with pytest.raises(NoReply, match="not that of a chat"):
        one._read(b"[" * 200_000)
