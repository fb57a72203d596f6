"""Your own training loop: a Bayesian LSTM with the bound as the loss, and a prediction."""

import torch
from task import CLASSES, WORDS, likelihood, sentences, show
from torch import Tensor, nn

import whvi


class Reader(nn.Module):
    """Words to a class."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 32)
        self.memory, self.head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, CLASSES)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Logits from the last state."""
        _, (last, _) = self.memory(self.words(input_ids))
        logits: Tensor = self.head(last[-1])
        return logits


def main(steps: int = 400, rows: int = 1000) -> None:
    """Train and show."""
    torch.manual_seed(0)
    x, y = sentences(rows, seed=0)
    model, report = whvi.bayesianize(Reader(), init="prior")
    print(report)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(steps):
        batch = torch.randint(rows, (64,))
        bound = whvi.elbo(model, likelihood, x[batch], y[batch], n_data=rows)
        optimizer.zero_grad()
        (-bound.objective / rows).backward()
        optimizer.step()
    new_x, new_y = sentences(500, seed=1)
    show({"LSTM, Bayesian": whvi.predict(model, new_x, likelihood=likelihood, seed=0)}, new_y)


if __name__ == "__main__":
    main()
