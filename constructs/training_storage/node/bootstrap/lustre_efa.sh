# shellcheck shell=bash
# The FSx EFA client set-up of AWS, before anything loads lustre: its LNet settings must be there first.

EFA_UNIT=configure-efa-fsx-lustre-client.service
EFA_SAMPLES=https://docs.aws.amazon.com/fsx/latest/LustreGuide/samples

# fetch_sample NAME: download and unpack one of AWS's zip files.
fetch_sample() {
  mkdir -p "$TS_OPT"
  fetch "$EFA_SAMPLES/$1.zip" "$TS_OPT/$1.zip" || return 1
  python3 -m zipfile -e "$TS_OPT/$1.zip" "$TS_OPT"
}

# setup_efa_client: returns non-zero where clients would not speak EFA; the caller decides whether that is an end.
setup_efa_client() {
  local options=()
  if systemctl is-enabled --quiet "$EFA_UNIT" 2>/dev/null; then
    log "the FSx EFA client is set up"
    systemctl is-active --quiet "$EFA_UNIT" || systemctl start "$EFA_UNIT"
    return
  fi
  if ! modinfo efa >/dev/null 2>&1; then
    log "the EFA driver is not there: installing it with AWS's installer"
    fetch_sample install-fsx-lustre-client || return 1
    (cd "$TS_OPT/install-fsx-lustre-client" && bash bin/install-fsx-lustre-client.sh --install-lustre --install-efa) ||
      return 1
  fi
  fetch_sample configure-efa-fsx-lustre-client || return 1
  if [[ "${GDS:-}" == yes ]]; then
    options+=(--optimized-for-gds)
  fi
  # On a first boot it can end with an error although its unit runs; the unit is what counts.
  if ! (cd "$TS_OPT/configure-efa-fsx-lustre-client" && bash ./setup.sh "${options[@]}"); then
    log "the FSx EFA client set-up ended with an error; looking at $EFA_UNIT"
  fi
  systemctl is-active --quiet "$EFA_UNIT" || return 1
  systemctl is-enabled --quiet "$EFA_UNIT" 2>/dev/null || systemctl enable --quiet "$EFA_UNIT" # for the next boot
}

# efa_interfaces: EFA interfaces that LNet uses.
efa_interfaces() {
  lnetctl net show 2>/dev/null | grep -c '@efa' || true
}

# efa_messages: messages sent over them so far.
efa_messages() {
  lnetctl net show --net efa -v 2>/dev/null | awk '$1 == "send_count:" { sum += $2 } END { print sum + 0 }'
}
