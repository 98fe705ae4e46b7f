"""The notebook of `configs/` runs from top to bottom, and what it shows is what it says."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOK = Path(__file__).parents[2] / "configs" / "pytorch.ipynb"
KERNEL = "python-of-the-tests"


def read() -> NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)


def printed(notebook: NotebookNode) -> str:
    """Return all that the cells of a notebook print or show."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(output.get("text") or output["data"]["text/plain"] for output in outputs)


def figures(text: str) -> list[float]:
    """Return the areas under the curve: of the loop that is written out, and of the network of the YAML."""
    return [float(value) for value in re.findall(r"^AUC .*: (0\.\d+)$", text, re.MULTILINE)]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of this very Python, and of few rows."""
    folder = tmp_path / "kernels" / KERNEL
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    surroundings = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "ROWS": "6000", "GPUPIPE_FORCE_CPU": "1"}
    spec = {"argv": command, "display_name": KERNEL, "language": "python", "env": surroundings}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    return KERNEL


def test_the_notebook_runs_and_both_networks_learn(kernel: str) -> None:
    notebook = read()
    resources = {"metadata": {"path": str(NOTEBOOK.parent)}}
    NotebookClient(notebook, timeout=120, kernel_name=kernel, resources=resources).execute()
    text = printed(notebook)
    assert "the same address: True" in text and "copied: False" in text
    by_hand, of_yaml = figures(text)
    assert 0.72 < by_hand < 0.87 and 0.72 < of_yaml < 0.87  # the best that can be had is about 0.855
    for file in ("architecture.json", "estimator.safetensors", "estimator.onnx"):
        assert file in text


def test_what_is_committed_has_been_run_and_tells_nothing_of_a_machine() -> None:
    notebook = read()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    text = printed(notebook)
    assert not re.search(r"/\w+/|seconds| ms\b|0x|Warning|Error", text)
    assert len(text) < 3000 and all(0.82 < figure < 0.86 for figure in figures(text))
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert not any(cell.metadata for cell in notebook.cells)


def test_the_loop_is_ten_lines() -> None:
    (loop,) = [cell.source for cell in read().cells if "for batch in batches" in cell.source]
    assert len(loop.splitlines()) <= 10
