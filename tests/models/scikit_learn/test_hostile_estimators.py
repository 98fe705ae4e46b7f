"""Malicious estimators: for any file, the process ends with exit code 5, never by a signal or a hang."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
import xgboost
from sklearn.cluster import KMeans
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from gpupipe.artifact.untrusted.ubjson import UbjsonReader, render
from gpupipe.models.scikit_learn.estimator_checks import check_estimators, prepare_estimators
from gpupipe.models.scikit_learn.skops import read_skops

ROOT = Path(__file__).parents[3]
random = np.random.default_rng(3)
X = random.normal(size=(240, 8)).astype(np.float32)
X[:, 0] = random.integers(0, 9, 240)
y, codes, three = X[:, 1] + X[:, 2] ** 2 + 3 * (X[:, 0] % 3), (X[:, 1] > 0).astype(int), X[:, 0].astype(int) % 3
Document = dict[str, Any]

NUMBER = {"task": "regression", "n_classes": 0, "classes": []}
BINARY = {"task": "binary", "n_classes": 2, "classes": [0, 1]}
THREE = {"task": "multiclass", "n_classes": 3, "classes": [0, 1, 2]}


# --- XGBoost ---------------------------------------------------------------------------------------------------------


def boosted(**params: Any) -> bytes:
    kinds = ["c", *["q"] * 7]
    booster = xgboost.train(
        {"max_depth": 3, "nthread": 1, **params},
        xgboost.DMatrix(X, three if "num_class" in params else y, feature_types=kinds, enable_categorical=True),
        4,
    )
    booster.set_attr(best_iteration="2")
    booster.feature_types = None if params.get("plain") else kinds
    return bytes(booster.save_raw("ubj"))


def trees(document: Document) -> list[Document]:
    booster = document["learner"]["gradient_booster"]
    found: list[Document] = booster.get("gbtree", booster)["model"]["trees"]
    return found


def put(*path: str, value: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        inner = document["learner"]
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value

    return change


def in_trees(name: str, new: Callable[[Any], Any]) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        for tree in trees(document):
            tree[name] = new(tree[name])

    return change


def in_sizes(name: str, text: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        for tree in trees(document):
            tree["tree_param"][name] = text

    return change


def filled(value: float, at: Any = slice(None)) -> Callable[[Any], Any]:
    def new(values: Any) -> Any:
        changed = values.copy()
        changed[at] = value
        return changed

    return new


def one_large_category(document: Document) -> None:
    """Make every split of categories one of a single category that is as large as can be."""
    for tree in trees(document):
        n = len(tree["categories_nodes"])
        tree["categories"] = np.full(n, (1 << 24) - 1, ">i4")
        tree["categories_sizes"] = np.ones(n, ">i8")
        tree["categories_segments"] = np.arange(n).astype(">i8")
    model = document["learner"]["gradient_booster"]["model"]
    model["trees"] = [{**tree, "id": i} for i, tree in enumerate(model["trees"] * 250)]
    n_trees = len(model["trees"])
    model["tree_info"], model["iteration_indptr"] = [0] * n_trees, list(range(n_trees + 1))
    model["gbtree_model_param"]["num_trees"] = str(n_trees)


def chain(document: Document) -> None:
    """Make the first tree one whose left children are leaves: half as deep as it has nodes."""
    n = 20_001
    node = np.arange(n)
    inner = (node % 2 == 0) & (node < n - 1)
    parents = np.where(node % 2, node - 1, node - 2)
    parents[0] = (1 << 31) - 1
    tree = trees(document)[0]
    for name, values in tree.items():
        if getattr(values, "dtype", None) is not None:
            tree[name] = np.zeros(0 if name.startswith("categories") else n, values.dtype)
    tree["left_children"][:] = np.where(inner, node + 1, -1)
    tree["right_children"][:] = np.where(inner, node + 2, -1)
    tree["parents"][:] = parents
    tree["tree_param"]["num_nodes"] = str(n)


def swap_children(document: Document) -> None:
    """Store the right child before the left one, where XGBoost goes to the node after the left one."""
    for tree in trees(document):
        tree["left_children"], tree["right_children"] = tree["right_children"], tree["left_children"]


ATTRIBUTE = ("attributes", "best_iteration")
MODEL = ("gradient_booster", "model")
XGBOOST: dict[str, Callable[[Document], Any]] = {
    **{f"best_iteration {text}": put(*ATTRIBUTE, value=text)
       for text in ("2147483647", "-2147483648", "-5", "4", "4294967299", " 1", "+1", "1e0", "٣", "")},
    **{f"size_leaf_vector {n}": in_sizes("size_leaf_vector", n) for n in ("-1", "-5", "-2147483648", "2", "01")},
    "num_nodes": in_sizes("num_nodes", "7000000"),
    "num_deleted": in_sizes("num_deleted", "1"),
    "num_feature of a tree": in_sizes("num_feature", "1000000"),
    "ids 0": in_trees("id", lambda _: 0),
    "ids out of range": in_trees("id", lambda i: i + 1000),
    "ids text": in_trees("id", str),
    "split_type 1": in_trees("split_type", filled(1)),
    "split_type 0": in_trees("split_type", filled(0)),
    "split_type 9": in_trees("split_type", filled(9)),
    "children swapped": swap_children,
    "parents far": in_trees("parents", filled(1 << 30, slice(1, None))),
    "parents negative": in_trees("parents", filled(-7, slice(1, None))),
    "parents other": in_trees("parents", filled(0, slice(1, None))),
    "default_left": in_trees("default_left", filled(2)),
    "column of a leaf": in_trees("split_indices", filled(1 << 20, -1)),
    "leaf not finite": in_trees("split_conditions", filled(np.nan)),
    "64 bits": in_trees("left_children", lambda values: values.astype(">i8")),
    "list": in_trees("parents", lambda values: values.tolist()),
    "segments overflow": in_trees("categories_segments", filled((1 << 63) - 1)),
    "segments overlap": in_trees("categories_segments", filled(0)),
    "categories memory": one_large_category,
    "deep": chain,
    "unknown field": put(*MODEL, "leaf_weights", value=[1.0]),
    "num_parallel_tree": put(*MODEL, "gbtree_model_param", "num_parallel_tree", value="0"),
    "rounds": put(*MODEL, "iteration_indptr", value=[0, 2, 1, 4]),
    "rounds empty": put(*MODEL, "iteration_indptr", value=[]),
    "groups": put(*MODEL, "tree_info", value=[0, 0, 0, -1]),
    "weight_drop": put(*MODEL, "weight_drop", value=[1.0] * 5),
    "base_score nan": put("learner_model_param", "base_score", value="[nan]"),
    "base_score inf": put("learner_model_param", "base_score", value="[1e39]"),
    "base_scores": put("learner_model_param", "base_score", value="[1,2,3]"),
    "num_feature": put("learner_model_param", "num_feature", value="8.0"),
    "num_class": put("learner_model_param", "num_class", value="-1"),
    "num_target": put("learner_model_param", "num_target", value="1000000"),
    "feature_types": put("feature_types", value=["c"] * 9),
    "objective": put("objective", value={"name": "rank:ndcg"}),
    "objective_parameter": put("objective", "reg_loss_param", value={"scale_pos_weight": "nan"}),
}  # fmt: skip


def crafted_boosters() -> Iterator[tuple[str, Document, bytes]]:
    sound = boosted()
    yield "sound", NUMBER, sound
    for name, change in XGBOOST.items():
        document = UbjsonReader(sound).document()
        change(document)
        yield name, NUMBER, bytes(render(document))
    multi = UbjsonReader(boosted(objective="multi:softprob", num_class=3)).document()
    put("objective", "softmax_multiclass_param", value={"num_class": "1000"})(multi)
    yield "softmax", THREE, bytes(render(multi))
    dart = UbjsonReader(boosted(booster="dart", rate_drop=0.5)).document()
    yield "sound dart", NUMBER, bytes(render(dart))
    put("gradient_booster", "weight_drop", value=[1.0, float("nan"), 1.0, 1.0])(dart)
    yield "dart", NUMBER, bytes(render(dart))


# --- scikit-learn ----------------------------------------------------------------------------------------------------

Schema = Callable[[Document], Any]


def nodes_of(schema: Any, kind: str) -> Iterator[Document]:
    """Yield the nodes of a class, wherever they are."""
    if isinstance(schema, dict):
        if schema.get("__class__") == kind:
            yield schema
        for value in list(schema.values()):
            yield from nodes_of(value, kind)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes_of(value, kind)


def dumped(estimator: Any, change: Schema = lambda schema: None) -> bytes:
    """Return the skops file of an estimator whose schema.json is changed."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(estimator))) as source, zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema).encode()
            archive.writestr(name, content)
    return target.getvalue()


