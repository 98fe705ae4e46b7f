"""Predictions over HTTP: ``gpupipe serve`` compared with FastAPI, and a soak test.

``servers``         processes of the servers that are compared, pinned to cores
``constant_app``    the application that does no work
``request_bodies``  bodies of the requests
``load``            load generators: wrk and h2load
``soak``            minutes of load with a reload and a killed worker
``client``          its clients, which check every answer
``hostile``         phases of honest load, and of honest and hostile load
``attacks``         its hostile requests
``observation``     memory and connections of its server's processes
"""
