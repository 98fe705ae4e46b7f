"""CBPE of NannyML on months of rows: `benchmarks.late_labels` runs it in a separate environment.

python nannyml_cbpe.py OUTPUT.json FILE.parquet ...: each file has the probabilities ``p``, the targets ``y`` and the
month ``seen`` of its rows; the last three months are estimated, and the others are the reference.
"""

from __future__ import annotations

import sys

METRICS = ("roc_auc", "accuracy", "f1")


def main(output: str, files: list[str]) -> None:
    """Write the estimates of all files, with the true values of the metrics."""
    import nannyml
    import pandas as pd
    from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

    records = []
    for path in files:
        frame = pd.read_parquet(path)
        frame["chosen"] = (frame["p"] >= 0.5).astype(int)
        months = frame["seen"].drop_duplicates().sort_values().tolist()
        is_late = frame["seen"].isin(months[-3:])
        estimator = nannyml.CBPE(
            problem_type="classification_binary",
            y_pred_proba="p",
            y_pred="chosen",
            y_true="y",
            metrics=list(METRICS),
            chunk_size=int((frame["seen"] == months[0]).sum()),
        )
        found = estimator.fit(frame[~is_late]).estimate(frame[is_late]).filter(period="analysis").to_df()
        for i, month in enumerate(months[-3:]):
            rows = frame[frame["seen"] == month]
            y, chosen = rows["y"], rows["chosen"]
            real = [roc_auc_score(y, rows["p"]), accuracy_score(y, chosen), f1_score(y, chosen)]
            for name, true in zip(METRICS, real, strict=True):
                own = found[name].iloc[i]
                key = {each: frame[each].iloc[0] for each in ("table", "scenario")} | {
                    "seed": int(frame["seed"].iloc[0])
                }
                ends = {end: float(own[f"{end_name}_confidence_boundary"]) for end, end_name in ENDS.items()}
                own_record = {"tool": "NannyML", "metric": name, "ahead": i + 1, "value": float(own["value"])}
                records.append({**key, **own_record, **ends, "real": float(true)})
    pd.DataFrame(records).to_json(output, orient="records")


ENDS = {"low": "lower", "high": "upper"}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