def altered(estimator: Any, **state: Any) -> Any:
    """Return an estimator with other attributes, set as a file sets them."""
    vars(estimator).update(state)
    return estimator


def literal(value: Any) -> Document:
    identity = id(object())
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value),
            "__id__": identity}  # fmt: skip


def in_tree(name: str, value: int) -> Schema:
    def change(schema: Document) -> None:
        for tree in nodes_of(schema, "Tree"):
            tree["content"]["content"][name]["content"] = json.dumps(value)
            tree["content"]["content"][name]["__id__"] += 1

    return change


def argument_of_tree(position: int, value: int) -> Schema:
    def change(schema: Document) -> None:
        for tree in nodes_of(schema, "Tree"):
            tree["__reduce__"]["args"]["content"][position] = literal(value)

    return change


def bit_generator(name: str) -> Schema:
    def change(schema: Document) -> None:
        for node in nodes_of(schema, "Generator"):
            node["content"]["bit_generator"]["content"]["bit_generator"] = literal(name)

    return change


def position(schema: Document) -> None:
    for node in nodes_of(schema, "RandomState"):
        node["content"]["content"]["state"]["content"]["pos"] = literal(1 << 40)


def shared(schema: Document) -> None:
    """Let a list of two lists hold the next one twice, 40 deep: 2 ** 40 lists of a few kilobytes."""
    node = literal(1)
    for depth in range(40):
        again = {**node, "content": []} if depth else node
        node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [node, again],
                "__id__": 10**6 + depth}  # fmt: skip
    schema["content"]["content"]["extra"] = node


