#!/bin/sh
# check: the plugin keeps the contract, is found, and takes its place in a composition.
# TENON names another command than the one in PATH; run after `make` or `cmake --build build`.
set -eu
cd "$(dirname "$0")"
TENON=${TENON:-tenon}
TN_PATH=$PWD/build/lib/tenon${TN_PATH:+:$TN_PATH}
export TN_PATH
"$TENON" plugins check build/lib/tenon/eviction/recency.so
"$TENON" plugins info recency
"$TENON" compose --no-model --explain recency.ini
