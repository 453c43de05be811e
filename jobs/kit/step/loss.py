"""The loss of one micro-batch: over all tokens by the model itself, or over the response only, whole or in chunks.

All give the same mean over the response's tokens up to rounding.
"""
import torch
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

#: Tokens with this label count for nothing.
IGNORED = -100


def loss_of(model, inputs, recipe):
    """(loss, held): what the caller goes on holding while backward runs, as the recipe says (`held`)."""
    if recipe.has("chunked_loss"):
        return _in_chunks(model, inputs, recipe), None
    if recipe.has("logits_to_keep") or inputs.weights is not None:
        # One more than the response: the last predicts nothing.
        length = inputs.response_len if recipe.has("logits_to_keep") else inputs.ids.shape[1] - 1
        out = model(**inputs.without_labels(), logits_to_keep=length + 1)
        logits = out.logits[:, :-1].float()
        loss = _mean(logits, inputs.response(logits.shape[1]), inputs.weights)
        return loss, {"outputs": out, "response": (out, logits), "loss_input": logits}.get(recipe.held)
    if recipe.held == "loss_input":
        base = model.get_base_model()
        logits = model(**inputs.without_labels()).logits.float()
        return base.loss_function(logits, inputs.labels, logits.shape[-1]), logits
    out = model(**inputs.all())
    return out.loss, (out if recipe.held == "outputs" else None)


def _mean(logits, targets, weights):
    """Over the response's tokens; with weights, over the weighted ones."""
    if weights is None:
        return cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
    each = cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), reduction="none")
    factors = weights[:, None] * (targets != IGNORED)
    return (each.view_as(targets) * factors).sum() / factors.sum()


def _in_chunks(model, inputs, recipe):
    """Logits of a few tokens at a time, made again in backward."""
    base = model.get_base_model()
    hidden = base.model(**inputs.without_labels()).last_hidden_state
    length = inputs.response_len if recipe.has("logits_to_keep") else hidden.shape[1] - 1
    length = min(length, hidden.shape[1] - 1)
    hidden = hidden[:, -length - 1:-1]
    targets = inputs.labels[:, -length:]   # what is not of the response counts for nothing
    head, cap = base.get_output_embeddings(), getattr(base.config.get_text_config(), "final_logit_softcapping", None)

    def piece(states, wanted):
        logits = head(states)
        if cap:
            logits = torch.tanh(logits / cap) * cap
        logits = logits.float().reshape(-1, logits.shape[-1])
        if inputs.weights is None:
            return cross_entropy(logits, wanted.reshape(-1), reduction="sum")
        each = cross_entropy(logits, wanted.reshape(-1), reduction="none").view_as(wanted)
        return (each.sum(dim=1) * inputs.weights).sum()

    pieces = zip(hidden.split(recipe.loss_chunk_tokens, dim=1), targets.split(recipe.loss_chunk_tokens, dim=1))
    total = sum(checkpoint(piece, states, wanted, use_reentrant=False) for states, wanted in pieces)
    if inputs.weights is not None:
        return total / (inputs.weights[:, None] * (targets != IGNORED)).sum()
    if inputs.counted is None:
        return total / (targets.shape[0] * min(inputs.response_len, length))
    return total / inputs.counted