def protocol(schema: Document) -> None:
    schema["protocol"] = 1


def knn(**params: Any) -> Any:
    return KNeighborsRegressor(**params).fit(X, y)


def forest() -> Any:
    return RandomForestRegressor(2, max_depth=3, random_state=0).fit(X, y)


def boosting() -> Any:
    return HistGradientBoostingRegressor(max_iter=2, categorical_features=[0]).fit(X, y)


def tree_of(width: int) -> Any:
    return DecisionTreeRegressor(max_depth=4).fit(X[:, :width], y)


def narrow_forest() -> Any:
    """A forest in a pipeline that gives one column, with a tree of eight that another part vouches for."""
    wide, narrow = tree_of(8), forest_of_one()
    narrow.estimators_[0].tree_ = wide.tree_
    union = FeatureUnion([("a", StandardScaler()), ("b", altered(StandardScaler(), vouching=wide))]).fit(X)
    return altered(make_pipeline(StandardScaler(), narrow), steps=[("u", union), ("f", narrow)], n_features_in_=8)


def forest_of_one() -> Any:
    return RandomForestRegressor(1, max_depth=2).fit(X[:, :1], y)


def voting_trees() -> Any:
    voters = VotingRegressor([("a", Ridge())]).fit(X, y)
    return altered(voters, estimators_=[tree_of(8).tree_])


def nested(estimator: Any, **state: Any) -> Any:
    """Return a pipeline whose last step has other attributes."""
    altered(estimator[-1], **state)
    return estimator


def stack(**state: Any) -> Any:
    return altered(StackingRegressor([("a", Ridge())], final_estimator=Ridge(), cv=2).fit(X, y), **state)


def preprocessing() -> Any:
    found = boosting()
    found._preprocessor.transformers_ = found._preprocessor.transformers_[:1]  # one column of eight
    found._preprocessor._transformer_to_input_indices = {"encoder": [0]}
    return found


def clusters(**state: Any) -> Any:
    """A pipeline that ends with clusters, whose `predict` is compiled code."""
    found = make_pipeline(StandardScaler(), KMeans(3, n_init=1)).fit(X)
    return altered(nested(found, **state))


