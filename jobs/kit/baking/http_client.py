"""JSON over HTTP with the standard library: deadlines, retries, and errors that never look like a model's answer.

What may pass (5xx, 408, 425, 429, broken connections, timeouts, a body that is no JSON) is tried again and then ends
the bake. What will not pass is `Refused`. Redirects are not followed: they would carry the key elsewhere. Proxies are
left out for this machine, and the key never gets into a message.
"""
import http.client
import ipaddress
import json
import time
import urllib.error
import urllib.parse
import urllib.request

from .endings import Stopped, bad_setting, server_error

LARGEST = 64 * 2**20   # bytes of a reply; more is no answer to a case
LONGEST_WAIT = 60      # seconds between two tries, whatever the server asks for
PASSING = (408, 425, 429)
LATER = (301, 302, 303, 307, 308)


class Refused(Exception):
    """The server understood and said no: trying again would not help."""

    def __init__(self, status, text, body=None):
        super().__init__(f"HTTP {status}: {text}")
        self.status, self.text, self.body = status, text, body


class _Passing(Exception):
    def __init__(self, message, wait=None):
        super().__init__(message)
        self.wait = wait


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Client:
    """`stop` has `asked`: between two tries a bake that is asked to end ends."""

    def __init__(self, root, settings, stop):
        self.root, self.key, self.stop = root, settings.api_key, stop
        self.timeout, self.retries, self.retry_wait = settings.timeout, settings.retries, settings.retry_wait
        handlers = [_NoRedirect()]
        if _is_here(urllib.parse.urlsplit(root).hostname):
            handlers.append(urllib.request.ProxyHandler({}))
        self.opener = urllib.request.build_opener(*handlers)

    def get(self, path):
        return self._tried(path, None)[0]

    def post(self, path, body):
        return self._tried(path, body)[0]

    def timed_post(self, path, body):
        """(reply, seconds of the try that succeeded)."""
        return self._tried(path, body)

    def offered(self, path, body=None):
        """The reply, or None where the server has no such page."""
        try:
            return self._tried(path, body)[0]
        except Refused as error:
            if error.status in (401, 403):
                raise self.unusable(path, error) from error
            return None

    def unusable(self, path, refused):
        """The error that a refusal amounts to."""
        if refused.status in (401, 403):
            return bad_setting(f"{self.root}{path} refuses the key (HTTP {refused.status}); name the environment "
                               "variable that holds it with api_key_env")
        return server_error(f"{self.root}{path}: {refused}")

    def _tried(self, path, body):
        wait = self.retry_wait
        for left in range(self.retries, -1, -1):
            try:
                started = time.perf_counter()
                return self._once(path, body), time.perf_counter() - started
            except _Passing as error:
                if not left:
                    times = f"{self.retries + 1} times" if self.retries else "once"
                    raise server_error(self._safe(f"{self.root}{path} failed, tried {times}: {error}")) from None
                self.pause(min(LONGEST_WAIT, error.wait if error.wait is not None else wait))
                wait *= 2

    def pause(self, seconds):
        until = time.monotonic() + seconds
        while not self.stop.asked and time.monotonic() < until:
            time.sleep(min(0.1, max(0.0, until - time.monotonic())))
        if self.stop.asked:
            raise Stopped

    def _once(self, path, body):
        headers = {"Accept": "application/json", "User-Agent": "sweep-bake"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.root + path, data=data, headers=headers)
        try:
            with self.opener.open(request, timeout=self.timeout) as reply:
                text = _read(reply, self.timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise self._of_status(error) from None
        except (TimeoutError, OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            slow = isinstance(reason, TimeoutError) or "timed out" in str(reason)   # before 3.10 two classes say it
            said = f"no answer within {self.timeout:g} s" if slow else f"{type(reason).__name__}: {reason}"
            raise _Passing(said) from None
        return self._object(text)

    def _of_status(self, error):
        try:
            text = _read(error, self.timeout)
        except (OSError, http.client.HTTPException, ValueError):
            text = b""
        said, body = _said(text)
        said = self._safe(said)
        if error.code in LATER:
            return Refused(error.code, f"it points to {error.headers.get('Location')!r}; give that address itself")
        if error.code in PASSING or (error.code >= 500 and error.code != 501):
            after = error.headers.get("Retry-After", "")
            return _Passing(f"HTTP {error.code}: {said}", float(after) if after.isdigit() else None)
        return Refused(error.code, said, body)

    def _object(self, text):
        try:
            value = json.loads(text.decode())
        except (ValueError, RecursionError):
            raise _Passing(f"the reply is no JSON: {text[:80]!r}") from None
        if isinstance(value, dict) and value.get("error"):
            raise _Passing(f"the reply is an error: {_said(text)[0]}")
        return value

    def _safe(self, text):
        return text.replace(self.key, "***") if self.key else text


def _read(reply, seconds):
    """All of the body by the deadline: a server that sends a byte now and then is a slow one, too."""
    until, parts, size = time.monotonic() + seconds, [], 0
    while True:
        part = reply.read1(2**16)
        if not part:
            break
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise ValueError(f"the reply is larger than {LARGEST} bytes")
        if time.monotonic() > until:
            raise TimeoutError("timed out")
    left = getattr(reply, "length", None)
    if left:   # read1 does not complain of a body that ends early
        raise http.client.IncompleteRead(b"", left)
    return b"".join(parts)


def _said(text):
    """(what the body says in short, the body as an object or None): servers put it in several places."""
    plain = text.decode(errors="replace").strip()
    try:
        body = json.loads(plain)
    except (ValueError, RecursionError):
        return plain[:300] or "without a word", None
    inner = body.get("error", body.get("detail", body.get("message"))) if isinstance(body, dict) else None
    if isinstance(inner, dict):
        inner = inner.get("message", inner)
    return str(inner if inner is not None else plain)[:300], body


def _is_here(host):
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
