"""Whether a prompt was read whole. A trimmed one still gives plausible answers, so it must end the bake (F26).

Some servers count tokens before they answer (`Exact`). The others only say afterwards how many they read, which is no
proof: a trimmed prompt has a count, too. For those the texts are counted in pieces too short to be trimmed, once for
each model, and the count of the whole prompt is held against their sum (`Pieced`).
"""
import dataclasses

from .endings import too_long, trimmed

PIECE = 2000   # bytes: a token is at least one byte, so a piece has fewer tokens than any context in use
SLACK = 0.02   # joints between pieces, and templates that strip spaces, move the sum a little


@dataclasses.dataclass(frozen=True)
class Size:
    """Between these the count of a prompt must lie; equal where the server counts exactly."""
    least: int
    most: int


class Exact:
    """`count` gives the tokens of a chat, template included."""

    def __init__(self, count):
        self.count = count
        self.known = {}

    def of(self, case):
        if case.messages not in self.known:
            tokens = self.count(case.chat())
            # A template's own first token is counted by some servers and not by others.
            self.known[case.messages] = Size(tokens - 2, tokens)
        return self.known[case.messages]


class Pieced:
    """`count` asks for a reply of one token and gives the tokens that the server read."""

    def __init__(self, count, context_len):
        self.count = count
        self.limit = max(16, min(PIECE, context_len // 2))
        self.known = {}
        self.empty = self.turn = None

    def of(self, case):
        if self.empty is None:
            one = {"role": "user", "content": "x"}
            self.empty = self.count([one])
            self.turn = self.count([one, {"role": "assistant", "content": "x"}, one]) - self.empty
        texts = [self._text(content) for _, content in case.messages]
        tokens, joints = sum(size for size, _ in texts), sum(pieces for _, pieces in texts)
        least = int((tokens - joints) * (1 - SLACK)) - 4
        most = int((tokens + joints) * (1 + SLACK)) + self.empty + self.turn * (len(texts) - 1)
        return Size(max(1, least), most)

    def _text(self, content):
        """(tokens of a text without its template, pieces)."""
        if content not in self.known:
            pieces = [piece for piece in split(content, self.limit) if piece.strip()]
            counts = [self.count([{"role": "user", "content": piece}]) - self.empty + 1 for piece in pieces]
            self.known[content] = (sum(max(0, count) for count in counts), len(pieces))
        return self.known[content]


def split(text, limit):
    """Pieces of at most `limit` bytes, cut before a space where there is one."""
    pieces = []
    while len(text.encode(errors="replace")) > limit:
        cut = text[:limit]
        while len(cut.encode(errors="replace")) > limit:
            cut = cut[: max(1, len(cut) - max(1, (len(cut.encode(errors="replace")) - limit) // 4))]
        space = max(cut.rfind(" "), cut.rfind("\n"))
        cut = cut[:space] if space > 0 else cut
        pieces.append(cut)
        text = text[len(cut):]
    return pieces + [text]


def check_fits(case, size, settings):
    """Before it is sent."""
    needed = size.most + settings.max_tokens
    if needed > settings.context_len:
        raise too_long(f"case {case.id}: up to {size.most} tokens of prompt and {settings.max_tokens} of reply do not "
                       f"fit context_len = {settings.context_len}; set it to {needed} or more")


def check_whole(case, size, read, settings):
    """After it was answered: `read` is what the server says it read."""
    if read is None:
        raise trimmed(f"case {case.id}: the server does not say how many tokens it read, so nothing shows that the "
                      "prompt was not trimmed")
    if read < size.least:
        raise trimmed(f"case {case.id}: the server read {read} tokens of a prompt of at least {size.least}: it trimmed "
                      f"it; give the server a context of {settings.context_len} tokens for each request")
    if read + settings.max_tokens > settings.context_len:
        raise too_long(f"case {case.id}: {read} tokens of prompt and {settings.max_tokens} of reply do not fit "
                       f"context_len = {settings.context_len}; raise it")
