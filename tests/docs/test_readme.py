"""Do the commands of the README and of the tour do what they say, one after the other, as a newcomer would type them?"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.served import Served

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"# → (.+)$", re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the HTTP commands need curl, which is not installed")
@pytest.mark.parametrize("page", ["README.md", "docs/tour.md"])
def test_the_commands_do_what_the_page_says(page: str, served: Served, tmp_path: Path) -> None:
    python = shlex.quote(sys.executable)
    programs = f'ortoo() {{ {python} -m ortoo "$@"; }}\npython() {{ {python} "$@"; }}\n'
    env = {name: value for name, value in os.environ.items() if not name.startswith("ORTOO_")}
    env |= {"ORTOO_URL": f"ortoo://{served.tcp}", "HOME": str(tmp_path)}
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(blocks) >= 3
    for block in blocks:
        if "ortoo pipeline" in block:
            continue  # needs Spark: see tests/spark
        script = programs + served.at_home(block)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        rest = done.stdout
        for promise in PROMISE.findall(block):
            _, found, rest = rest.partition(promise.strip())
            assert found, f"{promise!r} is not in {done.stdout!r}"
