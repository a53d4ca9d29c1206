# shellcheck shell=bash
# What this node tells of itself: the CloudWatch agent, and the collector that tells it what storage does.
# A node without metrics is a good node: nothing here ends the bootstrap, and every wait has a bound.

METRICS_AGENT=/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl
# CloudWatch user guide, "Verify the signature of the CloudWatch agent package".
METRICS_KEY=937616F3450B7D806CBD9725D58167303B789C72
METRICS_UNIT=training-storage-collector.service

metrics_agent() {
  printf '%s' "$TS_ROOT$METRICS_AGENT"
}

metrics_package_host() {
  local suffix=amazonaws.com
  if [[ "$TS_REGION" == cn-* ]]; then
    suffix=amazonaws.com.cn
  fi
  printf 'https://amazoncloudwatch-agent-%s.s3.%s.%s' "$TS_REGION" "$TS_REGION" "$suffix"
}

# Each try has a bound: where there is no way out, packets get no answer.
metrics_fetch() {
  retry 2 curl -fsS --connect-timeout 10 --max-time 120 -o "$2" "$1"
}

# install_metrics_deb: by the bucket of this region, which a gateway endpoint reaches too. Its signature is checked, as
# apt checks none of a file.
install_metrics_deb() {
  local architecture=amd64 host package="$TS_OPT/amazon-cloudwatch-agent.deb"
  if [[ "$(uname -m)" == aarch64 ]]; then
    architecture=arm64
  fi
  host="$(metrics_package_host)"
  mkdir -p "$TS_OPT"
  metrics_fetch "$host/ubuntu/$architecture/latest/amazon-cloudwatch-agent.deb" "$package" || return 1
  metrics_fetch "$host/ubuntu/$architecture/latest/amazon-cloudwatch-agent.deb.sig" "$package.sig" || return 1
  metrics_fetch "$host/assets/amazon-cloudwatch-agent.gpg" "$TS_OPT/amazon-cloudwatch-agent.gpg" ||
    metrics_fetch "https://amazoncloudwatch-agent.s3.amazonaws.com/assets/amazon-cloudwatch-agent.gpg" \
      "$TS_OPT/amazon-cloudwatch-agent.gpg" || return 1
  metrics_signature_is_good "$package" || return 1
  timeout -k 10 300 apt-get install -y -q -o DPkg::Lock::Timeout=120 "$package" >/dev/null
}

metrics_signature_is_good() {
  local package="$1" home answer
  home="$(mktemp -d)"
  answer="$(timeout -k 5 30 gpg --homedir "$home" --batch --quiet --import "$TS_OPT/amazon-cloudwatch-agent.gpg" \
    2>/dev/null && timeout -k 5 30 gpg --homedir "$home" --batch --status-fd 1 --verify "$package.sig" "$package" \
    2>/dev/null || true)"
  rm -rf "$home"
  if grep -q "^\[GNUPG:\] VALIDSIG .*$METRICS_KEY" <<<"$answer"; then
    return 0
  fi
  log "WARNING the signature of $package is not that of the CloudWatch agent"
  return 1
}

# install_metrics_agent: METRICS_REASON says why there is none.
install_metrics_agent() {
  METRICS_REASON=""
  if [[ -x "$(metrics_agent)" ]]; then
    return 0
  fi
  read_os
  case "$OS_ID" in
    # Its repository signs what it has, and lies in S3, which a gateway endpoint reaches.
    amzn) retry 2 timeout -k 10 180 dnf install -y amazon-cloudwatch-agent >/dev/null || true ;;
    ubuntu | debian) install_metrics_deb || true ;;
    *) log "no package of the CloudWatch agent is known for $OS_ID" ;;
  esac
  if [[ ! -x "$(metrics_agent)" ]]; then
    METRICS_REASON="the CloudWatch agent can't be installed: is there a way to its packages?"
    return 1
  fi
}

