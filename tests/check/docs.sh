#!/usr/bin/env bash
# docs: every path that a document names exists. A path is a link's target, or a word in backticks or a shell line
# that starts with a folder or file of the tree's root. Paths under build/ and models/ are made by the build and by
# contrib/get-model; a word with <name>, * or {} is a pattern. A plugin's first comment says in a line "Tests" which files
# test it: they exist, and patterns match something.
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
roots='core|include|kernels|plugins|conf|tests|contrib|cmake|docs|\.ci'

# words <file>: "<line>:<word>", the links and then everything else that could be a path.
words()
{
  grep -noE '\]\([^)# ]+' "$1" | sed -E 's/\]\(//'
  awk '/^```/ { code = !code; next }
    { text = $0
      if (!code) { out = ""; while (match(text, /`[^`]+`/)) { out = out " " substr(text, RSTART + 1, RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH) } text = out }
      n = split(text, w, /[ \t,;"'\''()|=]+/)
      for (i = 1; i <= n; i++) if (w[i] != "") print NR ":" w[i] }' "$1" |
    grep -E ":(\\./)?(($roots)(/|\$)|[A-Z]+\\.md\$)"
}

count=0
for doc in *.md contrib/*.md docs/*.md; do
  [ -f "$doc" ] || continue
  while IFS=: read -r line word; do
    case $word in *'<'* | *'*'* | *'{'* | *...* | http* | mailto* | models/* | build/*) continue ;; esac
    count=$((count + 1))
    path=${word#./}
    path=${path%%:*}
    path=${path%.}
    [ -e "$path" ] || [ -e "$(dirname "$doc")/$path" ] || finding "$doc:$line: names '$word', which does not exist"
  done < <(words "$doc")
done
for source in plugins/*/*.c plugins/*/*/*.c; do
  grep -q '^TN_PLUGIN(' "$source" || continue
  named=$(sed '/\*\//q' "$source" | grep -A 3 '^ \* Tests' | grep -oE 'tests/[a-z0-9_/*]+\.c')
  [ -n "$named" ] || finding "$source: its first comment names no file under Tests"
  for word in $named; do # an unmatched pattern stays as it is
    count=$((count + 1))
    [ -e "$word" ] || finding "$source: names '$word' under Tests, which does not exist"
  done
done
finish "$count paths named in documents"
