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

first_on_path() { # of names or paths: the path of the first that is a program
  local name
  for name in "$@"; do
    type -P "$name" && return
  done
  return 1
}

major() { # of what --version says: the first number with a dot behind it
  "$1" --version 2>/dev/null | grep -oE '[0-9]+\.' | head -n 1 | tr -d .
}

find_both() {
  browser=$(first_on_path ${CHROMIUM:+"$CHROMIUM"} || true)
  driver=$(first_on_path ${CHROMEDRIVER:+"$CHROMEDRIVER"} || true)
  [[ -z ${CHROMIUM:-} || -n $browser ]] || die "$CHROMIUM is no program; CHROMIUM names a browser"
  [[ -z ${CHROMEDRIVER:-} || -n $driver ]] || die "$CHROMEDRIVER is no program; CHROMEDRIVER names its driver"
  browser=${browser:-$(first_on_path chromium chromium-browser google-chrome google-chrome-stable || true)}
  driver=${driver:-$(first_on_path chromedriver || true)}
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
  if ! install >"$log" 2>&1 && ! { run_as_root apt-get update "${quiet[@]}" && install; } </dev/null >>"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    die "apt-get could not install chromium and chromium-driver; its output is above. Install both another way, or set CHROMIUM and CHROMEDRIVER"
  fi
  rm -f "$log"
}

# Nobody is asked: no terminal to ask on, settings of the machine's own stay, and another apt-get is waited for.
quiet=(-qq -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold)

install() {
  run_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y "${quiet[@]}" --no-install-recommends chromium chromium-driver </dev/null
}

case ${1:-} in
  '' | --find) ;;
  *) die "$1 is no option; there is --find, which installs nothing" ;;
esac
if ! find_both; then
  [[ ${1:-} != --find ]] || die "no Chromium with its driver on PATH; run make browser, or set CHROMIUM and CHROMEDRIVER"
  [[ -z ${CHROMIUM:-} && -z ${CHROMEDRIVER:-} ]] || die "CHROMIUM and CHROMEDRIVER go together, or with the other one on PATH"
  install_packages
  find_both || die "chromium and chromium-driver were installed, and are not on PATH"
fi
for each in "$browser" "$driver"; do
  [[ -n $(major "$each") ]] || die "$each does not say its version"
done
[[ $(major "$browser") == "$(major "$driver")" ]] || die "$browser is of version $(major "$browser") and $driver of $(major "$driver"); take two of one version"
printf '%s\n%s\n' "$browser" "$driver"
