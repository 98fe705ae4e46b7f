"""Markers of tests that start processes or a cluster, need public tables, or are slow.

`process` and `data` follow from the code and the fixtures of a test, `cluster` from its file. `slow` cannot be derived:
`SLOW` lists the files, folders and tests that ``--fast`` deselects, because they take more than about half a second.
"""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

STARTERS = (subprocess, pty, os.fork)
CLUSTER = (
    "tests/benchmarks/test_cluster.py",
    "tests/cli/test_predict_cluster.py",
    "tests/dask/",
    "tests/pipeline/test_two_workers.py",
)
SLOW = (
    "tests/bench/test_imports.py",
    "tests/bench/test_inputs.py",
    "tests/bench/test_process.py",
    "tests/bench/test_runners.py",
    "tests/benchmarks/",
    "tests/cli/test_bench.py",
    "tests/cli/test_diff.py",
    "tests/cli/test_evaluate.py",
    "tests/cli/test_isolate.py",
    "tests/cli/test_predict_into_table.py",
    "tests/cli/test_run_neural.py",
    "tests/cli/test_runs.py",
    "tests/cli/test_verify.py",
    "tests/configs/",
    "tests/docs/",
    "tests/doctor/test_command.py",
    "tests/doctor/test_cpu.py",
    "tests/doctor/test_imports.py",
    "tests/doctor/test_toolkits.py",
    "tests/inference/evaluation/test_estimates.py",
    "tests/io/chunks/test_parquet_stream.py",
    "tests/io/device/",
    "tests/io/external/",
    "tests/io/test_bad_files.py",
    "tests/io/test_bad_text.py",
    "tests/io/test_isolation.py",
    "tests/kernels/keyed/test_against_pandas.py",
    "tests/kernels/keyed/test_features.py",
    "tests/kernels/keyed/test_leakage.py",
    "tests/kernels/test_machine_code.py",
    "tests/kernels/test_user.py",
    "tests/models/neural/",
    "tests/partitions/test_linear.py",
    "tests/partitions/test_out_of_core.py",
    "tests/partitions/test_out_of_core_run.py",
    "tests/partitions/test_read.py",
    "tests/plan/gpu_choice/test_estimates.py",
    "tests/inference/diff/",
    "tests/inference/onnx/test_models.py",
    "tests/inference/sql/test_instructions.py",
    "tests/inference/sql/test_models.py",
    "tests/inference/test_promotion.py",
    "tests/pipeline/dossier/",
    "tests/pipeline/test_candidate_latency.py",
    "tests/pipeline/test_frames.py",
    "tests/pipeline/test_leaderboard.py",
    "tests/pipeline/test_newcomer.py",
    "tests/pipeline/test_library_warnings.py::test_a_model_that_does_not_converge_is_named_once_in_all_folds",
    "tests/pipeline/test_notebook_display.py",
    "tests/pipeline/test_optional_parts.py",
    "tests/pipeline/test_plan.py",
    "tests/pipeline/test_reason_codes.py",
    "tests/pipeline/test_tuning.py",
    "tests/pipeline/test_untrusted.py",
    "tests/pipeline/test_user_kernels.py",
    "tests/properties/",
    "tests/serve/test_outputs.py",
    "tests/starter/",
    "tests/table/device/",
    "tests/table/test_encode_chunks.py",
    "tests/tensors/test_batches.py",
    "tests/tensors/test_batches_shuffle.py",
    "tests/tensors/test_exchange.py",
    "tests/test_children.py",
    "tests/test_docker.py",
    "tests/test_installs.py",
    "tests/test_messages.py",
    "tests/test_pages.py",
    "tests/test_wide.py",
    "tests/tools/",
    "tests/trackers/",
    "tests/backends/test_cpu.py::test_a_program_writes_the_matrix_and_names_the_interpreter",
    "tests/config/test_redacted_output.py::test_errors_of_threads_and_finalizers_are_redacted",
    "tests/config/test_redaction.py::test_no_text_with_a_value_in_it_keeps_the_value",
    "tests/datasets/test_churn.py::test_a_long_file_is_written_in_several_row_groups",
    "tests/datasets/test_churn.py::test_between_a_quarter_and_a_third_churn_and_models_can_tell_who",
    "tests/features/ops/test_bag_ids.py::test_a_model_without_other_features_of_lists_does_not_need_the_column",
    "tests/features/ops/test_bag_ids.py::test_tensors_number_the_items_of_the_training_rows_and_models_do_not_read_them",
    "tests/features/ops/test_gap.py::test_sums_decays_and_ages_count_from_when_values_are_known",
    "tests/features/ops/test_last_events.py::test_an_order_of_ops_that_needs_a_list_before_it_is_made_is_an_error",
    "tests/features/ops/test_last_events.py::test_events_from_the_cut_off_on_change_nothing",
    "tests/features/ops/test_last_events.py::test_every_road_gives_the_same_features",
    "tests/features/test_transformer.py::test_it_works_in_a_pipeline_and_in_a_grid_search",
    "tests/io/chunks/test_chunk_reader.py::test_every_part_has_whole_rows",
    "tests/io/formats/csv/test_whitespace.py::test_fields_written_with_any_blanks_are_read_back",
    "tests/io/formats/test_jsonl.py::test_a_column_of_mixed_types_is_refused",
    "tests/kernels/test_catalog.py::test_a_kernel_gives_the_same_twice_and_leaves_its_inputs_alone",
    "tests/kernels/test_text.py::test_vectors_are_those_of_scikit_learn",
    "tests/models/fitted/test_batch_sizes.py",
    "tests/models/neural/test_fitted_networks.py::test_a_class_without_training_rows_gets_probability_zero",
    "tests/models/neural/test_fitted_networks.py::test_a_table_without_numbers_or_without_categories_is_predicted_too",
    "tests/models/scikit_learn/test_column_bins.py",
    "tests/models/test_training.py::test_a_model_that_was_saved_and_loaded_predicts_the_same_bits",
    "tests/models/test_training.py::test_the_same_seed_gives_the_same_model_and_the_matrix_is_unchanged",
    "tests/models/test_weights.py::test_weighting_a_class_raises_its_probability",
    "tests/partitions/test_statistics.py::test_every_statistic_matches_one_machine",
    "tests/partitions/test_statistics.py::test_statistics_match_one_machine_for_any_rows_and_partitions",
    "tests/partitions/test_statistics.py::test_statistics_match_one_machine_if_brackets_miss_and_little_is_sent",
    "tests/pipeline/test_api.py::test_a_pipeline_runs_to_the_figures_of_the_command_line",
    "tests/pipeline/test_model_formats.py::test_models_of_earlier_commits_verify_and_give_the_recorded_predictions",
    "tests/pipeline/test_parity.py::test_models_of_every_task_verify",
    "tests/pipeline/test_resume.py::test_folds_and_the_final_training_are_resumed",
    "tests/pipeline/test_resume.py::test_stages_that_depend_on_a_changed_setting_are_recomputed_with_a_note",
    "tests/pipeline/test_run.py::test_a_multiclass_target_has_a_probability_for_each_class",
    "tests/pipeline/test_run.py::test_folds_match_scikit_learn",
    "tests/pipeline/test_run.py::test_the_same_seed_gives_the_same_bytes",
    "tests/pipeline/test_secrets.py::test_no_command_shows_a_secret",
    "tests/pipeline/test_tensors.py::test_tensors_of_pytorch_are_views_that_outlive_the_pipeline",
    "tests/pipeline/test_timeline.py::test_a_training_records_epochs_and_receipts_and_other_stages_do_not",
    "tests/pipeline/test_timeline.py::test_the_peak_of_host_memory_never_falls_and_includes_allocations_of_a_stage",
    "tests/tensors/test_arrow_arrays.py::test_the_tensor_outlives_the_table",
    "tests/tensors/test_batch.py::test_numbers_and_ids_share_the_matrix",
    "tests/training/test_job.py",
    "tests/test_doctests.py::test_the_examples_of_an_optional_library_are_right",
    "tests/test_house.py::test_everything_public_has_a_docstring",
    "tests/test_house.py::test_python_is_started_in_one_place",
    "tests/test_house.py::test_a_module_named_in_a_text_exists",
    "tests/test_units.py::test_a_formatted_size_is_one_that_is_parsed",
    "tests/training/ensemble/test_out_of_fold.py",
    "tests/training/ensemble/test_residuals.py",
)

