"""A language model behind an OpenAI-compatible address, on this machine or elsewhere. Nothing is asked unless the parameters name it.

No redirects are followed and no proxy settings are read, so that the key goes to the named host and to no other. The key comes from the
environment; it is in no request that is kept, no error and no log, and is taken out of what a server sends back, also where the
server turned it round or encoded it.
"""

from __future__ import annotations

import base64
import email.utils
import http.client
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import SplitResult, quote, urlsplit

from localeval.records import BadInput
from localeval.replies import TEMPERATURE, Replies, Tally

LONGEST_WAIT = 300.0  # seconds that a server's retry-after can ask for
LOOPBACK = ("127.0.0.1", "localhost", "::1")
AGAIN = (408, 409, 425, 429, 500, 502, 503, 504, 529)
HIDDEN = "[key]"
SECRET = 8  # characters; a shorter key is a placeholder for a local server, and may be part of any word of a reply


class NoReply(Exception):
    """A request that was given up. state: "failed" or "timed_out"; the message never holds the key."""

    def __init__(self, state: str, reason: str):
        super().__init__(reason)
        self.state = state


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a model is and how it is asked. base_url: up to and with `/v1`; key_variable: the environment variable that holds the key,
    empty for none. family: who made the model, to tell a judge of the same family. timeout: seconds for one attempt."""

    base_url: str
    model: str
    key_variable: str = ""
    family: str = ""
    timeout: float = 60.0
    retries: int = 8
    max_tokens: int = 300

    def __post_init__(self):
        parts = _parts(self.base_url)
        if (
            parts is None
            or parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.username
            or parts.query
        ):
            raise BadInput("endpoint: base_url must be http(s)://host[:port]/path, with no name, key or query in it")
        if parts.scheme == "http" and self.key_variable and parts.hostname not in LOOPBACK:
            raise BadInput(f"endpoint: a key would go to {parts.hostname} unprotected; use https, or no key_variable")
        whole = type(self.retries) is type(self.max_tokens) is int and type(self.timeout) in (int, float)
        if not whole or self.retries < 0 or not 0 < self.timeout < math.inf or self.max_tokens < 1:
            raise BadInput("endpoint: retries must be 0 or more, timeout above 0, max_tokens 1 or more")


def _parts(address: str) -> SplitResult | None:
    """An address in its parts; None where it is none, with a port that is no number or a blank in it."""
    if not address.isascii() or not address.isprintable() or " " in address:
        return None
    try:
        parts = urlsplit(address)
        return parts if parts.port is None or parts.port else None
    except ValueError:
        return None


def forms(key: str) -> Iterator[str]:
    """What a key looks like when it was sent back whole or by halves, as it is or reversed, plain, for a URL, in hexadecimal digits, or
    in base64 at any place of a longer text. Nothing shorter than SECRET."""
    middle = len(key) // 2
    for part in (key, key[:middle], key[middle:]):
        for text in (part, part[::-1]):
            data = text.encode()
            plain = (text, quote(text, safe=""), "".join(f"%{byte:02x}" for byte in data), data.hex())
            yield from (form for form in plain if len(text) >= SECRET)
            for before in range(3):
                code = base64.b64encode(bytes(before) + data).decode()[
                    -(-before * 8 // 6) : (before + len(data)) * 8 // 6
                ]
                yield from (form for form in (code, code.replace("+", "-").replace("/", "_")) if len(text) >= SECRET)


@dataclass
class Endpoint:
    """Asks one model. environment, sleep, clock and wall are arguments, so that nothing waits in a test. wall: seconds since 1970."""

    address: Address
    replies: Replies
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self):
        variable = self.address.key_variable
        if variable and not self.environment.get(variable, "").strip():
            raise BadInput(
                f"endpoint: the environment has no {variable}; set it to the key, or leave key_variable empty"
            )
        if variable and not (
            self._key.isascii() and self._key.isprintable()
        ):  # else the header's own error would show it
            raise BadInput(f"endpoint: {variable} holds something that is no key; set it anew")

    @property
    def name(self) -> str:
        return self.address.model

    @property
    def family(self) -> str:
        return self.address.family or self.address.model.rpartition("/")[0] or self.address.model

    def complete(self, messages: Sequence[Mapping[str, str]], attempt: int = 0, repeat: int = 0) -> str:
        """The text of a reply at temperature 0. attempt, repeat: asked again on purpose; part of the key, not of what is sent.

        Raises NoReply, after the retries; BadInput where every question would fail alike (no server, a refused key, no such model).
        """
        sent = {
            "model": self.address.model,
            "messages": list(messages),
            "temperature": TEMPERATURE,
            "max_tokens": self.address.max_tokens,
        }
        request = {"endpoint": self.address.base_url, "attempt": attempt, "repeat": repeat, **sent}
        reply, kept = self.replies.get(request, lambda: self._ask(sent))
        return self.tally.take(request, reply, kept)

    def _ask(self, sent: dict) -> dict:
        start = self.clock()
        problem = NoReply("failed", "not asked")
        for number in range(self.address.retries + 1):
            self.tally.again += number > 0
            try:
                status, headers, body = self._post(sent)
            except TimeoutError:
                problem, wait = NoReply("timed_out", f"no reply within {self.address.timeout:g} s"), 2.0**number
            except (OSError, http.client.HTTPException) as error:
                self._check_there(error)
                problem, wait = NoReply("failed", type(error).__name__), 2.0**number
            else:
                if status == 200:
                    return self._read(body) | {"seconds": self.clock() - start}
                self._check_usable(status)
                problem = NoReply("failed", f"HTTP {status}")
                if status not in AGAIN:
                    raise problem
                wait = self._asked_to_wait(headers, 2.0**number)
            if number < self.address.retries:
                self.sleep(min(wait, LONGEST_WAIT))
        raise problem

    def _check_there(self, error: Exception) -> None:
        import socket

        if (
            isinstance(error, ConnectionRefusedError | socket.gaierror)
            and not self.tally.replies
            and not self.replies.kept
        ):
            raise BadInput(
                f"endpoint: nothing answers at {self.address.base_url}; start the server, or name another"
            ) from None

    def _check_usable(self, status: int) -> None:
        if status in (401, 403):
            raise BadInput(
                f"endpoint: {self.address.base_url} refused the key (HTTP {status}); see {self.address.key_variable or 'key_variable'}"
            )
        if status == 404:
            raise BadInput(f"endpoint: {self.address.base_url} has no model {self.address.model!r} (HTTP 404)")

    def _asked_to_wait(self, headers: Mapping[str, str], otherwise: float) -> float:
        """Seconds of a retry-after, which may be a number or a date."""
        given = headers.get("retry-after", "").strip()
        try:
            return max(0.0, float(given))
        except ValueError:
            when = email.utils.parsedate_tz(given)
            return max(0.0, email.utils.mktime_tz(when) - self.wall()) if when else otherwise

    def _post(self, sent: dict) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(self.address.base_url)
        secure = parts.scheme == "https"
        connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = connect(parts.hostname, parts.port, timeout=self.address.timeout)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.address.key_variable:
            headers["Authorization"] = f"Bearer {self._key}"
        start = self.clock()
        self.tally.sent += 1
        try:
            connection.request("POST", parts.path.rstrip("/") + "/chat/completions", json.dumps(sent).encode(), headers)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return response.status, headers, self._body(response, start)
        finally:
            connection.close()

    def _body(self, response: http.client.HTTPResponse, start: float) -> bytes:
        """All of a body: a server that sends a little now and then runs into the time limit too."""
        parts = []
        while part := response.read1(65536):
            parts.append(part)
            if self.clock() - start > self.address.timeout:
                raise TimeoutError
        if response.length:
            raise http.client.IncompleteRead(b"".join(parts), response.length)
        return b"".join(parts)

    def _read(self, body: bytes) -> dict:
        """The text of a reply and what it took, without the key if the server sent it back. Null is an empty text: no output."""
        try:
            reply = json.loads(body)
            text = _text(reply["choices"][0]["message"]["content"])
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            raise NoReply("failed", "the reply is not that of a chat completion") from None
        model = self._without_key(str(reply.get("model", "")))
        return {"text": self._without_key(text), "model": model, "usage": _counts(reply.get("usage"))}

    @property
    def _key(self) -> str:
        return self.environment[self.address.key_variable].strip()

    @cached_property
    def _secret(self) -> re.Pattern | None:
        """Whatever shows the key."""
        if not self.address.key_variable or len(self._key) < SECRET:
            return None
        return re.compile("|".join(map(re.escape, sorted(set(forms(self._key)), key=len, reverse=True))), re.I)

    def _without_key(self, text: str) -> str:
        return self._secret.sub(HIDDEN, text) if self._secret else text


def _text(content: object) -> str:
    """The content of a message: a text, a list of parts with texts, or null. Anything else is a ValueError."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str | None):
        raise ValueError
    return (content or "").encode("utf-8", "replace").decode()


def _counts(used: object) -> dict[str, int]:
    """Tokens as the server counts them; what is no count is left out."""
    named = used if isinstance(used, dict) else {}
    counts = {name: named.get(name) for name in ("prompt_tokens", "completion_tokens")}
    return {name: count for name, count in counts.items() if type(count) is int and count >= 0}
