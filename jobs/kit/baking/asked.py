"""What every way of asking gives for one case. The three ways are told apart nowhere else."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Reply:
    text: str
    prompt_tokens: int
    seconds: float
    cut: bool          # it ended because max_tokens were used up


def way(settings, stop):
    """Imported when it is used: only one of them needs PyTorch, and that one takes seconds to start."""
    if settings.server == "ollama":
        from .ollama import Ollama
        return Ollama(settings, stop)
    if settings.server == "openai":
        from .openai_api import OpenAI
        return OpenAI(settings, stop)
    from .in_process import InProcess
    return InProcess(settings, stop)
