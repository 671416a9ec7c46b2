"""What importing and loading bring into a process, and what loading needs of its host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from compile_farm.artifact import unpack
from compile_farm.cache import LocalCache
from tests.loadable import PUBLIC_KEY, ROOT, artifact_bytes


def run(code: str, **environment: str) -> str:
    """Runs ``code`` in a fresh interpreter; fails with its output if it does."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"HOME": os.environ.get("HOME", "/"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_the_package_is_light() -> None:
    run(
        "import sys, compile_farm\n"
        "heavy = {'torch', 'grpc', 'google', 'cryptography', 'zstandard', 'compiler_service'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "compile_farm.Farm, compile_farm.Artifact\n"
        "assert 'torch' not in sys.modules and 'grpc' not in sys.modules\n"
    )


def test_every_name_leads_somewhere() -> None:
    run(
        "import compile_farm\n"
        "for name in compile_farm.__all__: assert getattr(compile_farm, name) is not None, name\n"
        "try: compile_farm.nothing\n"
        "except AttributeError as error: assert 'nothing' in str(error)\n"
        "else: raise SystemExit('found nothing')\n"
    )


def test_loading_needs_no_compiler_no_inductor_and_no_network(tmp_path: Path) -> None:
    """A cached artifact, in a process that finds no program and may not import the compiler."""
    unpacked = unpack(artifact_bytes("affine"))
    LocalCache(tmp_path).put(unpacked)
    output = run(
        "import sys, torch\n"
        "class Affine(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.linear = torch.nn.Linear(8, 4)\n"
        "    def forward(self, x, scale=2.0, mode=None):\n"
        "        return torch.relu(self.linear(x)) * scale\n"
        "from compile_farm import Farm\n"
        "before = set(sys.modules)\n"
        f"artifact = Farm('192.0.2.1:1').artifact('{unpacked.manifest.key}')\n"
        "model, x = Affine().eval(), torch.randn(5, 8)\n"
        "run = artifact.bind(model)\n"
        "with torch.no_grad(): assert torch.allclose(run(x), model(x), atol=1e-6)\n"
        "new = {name for name in sys.modules if name not in before}\n"
        "for name in ('torch._inductor', 'torch._dynamo', 'sympy', 'grpc', 'triton'):\n"
        "    assert name not in new, name\n"
        "print('ran')\n",
        PATH="",
        COMPILE_FARM_CACHE=str(tmp_path),
        COMPILE_FARM_TRUSTED_KEYS=PUBLIC_KEY.hex(),
    )
    assert output == "ran\n"
