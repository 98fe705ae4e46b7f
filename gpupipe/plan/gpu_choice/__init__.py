"""Estimates of a run on known GPUs, for `gpupipe gpus`.

``gpu_specs``     data sheet figures of known GPUs, in ``gpu_specs.json`` with date and sources
``work``          bytes and operations of each algorithm;  ``work_steps`` those of each stage of a run
``roofline``      seconds from work, peaks and efficiencies;  ``cpu_peaks`` peaks of this machine, measured
``cpu_rates``     efficiencies measured on a CPU;  ``gpu_rates`` assumed ranges for GPUs, each with its basis
``stage_times``   seconds of each stage, as ranges;  ``prices`` the file of --prices
``estimates``     memory, time, energy, cost and break-even of a configuration on each GPU
"""
