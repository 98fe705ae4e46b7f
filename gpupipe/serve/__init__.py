"""HTTP server of one model: starlette and uvicorn, with one model in each worker process.

``settings``           `ServeSettings`: address, processes and limits
``supervisor``         worker processes that share a socket; restarts dead ones
``worker``             one process: event loop, signals, reload
``protocol``           HTTP connections with time and header limits
``application``        the ASGI application: guards, errors, metrics, routes
``slot``               the model in use, with its queues
``coalescer``          waiting requests predicted together
``explanation_queue``  waiting requests explained on a separate thread
``explanations``       the strongest columns of each row, as one more output
``drift_recorder``     predicted rows counted between requests
``drift_window``       counts of the last rows, in memory shared by the workers
``served_reference``   the training rows that they are compared with
``served_model``       a scorer with its outputs and documents
``bodies``             request and response bodies of ``/predict``
``inference``          Open Inference Protocol V2
``metrics``            counters in memory shared by the workers
"""
