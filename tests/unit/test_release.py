"""Releases without a farm: names, choices by target, differences, sources, the local copy."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from compile_farm.errors import CompileFarmError, InvalidReleaseError
from compile_farm.release.check import ReleaseRef, check_release
from compile_farm.release.choose import choose, why_none
from compile_farm.release.difference import release_differences
from compile_farm.release.dispatch import EntryPoint
from compile_farm.release.draft import ReleaseDraft
from compile_farm.release.local import LocalReleases
from compile_farm.release.methods import as_forward, method_of
from compile_farm.release.sources import merged, sources_of, why_stale
from compile_farm.v1 import release_pb2, target_pb2
from tests import captures


def cpu(isa: str, torch_version: str = "2.13.0") -> target_pb2.Target:
    target = captures.target()
    target.cpu.isa = isa
    target.toolchain.torch = torch_version
    return target


def gpu(name: str, arch: str = "sm_90") -> target_pb2.Target:
    target = captures.target()
    target.cuda.arch, target.cuda.device_name = arch, name
    return target


def entry(
    target: target_pb2.Target,
    digest: str = "a",
    signature: str = "s",
    effort: target_pb2.Effort = target_pb2.EFFORT_FAST,
) -> release_pb2.ReleaseEntry:
    made = release_pb2.ReleaseEntry(
        method="forward", key=digest * 64, digest=digest * 64, target=target
    )
    made.options.effort = effort
    made.components.signature = signature
    return made


def release(*entries: release_pb2.ReleaseEntry) -> release_pb2.Release:
    made = release_pb2.Release(schema_version=1, name="net", revision="1", entries=entries)
    made.components.add(type_name="Net")
    return made


@pytest.mark.parametrize(
    ("text", "name", "revision"),
    [
        ("chat-8b@2026-12-01", "chat-8b", "2026-12-01"),
        ("a.b_c", "a.b_c", ""),
        ("a@V1+x", "a", "V1+x"),
    ],
)  # fmt: skip
def test_references(text: str, name: str, revision: str) -> None:
    assert ReleaseRef.parse(text) == (name, revision)
    assert str(ReleaseRef.parse(text)) == text


@pytest.mark.parametrize("text", ["", "@1", "a@", "a@b@c", "A", "a/b", "../a@1", "a@../b", "-a"])
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(InvalidReleaseError):
        ReleaseRef.parse(text)


def test_a_draft_needs_a_revision_and_something_in_it() -> None:
    def never(*given: object) -> None:
        raise AssertionError

    with pytest.raises(InvalidReleaseError, match="no revision"):
        ReleaseDraft(ReleaseRef("net", ""), never, never)  # type: ignore[arg-type]
    with pytest.raises(CompileFarmError, match="is empty"):
        ReleaseDraft(ReleaseRef("net", "1"), never, never).publish()  # type: ignore[arg-type]


def _without_components(made: release_pb2.Release) -> None:
    del made.components[:]


def _twice(made: release_pb2.Release) -> None:
    made.entries.append(made.entries[0])


def _two_of_one_name(made: release_pb2.Release) -> None:
    made.components.add(type_name="Other")


def _no_target(made: release_pb2.Release) -> None:
    made.entries[0].ClearField("target")


def _no_method(made: release_pb2.Release) -> None:
    made.entries[0].method = "a.b"


def _source_without_digest(made: release_pb2.Release) -> None:
    made.components[0].sources.add(module="a", sha256="x")


@pytest.mark.parametrize(
    "break_it",
    [_without_components, _twice, _two_of_one_name, _no_target, _no_method, _source_without_digest],
)
def test_what_is_no_release(break_it: object) -> None:
    made = release(entry(cpu("x86-64-v3")))
    check_release(made)
    break_it(made)  # type: ignore[operator]
    with pytest.raises(InvalidReleaseError):
        check_release(made)


def test_the_hosts_own_target_comes_first_then_the_nearest() -> None:
    entries = [
        entry(cpu("x86-64-v2"), "a"),
        entry(cpu("x86-64-v3"), "b"),
        entry(cpu("x86-64-v4"), "c"),
        entry(cpu("x86-64-v4", "2.12.0"), "d"),
    ]
    (chosen,) = choose(entries, cpu("x86-64-v4"))
    assert (chosen.entry.digest[0], chosen.note) == ("c", "")
    (chosen,) = choose(entries[:2], cpu("x86-64-v4"))
    assert chosen.entry.digest[0] == "b"
    assert "x86-64-v3" in chosen.note
    assert not choose(entries[2:], cpu("x86-64-v3"))
    assert "needs a CPU of level x86-64-v4" in why_none(entries[2:], cpu("x86-64-v3"))
    assert "2.12.0" in why_none(entries[3:], cpu("x86-64-v4"))


def test_another_card_of_the_same_architecture_is_said_to_be_untuned() -> None:
    entries = [entry(gpu("H100"), "a"), entry(gpu("A100", "sm_80"), "b")]
    (chosen,) = choose(entries, gpu("H200"))
    assert chosen.entry.digest[0] == "a"
    assert "not tuned for this card" in chosen.note
    (chosen,) = choose([*entries, entry(gpu("H200"), "c")], gpu("H200"))
    assert (chosen.entry.digest[0], chosen.note) == ("c", "")
    assert not choose(entries[1:], gpu("H200"))
    assert not choose(entries, cpu("x86-64-v4"))


def test_each_signature_has_one_and_of_two_efforts_the_higher() -> None:
    host = cpu("x86-64-v4")
    entries = [
        entry(host, "a", "s"),
        entry(host, "b", "t"),
        entry(host, "c", "s", target_pb2.EFFORT_TUNED),
        entry(cpu("x86-64-v3"), "d", "t", target_pb2.EFFORT_TUNED),
    ]
    chosen = choose(entries, host)
    assert sorted(one.entry.digest[0] for one in chosen) == ["b", "c"]


def test_differences_are_told_in_words() -> None:
    host = cpu("x86-64-v4")
    old = release(entry(host, "a", "s"), entry(host, "b", "t"))
    new = release(entry(host, "c", "s"), entry(host, "d", "u"))
    assert release_differences(old, old) == []
    lines = release_differences(old, new)
    assert [line[0] for line in lines] == ["-", "~", "+"]
    assert "another graph" in lines[1]
    again = release(entry(host, "a", "s"))
    again.entries[0].digest = "e" * 64
    assert "built again" in release_differences(release(entry(host, "a", "s")), again)[0]
    again = release(entry(host, "a", "s"))
    again.components[0].sources.add(module="m", sha256="f" * 64)
    assert release_differences(release(entry(host, "a", "s")), again) == ["+ source: m"]


MODEL = """
from torch import nn
from {helper} import scaled
class Net(nn.Module):
    def forward(self, x):
        return scaled(x) + 1
