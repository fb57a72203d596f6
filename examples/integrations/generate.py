"""Texts of a GPT-2 with a posterior: each under one fixed draw, so that all its words come from one function."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import whvi
from whvi.likelihoods import Categorical

WORDS, LENGTH = 24, 12


def stories(rows: int) -> torch.Tensor:
    """Each word is the one before plus the row's own step, 1 or 2: the step shows from the second word on."""
    start, step = torch.randint(4, WORDS, (rows, 1)), torch.randint(1, 3, (rows, 1))
    return 4 + (start - 4 + step * torch.arange(LENGTH)) % (WORDS - 4)


def main(steps: int = 400, rows: int = 1000) -> None:
    """Train, and let several functions go on with two texts: one that says its step, and one that does not."""
    torch.manual_seed(0)
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": WORDS}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    gpt = GPT2LMHeadModel(GPT2Config(bos_token_id=1, eos_token_id=2, pad_token_id=0, **sizes, **dropout))
    model, _ = whvi.bayesianize(gpt, init="prior")
    words = stories(rows)
    data = {"input_ids": words[:, :-1], "labels": words[:, 1:]}
    whvi.fit(model, Categorical(WORDS, positions=1), data, steps=steps, algorithm=whvi.inference.SVI(1e-2), seed=0)
    model.eval()
    print("| draw | after 5 7 9 | after 5 |")
    print("| --- | --- | --- |")
    for seed in range(6):
        with whvi.sampling(model, 1, torch.Generator().manual_seed(seed)):
            texts = [
                model.generate(torch.tensor([prompt]), max_new_tokens=5, do_sample=False)[0, len(prompt) :].tolist()
                for prompt in ([5, 7, 9], [5])
            ]
        print(f"| {seed} | {' | '.join(' '.join(map(str, text)) for text in texts)} |")


if __name__ == "__main__":
    main()
