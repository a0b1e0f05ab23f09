#!/usr/bin/env python3
"""Writes the golden ids of this folder, with llama.cpp and SentencePiece as the references.

usage: tests/data/tokenizer/make_golden.py <SmolLM2-135M-Instruct GGUF> <Gemma 3 270M GGUF>
needs: pip install llama-cpp-python sentencepiece protobuf gguf numpy

  unigram.gguf     a small unigram vocabulary, trained on tests/data/wikitext-2-valid-60k.txt with SentencePiece's NFKC
  *.golden         flags (1: add BOS and EOS, 2: parse special tokens), text, ids; separated by tabs
  pretok.golden    pre-tokenizer name, text, ids: gpt-2.gguf with that name in tokenizer.ggml.pre
  *.gguf.inp/.out  came with the vocabularies they are named after and are not written here

A text spells a backslash, control characters and every byte over 0x7E as \\xNN, so that no editor can change its
normal form. Texts on which llama.cpp departs from the model's own tokenizer are left out: bytes that are no UTF-8 and,
for Gemma, "</s>", which is plain markup there.
"""
import ctypes
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as model_pb

HERE = Path(__file__).resolve().parent

TEXTS = [
    "", "Hello, world!", " Hello", "Hello ", "  two  spaces   three    four ", "\n", "\n\n", "\n\n\n", "a\n\nb", "\t",
    "\tx\t\ty", "a\r\nb\r\n", " \n \t \n", "\n" * 40, " " * 40 + "forty", "caf\u00e9 na\u00efve \u00c5ngstr\u00f6m",
    "cafe\u0301 nai\u0308ve A\u030angstro\u0308m", "\u1100\u1161\u11a8 \uac01", "\u0301alone",
    "\U0001F469\u200d\U0001F469\u200d\U0001F467\u200d\U0001F466 family", "\U0001F3F3\ufe0f\u200d\U0001F308",
    "\U0001F44D\U0001F3FD ok", "\U0001F999.cpp", "0 12 345 6789 12345678901234567890", "3.14159 1,000,000 1e-9 0x1F",
    "\uff13\uff14 \u0663\u0664 \u00b2\u00b3 \u00bd \u2167", "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4eca\u5929\u3002",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8", "\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05dc\u05d5\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440", "\u00a0nbsp\u2003em\u3000wide", "x\u2028y\u2029z\u0085w",
    "it's we'll they're I'VE DON'T 'tis", "fooBar HTTPServer snake_case_name CONSTANT_NAME", "a/b/c\\d //e",
    "if (x == 1) {\n\treturn y->z;\n}\n", "def f(x):\n    return x ** 2\n", "https://example.com/a?b=c&d=e#f",
    "...!?!? --- *** ((( )))", "\u00abquoted\u00bb \u201ccurly\u201d \u2018single\u2019", "$1 \u20ac2 \u00a33 +4 <=> ^~|`",
    "e\u0301\u0302\u0303x", "\ufb01 \uff21\uff42\uff43", "\u200b\u200czero\ufeff", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
]
SPECIAL = [
    "<s>[INST] hi", "<s>[INST] hi [/INST] there", "<s> hi", "a<s>b <s> c", "<unk>x<unk>", "<|im_start|>user\nHi<|im_end|>\n",
    "<|im_start|>assistant\n", "<|im_end|><|im_end|>", "a <|endoftext|> b", "<|im_en", "< |im_end|>",
    "<start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n", "<bos>x<eos>", "<pad><mask>", "<unused5><unused50>",
    "<unused99999>", "<table><tr><td>a</td></tr></table>", "[multimodal]", "<0x0A>", "<repo_name>x<file_sep>y",
]
PRETOK = [
    "default", "gpt-2", "starcoder", "falcon", "chameleon", "llama-bpe", "minicpm5", "qwen2", "laguna", "ufakzeka",
    "qwen35", "seed-coder", "bailingmoe", "exaone-moe", "tekken", "gpt-4o", "tiny_aya", "superbpe", "deepseek-llm",
    "deepseek-coder", "deepseek-v3", "spark2_5", "youtu", "bloom", "viking",
]
PRETOK_TEXTS = [
    "Hello  world \n\n  it's  I'VE DON'T\t\tx", "123 1234567 1,234.5 a1b22 12a", "fooBar HTTPServer ABCdef __init__",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u30c6\u30b9\u30c8\u3002\ud55c\uad6d\uc5b4", "cafe\u0301 \u0928\u092e\u0938\u094d\u0924\u0947 \u00a0x\u3000y",
    "if (x) {\r\n\t\ty->z; // c\n}\n", "a/b//c\n/\n", "...!? \u201cq\u201d\u2026 $1 +2 `x` ~", "\uff13\uff14\u00b2\u00bd\u2167 \u0663",
    "  \n \t x  ", "\U0001F469\u200d\U0001F467 \U0001F44D", "<sentinel:12> IMGIMGABZ    x", "\u01c5 \u02b0 \ufb01 \u00aa",
]


def spell(text):
    return "".join(chr(b) if 0x20 <= b < 0x7F and b != 0x5C else "\\x%02X" % b for b in text.encode())


