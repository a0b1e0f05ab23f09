# shellcheck shell=bash
# Shared by contrib/run-demo, contrib/run-tests and .ci/run: the packages that are needed, and the build.
# Sourced, with the tree's root as the current folder. Quiet when there is nothing to do.

say() { printf '%s\n' "$*"; }

# die <what failed and what to do>
die()
{
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Probe and package, one pair a line: if the probe fails, the package is missing.
# shellcheck disable=SC2034 # used where this file is sourced
packages_build='
command -v cmake                  | cmake
command -v ninja                  | ninja-build
command -v gcc                    | gcc
test -e /usr/include/stdio.h      | libc6-dev
command -v pkg-config             | pkg-config
pkg-config --exists inih          | libinih-dev
pkg-config --exists libpcre2-8    | libpcre2-dev
pkg-config --exists jansson       | libjansson-dev
pkg-config --exists libedit       | libedit-dev
pkg-config --exists libmicrohttpd | libmicrohttpd-dev
pkg-config --exists libcurl       | libcurl4-openssl-dev
pkg-config --exists criterion     | libcriterion-dev
command -v python3                | python3
python3 -m pip --version          | python3-pip
test -e /etc/ssl/certs/ca-certificates.crt | ca-certificates'
# shellcheck disable=SC2016,SC2034
packages_ci='
command -v git                    | git
command -v g++                    | g++
command -v clang                  | clang
command -v clang-format           | clang-format
command -v clang-tidy             | clang-tidy
test -e "$(clang -print-resource-dir)/lib/linux/libclang_rt.fuzzer-$(uname -m).a" | libclang-rt-dev'

# missing_packages <table>: the packages whose probe fails.
missing_packages()
{
  local probe package
  while IFS='|' read -r probe package; do
    [ -n "$package" ] || continue
    eval "$probe" >/dev/null 2>&1 || printf '%s\n' "${package# }"
  done <<<"$1"
}

# as_root <command>...
as_root()
{
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install_packages <table>: installs what is missing, and says what.
install_packages()
{
  local missing log
  missing=$(missing_packages "$1" | sort -u | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null ||
    die "not installed: $missing(names of Debian packages); there is no apt-get here, so install their like by hand"
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
    die "not installed: $missing; run as root: apt-get update && apt-get install -y $missing"
  say "installing packages: $missing"
  log=$(mktemp)
  # shellcheck disable=SC2086 # a list of words
  if ! { as_root apt-get update -q &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing; } \
    >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install: $missing; mend what it says above, then run this again"
  fi
  rm -f "$log"
}

# progress <folder> <log>: says from the third second on that a build is under way and how far it is: a line that is
# overwritten on a terminal, elsewhere a line every ten seconds. Runs beside the build until it is killed.
progress()
{
  local folder=$1 log=$2 second=0 at end='\n'
  [ -t 1 ] && end='\r'
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    second=$((second + 1))
    [ $second -ge 2 ] || continue
    [ -t 1 ] || [ $((second % 10)) = 2 ] || continue
    at=$(grep -oE '^\[[0-9]+/[0-9]+\]' "$log" | tail -n 1) || true
    # shellcheck disable=SC2059 # the line's end is chosen above
    printf "building in %s/ %s, %s s (output in %s)$end" "$folder" "$at" "$second" "$log"
  done
}

# build <preset> <folder> <cmake option>... [-- <target>...]: configures and builds; silent unless that takes
# seconds or fails. The whole output is kept in <folder>.log.
build()
{
  local preset=$1 folder=$2 options=() targets=() log=$2.log watcher status=0
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
  [ $# -gt 0 ] && shift
  [ $# -gt 0 ] && targets=(--target "$@")
  if ! cmake --preset "$preset" "${options[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    die "cmake could not configure $folder/; mend what it says above, or remove $folder/ if it is from another set-up"
  fi
  progress "$folder" "$log" &
  watcher=$!
  cmake --build "$folder" "${targets[@]}" >>"$log" 2>&1 || status=$?
  kill $watcher 2>/dev/null
  wait $watcher 2>/dev/null || true
  [ ! -t 1 ] || printf '\033[K'
  if [ $status != 0 ]; then
    grep -A 15 -E '^FAILED|error:|undefined reference' "$log" | head -n 60 >&2
    die "the build in $folder/ failed; all of its output is in $log"
  fi
}

# build_release [<target>...]: build/, as the demo and the tests use it. Warnings are errors with the compiler that the
# tree is kept clean for; a newer one may warn of more.
build_release()
{
  local werror=OFF
  case $(gcc -dumpfullversion) in 12.*) werror=ON ;; esac
  build default build -DTENON_WERROR=$werror -- "$@"
}

# skip_reasons <folder>: what the last ctest in a build folder skipped, and why.
skip_reasons()
{
  local skips
  skips=$(sed -nE 's/^\[SKIP\] (.*)/\1/p; s/^(skip: .*)/\1/p' "$1/Testing/Temporary/LastTest.log" | sort -u)
  [ -z "$skips" ] || printf 'Skipped, and why:\n%s\n' "$skips"
}
