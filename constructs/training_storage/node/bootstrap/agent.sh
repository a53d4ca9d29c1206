# shellcheck shell=bash
# The agent of this node: a command that finds its Python, and a timer that promotes and prunes checkpoints.
# A node without it is a good node: nothing here ends the bootstrap.

AGENT_UNIT=training-storage-checkpoints
AGENT_TIMER_UNIT="$AGENT_UNIT.timer"
# Writes on condition, sessions on directory buckets, and the checksums that both sides of a promotion have.
AGENT_NEEDS='
import sys
assert sys.version_info >= (3, 9), "Python is older than 3.9"
import boto3, botocore.session
s3 = botocore.session.get_session().get_service_model("s3")
put = s3.operation_model("PutObject").input_shape.members
assert {"IfMatch", "IfNoneMatch", "ChecksumCRC64NVME"} <= set(put), "boto3 is too old"
assert "CreateSession" in s3.operation_names, "boto3 is too old"
'
AGENT_PACKAGES="boto3>=1.36,<2"

# agent_python: the first Python that has what the agent needs, in AGENT_PYTHON.
agent_python() {
  local candidate found
  AGENT_PYTHON=""
  for candidate in "$TS_OPT/venv/bin/python" python3 python3.13 python3.12 python3.11 python3.10 python3.9; do
    found="$(command -v "$candidate" 2>/dev/null || true)"
    if [[ -n "$found" ]] && timeout -k 10 60 "$found" -I -c "$AGENT_NEEDS" >/dev/null 2>&1; then
      AGENT_PYTHON="$found"
      return 0
    fi
  done
  return 1
}

# agent_base_python: a Python that a virtual environment can be made with.
agent_base_python() {
  local candidate
  for candidate in python3 python3.13 python3.12 python3.11 python3.10 python3.9; do
    if "$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1; then
      printf '%s' "$candidate"
      return 0
    fi
  done
  return 1
}

make_agent_environment() {
  local python="$1" venv="$TS_OPT/venv"
  rm -rf "$venv"
  if ! timeout -k 10 120 "$python" -m venv "$venv" >/dev/null 2>&1; then
    # Ubuntu keeps what makes one in a package of its own.
    read_os
    if [[ "$OS_ID" != ubuntu && "$OS_ID" != debian ]]; then
      return 1
    fi
    timeout -k 10 180 apt-get install -y -q -o DPkg::Lock::Timeout=120 python3-venv >/dev/null || return 1
    rm -rf "$venv"
    timeout -k 10 120 "$python" -m venv "$venv" >/dev/null || return 1
  fi
}

# Each try has a bound: where there is no way out, packets get no answer, and jobs of this node wait for its result.
install_agent_packages() {
  timeout -k 10 120 "$TS_OPT/venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
    --timeout 10 --retries 1 "$AGENT_PACKAGES"
}

# find_or_make_agent_python: AGENT_REASON says why there is none.
find_or_make_agent_python() {
  local base
  AGENT_REASON=""
  if agent_python; then
    return 0
  fi
  if ! base="$(agent_base_python)"; then
    AGENT_REASON="no Python 3.9 or newer"
  elif ! make_agent_environment "$base"; then
    AGENT_REASON="no virtual environment can be made with $base"
  elif ! retry 2 install_agent_packages; then
    AGENT_REASON="no boto3 that is new enough, and $AGENT_PACKAGES can't be installed: is there a way to a package index?"
  elif ! agent_python; then
    AGENT_REASON="the boto3 that was installed is too old"
  else
    return 0
  fi
  rm -rf "$TS_OPT/venv"
  return 1
}

# Not from the folder it is called in: what lies there must not pass for a module of the agent's.
write_agent_command() {
  local package="${TS_SCRIPTS%/*}" command="$TS_OPT/bin/agent"
  write_file "$command" <<END
#!/bin/bash
# Written by the bootstrap, and written again by the next.
exec "$AGENT_PYTHON" -I -B -c 'import sys
sys.path.insert(0, "${package%/*}")
from node.agent import main
sys.exit(main())' "\$@"
END
  chmod 755 "$command"
}

# Not enabled: it starts when a bootstrap has proven the storage, at each boot again. Jobs come first, hence the
# priority; a promotion may take hours, hence no bound.
write_agent_units() {
  local changed=no
  write_file "$TS_UNITS/$AGENT_UNIT.service" <<END
[Unit]
Description=Promote and prune the checkpoints of this node's storage

[Service]
Type=oneshot
ExecStart=$TS_OPT/bin/agent run --quiet
Nice=19
IOSchedulingClass=idle
TimeoutStartSec=infinity
SuccessExitStatus=143
END
  changed="$TS_CHANGED"
  write_file "$TS_UNITS/$AGENT_TIMER_UNIT" <<END
[Unit]
Description=Look after the checkpoints of this node's storage every minute

[Timer]
OnBootSec=5min
OnUnitInactiveSec=60s
RandomizedDelaySec=15s
AccuracySec=5s
Persistent=false
END
  if [[ "$changed" == yes || "$TS_CHANGED" == yes ]]; then
    systemctl daemon-reload || return 1
  fi
}

forget_agent_timer() {
  if [[ -f "$TS_UNITS/$AGENT_TIMER_UNIT" ]]; then
    log "the agent runs by itself no longer"
    systemctl stop "$AGENT_TIMER_UNIT" || true
    rm -f "$TS_UNITS/$AGENT_TIMER_UNIT" "$TS_UNITS/$AGENT_UNIT.service"
    systemctl daemon-reload || true
  fi
}

# set_up_agent: for nodes with settings of an agent, once their storage is proven.
set_up_agent() {
  if [[ ! -f "$TS_ETC/agent.json" ]]; then
    forget_agent_timer
    rm -f "$TS_OPT/bin/agent"
    return 0
  fi
  if ! find_or_make_agent_python; then
    forget_agent_timer
    rm -f "$TS_OPT/bin/agent"
    status agent unavailable
    status agent_reason "$AGENT_REASON"
    log "WARNING this node has no agent, so it promotes, prunes and loads nothing: $AGENT_REASON"
    return 0
  fi
  write_agent_command
  status agent ready
  if [[ "${TS_AGENT_TIMER:-}" != yes ]]; then
    forget_agent_timer
    return 0
  fi
  if ! write_agent_units ||
    ! { systemctl is-active --quiet "$AGENT_TIMER_UNIT" || systemctl start "$AGENT_TIMER_UNIT"; }; then
    status agent "ready, without its timer"
    log "WARNING $AGENT_TIMER_UNIT can't be started, so the agent runs only when it is asked to"
  fi
}
