"""Scoring a model on case files: which cases, which models, asked how, judged how, kept where.

`settings` and `cases` read what is given, `models` says who is asked, `ollama`, `openai_api` and `in_process` ask,
`prompt_size` refuses prompts that were trimmed, `verdict` judges one reply, `journal` keeps every answer, `half` runs
one model over all cases and `scores` sums up. Only `in_process` imports PyTorch, and only when it is used.
"""
