# shellcheck shell=bash
# Shared by the house checks. Each check prints one line per finding, "file:line: what is wrong", and exits 1 if there
# was any; 77 means skipped, with the reason printed. Run from anywhere:
#   bash tests/check/size.sh            uses build/ where a check needs the build; TN_BUILD_DIR names another one
set -u
TN_SOURCE_DIR=${TN_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)}
TN_BUILD_DIR=${TN_BUILD_DIR:-$TN_SOURCE_DIR/build}
TN_INSTRUMENTED=${TN_INSTRUMENTED:-0}
ALLOW_DIR=$TN_SOURCE_DIR/tests/check/allow
cd "$TN_SOURCE_DIR" || exit 1
findings=0

# finding <text>: one fault.
finding()
{
  printf '%s\n' "$*"
  findings=$((findings + 1))
}

skip()
{
  printf 'skip: %s\n' "$*"
  exit 77
}

# finish <what was checked>: the exit of every check.
finish()
{
  if [ "$findings" -gt 0 ]; then
    printf '%d findings: %s\n' "$findings" "$*"
    exit 1
  fi
  printf 'ok: %s\n' "$*"
  exit 0
}

# sources <folder> <pattern>...: the files below a folder whose names match, one a line, sorted. Empty for no folder.
sources()
{
  local folder=$1 args=() pattern
  shift
  [ -d "$folder" ] || return 0
  for pattern in "$@"; do args+=(-o -name "$pattern"); done
  find "$folder" -type f \( "${args[@]:1}" \) | LC_ALL=C sort
}

# allowed <list> <key>...: true if a line of allow/<list>.txt starts with exactly these keys. Columns are separated by
# blanks, the last column is the reason, lines that start with # are comments.
allowed()
{
  local list=$ALLOW_DIR/$1.txt
  shift
  [ -f "$list" ] || return 1
  awk -v keys="$*" 'BEGIN { n = split(keys, k, " ") }
    /^#/ || NF == 0 { next }
    { for (i = 1; i <= n; i++) if ($i != k[i]) next; found = 1 }
    END { exit !found }' "$list"
}

# allow_list_has_reasons <list> <number of key columns>: every line of an allow-list says why.
allow_list_has_reasons()
{
  local line
  [ -f "$ALLOW_DIR/$1.txt" ] || return 0
  while IFS= read -r line; do
    finding "tests/check/allow/$1.txt: no reason given: $line"
  done < <(awk -v n="$2" '!/^#/ && NF > 0 && NF < n + 2' "$ALLOW_DIR/$1.txt")
}

# strip_comments <file>: the file without comments, line numbers kept, string literals kept.
strip_comments()
{
  awk '{
    out = ""; n = length($0); i = 1
    while (i <= n) {
      c = substr($0, i, 1); two = substr($0, i, 2)
      if (inside) { if (two == "*/") { inside = 0; i += 2 } else i++; continue }
      if (quote != "") {
        if (c == "\\") { out = out two; i += 2; continue }
        if (c == quote) quote = ""
        out = out c; i++; continue
      }
      if (two == "/*") { inside = 1; i += 2; continue }
      if (two == "//") break
      if (c == "\"" || c == "\047") quote = c
      out = out c; i++
    }
    quote = ""
    print out
  }' "$1"
}
