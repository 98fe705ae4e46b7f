"""Fitted networks, on PyTorch or ONNX Runtime."""
