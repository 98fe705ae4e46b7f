"""Speed of gpupipe relative to pandas and scikit-learn on the same machine in the same minutes, for CI.

``child``    child process that measures one side of a comparison
``verdict``  the rule that decides whether a ratio is lost, and the file of reference ratios
"""
