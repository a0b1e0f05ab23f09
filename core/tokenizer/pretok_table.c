/* pretok_table: the patterns of every pre-tokenizer name that the project knows, as the models' own tokenizer files
 * state them. A name is what tokenizer.ggml.pre says; models that share a pattern have one row each.
 *
 * Written for PCRE2: $ is \z, and runs that a pattern would try again at every position are possessive behind a
 * look-behind, so that no text takes more than a few steps a character. */
#include <string.h>

#include "pretok.h"

#define THREES "\1"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "|\\s+(?!\\S)|\\s+"

/* GPT-2, and the same after cutting out single digits. */
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+" SPACES

/* Llama 3 and its relatives: digits in groups of up to three, or one by one. */
#define WORD "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define PUNCT "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
#define LLAMA3 CONTRACTION WORD "|\\p{N}{1,3}" PUNCT SPACES
#define QWEN2 CONTRACTION WORD "|\\p{N}" PUNCT SPACES

#define BAILING \
  "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]" SPACES

/* GPT-4o and its relatives: words cut where the case changes. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end
#define PUNCT_SLASH "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+"
#define GPT4O CASED(CONTRACTION "?") "|\\p{N}{1,3}" PUNCT_SLASH SPACES

/* DeepSeek V3 and its relatives. */
#define CJK "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define ASCII_PUNCT_WORD "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define MARKED_WORD "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK3 ASCII_PUNCT_WORD MARKED_WORD "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+" SPACES

/* Letters of the scripts with case, as the first DeepSeek models list them. */
#define CASED_LETTERS                                                                                                \
  "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}"   \
  "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}"     \
  "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}"       \
  "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-"        \
  "\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}"         \
  "\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}" \
  "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-"        \
  "\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-"  \
  "\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-" \
  "\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}" \
  "-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"        \
  "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-" \
  "\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"

#define STEPS(...) .step = {__VA_ARGS__}
#define CLEAN .clean_spaces = true

