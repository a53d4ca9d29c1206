#!/bin/bash
# Make a node ready: mount its storage, prove it, run the user's commands, tell the stack. A second run changes nothing.
# User data runs it first, and a unit at each boot after that, so that a reboot is proven like a launch.
#
# Reads /etc/training-storage/settings and one file a mount in /etc/training-storage/mounts.d.
# Writes /var/lib/training-storage/status.json, /var/log/training-storage.log and /etc/training-storage/env.
set -euo pipefail
TS_SCRIPTS="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=lib.sh
. "$TS_SCRIPTS/lib.sh"
# shellcheck source=signal.sh
. "$TS_SCRIPTS/signal.sh"
# shellcheck source=local_nvme.sh
. "$TS_SCRIPTS/local_nvme.sh"
# shellcheck source=kernel_guard.sh
. "$TS_SCRIPTS/kernel_guard.sh"
# shellcheck source=lustre_client.sh
. "$TS_SCRIPTS/lustre_client.sh"
# shellcheck source=lustre_efa.sh
. "$TS_SCRIPTS/lustre_efa.sh"
# shellcheck source=lustre_mount.sh
. "$TS_SCRIPTS/lustre_mount.sh"
# shellcheck source=mountpoint_install.sh
. "$TS_SCRIPTS/mountpoint_install.sh"
# shellcheck source=mountpoint_mount.sh
. "$TS_SCRIPTS/mountpoint_mount.sh"
# shellcheck source=s3files_mount.sh
. "$TS_SCRIPTS/s3files_mount.sh"
# shellcheck source=old_mounts.sh
. "$TS_SCRIPTS/old_mounts.sh"
# shellcheck source=agent.sh
. "$TS_SCRIPTS/agent.sh"
# shellcheck source=metrics.sh
. "$TS_SCRIPTS/metrics.sh"

# Everything that ends this script comes through here, so a stack that waits always hears of it.
finish() {
  local result=$?
  trap - EXIT
  set +e
  if [[ "$result" -eq 0 ]]; then
    TS_STEP="done"
    write_status ready
    log "the node is ready"
    signal_stack SUCCESS
    exit 0
  fi
  TS_MESSAGE="${TS_MESSAGE:-unexpected error}"
  write_status failed
  log "ERROR in step '$TS_STEP': $TS_MESSAGE"
  signal_stack FAILURE
  exit "$result"
}

bring_up_lustre() {
  status file_system_id "$FILE_SYSTEM_ID"
  step "Lustre client for $FILE_SYSTEM_ID"
  install_lustre_client
  hold_kernel
  write_lustre_module_options
  if [[ "${EFA:-}" == yes ]]; then
    step "EFA client for $FILE_SYSTEM_ID"
    if ! setup_efa_client; then
      if [[ "${ON_TCP:-report}" == fail ]]; then
        die "the FSx EFA client can't be set up, so $FILE_SYSTEM_ID would be reached over TCP"
      fi
      log "WARNING the FSx EFA client can't be set up: $FILE_SYSTEM_ID will be reached over TCP"
    fi
  fi
  step "mount $FILE_SYSTEM_ID on $MOUNT_PATH"
  mount_lustre
  step "prove $FILE_SYSTEM_ID on $MOUNT_PATH"
  prove_lustre
  bash "$TS_SCRIPTS/lustre_tune.sh"
  make_lustre_directories
}

bring_up_bucket() {
  step "Mountpoint for $BUCKET"
  install_mountpoint
  step "mount $BUCKET on $MOUNT_PATH"
  mount_bucket
}

bring_up_s3_files() {
  step "amazon-efs-utils for $FILE_SYSTEM_ID"
  install_efs_utils
  write_efs_utils_configuration
  step "mount $FILE_SYSTEM_ID on $MOUNT_PATH"
  mount_s3_files
  step "prove $FILE_SYSTEM_ID on $MOUNT_PATH"
  prove_s3_files
}

