"""Plan of a run: its stages with devices and memory, before it runs.

``run_plan``     the plan: device with reason, rows, memory and parts of each stage
``sampling``     sample of the tables;  ``preview`` sizes, features and goal estimated from it
``planner``      the steps of a run, with bytes instead of work;  ``out_of_core`` the same with partitions on disk
``costs``        measured memory costs of steps;  ``model_costs`` memory costs of a model
"""
