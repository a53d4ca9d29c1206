# shellcheck shell=bash
# Tell the stack that made this node whether it is ready.

instance_id() {
  local token metadata=http://169.254.169.254/latest
  token="$(curl -sf -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$metadata/api/token")" || return 1
  curl -sf -m 5 -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/instance-id"
}

# signal_stack SUCCESS|FAILURE: never fails itself; a node that boots later, when no stack waits, is a good node.
signal_stack() {
  local status="$1" id try answer
  if [[ -z "${TS_STACK_NAME:-}" ]]; then
    return 0
  fi
  if ! id="$(retry 5 instance_id)"; then
    log "WARNING cannot read the instance id, so the stack gets no signal"
    return 0
  fi
  for ((try = 1; try <= 5; try++)); do
    if answer="$(aws cloudformation signal-resource --region "$TS_REGION" --stack-name "$TS_STACK_NAME" \
      --logical-resource-id "$TS_LOGICAL_ID" --unique-id "$id" --status "$status" 2>&1)"; then
      log "signalled $status to stack $TS_STACK_NAME"
      return 0
    fi
    # CloudFormation's answer for a stack or resource that is not being made just now.
    if [[ "$answer" == *ValidationError* ]]; then
      log "no stack waits for this node"
      return 0
    fi
    log "try $try of 5: signal refused: $answer"
    sleep "$TS_RETRY_DELAY"
  done
  log "WARNING the stack got no signal"
}
