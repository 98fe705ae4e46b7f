"""A whole model as one ONNX file: from raw columns by name to predictions.

``export``         the file: refused, built, checked, then written
``refusals``       ops, kernels and estimators that ONNX cannot express
``graph``          nodes and constants
``inputs``         raw columns to the cells of an encoded table
``instructions``   the feature program: one more interpreter of its instructions
``formulas``       logarithms, angles and calendar parts
``estimators``     estimators, by kind
``trees``          binary trees
``oblivious``      CatBoost's trees
``outputs``        calibration, labels and the names of the outputs
``check``          comparison with the model, in ONNX Runtime and in the reference implementation of the format
"""
