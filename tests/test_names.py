"""Column names: duplicates, globs and enumerations."""

from fnmatch import fnmatchcase

import pytest

from gpupipe.names import NamePatterns, duplicates, enumerate_names, unmatched

NAMES = ["age", "Age", "usage_day", "usage_[x]", "a*b", "a-b", "x\ny", ""]


@pytest.mark.parametrize(
    "patterns", [[], ["age"], ["usage_*", "?ge"], ["usage_[x]"], ["a*b"], ["x?y", "[!a]ge"], ["["]]
)
def test_patterns_are_exact_names_and_globs_of_fnmatch(patterns):
    expected = [name for name in NAMES if any(name == p or fnmatchcase(name, p) for p in patterns)]
    assert list(filter(NamePatterns(patterns).matches, NAMES)) == expected
    lonely = [p for p in patterns if not any(name == p or fnmatchcase(name, p) for name in NAMES)]
    assert unmatched(patterns, NAMES) == lonely


def test_an_enumeration_is_cut():
    names = [f"c{i}" for i in range(20_000)]
    assert enumerate_names(names, most=3) == "c0, c1, c2 and 19,997 more"
    assert enumerate_names(["a'b"], quoted=True) == '"a\'b"'
    assert duplicates([*names, "c7", "c7", "c3"]) == ["c3", "c7"]
