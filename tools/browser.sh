#!/usr/bin/env bash
# Print the paths of a Chromium and of its driver, one a line, installing Debian's packages where there is none.
#
# CHROMIUM and CHROMEDRIVER name those to take; without them the first of chromium, chromium-browser and google-chrome
# on PATH counts, with the chromedriver there. Both have to be of one major version. Nothing is downloaded but packages
# of the system's own package manager: on another system than Debian and its kin, install both and set the variables.
# With --find nothing is installed.
set -euo pipefail

die() {
  printf 'tools/browser.sh: %s\n' "$1" >&2
  exit 1
}

first_on_path() {
  local name
  for name in "$@"; do
    command -v "$name" && return
  done
  return 1
}

major() { # of what --version says: the first number with a dot behind it
  "$1" --version 2>/dev/null | grep -oE '[0-9]+\.' | head -n 1 | tr -d .
}

find_both() {
  browser=${CHROMIUM:-$(first_on_path chromium chromium-browser google-chrome google-chrome-stable || true)}
  driver=${CHROMEDRIVER:-$(first_on_path chromedriver || true)}
  [[ -n $browser && -n $driver ]]
}

run_as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  else
    sudo -n "$@"
  fi
}

install_packages() {
  command -v apt-get >/dev/null || die "no Chromium with its driver on PATH, and no apt-get; install both, or set CHROMIUM and CHROMEDRIVER"
  if [[ $(id -u) != 0 ]] && ! sudo -n true 2>/dev/null; then
    die "no Chromium with its driver on PATH; install them (apt-get install chromium chromium-driver), or set CHROMIUM and CHROMEDRIVER"
  fi
  printf 'Installing chromium and chromium-driver for the tests of the report ...\n' >&2
  local log
  log=$(mktemp)
  # A fresh machine has no lists, and old lists name packages that are gone: they are read once more before giving up.
  if ! run_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver >"$log" 2>&1; then
    if ! { run_as_root apt-get update -qq && run_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; } >>"$log" 2>&1; then
      cat "$log" >&2
      rm -f "$log"
      die "apt-get could not install chromium and chromium-driver; its output is above"
    fi
  fi
  rm -f "$log"
}

if ! find_both; then
  [[ ${1:-} != --find ]] || die "no Chromium with its driver on PATH; run make browser, or set CHROMIUM and CHROMEDRIVER"
  [[ -z ${CHROMIUM:-} && -z ${CHROMEDRIVER:-} ]] || die "CHROMIUM and CHROMEDRIVER go together, or with the other one on PATH"
  install_packages
  find_both || die "chromium and chromium-driver were installed, and are not on PATH"
fi
for each in "$browser" "$driver"; do
  [[ -x $each ]] || die "$each is no program; CHROMIUM and CHROMEDRIVER name the two"
done
[[ -n $(major "$browser") ]] || die "$browser does not say its version"
[[ $(major "$browser") == "$(major "$driver")" ]] || die "$browser is of version $(major "$browser") and $driver of $(major "$driver"); take two of one version"
printf '%s\n%s\n' "$browser" "$driver"
