"""Untrusted models, loaded and used in a child process with limits on time and memory.

``model``        `UntrustedModel`, in the calling process
``process``      requests to the child process, and its errors
``worker``       main module of the child process
``messages``     format of requests and replies
``description``  model metadata sent by the child, checked before use
``explanations`` explanations sent by the child, checked before use
``replies``      predictions, reports and errors sent by the child, checked before use
``limits``       limits on time and memory
"""
