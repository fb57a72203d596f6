"""What the scripts here have in common: sentences of a made-up language, a small model of them, a table of scores."""

import torch
from torch import Tensor, nn

from whvi.likelihoods import Categorical
from whvi.predictive import Prediction

WORDS, LENGTH, CLASSES = 60, 12, 3
likelihood = Categorical(CLASSES)


def sentences(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows of words, and how many of them are of the first ten: few, some or many."""
    generator = torch.Generator().manual_seed(seed)
    share = torch.rand(count, 1, generator=generator)
    common = torch.rand(count, LENGTH, generator=generator) < share
    words = torch.randint(4, 14, (count, LENGTH), generator=generator)
    others = torch.randint(14, WORDS, (count, LENGTH), generator=generator)
    return torch.where(common, words, others), torch.bucketize(common.sum(1), torch.tensor([4, 8]))


def bert() -> nn.Module:
    """A small BERT with random weights; take ``from_pretrained`` for your own."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 128}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model: nn.Module = BertForSequenceClassification(
        BertConfig(vocab_size=WORDS, num_labels=CLASSES, pad_token_id=0, **sizes, **dropout)
    )
    return model


def show(predictions: dict[str, Prediction], labels: Tensor) -> None:
    """A table: error, negative log-likelihood, and the entropy of rows that are right and of those that are wrong."""
    print("| method | error | NLL | entropy, right | entropy, wrong |")
    print("| --- | --- | --- | --- | --- |")
    for name, prediction in predictions.items():
        wrong = prediction.mean.argmax(-1) != labels
        entropies = [float(prediction.entropy[rows].mean()) if rows.any() else float("nan") for rows in (~wrong, wrong)]
        numbers = [float(wrong.float().mean()), float(prediction.mnll(labels)), *entropies]
        print(f"| {name} | {' | '.join(f'{number:.3f}' for number in numbers)} |")
