"""A whole model as one ONNX file: from raw columns by name to predictions."""
