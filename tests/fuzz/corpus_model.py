#!/usr/bin/env python3
"""Writes the seeds of fuzz_model: one small model file of each architecture. usage: tests/fuzz/corpus_model.py"""
import struct
from pathlib import Path

D, HEADS, KV, DH, FF, VOCAB = 32, 2, 2, 32, 64, 4
Q8_0, F32 = 8, 0


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def entry(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    return text(key) + struct.pack("<II", 4, value)


def tensors(arch, layers):
    """(name, ne) of every tensor; one dimension: f32, two: q8_0."""
    yield "token_embd.weight", (D, VOCAB)
    yield "output_norm.weight", (D,)
    if arch == "llama":
        yield "rope_freqs.weight", (DH // 2,)
    for i in range(layers):
        shapes = {"attn_norm": (D,), "attn_q": (D, HEADS * DH), "attn_k": (D, KV * DH), "attn_v": (D, KV * DH),
                  "attn_output": (HEADS * DH, D), "ffn_norm": (D,), "ffn_gate": (D, FF), "ffn_up": (D, FF),
                  "ffn_down": (FF, D)}
        if arch in ("qwen3", "gemma3"):
            shapes |= {"attn_q_norm": (DH,), "attn_k_norm": (DH,)}
        if arch == "gemma3":
            shapes |= {"post_attention_norm": (D,), "post_ffw_norm": (D,)}
        for name, ne in shapes.items():
            yield f"blk.{i}.{name}.weight", ne
        if arch == "qwen2":
            for name in ("attn_q", "attn_k", "attn_v"):
                yield f"blk.{i}.{name}.bias", (HEADS * DH,)


def model(arch, layers):
    meta = {"block_count": layers, "context_length": 64, "embedding_length": D, "feed_forward_length": FF,
            "attention.head_count": HEADS, "attention.head_count_kv": KV, "attention.key_length": DH,
            "attention.value_length": DH, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 10000.0,
            "rope.scaling.type": "yarn", "rope.scaling.factor": 2.0}
    if arch == "gemma3":
        meta |= {"attention.sliding_window": 8, "attention.sliding_window_pattern": 2, "final_logit_softcapping": 30.0}
    keys = [entry("general.architecture", arch)] + [entry(f"{arch}.{k}", v) for k, v in meta.items()]
    infos, data = b"", b""
    for name, ne in tensors(arch, layers):
        count = ne[0] * (ne[1] if len(ne) == 2 else 1)
        dtype = Q8_0 if len(ne) == 2 else F32
        infos += text(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, dtype, len(data))
        data += bytes(count // 32 * 34) if dtype == Q8_0 else struct.pack("<f", 1.0) * count
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, sum(1 for _ in tensors(arch, layers)), len(keys)) + b"".join(keys) + infos
    return head + bytes(-len(head) % 32) + data


if __name__ == "__main__":
    folder = Path(__file__).parent / "corpus" / "model"
    folder.mkdir(parents=True, exist_ok=True)
    for arch in ("llama", "qwen2", "qwen3", "gemma3"):
        (folder / arch).write_bytes(model(arch, 2 if arch == "gemma3" else 1))
