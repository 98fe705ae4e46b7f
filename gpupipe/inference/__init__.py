"""The exported model: loading, predictions of tables and of single rows, explanations, drift and ONNX.

Nothing here needs the training that made the model.
"""
