"""The write-up of a run: one self-contained HTML page and its plots.

``settings``  the ``report:`` section;  ``data``  what a page shows;  ``render``  draws it
"""
