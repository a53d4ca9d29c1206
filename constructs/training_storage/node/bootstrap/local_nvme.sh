# shellcheck shell=bash
# Local NVMe: where an image has set it up. Disks are never formatted here.

LOCAL_NVME=""
NVME_UNIT=dlami-nvme.service

# local_nvme_is_settled: whether the unit that joins the disks has nothing more to do.
local_nvme_is_settled() {
  local job
  job="$(systemctl show --property=Job --value "$NVME_UNIT" 2>/dev/null || true)"
  [[ -z "$job" || "$job" == 0 ]]
}

find_local_nvme() {
  local disks
  # cloud-init does not wait for it, and a launch may come here first.
  retry 8 local_nvme_is_settled || log "WARNING $NVME_UNIT is not done yet"
  if mountpoint -q "$TS_ROOT/opt/dlami/nvme"; then
    LOCAL_NVME=/opt/dlami/nvme
    status local_nvme "$LOCAL_NVME"
    return 0
  fi
  status local_nvme none
  disks="$(lsblk -dno MODEL 2>/dev/null | grep -c 'Instance Storage' || true)"
  if [[ "${disks:-0}" -gt 0 ]]; then
    status local_nvme "not set up"
    log "WARNING $disks instance-store disks are not set up on /opt/dlami/nvme; Deep Learning images do that at boot," \
      "and this bootstrap formats no disk"
  fi
}

# local_nvme_mib: size of the file system on the local disks, MiB.
local_nvme_mib() {
  df --output=size -m "$TS_ROOT$LOCAL_NVME" | awk 'NR == 2 { print $1 }'
}

make_directories() {
  local directory
  for directory in ${TS_DIRECTORIES:-}; do
    if [[ "$directory" == /opt/dlami/nvme/* && -z "$LOCAL_NVME" ]]; then
      die "there is no local NVMe on /opt/dlami/nvme for $directory"
    fi
    if [[ ! -d "$TS_ROOT$directory" ]]; then
      mkdir -p "$TS_ROOT$directory"
      chmod 1777 "$TS_ROOT$directory"
    fi
  done
}
