"""What the imitations were checked against. Anything else is said, and makes the answer's band wider."""
import importlib.metadata

#: Versions at which rehearsed and real steps were compared (docs/rehearsal.md).
CHECKED = {"torch": ("2.11", "2.15"), "transformers": ("5.17", "5.24"), "peft": ("0.21",), "bitsandbytes": ("0.50",)}
#: model_type values whose steps were compared with a card's.
FAMILIES = ("gemma2", "gemma3", "gemma3_text", "llama", "mistral", "phi3", "qwen2", "qwen3")


def installed():
    found = {}
    for name in CHECKED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def doubts(recipe, config):
    """Sentences about what was not checked; none for a path that was."""
    said = []
    for name, version in installed().items():
        if version is None:
            if name != "bitsandbytes" or recipe.kbit:
                said.append(f"{name} is not installed")
            continue
        if not any(version == known or version.startswith(known + ".") for known in CHECKED[name]):
            said.append(f"{name} {version} was not compared with a card (was: {', '.join(CHECKED[name])})")
    if config.model_type not in FAMILIES:
        said.append(f"models of type {config.model_type} were not compared with a card")
    if recipe.quant == "int8":
        said.append("int8: outliers of real weights are not known to a rehearsal")
    return said
