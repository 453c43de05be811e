"""Small models of each dense family, made up: a few layers, narrow, so that a rehearsal or a real step takes seconds.

Says nothing about real models: what their steps take is in vram/data. Refuses a family that it does not know.
"""
import collections

import live_sets  # noqa: F401  (puts the kit on the path)

WIDE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 2048, "max_position_embeddings": 4096, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2}
OWN = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "mistral_windowed": {"model_type": "mistral", "sliding_window": 64},
    "phi3": {},
    "qwen2": {},
    "qwen3": {"head_dim": 64},
    "gemma2": {"head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 64},
    "gemma3_text": {"head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 64},
    "smollm": {"model_type": "llama", "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576,
               "intermediate_size": 1536, "tie_word_embeddings": True},
}
FAMILIES = tuple(OWN)


def settings(family="llama", shape=(), **given):
    """A recipe's settings; `shape` changes the model, everything else the recipe."""
    config = {"model_type": family, **WIDE, **OWN[family], **dict(shape)}
    targets = {}
    if family == "phi3":
        targets = {"targets": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]}
    return {"model_config": config, "quant": "nf4", "rank": 8, "seq_len": 256, "response_len": 64, **targets, **given}


def rehearsed(wanted, device="ampere", off=(), mode="train"):
    """The recorder of one rehearsal of these settings."""
    import rehearse
    from rehearsal import devices
    from step import recipe
    recorder, _ = rehearse.rehearse(recipe.read(wanted, mode), devices.ALL[device], None, off)
    return recorder


def births(recorder, after=None, before=None):
    """How often each (size, label) was asked for, between two marks where they are given."""
    found, inside = collections.Counter(), after is None
    for line in recorder.lines:
        if line == f"m {after}":
            inside = True
        elif before is not None and line == f"m {before}":
            break
        elif inside and line.startswith("a "):
            _, size, *label = line.split(" ", 2)
            found[int(size), label[0] if label else ""] += 1
    return found


def sizes(recorder, place="", **marks):
    """How often each size was asked for, by lines of code whose label holds `place`."""
    return of_place(births(recorder, **marks), place)


def of_place(found, place):
    """Those of counted (size, label)s whose label holds `place`, by size."""
    by_size = collections.Counter()
    for (size, label), times in found.items():
        by_size[size] += times * (place in label)
    return by_size
