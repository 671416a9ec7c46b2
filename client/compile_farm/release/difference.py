"""What one release has that another has not, in words for people.

In: two Releases. Out: lines, each beginning with "+", "-" or "~" as in a diff.
"""

from __future__ import annotations

from collections.abc import Iterator

from compile_farm.targets import describe
from compile_farm.v1 import release_pb2

_Place = tuple[str, str, str, str, str]


def release_differences(old: release_pb2.Release, new: release_pb2.Release) -> list[str]:
    """From ``old`` to ``new``; empty where they pin the same artifacts, captured from the same."""
    return [*_entries(old, new), *_sources(old, new)]


def _entries(old: release_pb2.Release, new: release_pb2.Release) -> Iterator[str]:
    before, after = ({_place(one): one for one in release.entries} for release in (old, new))
    for place, entry in before.items():
        if place not in after:
            yield f"- {_words(entry)}: {entry.digest[:16]}"
    for place, entry in after.items():
        if place not in before:
            yield f"+ {_words(entry)}: {entry.digest[:16]}"
        elif before[place].digest != entry.digest:
            kind = "built again" if before[place].key == entry.key else "another graph"
            yield (
                f"~ {_words(entry)}: {before[place].digest[:16]} -> {entry.digest[:16]} ({kind})"
            )


def _sources(old: release_pb2.Release, new: release_pb2.Release) -> Iterator[str]:
    before, after = (
        {
            (part.name, source.module): source.sha256
            for part in release.components
            for source in part.sources
        }
        for release in (old, new)
    )
    for place in sorted(before.keys() | after.keys()):
        if before.get(place) == after.get(place):
            continue
        sign = "+" if place not in before else "-" if place not in after else "~"
        part = f" of {place[0]}" if place[0] else ""
        yield f"{sign} source{part}: {place[1]}"


def _place(entry: release_pb2.ReleaseEntry) -> _Place:
    """What an entry is for; the graph may change under it."""
    return (
        entry.component,
        entry.method,
        entry.components.signature + entry.components.calling_convention,
        entry.target.SerializeToString(deterministic=True).hex(),
        entry.options.SerializeToString(deterministic=True).hex(),
    )


def _words(entry: release_pb2.ReleaseEntry) -> str:
    part = f"{entry.component}." if entry.component else ""
    signature = entry.components.signature[:8]
    return f"{part}{entry.method}, signature {signature}, {describe(entry.target)}"
