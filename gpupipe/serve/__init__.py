"""HTTP server of one model: starlette and uvicorn, with one model in each worker process.

``settings``           `ServeSettings`: address, processes and limits
``server``             `serve_model`: binds the address, then serves in this process or in several
``supervisor``         worker processes that share a socket; restarts dead ones
``worker``             one process: event loop, signals and reload of the model; ``child`` is its main module
``time_limit``         time limit of operations with an untrusted model
``protocol``           HTTP connections with time and header limits, and checks of the heads of requests
``application``        the ASGI application: guards, bodies, errors (``problems``), metrics, routes
``documents``          its other routes: ``openapi`` with ``body_schemas``, ``model_schema``, ``drift_document``, and
                       the start page
``slot``               the model in use, with its queues; a separate thread explains rows
``coalescer``          waiting requests predicted together
``explanations``       the strongest columns of each row, as one more output
``drift_recorder``     predicted rows counted between requests
``drift_window``       counts of the last rows, in memory shared by the workers
``served_reference``   the training rows that they are compared with
``served_model``       a scorer with its outputs and documents
``bodies``             request and response bodies of ``/predict``; ``arrow_bodies``: as Arrow streams
``request_rows``       rows of requests and the explanations of their answers
``inference``          Open Inference Protocol V2
``metrics``            counters in memory shared by the workers
"""
