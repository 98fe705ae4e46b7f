"""Report of a run: one self-contained HTML page and its plots.

``settings``   the ``report:`` section;  ``data``   contents of a page;  ``render``  writes it
``sentences``  the result in words;      ``gains``  table of gains;      ``plots``   SVG
"""
