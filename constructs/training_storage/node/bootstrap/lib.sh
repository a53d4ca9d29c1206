# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is read by the scripts that source this one
# Shared by every script of this folder: places, log, bounded retries, files that change only when they must, status.

# The last command of a pipe runs in this shell, so that write_file can say whether it changed anything.
shopt -s lastpipe

TS_ROOT="${TS_ROOT:-}" # empty on a node; tests point it at a folder of their own
TS_ETC="$TS_ROOT/etc/training-storage"
TS_OPT="$TS_ROOT/opt/training-storage"
TS_VAR="$TS_ROOT/var/lib/training-storage"
TS_LOG="$TS_ROOT/var/log/training-storage.log"
TS_UNITS="$TS_ROOT/etc/systemd/system"
# Five minutes of delays: a file system whose rules or addresses are minutes old answers within that.
TS_TRIES="${TS_TRIES:-20}"
TS_RETRY_DELAY="${TS_RETRY_DELAY:-15}"

declare -A TS_STATUS=()
TS_STEP=start
TS_CHANGED=no
TS_MESSAGE=""

log() {
  mkdir -p "${TS_LOG%/*}"
  printf 'training-storage: %s\n' "$*" | tee -a "$TS_LOG" >&2
}

# Say what failed and end; the trap of bootstrap.sh signals it.
die() {
  TS_MESSAGE="$*"
  exit 1
}

step() {
  TS_STEP="$*"
  log "step: $TS_STEP"
}

# retry TRIES COMMAND...: run until it succeeds, with a delay between tries; fail after the last.
retry() {
  local tries="$1" try
  shift
  for ((try = 1; try <= tries; try++)); do
    if "$@"; then
      return 0
    fi
    log "try $try of $tries failed: $*"
    if ((try < tries)); then
      sleep "$TS_RETRY_DELAY"
    fi
  done
  return 1
}

# fetch ADDRESS FILE: download, each try with a bound. Where there is no way out, packets get no answer, and curl by
# itself would wait five minutes for one.
fetch() {
  retry 5 curl -fsS --connect-timeout 15 --max-time 120 -o "$2" "$1"
}

# make_mount_path: a mount whose server is gone answers nothing or an error, and both are for the mount itself to mend.
make_mount_path() {
  timeout -k 10 30 mkdir -p "$TS_ROOT$MOUNT_PATH" || log "WARNING $MOUNT_PATH can't be made or does not answer"
}

# write_file PATH: write stdin; TS_CHANGED says whether the content is new.
write_file() {
  local path="$1" content
  content="$(cat; printf .)"
  content="${content%.}"
  if [[ -f "$path" && "$(cat "$path"; printf .)" == "$content." ]]; then
    TS_CHANGED=no
    return 0
  fi
  mkdir -p "${path%/*}"
  printf '%s' "$content" >"$path.new"
  mv "$path.new" "$path"
  TS_CHANGED=yes
}

# install_unit NAME: write a systemd unit from stdin and enable it; TS_CHANGED as for write_file.
install_unit() {
  write_file "$TS_UNITS/$1"
  if [[ "$TS_CHANGED" == yes ]]; then
    systemctl daemon-reload
  fi
  if ! systemctl is-enabled --quiet "$1" 2>/dev/null; then
    systemctl enable --quiet "$1"
  fi
}

# version_at_least VERSION WANTED
version_at_least() {
  [[ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | sed -n 1p)" == "$2" ]]
}

# Id and version of the operating system, in OS_ID, OS_VERSION and OS_CODENAME.
read_os() {
  OS_ID="" OS_VERSION="" OS_CODENAME=""
  local key value
  while IFS='=' read -r key value; do
    value="${value%\"}"
    value="${value#\"}"
    case "$key" in
      ID) OS_ID="$value" ;;
      VERSION_ID) OS_VERSION="$value" ;;
      VERSION_CODENAME) OS_CODENAME="$value" ;;
    esac
  done <"$TS_ROOT/etc/os-release"
}

memory_mib() {
  awk '/^MemTotal:/ { print int($2 / 1024) }' "$TS_ROOT/proc/meminfo"
}

# status KEY VALUE: one line of the status file.
status() {
  TS_STATUS["$1"]="$2"
}

json_text() {
  local text="$1"
  text="${text//\\/\\\\}"
  text="${text//\"/\\\"}"
  text="${text//$'\n'/ }"
  text="${text//$'\t'/ }"
  printf '"%s"' "$text"
}

# write_status STATE: what this node is, as one JSON object.
write_status() {
  local key separator=""
  status state "$1"
  status step "$TS_STEP"
  status message "$TS_MESSAGE"
  {
    printf '{'
    while IFS= read -r key; do
      printf '%s\n  %s: %s' "$separator" "$(json_text "$key")" "$(json_text "${TS_STATUS[$key]}")"
      separator=","
    done < <(printf '%s\n' "${!TS_STATUS[@]}" | sort)
    printf '\n}\n'
  } | write_file "$TS_VAR/status.json"
}

# Every setting that the file of a mount may have.
MOUNT_SETTINGS=(
  KIND MOUNT_PATH FILE_SYSTEM_ID READ_ONLY
  DNS_NAME MOUNT_NAME EFA ON_TCP GDS CHECKPOINTS SCRATCH
  FILE_SYSTEM_REGION ROOT_ACCESS NO_DIRECT_READ SHIP_LOGS
  BUCKET DIRECTORY_BUCKET PREFIX BUCKET_REGION ALLOW_DELETE ALLOW_OVERWRITE INCREMENTAL_UPLOAD
  CACHE CACHE_SIZE_MIB CACHE_BUCKET METADATA_TTL NEGATIVE_METADATA_TTL
  THROUGHPUT_GBPS MAX_THREADS MEMORY_TARGET_MIB PART_SIZE_MIB READ_PART_SIZE_MIB WRITE_PART_SIZE_MIB BIND
  SSE SSE_KMS_KEY UPLOAD_CHECKSUMS STORAGE_CLASS EXPECTED_BUCKET_OWNER
  REQUESTER_PAYS TRANSFER_ACCELERATION DUAL_STACK ENDPOINT_URL
  OTLP_ENDPOINT OTLP_EXPORT_INTERVAL_SECONDS LOG_METRICS
  OWNER_UID OWNER_GID FILE_MODE DIR_MODE
)

# load_mount FILE: read the settings of one mount, and forget those of the mount before.
load_mount() {
  unset "${MOUNT_SETTINGS[@]}"
  NAME="${1##*/}"
  # shellcheck source=/dev/null
  . "$1"
}
