"""Bound models against eager: arguments, weights and results, on really compiled artifacts."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from compile_farm.errors import BindError, InputMismatchError
from compile_farm.runtime.bind import BoundModel, bind
from tests.loadable import Affine, Cache, Nested, Opened, Pair, example, opened


@pytest.fixture(scope="session")
def affine(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return opened("affine", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return opened("nested", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return opened("cache", tmp_path_factory.mktemp("cache"))


def bound(artifact: Opened, model: torch.nn.Module) -> BoundModel:
    run = bind(artifact.loaded, model)
    assert isinstance(run, BoundModel)
    return run


def eager(model: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    with torch.no_grad():
        return model(*args, **kwargs)


def test_one_artifact_serves_every_batch_and_other_weights(affine: Opened) -> None:
    for seed in (1, 2):
        model, _, _, _ = example("affine", seed)
        run = bound(affine, model)
        for batch in (1, 2, 5, 64):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(run(x), eager(model, x))
    assert run.key == affine.loaded.manifest.key
    assert run.manifest.signature.inputs[0].name == "linear.weight"


def test_arguments_go_by_position_or_by_name_with_defaults(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    run, expected = bound(affine, model), eager(model, x)
    for call in (
        lambda: run(x),
        lambda: run(x=x),
        lambda: run(x, 2.0),
        lambda: run(x, scale=2.0, mode=None),
        lambda: run(mode=None, x=x),
    ):
        torch.testing.assert_close(call(), expected)


def test_wrong_arguments_are_worded_as_python_words_them(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    run = bound(affine, model)
    for call, words in (
        (lambda: run(), "missing a required argument: 'x'"),
        (lambda: run(x, 2.0, None, 4), "too many positional arguments"),
        (lambda: run(x, x=x), "multiple values for argument 'x'"),
        (lambda: run(x, size=3), "unexpected keyword argument 'size'"),
        (lambda: run(x, 3.0), "'scale' was not given at capture"),
        (lambda: run(x, 2), "'scale' was not given at capture"),  # an int is no float
        (lambda: run(x, mode="fast"), "'mode' was not given at capture"),
        (lambda: run(torch.randn(65, 8)), "'x': size of dimension 0 is 65.*1 to 64"),
        (lambda: run(torch.randn(3, 8).half()), "'x' is torch.float16"),
    ):
        with pytest.raises(InputMismatchError, match=words):
            call()


def nested_call(model: Any, batch: int = 4, flag: Any = True) -> Any:
    generator = torch.Generator().manual_seed(batch)
    x, part, mask = (torch.randn(batch, 8, generator=generator) for _ in range(3))
    row = torch.randn(8, generator=generator)
    return model(x, [part, row], batch={"mask": mask, "flag": flag}), x


def test_results_have_eagers_structure_types_and_aliases(nested: Opened) -> None:
    model, *_ = example("nested")
    run = bound(nested, model)
    for batch in (3, 4, 32):
        result, x = nested_call(run, batch)
        with torch.no_grad():
            expected, _ = nested_call(model, batch)
        assert list(result) == list(expected)
        assert type(result["pair"]) is Pair
        assert type(result["max"]) is torch.return_types.max
        assert type(result["list"]) is list
        assert type(result["list"][1]) is tuple
        assert result["nothing"] is None
        assert result["count"] == 2 * batch
        assert result["same"] is x
        assert result["head"].data_ptr() == x[1:].data_ptr()
        assert result["head"].stride() == expected["head"].stride()
        for mine, theirs in zip(tree_leaves(result), tree_leaves(expected), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_an_alias_of_a_view_starts_where_the_view_does(nested: Opened) -> None:
    model, *_ = example("nested")
    base = torch.randn(10, 8)
    x = base[2:6]
    parts, mask = [torch.randn(4, 8), torch.randn(8)], torch.randn(4, 8)
    result = bound(nested, model)(x, parts, batch={"mask": mask, "flag": True})
    assert torch.equal(result["head"], x[1:, ::2])
    x.fill_(7)
    assert torch.equal(result["head"], torch.full((3, 4), 7.0))


@pytest.mark.parametrize("flag", [1, False, None, torch.tensor(True)])
def test_a_fixed_argument_must_be_what_it_was(nested: Opened, flag: Any) -> None:
    model, *_ = example("nested")
    with pytest.raises(InputMismatchError, match=r"flag.*True at capture and is fixed"):
        nested_call(bound(nested, model), flag=flag)


def test_containers_must_have_their_structure(nested: Opened) -> None:
    model, (x, parts), kwargs, _ = example("nested")
    run = bound(nested, model)
    for call, words in (
        (lambda: run(x, tuple(parts), **kwargs), "'parts' is a tuple of 2, captured was a list"),
        (lambda: run(x, parts[:1], **kwargs), "'parts' is a list of 1"),
        (lambda: run(x, parts, batch={"mask": x}), "'batch' is a dict of 1"),
        (lambda: run(x, parts, batch=None), "'batch' is None"),
        (lambda: run(x, parts), "missing a required.*'batch'"),
        (lambda: run(x, [x, x], **kwargs), r"'parts\[1\]' has 2 dimensions"),
    ):
        with pytest.raises(InputMismatchError, match=words):
            call()


def test_the_same_tensor_may_come_twice_where_nothing_is_written(nested: Opened) -> None:
    model, (x, parts), _, _ = example("nested")
    call: Any = (x, [x, parts[1]])
    kwargs = {"batch": {"mask": x, "flag": True}}
    result = bound(nested, model)(*call, **kwargs)
    torch.testing.assert_close(result["pair"][0], eager(model, *call, **kwargs)["pair"][0])


def test_buffers_and_arguments_are_written_in_place(cache: Opened) -> None:
    model, _, _, _ = example("cache")
    other = copy.deepcopy(model)
    run = bound(cache, model)
    for step in range(3):
        x, position = torch.randn(2, 1, 4), torch.tensor([step])
        state = torch.randn(2, 4)
        expected_state = state.clone()
        torch.testing.assert_close(
            run(x, position, state), eager(other, x, position, expected_state)
        )
        torch.testing.assert_close(state, expected_state)
    torch.testing.assert_close(dict(model.named_buffers()), dict(other.named_buffers()))
    assert model.steps == 3


def test_memory_that_is_written_to_may_not_be_shared(cache: Opened) -> None:
    model, (x, position, state), _, _ = example("cache")
    assert isinstance(model, Cache)
    run = bound(cache, model)
    keys = model.keys.flatten()
    for call in (
        lambda: run(keys[:8].view(2, 1, 4), position, state),
        lambda: run(x, position, keys[4:12].view(2, 4)),
        lambda: run(x, position, model.project.weight.detach()[:2]),
        lambda: run(x, position, x[:, 0]),
    ):
        with pytest.raises(InputMismatchError, match="shares memory"):
            call()
    assert model.steps == 0


def test_a_model_whose_written_buffer_is_shared_is_refused(cache: Opened) -> None:
    model, *_ = example("cache")
    memory = torch.zeros(2 * 16 * 4 + 16)
    model.keys = memory[:128].view(2, 16, 4)
    bound(cache, model)
    assert isinstance(model, Cache)
    model.project.weight.data = memory[120:136].view(4, 4)
    with pytest.raises(BindError, match=r"writes to keys, which shares memory with project.weight"):
        bound(cache, model)


def test_weights_changed_in_place_are_seen(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    run = bound(affine, model)
    run(x)
    other, *_ = example("affine", seed=9)
    model.load_state_dict(other.state_dict())
    torch.testing.assert_close(run(x), eager(other, x))


def test_weights_replaced_are_seen(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    assert isinstance(model, Affine)
    run = bound(affine, model)
    other, *_ = example("affine", seed=9)
    model.load_state_dict(other.state_dict(), assign=True)
    torch.testing.assert_close(run(x), eager(other, x))
    model.linear.weight.data = torch.ones(4, 8)
    torch.testing.assert_close(run(x), eager(model, x))
    model.linear.bias = torch.nn.Parameter(torch.ones(4))
    torch.testing.assert_close(run(x), eager(model, x))


def test_a_replaced_submodule_is_seen(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    run = bound(affine, model)
    model.linear = torch.nn.Linear(8, 4)
    torch.testing.assert_close(run(x), eager(model, x))
    model.linear = torch.nn.Linear(8, 4)
    run.rebind()
    torch.testing.assert_close(run(x), eager(model, x))
    model.linear = torch.nn.Linear(8, 4, bias=False)
    with pytest.raises(BindError, match=r"no weight 'linear\.bias'"):
        run(x)


def test_a_weight_that_the_capture_had_not_is_refused(affine: Opened) -> None:
    """A bias, say: the compiled code adds none."""
    model, _, _, _ = example("affine")
    model.linear.register_buffer("shift", torch.ones(4))
    with pytest.raises(BindError, match=r"the weight 'linear\.shift', which the captured"):
        bound(affine, model)


def test_a_setting_that_changes_stops_the_next_call(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    run = bound(affine, model)
    handle = model.linear.register_forward_hook(lambda module, given, result: result * 2)
    with pytest.raises(InputMismatchError, match="a forward hook was added"):
        run(x)
    with pytest.raises(InputMismatchError, match="a forward hook was added"):
        run.rebind()
    handle.remove()
    torch.testing.assert_close(run(x), eager(model, x))


def test_weights_that_no_longer_fit_stop_the_next_call(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    assert isinstance(model, Affine)
    run = bound(affine, model)
    model.half()
    with pytest.raises(BindError, match=r"linear\.weight is torch\.float16"):
        run(x)
    # Twice converted, the memory may come to lie where it lay before.
    model.bfloat16()
    with pytest.raises(BindError, match=r"linear\.weight is torch\.bfloat16"):
        run(x)
    model.float()
    torch.testing.assert_close(run(x), eager(model, x))
    del model.linear.bias
    with pytest.raises(BindError, match=r"linear\.bias is a NoneType"):
        run(x)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda m: setattr(m, "linear", torch.nn.Linear(9, 4)), "linear.weight has size 9"),
        (lambda m: m.double(), "linear.weight is torch.float64"),
        (lambda m: m.to("meta"), "linear.weight is on meta"),
        (lambda m: setattr(m, "linear", torch.nn.Identity()), "no weight 'linear.weight'"),
        (
            lambda m: setattr(m.linear.weight, "data", torch.zeros(8, 4).T),
            r"linear.weight has strides \(1, 4\)",
        ),
    ],
)
def test_weights_that_do_not_fit_are_named(affine: Opened, spoil: Any, words: str) -> None:
    model, *_ = example("affine")
    spoil(model)
    with pytest.raises(BindError, match=words):
        bound(affine, model)


def test_it_runs_as_inference(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    y = bound(affine, model)(x.requires_grad_())
    assert not y.requires_grad


def test_autocast_at_the_call_is_refused(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    run = bound(affine, model)
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(InputMismatchError, match="autocast is on"),
    ):
        run(x)


def test_several_threads_get_their_own_results(affine: Opened) -> None:
    model, _, _, _ = example("affine")
    run = bound(affine, model)
    wrong: list[int] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(50):
            x = torch.randn(1 + seed, 8, generator=generator)
            if not torch.allclose(run(x), eager(model, x), atol=1e-6):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nothing_of_a_call_is_kept(affine: Opened) -> None:
    model, _, _, _ = example("affine")
    run = bound(affine, model)
    x = torch.randn(2, 8)
    y = run(x)
    seen = [weakref.ref(x), weakref.ref(y)]
    del x, y
    wrong = torch.randn(2, 9)
    seen.append(weakref.ref(wrong))
    with pytest.raises(InputMismatchError):
        run(wrong)
    del wrong
    gc.collect()
    assert [reference() for reference in seen] == [None] * 3


def test_a_model_of_another_signature_says_so(nested: Opened) -> None:
    class Other(Nested):
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return x

    with pytest.raises(BindError, match="is a Other, captured was a Nested"):
        bound(nested, Other().eval())
    Other.__name__ = "Nested"  # another version of the class
    with pytest.raises(InputMismatchError, match=r"unexpected keyword|too many"):
        bound(nested, Other().eval())(torch.zeros(4, 8), [], batch={}, extra=1)


def test_another_mode_is_refused_when_bound_and_when_called(affine: Opened) -> None:
    model, (x,), _, _ = example("affine")
    run = bound(affine, model)
    before = model.training
    model.train(not before)
    with pytest.raises(InputMismatchError, match=r"between train\(\) and eval\(\)"):
        run(x)
    with pytest.raises(BindError, match="mode, captured was"):
        bound(affine, model)
    model.train(before)
    torch.testing.assert_close(run(x), eager(model, x))


def test_two_models_share_one_artifact(affine: Opened, tmp_path: Path) -> None:
    one, (x,), _, _ = example("affine", 1)
    two, *_ = example("affine", 2)
    run_one, run_two = bound(affine, one), bound(affine, two)
    torch.testing.assert_close(run_one(x), eager(one, x))
    torch.testing.assert_close(run_two(x), eager(two, x))
