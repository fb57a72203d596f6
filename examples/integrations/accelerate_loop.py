"""A loop with accelerate: prepare, backward, and the model without its wrapper for the prediction."""

import torch
from accelerate import Accelerator
from task import bert, likelihood, sentences, show
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import whvi


def main(steps: int = 300, rows: int = 1000) -> None:
    """Train and show."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model, _ = whvi.adapt(bert(), terms=2, train_base=("bert.embeddings", "classifier"))
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    data = DataLoader(TensorDataset(*sentences(rows, seed=0)), batch_size=64, shuffle=True)
    model, optimizer, data = accelerator.prepare(model, torch.optim.Adam(learned, 1e-2), data)
    step = 0
    while step < steps:
        for x, y in data:
            plain = accelerator.unwrap_model(model)  # the KL is of the model, whatever wraps it
            loss = cross_entropy(model(input_ids=x).logits, y) + whvi.kl(plain) / rows
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step == steps:
                break
    new_x, new_y = sentences(500, seed=1)
    plain = accelerator.unwrap_model(model)
    prediction = whvi.predict(plain, {"input_ids": new_x}, likelihood=likelihood, seed=0)
    show({"adapter, T = 2": prediction}, new_y)


if __name__ == "__main__":
    main()