def classes_of_neighbours() -> Any:
    found = KNeighborsClassifier(algorithm="brute").fit(X, codes)
    return altered(found, _y=found._y + 1_000_000)


def polynomials(**state: Any) -> Any:
    found = make_pipeline(PolynomialFeatures(2, interaction_only=True), Ridge()).fit(X, y)
    altered(found[0], **state)
    return found


SKLEARN: dict[str, Callable[[], bytes | tuple[Document, bytes]]] = {
    "rows narrow": lambda: dumped(altered(knn(algorithm="brute"), _fit_X=X[:, :1].copy())),
    "rows fewer": lambda: dumped(altered(knn(algorithm="brute"), n_samples_fit_=10**6)),
    "rows of a tree narrow": lambda: dumped(altered(knn(algorithm="kd_tree"), _fit_X=X[:, :1].copy())),
    "rows not finite": lambda: dumped(altered(knn(algorithm="kd_tree"), _fit_X=np.full_like(X, np.nan))),
    "targets fewer": lambda: dumped(altered(knn(algorithm="brute"), _y=y[:3])),
    "classes out of range": lambda: (BINARY, dumped(classes_of_neighbours())),
    "weights": lambda: dumped(
        altered(knn(algorithm="brute", p=3), effective_metric_params_={"p": 3, "w": np.ones(1)})
    ),
    "leaf_size": lambda: dumped(altered(knn(algorithm="kd_tree"), leaf_size=0)),
    "metric": lambda: dumped(altered(knn(algorithm="brute"), effective_metric_="precomputed")),
    "tree node_count": lambda: dumped(forest(), in_tree("node_count", 10**9)),
    "tree node_count negative": lambda: dumped(forest(), in_tree("node_count", -1)),
    "tree outputs": lambda: dumped(forest(), argument_of_tree(2, 10**6)),
    "tree columns": lambda: dumped(forest(), argument_of_tree(0, 10**6)),
    "tree of another estimator": lambda: dumped(narrow_forest()),
    "tree as an estimator": lambda: dumped(voting_trees()),
    "tree without columns": lambda: dumped(
        nested(make_pipeline(StandardScaler(), tree_of(8)).fit(X, y), n_features_in_=None)
    ),
    "method replaced": lambda: dumped(
        altered(tree_of(8), _validate_X_predict=boosting()._preprocessor.named_transformers_["numerical"].func)
    ),
    "predictors replaced": lambda: dumped(altered(boosting(), predict=boosting()._preprocessor)),
    "category too large": lambda: dumped(altered_thresholds(300.0)),
    "category negative": lambda: dumped(altered_thresholds(-1.0)),
    "prepared rows narrow": lambda: dumped(preprocessing()),
    "in fit": lambda: dumped(altered(boosting(), _in_fit=True)),
    "outputs of boosting": lambda: dumped(altered(boosting(), n_trees_per_iteration_=10**9)),
    "generator": lambda: dumped(boosting(), bit_generator("seed")),
    "generator of another kind": lambda: dumped(boosting(), bit_generator("Philox")),
    "random state": lambda: (
        BINARY,
        dumped(
            DummyClassifier(strategy="stratified", random_state=np.random.RandomState(0)).fit(X, codes), position
        ),
    ),
    "centres": lambda: dumped(clusters(cluster_centers_=np.ones((3, 1)))),
    "degree": lambda: dumped(polynomials(_max_degree=10**9)),
    "columns of polynomials": lambda: dumped(polynomials(_n_out_full=10**9)),
    "stack method": lambda: dumped(stack(stack_method_=["__setstate__"])),
    "kernel": lambda: dumped(altered(KernelRidge().fit(X, y), kernel="precomputed")),
    "function": lambda: dumped(
        nested(make_pipeline(Ridge(), FunctionTransformer()), func=np.ndarray)
    ),
    "exponential": lambda: dumped(Ridge().fit(X, y), shared),
    "protocol": lambda: dumped(Ridge().fit(X, y), protocol),
    "coefficients": lambda: dumped(altered(Ridge().fit(X, y), coef_=np.ones((5, 8)))),
    "raises RuntimeError": lambda: dumped(altered(forest(), verbose="x", n_jobs=0)),
    "endless rows": lambda: endless(),
}  # fmt: skip


