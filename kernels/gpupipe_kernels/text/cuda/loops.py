"""Device loops over texts, with one thread per text."""

from __future__ import annotations

from gpupipe_kernels.device.language import cuda
from gpupipe_kernels.device.parameters import I64, U8
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.text.walks import count_text, hash_text, kind_at

OUT = "float32[:, ::1]"


def _text_kinds(data, classes, out):
    for p in range(cuda.grid(1), data.size, cuda.gridsize(1)):
        out[p] = kind_at(data, classes, p)


def _text_hash(data, offsets, kinds, analyzer, n_min, n_max, signed, value, l2, out):
    for i in range(cuda.grid(1), out.shape[1], cuda.gridsize(1)):
        hash_text(data, kinds, offsets[i], offsets[i + 1], analyzer, n_min, n_max, signed, value, l2, out, i)


def _text_counts(data, offsets, kinds, out):
    for i in range(cuda.grid(1), out.shape[1], cuda.gridsize(1)):
        count_text(data, kinds, offsets[i], offsets[i + 1], out, i)


device_kinds = DeviceLoop(_text_kinds, U8, U8, U8)
device_hash = DeviceLoop(_text_hash, U8, I64, U8, *["int64"] * 6, OUT)
device_count = DeviceLoop(_text_counts, U8, I64, U8, OUT)
