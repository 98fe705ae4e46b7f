"""Fitted networks that predict with PyTorch or ONNX Runtime."""
