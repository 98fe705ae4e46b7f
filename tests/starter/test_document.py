"""YAML with comments, which reads back any names and values unchanged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpupipe.config.scalars import Loader
from gpupipe.starter.document import YamlDocument, flow

TEXTS = st.text(max_size=20).filter(lambda text: "${" not in text)  # which is written as $${


def read(text: str) -> object:
    import yaml

    return yaml.load(text, Loader)


@given(st.one_of(TEXTS, st.integers(), st.booleans(), st.lists(TEXTS), st.dictionaries(TEXTS, TEXTS)))
def test_a_value_is_read_back_as_written(value: object) -> None:
    found = read(f"[{flow(value)}]")
    assert found == [value]


@given(st.lists(TEXTS, min_size=1, max_size=60), TEXTS)
def test_a_long_list_and_any_comment_are_read_back_as_written(values: list[str], comment: str) -> None:
    document = YamlDocument()
    document.line("source:", comment)
    document.list("  names", values, comment)
    document.line("  path: here", comment)
    found = read(document.text())
    assert found == {"source": {"names": values, "path": "here"}}
