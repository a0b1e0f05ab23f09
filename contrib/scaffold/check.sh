#!/bin/sh
# check: the plugin keeps the contract, is found, and takes its place in a composition.
# TENON names another command than the one in PATH; run after `make` or `cmake --build build`.
set -eu
cd "$(dirname "$0")"
TENON=${TENON:-tenon}
TN_PATH=$PWD/build/lib/tenon${TN_PATH:+:$TN_PATH}
export TN_PATH
"$TENON" plugins check build/lib/tenon/my_slot/my_plugin.so
"$TENON" plugins info my_plugin
"$TENON" compose --no-model --explain my_plugin.ini