"""
HELPER = """
def scaled(x):
    return x * 2
"""


def test_sources_are_the_classes_files_and_those_that_made_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from compile_farm.capture.export import capture_export
    from compile_farm.capture.frames import files_called

    (tmp_path / "farm_test_helper.py").write_text(HELPER)
    (tmp_path / "farm_test_model.py").write_text(MODEL.format(helper="farm_test_helper"))
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("farm_test_model", "farm_test_helper")
    try:
        model = importlib.import_module(names[0]).Net()
        example = (torch.ones(2),)
        with files_called() as called:
            capture_export(model, example)
        sources = sources_of(nn.Sequential(model), called)
        assert [source.module for source in sources] == ["farm_test_helper", "farm_test_model"]
        assert why_stale(sources) is None
        # Where it is not imported yet, it is found all the same.
        del sys.modules[names[1]]
        assert why_stale(sources) is None
        (tmp_path / "farm_test_helper.py").write_text(HELPER + "# edited\n")
        assert "farm_test_helper" in (why_stale(sources) or "")
        (tmp_path / "farm_test_helper.py").unlink()
        importlib.invalidate_caches()
        assert "is not on this host" in (why_stale(sources) or "")
    finally:
        for name in names:
            sys.modules.pop(name, None)


def test_sources_of_several_captures_are_one_list() -> None:
    one = release_pb2.Source(module="b", sha256="1" * 64)
    other = release_pb2.Source(module="a", sha256="2" * 64)
    assert merged([[one, other], [one]]) == [other, one]


def test_a_method_stands_in_for_forward_only_meanwhile() -> None:
    class Two(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

        def decode(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    model, x = Two(), torch.zeros(1)
    with as_forward(model, "decode"):
        assert model(x).item() == 1
    assert model(x).item() == 0
    assert "forward" not in vars(model)
    with pytest.raises(CompileFarmError, match="no method 'encode'"), as_forward(model, "encode"):
        pass
    assert method_of(model, "forward") is model


def test_the_local_copy_is_by_revision_and_by_name(tmp_path: Path) -> None:
    local = LocalReleases(tmp_path / "releases")
    signed = release_pb2.SignedRelease(release=b"1")
    assert local.get(ReleaseRef("net", "1")) is None
    local.put(ReleaseRef("net", "1"), signed, current=False)
    assert local.get(ReleaseRef("net", "1")) == signed
    assert local.get(ReleaseRef("net", "")) is None
    local.put(ReleaseRef("net", "2"), signed, current=True)
    assert local.get(ReleaseRef("net", "")) == signed
    (tmp_path / "releases" / "net@1").write_bytes(b"\xff\xff")
    assert local.get(ReleaseRef("net", "1")) is None


def test_an_entry_point_without_artifacts_runs_eager() -> None:
    point = EntryPoint("forward", [], lambda x: x + 1, raises=False)
    assert point(1) == 2
    assert point.fallbacks == 1
