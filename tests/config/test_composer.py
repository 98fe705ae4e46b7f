"""Composition of YAML text into a tree with source locations."""

from __future__ import annotations

import pytest

from gpupipe.config.composer import Composer
from gpupipe.config.document import Node, UnreadableDocument


def compose(text: str, **environment: str) -> tuple[Node, list[str]]:
    composer = Composer(environment, problems=[])
    root = composer.file(text, "c.yaml")
    return root, [str(problem) for problem in composer.problems]


def child(node: Node, key: str | int) -> Node:
    return node.value[key]  # type: ignore[index, return-value]


def refusal(text: str) -> str:
    with pytest.raises(UnreadableDocument) as caught:
        Composer({}, problems=[]).file(text, "c.yaml")
    return str(caught.value)


def test_every_value_has_its_line_column_and_path() -> None:
    root, problems = compose("a: 1\nb:\n  - é: [x, y]\n")
    word = child(child(child(child(root, "b"), 0), "é"), 1)
    assert (word.value, word.where, word.path) == ("y", "c.yaml:3:12", "b[0].é[1]")
    assert child(child(root, "b"), 0).where == "c.yaml:3:5"
    assert child(root, "b").key_where == "c.yaml:2:1"
    assert problems == []


def test_keys_are_always_text() -> None:
    assert compose("on: a\n2020: b\ntrue: c\nnull: d\n")[0].plain() == {
        "on": "a",
        "2020": "b",
        "true": "c",
        "null": "d",
    }


def test_a_duplicate_key_is_reported_with_both_locations_and_reading_continues() -> None:
    root, problems = compose("a: 1\nb: {c: 1, c: 2}\na: 3\nd: 4\n")
    assert problems == [
        "c.yaml:2:11: b.c: given twice; first at c.yaml:2:5",
        "c.yaml:3:1: a: given twice; first at c.yaml:1:1",
    ]
    assert child(root, "d").value == 4


def test_a_plain_scalar_is_resolved_after_interpolation_and_a_quoted_one_is_not() -> None:
    root, _ = compose('a: ${ROWS:1000}\nb: "${ROWS:1000}"\nc: ${FLAG}\n', FLAG="false")
    assert root.plain() == {"a": 1000, "b": "1000", "c": False}


def test_every_unset_variable_is_a_problem_with_its_location() -> None:
    _, problems = compose("a: ${X}\nb:\n  - ok\n  - ${Y}/z\n")
    assert [problem.split(": the environment")[0] for problem in problems] == ["c.yaml:1:4: a", "c.yaml:4:5: b[1]"]


def test_anchors_aliases_and_merges_work() -> None:
    root, problems = compose("base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\nlist: [*b, *b]\n")
    assert root.plain()["one"] == {"x": 1, "y": 3}
    assert root.plain()["list"] == [{"x": 1, "y": 2}] * 2
    assert problems == []


def test_the_first_of_several_merged_mappings_wins() -> None:
    root, _ = compose("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc:\n  <<: [*a, *b]\n")
    assert root.plain()["c"] == {"x": 1, "y": 2}


def test_exponentially_expanding_aliases_are_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    assert "check for nested aliases" in refusal("\n".join(levels))


def test_an_alias_inside_itself_is_refused() -> None:
    assert "check for nested aliases" in refusal("a: &a [1, *a]")


def test_a_hundred_thousand_brackets_are_refused() -> None:
    assert refusal("a: " + "[" * 900) == "c.yaml:1:33: more than 30 levels deep"
    # Message of PyYAML 6.0.4, whose scanner looks ahead.
    assert refusal("a: " + "[" * 100_000).endswith(("more than 30 levels deep", "exceeded maximum nesting depth"))


def test_a_second_document_is_refused() -> None:
    assert refusal("a: 1\n---\nb: 2\n") == "c.yaml:2:1: a second YAML document begins here; expected one"


@pytest.mark.parametrize(
    ("text", "kind"), [("", "nothing"), ("# only words\n", "nothing"), ("- a\n", "a list"), ("x", "'x'")]
)
def test_a_file_that_is_not_a_mapping_is_refused(text: str, kind: str) -> None:
    assert refusal(text).endswith(f"expected sections (source: ..., models: ...), got {kind}")


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("a:\n\tb: 1\n", "c.yaml:2:1", "spaces, not tabs"),
        ("a: {b: ${X}}\n", "c.yaml:1:", "quote a value with ${...} inside brackets"),
        ("a: b: c\n", "c.yaml:1:5", "quote text that contains ': '"),
        ("a: [1, 2\nb: 3\n", "c.yaml:2:", "not valid YAML"),
        ('a: "open\n', "c.yaml:", "not valid YAML"),
        (r'a: "\s+"', "c.yaml:1:", "write a backslash twice"),
    ],
)
def test_a_syntax_error_is_one_line_with_its_location_and_a_fix(text: str, place: str, hint: str) -> None:
    message = refusal(text)
    assert message.startswith(place)
    assert hint in message
    assert "\n" not in message


def test_tags_that_make_python_objects_are_refused() -> None:
    _, problems = compose("a: !!python/name:os.system x\nb: !!int five\n")
    assert problems[0].startswith("c.yaml:1:4: a: the tag")
    assert problems[1].startswith("c.yaml:2:4: b: ")


def test_a_tag_may_turn_a_number_into_text() -> None:
    assert compose("a: !!str 12\n")[0].plain() == {"a": "12"}


def test_a_control_character_does_not_crash_the_parser() -> None:
    assert refusal("a: \x00\n").startswith("c.yaml")
