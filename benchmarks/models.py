"""The models that are measured: real architectures, random weights, the same in each process."""

from __future__ import annotations

from typing import Any

# Those of the demo; the others are measured where they are asked for.
DEMO = ("gpt2", "resnet50")
NAMES = (*DEMO, "bert", "vit", "llama")
TITLES = {
    "gpt2": "GPT-2 124M",
    "resnet50": "ResNet-50",
    "bert": "BERT base",
    "vit": "ViT-B/16",
    "llama": "Llama-like 0.8B",
    "narrow150": "150 small weights",
}
# By device: batch and length of a text, and how many images.
_TOKENS = {"cpu": (1, 64), "cuda": (4, 128)}
_IMAGES = {"cpu": 1, "cuda": 8}


def device() -> str:
    """ "cuda" where torch sees a GPU."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def describe_inputs(name: str, where: str) -> str:
    """The inputs in words."""
    batch, length = _TOKENS[where]
    shapes = {
        "gpt2": f"{batch}x{length} tokens",
        "bert": f"{batch}x{length} tokens",
        "llama": "1x128 tokens",
        "resnet50": f"{_IMAGES[where]}x3x224x224",
        "vit": f"{_IMAGES[where]}x3x224x224",
    }
    return f"{shapes[name]}, {'bfloat16' if where == 'cuda' else 'float32'}"


def build(name: str) -> tuple[Any, tuple[Any, ...]]:
    """(model in memory, arguments) on the GPU if there is one; seeded, so equal everywhere."""
    import torch

    where = device()
    dtype = torch.bfloat16 if where == "cuda" else torch.float32
    torch.manual_seed(0)
    with torch.device(where):
        model, args = _make(name, where, dtype)
    return model.to(dtype).eval(), args


def _make(name: str, where: str, dtype: Any) -> tuple[Any, tuple[Any, ...]]:
    import torch

    if name == "gpt2":
        from transformers import GPT2Config, GPT2Model

        gpt2 = GPT2Config(use_cache=False)
        return GPT2Model(gpt2), (torch.randint(0, gpt2.vocab_size, _TOKENS[where]),)
    if name == "resnet50":
        from transformers import ResNetConfig, ResNetModel

        return ResNetModel(ResNetConfig()), _images(where, dtype)
    if name == "bert":
        from transformers import BertConfig, BertModel

        bert = BertConfig()
        return BertModel(bert), (torch.randint(0, bert.vocab_size, _TOKENS[where]),)
    if name == "vit":
        from transformers import ViTConfig, ViTModel

        return ViTModel(ViTConfig()), _images(where, dtype)
    if name == "llama":
        from transformers import LlamaConfig, LlamaModel

        llama = LlamaConfig(
            hidden_size=2048, intermediate_size=5632, num_hidden_layers=16,
            num_attention_heads=16, num_key_value_heads=4, use_cache=False,
        )  # fmt: skip
        return LlamaModel(llama), (torch.randint(0, llama.vocab_size, (1, 128)),)
    if name == "narrow150":
        layers = [torch.nn.Linear(8, 8) for _ in range(75)]
        return torch.nn.Sequential(*layers), (torch.randn(2, 8, dtype=dtype),)
    raise ValueError(f"no model is called {name!r}")


def _images(where: str, dtype: Any) -> tuple[Any, ...]:
    import torch

    return (torch.randn(_IMAGES[where], 3, 224, 224, dtype=dtype),)


def tensors_of(result: Any) -> list[Any]:
    """Every tensor of a result, in order."""
    import torch

    if isinstance(result, torch.Tensor):
        return [result]
    return [value for value in result.values() if isinstance(value, torch.Tensor)]
