"""LoRA of peft, an adapter of ours, and both on one model: y = base(x) + LoRA(x) + delta(x)."""

from peft import LoraConfig, get_peft_model
from task import bert, likelihood, sentences, show
from torch import nn

import whvi
from whvi.inference import MAP, SVI

TRAINED = ("*embeddings*", "*classifier*")


def lora() -> nn.Module:
    """A BERT with r = 8 beside every linear layer of its encoder."""
    linear = ["query", "key", "value", "output.dense", "intermediate.dense"]
    config = LoraConfig(r=8, target_modules=linear, modules_to_save=["classifier"])
    model: nn.Module = get_peft_model(bert(), config)
    return model


def main(steps: int = 300, rows: int = 1000) -> None:
    """Train all three, and show."""
    x, y = sentences(rows, seed=0)
    new_x, new_y = sentences(500, seed=1)
    ours, _ = whvi.adapt(bert(), train_base=TRAINED)
    both, report = whvi.adapt(lora(), rule="*.base_layer", train_base=("*lora_*", *TRAINED))
    print(report)
    with_lora = lora()
    for name, parameter in with_lora.named_parameters():
        if "embeddings" in name:
            parameter.requires_grad_(True)
    predictions = {}
    for name, model in {"LoRA": with_lora, "WHVI": ours, "LoRA and WHVI": both}.items():
        numbers = sum(p.numel() for n, p in model.named_parameters() if p.requires_grad and "embeddings" not in n)
        algorithm = MAP(5e-3) if name == "LoRA" else SVI(5e-3)
        data = {"input_ids": x, "labels": y}
        result = whvi.fit(model, likelihood, data, steps=steps, algorithm=algorithm, seed=0)
        predictions[f"{name}: {numbers:,} numbers"] = result.predict({"input_ids": new_x}, seed=0)
    show(predictions, new_y)


if __name__ == "__main__":
    main()
