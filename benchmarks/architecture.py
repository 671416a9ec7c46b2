"""A small model of an architecture and the arguments of one call; architectures.py has the list.

In: transformers' model type (or timm's model), a configuration, the kind of arguments. Out: the
model with random weights in eval mode, and its arguments, the same in each process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

VOCABULARY, TOKENS = 500, 16


@dataclass(frozen=True)
class Architecture:
    """One architecture: transformers' model type (or timm's model), and how it is made small."""

    name: str
    family: str
    # Which arguments it takes; see _ARGUMENTS.
    inputs: str
    config: dict[str, Any] = field(default_factory=dict)
    # transformers' automatic class.
    kind: str = "AutoModel"

    def exists(self) -> bool:
        """Whether the installed libraries have it."""
        if self.family == "timm":
            if find_spec("timm") is None:
                return False
            timm = import_module("timm")
            return bool(timm.is_model(self.name))
        import transformers
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        if self.name not in CONFIG_MAPPING:
            return False
        return CONFIG_MAPPING[self.name] in getattr(transformers, self.kind)._model_mapping

    def build(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """(model, args, kwargs): in bfloat16 on the GPU if there is one, else float32; seeded."""
        import torch

        from benchmarks.models import device

        where = device()
        dtype = torch.bfloat16 if where == "cuda" else torch.float32
        torch.manual_seed(0)
        model = self._model(dtype).eval().to(where)
        args, kwargs = _ARGUMENTS[self.inputs](model)

        def place(tensor: Any) -> Any:
            return tensor.to(where, dtype if tensor.is_floating_point() else tensor.dtype)

        return (
            model,
            tuple(place(value) for value in args),
            {name: place(value) for name, value in kwargs.items()},
        )

    def _model(self, dtype: Any) -> Any:
        if self.family == "timm":
            timm = import_module("timm")
            return timm.create_model(self.name, pretrained=False, num_classes=10).to(dtype)
        import transformers

        config = transformers.AutoConfig.for_model(self.name, **self.config)
        return getattr(transformers, self.kind).from_config(config, dtype=dtype)


def _ids(model: Any, rows: int = 2) -> Any:
    import torch

    # Above the special tokens: padding inside would move positions.
    return torch.randint(5, VOCABULARY, (rows, TOKENS))


def _masked(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import torch

    mask = torch.ones(2, TOKENS, dtype=torch.int64)
    mask[1, -4:] = 0
    return (), {"input_ids": _ids(model), "attention_mask": mask}


def _pair(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), {"input_ids": _ids(model), "decoder_input_ids": _ids(model)[:, :8]}


def _image(size: int) -> Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]:
    def arguments(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        import torch

        return (torch.randn(2, 3, size, size),), {}

    return arguments


def _image_and_text(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import torch

    return (), {"input_ids": _ids(model), "pixel_values": torch.randn(2, 3, 32, 32)}


def _floats(name: str, *sizes: int) -> Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]:
    def arguments(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        import torch

        return (), {name: torch.randn(*sizes)}

    return arguments


def _speech_and_text(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import torch

    features = torch.randn(2, model.config.num_mel_bins, 2 * model.config.max_source_positions)
    return (), {"input_features": features, "decoder_input_ids": _ids(model)[:, :8]}


def _frames_and_text(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import torch

    return (), {"input_features": torch.randn(2, 64, 80), "decoder_input_ids": _ids(model)[:, :8]}


_ARGUMENTS: dict[str, Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "tokens": lambda model: ((_ids(model),), {}),
    "masked tokens": _masked,
    "two token sequences": _pair,
    "image 32": _image(32),
    "image 64": _image(64),
    "image 224": _image(224),
    "image and text": _image_and_text,
    "wave": _floats("input_values", 2, 2000),
    "mono": _floats("input_values", 2, 1, 2000),
    "spectrogram": _floats("input_values", 2, 64, 32),
    "features": _floats("input_features", 2, 64, 80),
    "speech and text": _speech_and_text,
    "frames and text": _frames_and_text,
    "video": _floats("pixel_values", 2, 4, 3, 32, 32),
    "series": _floats("past_values", 2, 64, 3),
}