# bring_up KIND: every mount of one kind, in the order of their names.
bring_up() {
  local file
  for file in "$TS_ETC"/mounts.d/*; do
    if [[ ! -f "$file" ]]; then
      continue
    fi
    load_mount "$file"
    case "$1:$KIND" in
      lustre:lustre) bring_up_lustre ;;
      mountpoint:mountpoint) bring_up_bucket ;;
      s3-files:s3-files) bring_up_s3_files ;;
    esac
  done
}

add_local_nvme_to_env() {
  local env="$TS_ETC/env" name=TRAINING_STORAGE_LOCAL_NVME
  touch "$env"
  {
    grep -v "^$name=" "$env" || true
    if [[ -n "$LOCAL_NVME" ]]; then
      printf '%s=%s\n' "$name" "$LOCAL_NVME"
    fi
  } | write_file "$env"
}

# Id of this instance as cloud-init has it, which knows it before there is a network.
cloud_instance() {
  cat "$TS_ROOT/var/lib/cloud/data/instance-id" 2>/dev/null || true
}

# A node whose image was made from another node has that one's settings until its own user data has run, and that runs
# this script itself.
forget_other_node() {
  local mark="$TS_VAR/instance-id"
  if [[ "${1:-}" != boot ]]; then
    cloud_instance | write_file "$mark"
  elif [[ "$(cat "$mark" 2>/dev/null || true)" != "$(cloud_instance)" ]]; then
    log "the settings here are those of another node: its image was taken for this one"
    exit 0
  fi
}

# What lctl sets is forgotten at each mount, a status file of the boot before says nothing, and a mount that failed at
# boot is worth more tries than systemd gives it.
write_boot_unit() {
  install_unit training-storage-bootstrap.service <<END
[Unit]
Description=Mount and prove the storage of this node
Wants=network-online.target
After=network-online.target remote-fs.target $NVME_UNIT $EFA_UNIT$(s3_files_mount_units)

[Service]
Type=oneshot
ExecStart=/bin/bash $TS_SCRIPTS/bootstrap.sh boot

[Install]
WantedBy=multi-user.target
END
}

# In a shell of their own, which stops at the first error, and once an instance: a second bootstrap starts no job twice,
# and a node whose image was made from another node starts its own.
run_user_commands() {
  local commands="$TS_OPT/user-commands.sh" mark="$TS_VAR/user-commands.sha256" sum
  if [[ ! -f "$commands" ]]; then
    return 0
  fi
  sum="$(sha256sum <"$commands")$(cloud_instance)"
  if [[ -f "$mark" && "$(cat "$mark")" == "$sum" ]]; then
    log "the user commands have run"
    return 0
  fi
  (
    set -a
    # shellcheck source=/dev/null
    . "$TS_ETC/env"
    set +a
    exec bash -e -o pipefail "$commands"
  ) </dev/null || die "a user command failed; see the output of cloud-init"
  printf '%s\n' "$sum" | write_file "$mark"
}

# User data and the unit of the boot can both run on an instance that was made from the image of a node. The lock goes
# with the command alone: what a mount leaves running must not hold it.
if [[ -z "${TS_LOCKED:-}" ]]; then
  mkdir -p "$TS_VAR"
  TS_LOCKED=yes exec flock --close "$TS_VAR/lock" bash "$TS_SCRIPTS/bootstrap.sh" "$@"
fi
export DEBIAN_FRONTEND=noninteractive
forget_other_node "$@"
trap finish EXIT
step settings
# shellcheck source=/dev/null
. "$TS_ETC/settings"
status kernel "$(uname -r)"
write_status running
write_boot_unit
keep_units_running
step "mounts of before"
forget_old_mounts
step "local NVMe"
find_local_nvme
bring_up lustre
bring_up mountpoint
bring_up s3-files
step directories
make_directories
add_local_nvme_to_env
step "user commands"
run_user_commands
# After the jobs have started: installing it may take minutes where there is no way out.
step agent
set_up_agent || log "WARNING the agent of this node can't be set up"
step metrics
set_up_metrics || log "WARNING the metrics of this node can't be set up"
