"""Models from strangers: loaded and used in a child process with limits of time and memory.

``model``  `UntrustedModel`, in the process of the user    ``process``  its child    ``worker``  the module that the
child runs    ``messages``  what the two exchange    ``description``, ``replies``  the content of the child's answers,
checked before it is used    ``limits``  time and memory
"""
