#!/usr/bin/env python3
"""Talks to a running `tenon serve` with the OpenAI Python client: chat, stream, n = 4, logprobs, embeddings, errors.

usage: python3 tests/serve/openai_client.py [http://127.0.0.1:8080/v1]     (pip install openai; serve with --embeddings)

Prints a line for each check; the exit code is the number of those that failed.
"""
import os
import sys

import openai

BASE = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/v1"
CLIENT = openai.OpenAI(base_url=BASE, api_key=os.environ.get("TENON_API_KEY", "none"), max_retries=0)
MODEL = CLIENT.models.list().data[0].id
ASK = [{"role": "user", "content": "Name three colours."}]
FAILED = []


def check(name, holds, detail=""):
    """One line of the report."""
    print(f"{'ok  ' if holds else 'FAIL'} {name}{'' if holds else ': ' + str(detail)}")
    if not holds:
        FAILED.append(name)


def chat(**more):
    """A short greedy answer, unless told otherwise."""
    return CLIENT.chat.completions.create(**({"model": MODEL, "messages": ASK, "max_tokens": 24, "temperature": 0} | more))


def refusal(kind, **more):
    """The error that a request gets, or None."""
    try:
        chat(**more)
    except kind as error:
        return error
    return None


whole = chat()
text = whole.choices[0].message.content
check("chat", whole.choices[0].message.role == "assistant" and text and whole.usage.completion_tokens > 0, whole)
check("usage adds up", whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens, whole.usage)

chunks = list(chat(stream=True, stream_options={"include_usage": True}))
check("stream begins with the role", chunks[0].choices[0].delta.role == "assistant", chunks[0])
said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
check("stream says the same", said == text, (said, text))
check("stream ends with the usage", not chunks[-1].choices and chunks[-1].usage.total_tokens == whole.usage.total_tokens,
      chunks[-1])
check("one id", len({c.id for c in chunks}) == 1)
check("one finish_reason", sum(bool(c.choices and c.choices[0].finish_reason) for c in chunks) == 1)

four = chat(n=4, temperature=1, seed=5)
check("n = 4", [c.index for c in four.choices] == [0, 1, 2, 3] and len({c.message.content for c in four.choices}) > 1, four)
again = chat(n=4, temperature=1, seed=5)
check("a seed repeats", [c.message.content for c in again.choices] == [c.message.content for c in four.choices])
parts = {}
for chunk in chat(n=4, temperature=1, seed=5, stream=True):
    for c in chunk.choices:
        parts[c.index] = parts.get(c.index, "") + (c.delta.content or "")
check("n = 4 streamed", [parts[i] for i in range(4)] == [c.message.content for c in four.choices], parts)

laws = chat(logprobs=True, top_logprobs=3, max_tokens=5).choices[0].logprobs.content
check("logprobs", len(laws) == 5 and all(len(t.top_logprobs) == 3 and t.logprob <= 0 for t in laws), laws)
check("greedy takes the best", all(t.token == t.top_logprobs[0].token for t in laws), laws)
check("bytes are the tokens'", all(bytes(t.bytes).decode("utf-8", "replace") == t.token for t in laws), laws)

stop = chat(stop=[text[4:9]])
check("stop", stop.choices[0].message.content == text[:4] and stop.choices[0].finish_reason == "stop", stop)

old = CLIENT.completions.create(model=MODEL, prompt=["One, two,", "A, B,"], max_tokens=4, temperature=0, logprobs=2)
check("completions", len(old.choices) == 2 and len(old.choices[1].logprobs.tokens) == 4, old)

vectors = CLIENT.embeddings.create(model=MODEL, input=["a cat", "a kitten", "tax law"]).data
check("embeddings", len(vectors) == 3 and len({len(v.embedding) for v in vectors}) == 1, vectors)
near = [sum(a * b for a, b in zip(vectors[0].embedding, v.embedding)) for v in vectors]
check("embeddings have length 1", abs(near[0] - 1) < 1e-4 and near[1] < 1, near)

error = refusal(openai.BadRequestError, response_format={"type": "json_object"})
check("400 names the field", error is not None and error.param == "response_format", error)
error = refusal(openai.NotFoundError, model="no-such-model")
check("404 for another model", error is not None and error.code == "model_not_found", error)
error = refusal(openai.BadRequestError, messages=[{"role": "user", "content": "word " * 20000}])
check("400 for what is too long", error is not None and error.code == "context_length_exceeded", error)
try:
    openai.OpenAI(base_url=BASE, api_key="wrong", max_retries=0).models.list()
    check("401 for a wrong key", "TENON_API_KEY" not in os.environ)
except openai.AuthenticationError:
    check("401 for a wrong key", True)

print(f"{len(FAILED)} failed")
sys.exit(len(FAILED))
