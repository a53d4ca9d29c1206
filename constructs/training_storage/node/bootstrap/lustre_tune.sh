#!/bin/bash
# Client settings of the FSx for Lustre User Guide (performance tips), by vCPUs and memory. Each mount forgets them.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=lib.sh
. "$here/lib.sh"

set_param() {
  lctl set_param "$1" >/dev/null || log "WARNING lctl refused $1"
}

cpus="$(nproc)"
set_param 'osc.*.max_dirty_mb=64'
if [[ "$(memory_mib)" -gt 65536 ]]; then
  set_param 'ldlm.namespaces.*.lru_max_age=600000'
  set_param "ldlm.namespaces.*.lru_size=$((100 * cpus))"
fi
if [[ "$cpus" -gt 64 ]]; then
  set_param 'osc.*OST*.max_rpcs_in_flight=32'
  set_param 'mdc.*.max_rpcs_in_flight=64'
  set_param 'mdc.*.max_mod_rpcs_in_flight=50'
fi
