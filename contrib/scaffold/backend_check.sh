#!/bin/sh
# check: the plugin keeps the contract and is found; then its composition, or what the backend still lacks for one.
# TENON names another command than the one in PATH; run after `make` or `cmake --build build`.
set -eu
cd "$(dirname "$0")"
TENON=${TENON:-tenon}
TN_PATH=$PWD/build/lib/tenon${TN_PATH:+:$TN_PATH}
export TN_PATH
"$TENON" plugins check build/lib/tenon/my_slot/my_plugin.so
"$TENON" plugins info my_plugin
# A backend that runs single operations only provides no tokens yet, so the first part that needs one refuses it.
if why=$("$TENON" compose --no-model --explain my_plugin.ini 2>&1); then
  printf '%s\n' "$why"
else
  case $why in
    *'which my_plugin does not offer'*) printf 'not composed yet: %s\n' "$why" ;;
    *) printf '%s\n' "$why" >&2; exit 1 ;;
  esac
fi
