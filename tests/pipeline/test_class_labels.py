"""Class labels with the type of the target column."""

from __future__ import annotations

from typing import Any

import pytest

from gpupipe.model_parts.part_checks import read_goal
from gpupipe.settings import Label
from gpupipe.table.schema import Column
from gpupipe.training.preparation.class_labels import ClassLabels, names_label


@pytest.mark.parametrize(
    ("dtype", "levels", "is_untyped", "labels", "kind"),
    [
        ("bool", ("false", "true"), False, (False, True), ""),
        ("int64", ("1", "11", "21"), False, (1, 11, 21), ""),
        ("int8", ("-1", "1"), False, (-1, 1), "int8"),
        ("uint64", (str(2**63), str(2**63 + 1)), False, (2**63, 2**63 + 1), "uint64"),
        ("decimal128(38, 0)", ("1", "2"), False, (1, 2), "decimal128(38, 0)"),
        ("decimal128(5, 2)", ("1.5", "2"), False, (1.5, 2.0), ""),
        ("decimal128(38, 0)", ("1", str(2**70)), False, ("1", str(2**70)), ""),
        ("double", ("0", "1"), False, (0, 1), ""),
        ("double", ("0.5", "1"), False, (0.5, 1.0), ""),
        ("string", ("1", "11"), False, ("1", "11"), ""),
        ("string", ("1", "11"), True, (1, 11), ""),
        ("string", ("01", "1"), True, ("01", "1"), ""),
        ("string", ("False", "True"), True, (False, True), ""),
        ("string", ("0.5", "1.5"), True, (0.5, 1.5), ""),
        ("string", ("no", "yes"), True, ("no", "yes"), ""),
    ],
)
def test_labels_have_the_type_of_the_column(
    dtype: str, levels: tuple[str, ...], is_untyped: bool, labels: tuple[Any, ...], kind: str
) -> None:
    found = ClassLabels.of_levels(Column("y", "categorical", dtype, levels=levels), is_untyped)
    assert found == ClassLabels(labels, kind)
    assert [type(label) for label in found.labels] == [type(label) for label in labels]
    task = "binary" if len(labels) == 2 else "multiclass"
    manifest = {"task": task, "target": "y", "labels": list(labels), "label_type": kind}
    assert read_goal(manifest).label_type == kind


@pytest.mark.parametrize("label_type", ["int8", "float", "decimal128(2, 0)", "decimal128(99, 0)", 7, "object"])
def test_a_type_that_the_labels_do_not_fit_is_refused(label_type: Any) -> None:
    with pytest.raises(ValueError, match=r"the labels do not have the type|label_type: expected text"):
        read_goal({"task": "binary", "target": "y", "labels": [0, 1000], "label_type": label_type})


@pytest.mark.parametrize(
    ("given", "label", "expected"),
    [
        (True, True, True), (1, True, True), ("1", True, True), ("True", True, True), (0, True, False),
        (True, 1, True), ("1.0", 1, True), ("01", 1, True), (2**63 + 1, 2**63 + 1, True), (2**63, 2**63 + 1, False),
        (True, "yes", True), (False, "yes", False), (1, "1", True), (1.0, "1", True), ("01", "1", False),
        ("yes", "yes", True), ("Yes", "yes", False),
    ],
)  # fmt: skip
def test_a_positive_label_names_a_class_in_any_notation(given: Label, label: Any, expected: bool) -> None:
    assert names_label(given, label) is expected
