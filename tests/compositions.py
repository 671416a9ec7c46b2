"""Stores of one and of several tiers, for tests of what stands on them.

In: kinds of tiers, by the marks ``everywhere`` and ``layered``. Out: the fixture ``composition``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compiler_service.storage.artifact_store import ArtifactStore
from compiler_service.storage.open import open_store
from tests.tiers import TierMaker, TierUnderTest

COMPOSITIONS = ["disk", "redis", "s3", "disk+s3", "redis+s3", "s3+redis", "disk+redis+s3"]
SEVERAL = [kinds for kinds in COMPOSITIONS if "+" in kinds]

everywhere = pytest.mark.parametrize("composition", COMPOSITIONS, indirect=True)
layered = pytest.mark.parametrize("composition", SEVERAL, indirect=True)


@dataclass
class Composition:
    """``tiers`` in the order of reading, each of the kind at its place."""

    kinds: list[str]
    tiers: list[TierUnderTest]
    store: ArtifactStore


@pytest.fixture
async def composition(
    request: pytest.FixtureRequest, make_tier: TierMaker, tmp_path: Path
) -> AsyncIterator[Composition]:
    """Of the kinds that the test's mark names."""
    kinds = request.param.split("+")
    tiers = [make_tier(kind) for kind in kinds]
    store = open_store([tier.url for tier in tiers], tmp_path / "data")
    yield Composition(kinds, tiers, store)
    await store.close()
