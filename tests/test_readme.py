"""The training loop of README.md does what its page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
AFTER = """
from sklearn.metrics import roc_auc_score

with torch.inference_mode():
    print(len(batches), roc_auc_score(test.target, net(test.features)[:, 0]))
"""


def test_the_loop_learns_in_ten_lines() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (loop,) = [block for block in blocks if "loss.backward()" in block]
    assert len(loop.partition("\n\n")[2].splitlines()) <= 10  # beside its imports
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    environment = {**os.environ, "PYTHONPATH": path, "ROWS": "10000", "GPUPIPE_FORCE_CPU": "1"}
    command = [sys.executable, "-W", "error", "-c", loop + AFTER]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    n_batches, score = done.stdout.split()
    assert int(n_batches) == 16 and 0.76 < float(score) < 0.87
