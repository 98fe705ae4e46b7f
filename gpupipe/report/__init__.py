"""Report of a run: one self-contained HTML page and its plots.

``settings``   the ``report:`` section;  ``data``   contents of a page;  ``render``  writes it
``sentences``  the result in words;      ``gains``  table of gains
``plots``      of predictions;           ``axes``   draws all plots
``environment``, ``theme``, ``text``                  templates, colours, numbers and SVG files of all pages
``template_cache``                                    compiled templates on disk
``search_record``, ``generated_features``             what a run tried
``intervals``, ``slices``                             measured coverage, and metrics of slices
``hardware``, ``hardware_text``                       counters below the timeline
``contributions``                                     contributions of columns, with their section of the page
                                                      (``contribution_section``) and its plots
                                                      (``dependence_plots``); ``example_rows`` in words
"""
