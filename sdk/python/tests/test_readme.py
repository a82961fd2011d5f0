"""The code of README.md, run from top to bottom."""

from __future__ import annotations

import contextlib
import io
import os
import re
import unittest
from pathlib import Path
from typing import Any, Dict
from unittest import mock

from tests.support import Replica, need_service

README = Path(__file__).resolve().parent.parent / "README.md"

SAID = r"""mine, with token \d+
held by web-3 and waited for by 0
step 0 with 30 seconds left
step 1 with 30 seconds left
step 2 with 30 seconds left
refused: token 7 for 'orders/42' is stale: 8 was accepted
shard 0 token \d+
shard 1 token \d+
shard 2 token \d+
done in time
report held plain
"""


class TestReadme(unittest.TestCase):
    def test_the_code_does_what_it_says(self) -> None:
        need_service()
        # A store of its own, as names are used here that others may use too.
        replica = Replica("--etcd-prefix=/readme/")
        self.addCleanup(replica.kill)
        blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        self.assertGreater(len(blocks), 5)
        said = io.StringIO()
        namespace: Dict[str, Any] = {}
        with mock.patch.dict(os.environ, LATCHKEY_SERVER=replica.url), contextlib.redirect_stdout(said):
            for block in blocks:
                exec(compile(block, "README.md", "exec"), namespace)
        namespace["db"].close()
        namespace["client"].close()
        self.assertRegex(said.getvalue(), f"^{SAID}$")