FOLDERS = tuple(name for name in (*SLOW, *CLUSTER, "tests/gpu/") if name.endswith("/"))
LEFT_OUT = {"slow", "process", "cluster", "data", "gpu"}


def is_left_out(path: Path, root: Path) -> bool:
    """Return whether all tests of a file or a folder are slow or need a cluster."""
    name = path.relative_to(root).as_posix()
    return name in CLUSTER or name in SLOW or f"{name}/".startswith(FOLDERS)


def add_markers(item: pytest.Function, root: Path) -> None:
    """Add the markers of a test."""
    name = f"{item.path.relative_to(root).as_posix()}::{item.originalname}"
    if "data_dir" in item.fixturenames:
        item.add_marker("data")
    if name.startswith(CLUSTER):
        item.add_marker("cluster")
    if name.startswith(SLOW):
        item.add_marker("slow")
    if any(map(_starts_process, _functions(item))):
        item.add_marker("process")


def _functions(item: pytest.Function) -> Iterator[FunctionType]:
    """Return the function of a test and those of its fixtures."""
    yield item.function
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        yield from (d.func for d in definitions if isinstance(d.func, FunctionType))


_known: dict[CodeType, bool] = {}


def _starts_process(function: FunctionType) -> bool:
    """Return whether code of the tests that a function refers to starts a process."""
    code = function.__code__
    if code not in _known:
        _known[code] = False  # for functions that call each other
        _known[code] = any(map(_leads_to_process, _referred(code, function.__globals__)))
    return _known[code]


def _leads_to_process(value: Any) -> bool:
    if isinstance(value, FunctionType):
        return value.__module__.startswith("tests.") and _starts_process(value)
    if isinstance(value, type):
        return value.__module__.startswith("tests.") and any(map(_leads_to_process, vars(value).values()))
    return any(value is starter for starter in STARTERS)


def _referred(code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
    """Return the globals that some code, or a function in it, refers to, and their attributes that it names."""
    for name in code.co_names:
        if name in names:
            yield names[name]
        elif names.get("os") is os and name == "fork":
            yield os.fork
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _referred(constant, names)