def altered_thresholds(category: float) -> Any:
    found = boosting()
    found._bin_mapper.bin_thresholds_[0] = np.array([0.0, category])
    return found


def endless() -> bytes:
    """Return neighbours among 10 ** 11 rows without columns, which take no bytes."""
    target = io.BytesIO()
    found = knn(algorithm="brute")
    found._fit_X = np.full((7, 3), 4.0)
    header = {"descr": "<f4", "fortran_order": False, "shape": (10**11, 0)}
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, header)
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(found))) as source, zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            is_rows = name.endswith(".npy") and np.load(io.BytesIO(content)).shape == (7, 3)
            archive.writestr(name, array.getvalue() if is_rows else content)
    return target.getvalue()


def crafted_estimators() -> Iterator[tuple[str, Document, bytes]]:
    for name, made in SKLEARN.items():
        content = made()
        yield name, *(content if isinstance(content, tuple) else (NUMBER, content))


def without_trees(schema: Document) -> None:
    """Let trees of neighbours hold nothing but damage: no metric, no bounds, no nodes."""
    for kind in ("KDTree", "BallTree"):
        for node in nodes_of(schema, kind):
            node["content"] = literal(None)


def sound_estimators() -> Iterator[tuple[str, Document, bytes]]:
    for algorithm in ("kd_tree", "ball_tree"):
        yield f"sound {algorithm}", NUMBER, dumped(knn(algorithm=algorithm, p=3), without_trees)
    yield "sound forest", BINARY, dumped(altered(RandomForestClassifier(3).fit(X, codes), n_jobs=10**6))
    yield "sound logistic", BINARY, dumped(LogisticRegression().fit(X, codes))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[int, bool, str]]]:
    """Outcome of each case, and the folder of the cases."""
    root = tmp_path_factory.mktemp("cases")
    kinds = {
        "xgboost": ("estimator.ubj", crafted_boosters()),
        "scikit-learn": ("estimator.skops", crafted_estimators()),
        "sound": ("estimator.skops", sound_estimators()),
    }
    for library, (file, cases) in kinds.items():
        for name, said, content in cases:
            folder = root / f"{library}: {name}"
            folder.mkdir()
            (folder / file).write_bytes(content)
            written_by = "scikit-learn" if library == "sound" else library
            description = {"library": written_by, "files": [file], "feature_names": [], **said}
            (folder / "description.json").write_text(json.dumps(description))
            np.save(folder / "X.npy", X)
    command = [sys.executable, "-m", "tests.models.scikit_learn.hostile_worker", str(root)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return root, json.loads(done.stdout)


def test_crafted_files_are_refused(outcomes: tuple[Path, dict[str, tuple[int, bool, str]]]) -> None:
    crafted = {name: outcome for name, outcome in outcomes[1].items() if "sound" not in name}
    assert len(crafted) == len(XGBOOST) + 2 + len(SKLEARN)
    assert {name: outcome for name, outcome in crafted.items() if outcome[0] != 5} == {}


def test_neighbours_are_built_from_their_rows(outcomes: tuple[Path, dict[str, tuple[int, bool, str]]]) -> None:
    root, found = outcomes
    sound = {name: outcome for name, outcome in found.items() if "sound" in name}
    assert {name: outcome for name, outcome in sound.items() if outcome[0] != 0} == {}
    for algorithm in ("kd_tree", "ball_tree"):
        predicted = np.load(root / f"sound: sound {algorithm}" / "found.npy")
        # scikit-learn adds the targets in float32
        np.testing.assert_allclose(predicted, knn(algorithm=algorithm, p=3).predict(X), rtol=1e-6)


def test_threads_and_verbosity_of_a_file_are_reset_on_this_machine() -> None:
    estimator = make_pipeline(StandardScaler(), RandomForestRegressor(2)).fit(X, y)
    loaded = read_skops(dumped(nested(estimator, n_jobs=10**6, verbose=5)), "")
    check_estimators(loaded)
    prepare_estimators(loaded)
    assert (loaded[-1].n_jobs, loaded[-1].verbose) == (os.cpu_count(), 0)
