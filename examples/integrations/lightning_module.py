"""A LightningModule: the bound as the training loss, and a prediction from the trained model."""

from typing import Any

import lightning
import torch
from task import bert, likelihood, sentences, show
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import whvi


class Bayesian(lightning.LightningModule):
    """A BERT with Bayesian layers in place of its own."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows, self.model = rows, whvi.bayesianize(bert(), init="prior").model

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        """The negative bound, for each row."""
        x, y = batch
        bound = whvi.elbo(self.model, likelihood, {"input_ids": x}, y, n_data=self.rows)
        self.log("kl", bound.kl)
        return -bound.objective / self.rows

    def configure_optimizers(self) -> Any:
        """Adam."""
        return torch.optim.Adam(self.parameters(), 5e-3)


def main(steps: int = 300, rows: int = 1000) -> None:
    """Train and show."""
    lightning.seed_everything(0, verbose=False)
    data = DataLoader(TensorDataset(*sentences(rows, seed=0)), batch_size=64, shuffle=True)
    module = Bayesian(rows)
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    lightning.Trainer(max_steps=steps, accelerator="cpu", **quiet).fit(module, data)
    new_x, new_y = sentences(500, seed=1)
    prediction = whvi.predict(module.model, {"input_ids": new_x}, likelihood=likelihood, seed=0)
    show({"BERT, Bayesian": prediction}, new_y)


if __name__ == "__main__":
    main()
