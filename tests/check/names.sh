#!/usr/bin/env bash
# names: core knows slots, never techniques. No name of a plugin stands in core's code (comments are free), except
#   - a word that is also a plain word (below): it may be an identifier, but not a whole string literal;
#   - what allow/names.txt lists: <file or folder> <word> <reason>, for spellings that a file format prescribes.
# A backend's names count too: which backend runs is the INI's choice.
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
plain=' full none ref cpu cuda global random linear tensor ring pipeline paged contiguous rope chunked continuous knorm '

# listed <file> <word>: in the allow-list, for the file itself or a folder above it.
listed()
{
  local path=$1
  while [ "$path" != . ]; do
    allowed names "$path" "$2" && return 0
    path=$(dirname "$path")
  done
  return 1
}

names=$(for entry in plugins/*/*.c plugins/*/*/; do
  [ -e "$entry" ] && basename "$entry" .c
done | LC_ALL=C sort -u)
[ -n "$names" ] || skip "there is no plugin yet"

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
while IFS= read -r file; do
  mkdir -p "$tmp/$(dirname "$file")"
  strip_comments "$file" >"$tmp/$file"
done < <(sources core '*.[ch]')
[ -d "$tmp/core" ] || skip "there is no core yet"

for name in $names; do
  case $plain in
    *" $name "*) pattern="\"$name\"" ;;
    *) pattern="\\b$name\\b" ;;
  esac
  while IFS=: read -r file line text; do
    listed "$file" "$name" && continue
    finding "$file:$line: names the technique '$name': ${text#"${text%%[! ]*}"}"
  done < <(cd "$tmp" && grep -rnE "$pattern" core)
done
allow_list_has_reasons names 2
finish "$(wc -w <<<"$names") names of plugins against the code of core"
