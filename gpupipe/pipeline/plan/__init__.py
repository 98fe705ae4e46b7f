"""The plan of a run: its stages, their devices and memory, before it runs.

``make``      the plan itself: where each stage works and why, its rows, its memory, its parts
``preview``   what some rows of the table say
``planner``   the story of a run again, with bytes in place of work;  ``refusals``: what a GPU could not do
``ledger``    who holds how much memory at a point
``costs``     what steps take, measured;  ``model_costs``: what each model of the leaderboard takes by them
"""