class Reference:
    """A vocabulary in llama.cpp."""

    def __init__(self, path):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            sys.exit(f"llama.cpp cannot load {path}")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def ids(self, text, flags):
        raw = text.encode()
        room = 2 * len(raw) + 16
        out = (llama_cpp.llama_token * room)()
        n = llama_cpp.llama_tokenize(self.vocab, raw, len(raw), out, room, bool(flags & 1), bool(flags & 2))
        assert n >= 0
        return list(out[:n])


def sentencepiece_of(path):
    """The vocabulary of a GGUF file as SentencePiece's own model."""
    fields = gguf.GGUFReader(path).fields
    get = lambda key, default=None: fields[key].contents() if key in fields else default
    proto = model_pb.ModelProto()
    for text, kind, score in zip(get("tokenizer.ggml.tokens"), get("tokenizer.ggml.token_type"), get("tokenizer.ggml.scores")):
        piece = proto.pieces.add()
        piece.piece = text.replace(" ", "\u2581") if kind == 4 else text
        piece.score, piece.type = score, kind
    spec = proto.trainer_spec
    spec.model_type, spec.byte_fallback, spec.pad_id = model_pb.TrainerSpec.BPE, True, -1
    for name, key in (("unk", "unknown"), ("bos", "bos"), ("eos", "eos")):
        number = get(f"tokenizer.ggml.{key}_token_id")
        setattr(spec, f"{name}_id", number)
        setattr(spec, f"{name}_piece", proto.pieces[number].piece)
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = get("tokenizer.ggml.add_space_prefix", True)
    proto.normalizer_spec.remove_extra_whitespaces = False
    sp = sentencepiece.SentencePieceProcessor()
    sp.LoadFromSerializedProto(proto.SerializeToString())
    return sp


def write(name, rows):
    lines = ["\t".join([str(key), spell(text), " ".join(map(str, ids))]) for key, text, ids in rows]
    (HERE / f"{name}.golden").write_text("\n".join(lines) + "\n")


def golden(name, path, spm):
    reference = Reference(path)
    sp = sentencepiece_of(path) if spm else None
    rows = []
    for text in TEXTS + SPECIAL:
        for flags in (0, 3):
            ids = reference.ids(text, flags)
            if sp and flags == 0 and sp.EncodeAsIds(text) != ids:
                sys.exit(f"{name}: llama.cpp and SentencePiece differ on {text!r}")
            rows.append((flags, text, ids))
    write(name, rows)


def with_pre(pre, folder):
    """gpt-2.gguf under another pre-tokenizer name."""
    fields = gguf.GGUFReader(HERE / "gpt-2.gguf").fields
    path = Path(folder) / f"{pre}.gguf"
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(fields["tokenizer.ggml.tokens"].contents())
    w.add_token_types(fields["tokenizer.ggml.token_type"].contents())
    w.add_token_merges(fields["tokenizer.ggml.merges"].contents())
    w.add_bos_token_id(50256)
    w.add_eos_token_id(50256)
    w.add_vocab_size(50257)
    for add in (w.add_context_length, w.add_embedding_length, w.add_block_count, w.add_head_count, w.add_feed_forward_length):
        add(8)
    w.add_layer_norm_rms_eps(1e-5)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    return path


def pretok():
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in PRETOK:
            reference = Reference(with_pre(name, folder))
            rows += [(name, text, reference.ids(text, 0)) for text in PRETOK_TEXTS]
    write("pretok", rows)


def unigram():
    with tempfile.TemporaryDirectory() as folder:
        sentencepiece.SentencePieceTrainer.Train(
            input=str(HERE.parent / "wikitext-2-valid-60k.txt"), model_prefix=f"{folder}/u", model_type="unigram",
            vocab_size=1200, character_coverage=1.0, normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1, unk_id=2,
            bos_id=-1, num_threads=1, minloglevel=2)
        sp = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/u.model")
        proto = model_pb.ModelProto.FromString(Path(f"{folder}/u.model").read_bytes())
    w = gguf.GGUFWriter(HERE / "unigram.gguf", "t5")
    w.add_name("unigram")
    w.add_tokenizer_model("t5")
    w.add_tokenizer_pre("default")
    w.add_token_list([p.piece for p in proto.pieces])
    w.add_token_scores([p.score for p in proto.pieces])
    w.add_token_types([p.type for p in proto.pieces])
    w.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    w.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
    w.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    w.add_pad_token_id(0)
    w.add_eos_token_id(1)
    w.add_unk_token_id(2)
    w.add_add_bos_token(False)
    w.add_add_eos_token(True)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    rows = [(0, text, sp.EncodeAsIds(text)) for text in TEXTS]
    rows += [(1, text, sp.EncodeAsIds(text) + [1]) for text in TEXTS[:4]]
    write("unigram", rows)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    unigram()
    golden("smollm2", sys.argv[1], False)
    golden("gemma3", sys.argv[2], True)
    golden("llama-spm", HERE / "llama-spm.gguf", True)
    pretok()
