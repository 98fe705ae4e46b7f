"""Files of fitted networks: architecture, weights and ONNX."""