static const tn_pretok table[] = {
    {"default", STEPS("[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"), CLEAN},
    {"gpt-2", STEPS(GPT2), CLEAN},
    {"phi-2", STEPS(GPT2), CLEAN},
    {"jina-es", STEPS(GPT2), CLEAN},
    {"jina-de", STEPS(GPT2), CLEAN},
    {"jina-v2-es", STEPS(GPT2), CLEAN},
    {"jina-v2-de", STEPS(GPT2), CLEAN},
    {"jina-v1-en", STEPS(GPT2), CLEAN},
    {"jina-v2-code", STEPS(GPT2), CLEAN},
    {"roberta-bpe", STEPS(GPT2), CLEAN},
    {"gigachat", STEPS(GPT2), CLEAN},
    {"a.x-4.0", STEPS(GPT2), CLEAN},
    {"mellum", STEPS(GPT2), CLEAN},
    {"modern-bert", STEPS(GPT2), CLEAN},
    {"exaone4", STEPS(GPT2), CLEAN},
    {"mpt", STEPS(GPT2), CLEAN},
    {"olmo", STEPS(GPT2), CLEAN},
    {"jais", STEPS(GPT2), CLEAN},
    {"trillion", STEPS(GPT2)},
    {"granite-docling", STEPS(GPT2)},
    {"starcoder", STEPS("\\p{N}", GPT2), CLEAN},
    {"refact", STEPS("\\p{N}", GPT2), CLEAN},
    {"codeshell", STEPS("\\p{N}", GPT2), CLEAN},
    {"exaone", STEPS("\\p{N}", GPT2), CLEAN},
    {"minerva-7b", STEPS("\\p{N}", GPT2), CLEAN},
    {"mellum2", STEPS("\\p{N}", GPT2), CLEAN},
    {"command-r", STEPS("\\p{N}", GPT2)},
    {"smollm", STEPS("\\p{N}", GPT2)},
    {"falcon", STEPS("[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"), CLEAN},
    {"chameleon",
     STEPS("<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
           "[\\p{P}!-/:-@\\[-`{-~]", (GPT2)),
     .add_bos = true},
    {"llama-bpe", STEPS(LLAMA3), .ignore_merges = true, .add_bos = true, CLEAN},
    {"llama3", STEPS(LLAMA3), .ignore_merges = true, .add_bos = true, CLEAN},
    {"llama-v3", STEPS(LLAMA3), .ignore_merges = true, .add_bos = true, CLEAN},
    {"falcon3", STEPS(LLAMA3), .ignore_merges = true, .add_bos = true, CLEAN},
    {"falcon-h1", STEPS(LLAMA3), .ignore_merges = true, .add_bos = true, CLEAN},
    {"pixtral", STEPS(LLAMA3), .ignore_merges = true, .add_bos = true, CLEAN},
    {"midm-2.0", STEPS(LLAMA3), .ignore_merges = true, .add_bos = true, CLEAN},
    {"lfm2", STEPS(LLAMA3), .ignore_merges = true, .add_bos = true, CLEAN},
    {"jina-v5-nano", STEPS(LLAMA3), .ignore_merges = true, .add_bos = true, CLEAN},
    {"dbrx", STEPS(LLAMA3), CLEAN},
    {"smaug-bpe", STEPS(LLAMA3), CLEAN},
    {"chatglm-bpe", STEPS(LLAMA3), CLEAN},
    {"glm4", STEPS(LLAMA3), .ignore_merges = true, CLEAN},
    {"glm5", STEPS(LLAMA3), .ignore_merges = true, CLEAN},
    {"minicpm5", STEPS("\\p{N}{1,3}", CONTRACTION WORD "|\\p{N}+" PUNCT SPACES), .ignore_merges = true, CLEAN},
    {"qwen2", STEPS(QWEN2)},
    {"deepseek-r1-qwen", STEPS(QWEN2)},
    {"kormo", STEPS(QWEN2)},
    {"f2llmv2", STEPS(QWEN2)},
    {"hunyuan", STEPS(QWEN2)},
    {"solar-open", STEPS(QWEN2)},
    {"grok-2", STEPS(QWEN2)},
    {"megrez", STEPS(QWEN2), CLEAN},
    {"stablelm2", STEPS(QWEN2), CLEAN},
    {"laguna", STEPS("[^\\n]+|[\\n]+", QWEN2)},
    {"ufakzeka", STEPS("[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" PUNCT SPACES)},
    {"qwen35", STEPS(CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                                 "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+" SPACES)},
    {"seed-coder", STEPS(CONTRACTION WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+" SPACES)},
    {"bailingmoe", STEPS(BAILING)},
    {"bailingmoe2", STEPS(BAILING)},
    {"llada-moe", STEPS(BAILING)},
    {"exaone-moe", STEPS(CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}"
                                     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]" SPACES)},
    {"tekken", STEPS(CASED("") "|\\p{N}" PUNCT_SLASH SPACES), .ignore_merges = true, .add_bos = true},
    {"gpt-4o", STEPS(GPT4O)},
    {"llama4", STEPS(GPT4O)},
    {"kanana2", STEPS(GPT4O)},
    {"talkie", STEPS(GPT4O)},
    {"minimax-m2", STEPS(GPT4O)},
    {"granite-embed-multi-97m", STEPS(GPT4O), .ignore_merges = true},
    {"tiny_aya", STEPS(THREES "(?<!\\d)\\d++\\b", GPT4O)},
    {"cohere2moe", STEPS(THREES "(?<!\\d)\\d++\\b", GPT4O)},
    {"superbpe", STEPS("\\p{N}+", THREES "(?<!\\d)\\d++")},
    {"deepseek-llm",
     STEPS("[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
           "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
           "(?<!\\s)\\s++\\z", "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", "\\p{N}+")},
    {"deepseek-coder", STEPS("[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
                             "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", "\\p{N}")},
    {"deepseek-v3", STEPS("\\p{N}{1,3}", CJK, DEEPSEEK3)},
    {"hunyuan-dense", STEPS("\\p{N}{1,3}", CJK, DEEPSEEK3)},
    {"joyai-llm", STEPS("\\p{N}{1,3}", CJK, DEEPSEEK3)},
    {"hy_v4", STEPS("\\p{N}{1,3}", CJK, DEEPSEEK3)},
    {"spark2_5",
     STEPS("\\p{N}{1,3}", CJK, ASCII_PUNCT_WORD MARKED_WORD "| ?[\\p{P}\\p{S}]+|[\\r\\n]" SPACES, "\\p{N}")},
    {"youtu",
     STEPS("[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+"
           "|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}"
           "\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+"
           "|[\\x{3105}-\\x{312F}]+|" CJK,
           CASED(CONTRACTION "?") "|\\p{N}" PUNCT_SLASH SPACES),
     .ignore_merges = true},
    {"bloom", STEPS(BLOOM), CLEAN},
    {"gpt3-finnish", STEPS(BLOOM), CLEAN},
    {"poro-chat", STEPS(BLOOM)},
    {"viking", STEPS(BLOOM, "\\p{N}")},
};

const tn_pretok *tn_pretok_at(size_t i) { return i < TN_ARRAY_LEN(table) ? &table[i] : NULL; }

const tn_pretok *tn_pretok_find(tn_str name, const char **nearest)
{
  const char *names[TN_ARRAY_LEN(table)];
  for (size_t i = 0; i < TN_ARRAY_LEN(table); i++) {
    names[i] = table[i].name;
    if (strlen(names[i]) == name.n && memcmp(names[i], name.p, name.n) == 0) return &table[i];
  }
  char word[64]; /* tn_nearest takes words under 64 bytes */
  size_t n = name.n < sizeof word ? name.n : sizeof word - 1;
  memcpy(word, name.p, n);
  word[n] = '\0';
  *nearest = tn_nearest(word, names, TN_ARRAY_LEN(names));
  return NULL;
}