# Added to what the agent has: an image may bring a configuration of its own. A configuration that is there already, and
# an agent that runs, need nothing.
configure_metrics_agent() {
  local configuration="$TS_ETC/cloudwatch-agent.json" mark="$TS_VAR/cloudwatch-agent.sha256" sum
  sum="$(sha256sum <"$configuration")"
  if [[ "$(cat "$mark" 2>/dev/null || true)" == "$sum" ]] && systemctl is-active --quiet amazon-cloudwatch-agent.service
  then
    return 0
  fi
  rm -f "$mark"
  if ! timeout -k 10 120 "$(metrics_agent)" -a append-config -m ec2 -s -c "file:$configuration" >/dev/null 2>&1; then
    METRICS_REASON="the CloudWatch agent does not start with $configuration beside what its image has"
    return 1
  fi
  printf '%s\n' "$sum" | write_file "$mark"
}

write_collector_command() {
  local package="${TS_SCRIPTS%/*}" command="$TS_OPT/bin/collector"
  write_file "$command" <<END
#!/bin/bash
# Written by the bootstrap, and written again by the next. Not from the folder it is called in, as the agent.
exec "$1" -I -B -c 'import sys
sys.path.insert(0, "${package%/*}")
from node.collector.collect import main
sys.exit(main())'
END
  chmod 755 "$command"
}

# Root, for the statistics of Lustre; with bounds, since jobs come first. Not enabled: it starts when a bootstrap has
# proven the storage, at each boot again.
start_collector() {
  local python changed=no
  if ! python="$(agent_base_python)"; then
    METRICS_REASON="no Python 3.9 or newer for the collector"
    return 1
  fi
  write_collector_command "$(command -v "$python")"
  changed="$TS_CHANGED"
  write_file "$TS_UNITS/$METRICS_UNIT" <<END
[Unit]
Description=Tell the CloudWatch agent what this node's storage does
StartLimitIntervalSec=0

[Service]
ExecStart=$TS_OPT/bin/collector
Restart=always
RestartSec=30
Nice=10
MemoryMax=256M
CPUQuota=20%
END
  if [[ "$TS_CHANGED" == yes ]]; then
    changed=yes
    systemctl daemon-reload || true
  fi
  if [[ "$changed" == yes ]]; then
    timeout -k 10 60 systemctl restart "$METRICS_UNIT" && return 0
  else
    systemctl is-active --quiet "$METRICS_UNIT" && return 0
    timeout -k 10 60 systemctl start "$METRICS_UNIT" && return 0
  fi
  METRICS_REASON="$METRICS_UNIT can't be started"
  return 1
}

stop_collector() {
  if [[ -f "$TS_UNITS/$METRICS_UNIT" ]]; then
    log "this node tells nothing of its storage any longer"
    timeout -k 10 60 systemctl stop "$METRICS_UNIT" || true
    rm -f "$TS_UNITS/$METRICS_UNIT" "$TS_OPT/bin/collector"
    systemctl daemon-reload || true
  fi
  if [[ -f "$TS_VAR/cloudwatch-agent.sha256" ]]; then
    timeout -k 10 120 "$(metrics_agent)" -a remove-config -m ec2 -s -c "file:$TS_ETC/cloudwatch-agent.json" \
      >/dev/null 2>&1 || true
    rm -f "$TS_VAR/cloudwatch-agent.sha256"
  fi
}

# set_up_metrics: for nodes with a configuration, once their storage is proven.
set_up_metrics() {
  if [[ ! -f "$TS_ETC/cloudwatch-agent.json" ]]; then
    stop_collector
    return 0
  fi
  # The collector runs beside an agent that is missing too: whoever installs one later has all of it.
  if start_collector && install_metrics_agent && configure_metrics_agent; then
    status metrics ready
    return 0
  fi
  status metrics unavailable
  status metrics_reason "$METRICS_REASON"
  log "WARNING this node has no metrics: $METRICS_REASON"
}
