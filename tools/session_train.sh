#!/usr/bin/env bash
# One training run on a GPU machine that ends each call after ten minutes. The run goes on in the background between calls.
# Usage: OUT=folder tools/session_train.sh start WAIT SECONDS RECIPE [options of tools/train_for.py]
#        OUT=folder tools/session_train.sh go WAIT
#   WAIT     seconds after which the call returns
#   SECONDS  from now to the saved model
# `start` copies the tree, begins the run and, beside it, the GPU tests. `go` waits for a run that is under way; on a new
# machine it fails at once, because the run is lost. Each call ends by copying to $OUT the logs (logs.tgz) and the newest
# weights in bfloat16: model.safetensors.aa and so on (`cat model.safetensors.* > model.safetensors`), so a lost run can
# begin again with them (`--set start_from=FOLDER`).
set -u
work=${WORK:-/tmp/session}
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1 PYTHONPATH=$work/tree/src

background() {
  cd "$work/tree" || exit 1
  (sleep 5; nice -n 5 $python -m pytest -m gpu -q -p no:cacheprovider --durations 5 ${TESTS:-$(grep -rl mark.gpu tests --include=test_*.py)} \
    > "$work/found/gpu-tests.log" 2>&1) &
  $python tools/train_for.py "${@:2}" --seconds "$1" --out "$work/run" > "$work/found/train.log" 2>&1
  echo "exit status $?" >> "$work/found/train.log"
  touch "$work/done"
}

collect() {
  cp "$work/run/metrics.jsonl" "$work/found/" 2> /dev/null
  tar czf "$OUT/logs.tgz" -C "$work/found" .
  $python tools/newest_weights.py "$work/run" /tmp/model.safetensors
  [ -f /tmp/model.safetensors ] && split -b 15M /tmp/model.safetensors "$OUT/model.safetensors." && rm /tmp/model.safetensors
}

mode=${1:?start or go} wait_for=${2:?seconds to wait}
if [ "$mode" = background ]; then background "${@:3}"; exit; fi
mkdir -p "$OUT"
if [ "$mode" = start ]; then
  mkdir -p "$work"/{tree,found}
  tar cf - --exclude=.git --exclude=.venv . | tar xf - -C "$work/tree"
  setsid bash "$work/tree/tools/session_train.sh" background - "${@:3}" > "$work/background.log" 2>&1 < /dev/null &
elif [ ! -d "$work/tree" ]; then
  echo "this machine has no run: the machine before was given back"; exit 3
fi
until=$(( $(date +%s) + wait_for ))
while [ "$(date +%s)" -lt $until ] && [ ! -f "$work/done" ]; do
  for file in ${UNTIL:-}; do [ -e "$file" ] && break 2; done
  sleep 1
done
collect
cat "$work/background.log"; tail -n 4 "$work"/found/*.log; ls -la "$OUT"
date +%T
