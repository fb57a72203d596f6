"""Rated sentences as the last layer of all-MiniLM-L6-v2 sees them, for ``language.py``."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

FILES = {
    "film": "movieReviewSnippets",
    "tweets": "tweets",
    "products": "amazonReviewSnippets",
    "news": "nytEditorialSnippets",
}
TRAINING, HELD_OUT, TEST, WORDS = 500, 200, 200, 32


class Rows(NamedTuple):
    """Sentences as the last layer sees them, and their ratings."""

    hidden: Tensor
    mask: Tensor
    y: Tensor

    @property
    def x(self) -> dict[str, Tensor]:
        """Keywords of ``Top``."""
        return {"hidden": self.hidden, "mask": self.mask}

    def take(self, rows: slice | Tensor) -> "Rows":
        """Some of them."""
        return Rows(self.hidden[rows], self.mask[rows], self.y[rows])


class Top(nn.Module):
    """The last layer, the mean over words, and a head."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.last, self.head = layer, nn.Linear(384, 1)
        nn.init.zeros_(self.head.weight)

    def features(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """(rows, words, 384) -> (rows, 384)."""
        blocked = (1.0 - mask)[:, None, None] * torch.finfo(hidden.dtype).min
        found = self.last(hidden, blocked)
        found = found[0] if isinstance(found, tuple) else found
        pooled: Tensor = (found * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return pooled / 4  # of length one, about

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """One number for each row."""
        y: Tensor = self.head(self.features(hidden, mask))
        return y


def read(folder: Path, name: str, count: int) -> tuple[list[str], Tensor]:
    """Sentences in an order at random, with their mean ratings."""
    text = (folder / "hutto_ICWSM_2014" / f"{FILES[name]}_GroundTruth.txt").read_text(
        encoding="utf-8", errors="replace"
    )
    lines = [line.split("\t") for line in text.splitlines() if line.count("\t") == 2]
    order = torch.randperm(len(lines), generator=torch.Generator().manual_seed(0))[:count].tolist()
    return [lines[i][2] for i in order], torch.tensor([[float(lines[i][1])] for i in order])


@torch.no_grad()
def prepare(folder: Path) -> tuple[nn.Module, dict[str, Rows]]:
    """The last layer, and the rows of each domain; film has training, held-out and test rows, in this order."""
    from transformers import BertModel, PreTrainedTokenizerFast

    bert = BertModel.from_pretrained(folder / "model", attn_implementation="eager").eval()
    last = bert.encoder.layer[-1]
    bert.encoder.layer = bert.encoder.layer[:-1]
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "model/tokenizer.json"), pad_token="[PAD]")
    found = {}
    for name in FILES:
        texts, y = read(folder, name, TRAINING + HELD_OUT + TEST if name == "film" else TEST)
        options: dict[str, Any] = {"truncation": True, "max_length": WORDS, "padding": "max_length"}
        tokens = tokenizer(texts, return_tensors="pt", **options)
        inputs = {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}
        parts = [{key: value[i : i + 50] for key, value in inputs.items()} for i in range(0, len(y), 50)]
        hidden = torch.cat([bert(**part).last_hidden_state for part in parts])
        found[name] = Rows(hidden, inputs["attention_mask"].float(), y)
    return last, found


class Bench:
    """The data of all methods, and the last layer that they start from."""

    def __init__(self, folder: Path) -> None:
        self.last, rows = prepare(folder)
        film = rows.pop("film")
        y = film.y[:TRAINING]
        self.centre, self.scale = float(y.mean()), float(y.std())
        film, rows = self.standard(film), {name: self.standard(part) for name, part in rows.items()}
        self.training = film.take(slice(TRAINING))
        self.held_out = film.take(slice(TRAINING, TRAINING + HELD_OUT))
        self.test = {"film": film.take(slice(TRAINING + HELD_OUT, None)), **rows}

    def standard(self, rows: Rows) -> Rows:
        """With the mean and the size of the training rows taken off."""
        return rows._replace(y=(rows.y - self.centre) / self.scale)

    def top(self, seed: int, dropout: float) -> Top:
        """The last layer with a new head."""
        torch.manual_seed(seed)
        top = Top(copy.deepcopy(self.last))
        for module in top.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout
        return top


class Predictor(NamedTuple):
    """A trained method: (S, rows) means and variances of a mixture for any rows."""

    predict: Callable[[Rows], tuple[Tensor, Tensor]]
    numbers: int


def scores(bench: Bench, predictor: Predictor, rows: Rows) -> dict[str, float]:
    """In the unit of ratings: error of the mean, negative log density; and the share of targets in 90 % intervals."""
    means, variances = predictor.predict(rows)
    y = rows.y.squeeze(-1)
    normal = torch.distributions.Normal(means, variances.sqrt())
    density = normal.log_prob(y).logsumexp(0) - torch.tensor(float(len(means))).log()
    below = normal.cdf(y).mean(0)
    return {
        "rmse": float((means.mean(0) - y).square().mean().sqrt()) * bench.scale,
        "nll": float(-density.mean()) + torch.tensor(bench.scale).log().item(),
        "coverage": float(((below > 0.05) & (below < 0.95)).float().mean()),
    }
