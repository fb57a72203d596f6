"""Hugging Face's Trainer: an adapter beside a BERT, trained by a loss that has the KL in it."""

from tempfile import mkdtemp
from typing import Any

from task import bert, likelihood, sentences, show
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainingArguments

import whvi


def main(steps: int = 300, rows: int = 1000) -> None:
    """Train and show."""
    x, y = sentences(rows, seed=0)
    data = [{"input_ids": words, "labels": label} for words, label in zip(x, y, strict=True)]
    model, report = whvi.adapt(bert(), train_base=("bert.embeddings", "classifier"))
    print(report)

    def loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        return cross_entropy(outputs.logits, labels) + whvi.kl(model) / rows

    arguments = TrainingArguments(
        output_dir=mkdtemp(),
        max_steps=steps,
        per_device_train_batch_size=64,
        learning_rate=1e-2,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
    )
    Trainer(model, arguments, train_dataset=data, compute_loss_func=loss).train()  # type: ignore[arg-type]
    folder = mkdtemp()
    whvi.save_adapter(model, folder)  # the base is not in it; save_pretrained keeps that
    new_x, new_y = sentences(500, seed=1)
    prediction = whvi.predict(model, {"input_ids": new_x}, likelihood=likelihood, seed=0)
    one = whvi.predict(model, {"input_ids": new_x}, 1, likelihood=likelihood, seed=0)
    show({"64 functions": prediction, "one function": one}, new_y)


if __name__ == "__main__":
    main()
