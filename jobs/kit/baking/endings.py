"""How a bake ends when it cannot give scores. Each is an error of its own: none of them is ever counted as a miss."""
from failures import BAD_DATA, MISSING_FILE, SERVER, Failure

BAD_SETTING = 78


class Stopped(Exception):
    """Asked to end between two cases; what was answered is kept."""


def bad_setting(message):
    return Failure("bad_setting", message, BAD_SETTING)


def bad_cases(message):
    return Failure("bad_cases", message, BAD_DATA)


def missing(message):
    return Failure("missing_file", message, MISSING_FILE)


def missing_model(message):
    return Failure("missing_model", message, MISSING_FILE)


def server_error(message):
    return Failure("server_error", message, SERVER)


def too_long(message):
    """A prompt that does not fit the context: the fault is the setting's, so the code is."""
    return Failure("prompt_too_long", message, BAD_SETTING)


def trimmed(message):
    """The server read fewer tokens than it was sent: its answers would look like the model's misses."""
    return Failure("prompt_trimmed", message, BAD_SETTING)
