"""Small models of many architectures, with random weights: what ``architectures.py`` puts through the library."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from whvi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood

ROWS, LENGTH, WORDS, PIXELS = 6, 7, 99, 32


class Case(NamedTuple):
    """A model and what it is trained with."""

    package: str
    """What must be installed."""
    make: Callable[[], nn.Module]
    inputs: Callable[[], Any]
    """Of ``ROWS`` rows: a tensor, a tuple or a dict."""
    target: Callable[[], Tensor]
    likelihood: Callable[[], Likelihood]
    output: Callable[[Any], Tensor] | None = None
    prompt: Callable[[], dict[str, Tensor]] | None = None
    """Keywords of ``model.generate``, where there is one."""
    skip: tuple[str, ...] = ()
    """Modules whose weight is read by others instead of their being called."""


class UNet(nn.Module):
    """Down, up, and across: (N, 3, H, W) -> (N, 3, H, W), classes on axis 1."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())

        self.first, self.second = block(3, width), block(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.last, self.head = block(2 * width, width), nn.Conv2d(width, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of each pixel."""
        fine = self.first(x)
        coarse = self.second(nn.functional.max_pool2d(fine, 2))
        y: Tensor = self.head(self.last(torch.cat([fine, self.up(coarse)], 1)))
        return y


class GraphNetwork(nn.Module):
    """Graph convolutions, A X W: (N, nodes, 16) and (N, nodes, nodes) -> (N, 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """One number for each graph."""
        x = (adjacency @ self.first(x)).relu()
        x = (adjacency @ self.second(x)).relu()
        y: Tensor = self.head(x.mean(1))
        return y


class Recurrent(nn.Module):
    """Words to a class by an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 32)
        self.memory, self.head = nn.LSTM(32, 64, 2, batch_first=True, bidirectional=True), nn.Linear(128, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits from the last state of both directions."""
        _, (last, _) = self.memory(self.words(tokens))
        y: Tensor = self.head(torch.cat([last[-2], last[-1]], -1))
        return y


class Audio(nn.Sequential):
    """Strided convolutions over a waveform, and their transpose back to it: (N, 1, 256) -> (N, 1, 256)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__(
            *(nn.Conv1d(1, width, 9, stride=4, padding=4), nn.GELU(), nn.Conv1d(width, 2 * width, 3, padding=1)),
            *(nn.GroupNorm(4, 2 * width), nn.GELU(), nn.Conv1d(2 * width, 2 * width, 3, padding="same", groups=2)),
            *(nn.GELU(), nn.ConvTranspose1d(2 * width, 1, 4, stride=4)),
        )


class Recommender(nn.Module):
    """DLRM: numbers through a network, categories through tables, products of all pairs through another network."""

    def __init__(self, tables: int = 4, width: int = 16) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(50, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 64), nn.ReLU(), nn.Linear(64, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        """A logit for each row."""
        dense = self.bottom(numbers)
        every = torch.stack([dense, *(table(categories[:, i]) for i, table in enumerate(self.tables))], 1)
        rows, columns = self.pairs
        y: Tensor = self.top(torch.cat([dense, (every @ every.mT)[:, rows, columns]], -1))
        return y


def tokens(length: int = LENGTH) -> Tensor:
    """Words of each row."""
    return torch.randint(4, WORDS, (ROWS, length))


def pixels() -> Tensor:
    """Images."""
    return torch.randn(ROWS, 3, PIXELS, PIXELS)


def labels(classes: int, *positions: int) -> Callable[[], Tensor]:
    """Classes of each row, or of each of its positions."""
    return lambda: torch.randint(classes, (ROWS, *positions))


def padded() -> dict[str, Tensor]:
    """Words with a mask: the first row is shorter."""
    mask = torch.ones(ROWS, LENGTH, dtype=torch.long)
    mask[0, 5:] = 0
    return {"input_ids": tokens(), "attention_mask": mask}


def of_transformers(model: str, head: str, **config: Any) -> Callable[[], nn.Module]:
    """A model of transformers with random weights."""

    def make() -> nn.Module:
        import transformers

        config_class = getattr(transformers, f"{model}Config")
        made: nn.Module = getattr(transformers, f"{model}{head}")(config_class(**config))
        return made

    return make


def of_timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    """A model of timm with random weights."""

    def make() -> nn.Module:
        import timm

        made: nn.Module = timm.create_model(name, num_classes=4, **options)
        return made

    return make


def classes_of_rows() -> Likelihood:
    """Four classes."""
    return Categorical(4)


def words_of_positions() -> Likelihood:
    """The next word at each position."""
    return Categorical(WORDS, positions=1, ignore_index=-100)


SMALL: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
TEXT: dict[str, Any] = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
T5: dict[str, Any] = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": WORDS}
GPT2: dict[str, Any] = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
SIDES: dict[str, Any] = {"layers": 1, "ffn_dim": 128, "attention_heads": 4}
WHISPER: dict[str, Any] = {
    **{f"{side}_{name}": number for side in ("encoder", "decoder") for name, number in SIDES.items()},
    "d_model": 64,
    "num_mel_bins": 16,
    "max_source_positions": 20,
    "max_target_positions": 32,
    "decoder_start_token_id": 1,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}


def causal(make: Callable[[], nn.Module]) -> Case:
    """A model that continues a text."""
    return Case(
        "transformers",
        make,
        lambda: {"input_ids": tokens()},
        labels(WORDS, LENGTH),
        words_of_positions,
        prompt=lambda: {"input_ids": tokens()[:2]},
    )


def image(package: str, make: Callable[[], nn.Module]) -> Case:
    """A model that tells what an image shows."""
    return Case(package, make, pixels, labels(4), classes_of_rows)


def speech() -> dict[str, Tensor]:
    """Spectra, and the words so far."""
    return {"input_features": torch.randn(ROWS, 16, 40), "decoder_input_ids": tokens()}


CASES: dict[str, Case] = {
    "graph convolutions": Case(
        "torch",
        GraphNetwork,
        lambda: (torch.randn(ROWS, 9, 16), torch.rand(ROWS, 9, 9).softmax(-1)),
        lambda: torch.randn(ROWS, 1),
        Gaussian,
    ),
    "LSTM": Case("torch", Recurrent, tokens, labels(4), classes_of_rows),
    "audio, Conv1d": Case(
        "torch",
        Audio,
        lambda: torch.randn(ROWS, 1, 256),
        lambda: torch.randn(ROWS, 256, 1),
        lambda: Gaussian(positions=1),
        output=lambda found: found.movedim(1, -1),
    ),
    "DLRM": Case(
        "torch",
        Recommender,
        lambda: {"numbers": torch.randn(ROWS, 13), "categories": torch.randint(50, (ROWS, 4, 3))},
        labels(2, 1),
        Bernoulli,
    ),
    "BERT": Case(
        "transformers",
        of_transformers("Bert", "ForSequenceClassification", **SMALL, **TEXT, num_labels=4),
        padded,
        labels(4),
        classes_of_rows,
    ),
    "GPT-2": causal(of_transformers("GPT2", "LMHeadModel", **TEXT, **GPT2)),
    "LLaMA": causal(of_transformers("Llama", "ForCausalLM", **SMALL, **TEXT, num_key_value_heads=2)),
    "Mamba": causal(
        of_transformers("Mamba", "ForCausalLM", **TEXT, hidden_size=64, num_hidden_layers=2, state_size=8)
    )._replace(skip=("*.dt_proj", "*.conv1d")),
    "T5": Case(
        "transformers",
        of_transformers("T5", "ForConditionalGeneration", **T5, decoder_start_token_id=0),
        lambda: {**padded(), "decoder_input_ids": tokens(5)},
        labels(WORDS, 5),
        words_of_positions,
        prompt=lambda: {"input_ids": tokens()[:2]},
    ),
    "Whisper": Case(
        "transformers",
        of_transformers("Whisper", "ForConditionalGeneration", **TEXT, **WHISPER),
        speech,
        labels(WORDS, LENGTH),
        words_of_positions,
        prompt=lambda: {"input_features": torch.randn(2, 16, 40)},
    ),
    "ViT": image(
        "transformers",
        of_transformers("ViT", "ForImageClassification", **SMALL, image_size=PIXELS, patch_size=8, num_labels=4),
    ),
    "timm ResNet": image("timm", of_timm("test_resnet", zero_init_last=False)),
    "timm ConvNeXt": image("timm", of_timm("test_convnext")),
    "timm EfficientNet": image("timm", of_timm("test_efficientnet")),
    "timm ViT": image("timm", of_timm("test_vit", img_size=PIXELS, patch_size=8)),
    "U-Net": Case(
        "torch",
        UNet,
        pixels,
        labels(3, PIXELS, PIXELS),
        lambda: Categorical(3, positions=2),
        output=lambda found: found.movedim(1, -1),
    ),
}
"""By the name of the architecture."""
