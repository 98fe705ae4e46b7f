"""text_counts against Python's strings and regular expressions."""

from __future__ import annotations

import re
import string
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.errors import ConfigError
from gpupipe.features import OPS
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.features.ops.text_counts import TextCounts
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare
from tests.examples import examples

BACKEND = choose("cpu")
COUNTS = {
    "characters": len,
    "bytes": lambda text: len(text.encode()),
    "words": lambda text: len(re.findall(r"\w+", text)),
    "lines": lambda text: len(re.findall(r"[^\n]*\n|[^\n]+", text)),
    "letters": lambda text: sum(c.isalpha() for c in text),
    "uppercase": lambda text: sum(c.isupper() for c in text),
    "digits": lambda text: sum(c.isdecimal() for c in text),
    "punctuation": lambda text: sum(c in string.punctuation for c in text),
    "spaces": lambda text: sum(c.isspace() for c in text),
}
ASCII_AND_LETTERS = st.text(st.characters(max_codepoint=127) | st.sampled_from("éÉßЖж漢٣"), max_size=15)


def counted(texts: Any, **settings: Any) -> dict[str, list[float]]:
    """Return the columns that text_counts makes of a column called ``note``."""
    arrow = pa.table({"note": pa.array(texts, pa.string())})
    sources = DerivationSources(
        HistoryRows.of_arrow(encode(arrow, BACKEND, {"note": declare("text")}), arrow, "the table"), {}, BACKEND
    )
    op: Any = OPS.get("text_counts").model_validate({"columns": "note", **settings})
    return {made.name: made.values.tolist() for made in op.derive(sources)}


@examples(100)
@given(st.lists(ASCII_AND_LETTERS, min_size=1, max_size=6))
def test_counts_match_pythons_strings(texts: list[str]) -> None:
    made = counted(texts, counts=list(COUNTS))
    assert made == {f"note_{name}": [count(text) for text in texts] for name, count in COUNTS.items()}


def test_punctuation_of_all_alphabets_and_symbols_count() -> None:
    assert counted(["«Ça va?»", "100 € – “ok”", "a+b=c", "👍"], counts=["punctuation"]) == {
        "note_punctuation": [3, 4, 2, 1]
    }


@examples(50)
@given(st.lists(st.text(st.characters(max_codepoint=127), max_size=10), min_size=1, max_size=6))
def test_a_flag_is_whether_the_pattern_is_found(texts: list[str]) -> None:
    patterns = {"digits_twice": "[0-9]{2}", "shouts": "[A-Z]+!", "starts_with_a": "^(?i)a"}
    made = counted(texts, counts=[], patterns=patterns)
    python = {"digits_twice": "[0-9]{2}", "shouts": "[A-Z]+!", "starts_with_a": "^(?i:a)"}
    assert made == {f"note_{name}": [float(bool(re.search(p, t))) for t in texts] for name, p in python.items()}


def test_a_null_stays_null_and_an_empty_text_counts_nothing() -> None:
    made = counted([None, "", "a"], counts=["characters", "lines"], patterns={"has_a": "a"})
    assert np.isnan([values[0] for values in made.values()]).all()
    assert [values[1:] for values in made.values()] == [[0, 1], [0, 1], [0, 1]]


def test_a_program_counts_in_texts_that_it_has_never_seen() -> None:
    frame = pd.DataFrame({"note": ["one", "two words", None], "n": [1.0, 2, 3]})
    program = gp.FeatureProgram([{"text_counts": {"columns": "note", "counts": ["words"]}}], view="codes").fit(frame)
    made = program.transform(pd.DataFrame({"note": ["of three words", None], "n": [0.0, 0]}))
    column = list(program.get_feature_names_out()).index("note_words")
    np.testing.assert_array_equal(made[:, column], [3, np.nan])


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"patterns": {"open": "("}}, "Invalid regular expression: missing"),
        ({"patterns": {"ahead": "(?=a)"}}, "Invalid regular expression"),
        ({"patterns": {"words": "a"}}, "words is the name of a count"),
        ({"counts": []}, "at least one count or pattern"),
        ({"counts": ["wrods"]}, "'words'"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_a_row_is_read(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextCounts.model_validate({"columns": "note", **settings})


def test_a_numeric_column_is_rejected_with_advice() -> None:
    frame = pd.DataFrame({"n": [1.0, 2.0]})
    with pytest.raises(ConfigError, match=r"(?s)'n' is numeric.*declare it: schema=\{'n': 'text'\}"):
        gp.FeatureProgram([{"text_counts": "n"}]).fit(frame)


def test_flags_stay_0_and_1_where_counts_are_standardized() -> None:
    frame = pd.DataFrame({"note": ["late", "see https://x.org", "ok", None]})
    settings = {"columns": "note", "counts": ["characters"], "patterns": {"has_url": "https?://"}}
    program = gp.FeatureProgram([{"text_counts": settings}], schema={"note": "text"}).set_output(transform="pandas")
    found = program.fit_transform(frame)
    assert found["note_has_url"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert found["note_characters"].std(ddof=0) == pytest.approx(1.0)
