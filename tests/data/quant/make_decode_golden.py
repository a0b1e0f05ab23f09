#!/usr/bin/env python3
"""Writes decode.golden: blocks of every quantized dtype and their values as PyPI `gguf` decodes them.

usage: make_decode_golden.py [decode.golden]        needs: pip install gguf numpy

The file is a run of records, little-endian: u32 dtype, u32 n (elements), u32 n_bytes, bytes[n_bytes], f32[n].
The integers of a block are random bits; its f16 scales are random too, but finite, with a negative and a subnormal one.
"""
import struct
import sys

import gguf
import numpy as np

# dtype -> (blocks, byte offsets of the f16 fields in a block)
FORMATS = {
    "Q4_0": (4, [0]), "Q4_1": (4, [0, 2]), "Q5_0": (4, [0]), "Q5_1": (4, [0, 2]), "Q8_0": (4, [0]),
    "Q2_K": (2, [80, 82]), "Q3_K": (2, [108]), "Q4_K": (2, [0, 2]), "Q5_K": (2, [0, 2]), "Q6_K": (2, [208]),
    "IQ4_NL": (4, [0]), "IQ4_XS": (2, [0]),
}


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "decode.golden"
    rng = np.random.default_rng(20240501)
    with open(out, "wb") as f:
        for name, (n_blocks, halves) in FORMATS.items():
            dtype = gguf.GGMLQuantizationType[name]
            block, block_bytes = gguf.GGML_QUANT_SIZES[dtype]
            data = rng.integers(0, 256, (n_blocks, block_bytes), dtype=np.uint8)
            for b in range(n_blocks):
                for k, at in enumerate(halves):
                    value = np.float16(rng.normal() * 0.05)
                    if b == 1:
                        value = np.float16(-abs(value)) if k == 0 else np.float16(3e-6)
                    data[b, at:at + 2] = np.frombuffer(value.tobytes(), dtype=np.uint8)
            values = gguf.quants.dequantize(data.reshape(-1), dtype).astype(np.float32).reshape(-1)
            assert values.size == block * n_blocks and np.isfinite(values).all()
            f.write(struct.pack("<III", int(dtype), values.size, data.size) + data.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
