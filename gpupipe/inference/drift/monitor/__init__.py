"""Monitor page of a drift report: one self-contained HTML page.

``page``           writes it;             ``sentences``  the verdict and its reasons in words
``distributions``  two samples as bars;   ``charts``     SVG
"""
