"""Malicious configurations: each is an error with its location, found quickly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpupipe.config import load_config
from gpupipe.errors import ConfigError

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
TEXTS = {
    "laughs": (LAUGHS, "nested aliases"),
    "itself": ("a: &a [*a]\n", "nested aliases"),
    "brackets": ("a: " + "[" * 900_000, "levels deep|nesting depth"),
    "blocks": ("\n".join(f"{' ' * i}a:" for i in range(100)), "levels deep"),
    "large": ("#" * 10_000_000, "characters"),
    "object": ("name: !!python/object/apply:os.system ['touch pwned']\n", "python"),
    "tag": ("name: !evil x\n", "tag"),
    "twice": ("name: a\nname: b\n", "given twice"),
    "documents": ("name: a\n---\nname: b\n", "second YAML document"),
    "nul": ("name: a\0b\n", "YAML"),
    "merge": ("<<: 3\n", "expected a mapping to merge"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_malicious_text_is_an_error(name: str, tmp_path: Path) -> None:
    text, message = TEXTS[name]
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert len(str(caught.value)) < 4000
    assert not (tmp_path / "pwned").exists()


def test_bytes_that_are_not_text_and_an_endless_file_are_errors(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"name: \xff\xfe\n")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        load_config(tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match=r"characters|YAML"):
        load_config(Path("/dev/zero"))


def test_a_variable_is_one_value_for_any_content(problems: Callable[..., Sequence[str]]) -> None:
    (found,) = problems("name: [${X}]\n", X="a]\nsource: {generate: evil}\n#")
    assert "evil" not in found
