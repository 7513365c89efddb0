#!/usr/bin/env bash
# One seed of the long budget on a GPU machine, about 28 minutes in all: MLE first, with the GPU tests beside it; then four
# RL rows from it, side by side. If time is short, they get fewer steps. On one H200 MLE did about 31 steps a second, and RL
# rows 1,200 to 1,540 tasks a second each, four at a time.
# Usage: OUT=folder [SEED=0] [ROWS="rl …"] [BESIDE="…"] tools/session_long.sh COMMIT WAIT LEFT
#   ROWS    the RL rows, by default all four; none (ROWS=" "): stop after MLE, so that another session does them
#   BESIDE  arguments of tools/train_for.py: another run, beside MLE. Its log is in session.tgz, its newest weights
#           in bfloat16 are beside.safetensors.aa and so on (`cat beside.safetensors.* > model.safetensors`).
#   COMMIT  to record in results
#   WAIT    seconds after which the call returns; the work goes on in the background
#   LEFT    seconds until the machine goes back, from now
# The first call starts the work, from a copy of the tree. Every call copies what is complete to $OUT/session.tgz, every
# 20 seconds and at its end, and prints where things stand. The first call after MLE has ended also copies its weights to
# $OUT as weights.tar.aa and so on (`cat weights.tar.* | tar x -C weights`). Carried to a new machine as the folder weights/,
# they let it begin with RL. `plan` below chooses the steps of RL by the time left. To choose by hand, write steps and rows
# into $WORK/plan (`3000 rl rl_beam`) before MLE ends.
# Unpack session.tgz in the repository's root: results land in results/reproduce-long.
set -u
work=${WORK:-/tmp/session}
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1 PYTHONPATH=$work/tree/src
rows=${ROWS:-rl rl_beam rl_beam_div rl_beam_div_opt}
rate=${RATE:-1200}  # tasks a second of each RL row
seed=${SEED:-0}
reproduce() { $python -m karelsynth reproduce "$@" --budget long --seeds "$seed" --keep "$work/kept" --commit "$commit" ${REPRODUCE:-}; }
log() { echo "$(date +%T) $*" >> "$work/found/logs/session.log"; }

tests() {  # while MLE trains
  # Outside of MPS: an illegal access there would end all processes that share the GPU.
  CUDA_MPS_PIPE_DIRECTORY=/nonexistent nice -n 5 $python -m pytest -m "${MARK:-gpu}" -q -p no:cacheprovider \
    --durations 5 ${TESTS:-$(grep -rl mark.gpu tests --include=test_*.py)} > "$work/found/logs/gpu-tests.log" 2>&1
  log "GPU tests ended: $(tail -n 1 "$work/found/logs/gpu-tests.log")"
}

plan() {  # steps and rows that end in time: 60 s to start, four validations of 10 s, 110 s to score
  [ -f "$work/plan" ] && { cat "$work/plan"; return; }
  local left=$(( $(cat "$work/end") - $(date +%s) - 210 )) steps
  for steps in 4000 3500 3000 2500 2000 1500 1000 500; do [ $(( steps * 256 / rate )) -lt $left ] && break; done
  echo "$steps $rows"
}

background() {
  cd "$work/tree" || exit 1
  command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d
  log "MLE starts"
  reproduce syntax --only mle --runs "$work/runs" --results "$work/results-mle" > "$work/found/logs/mle.log" 2>&1 &
  local mle=$!
  [ -n "${BESIDE:-}" ] && nice -n 5 $python tools/train_for.py $BESIDE --out "$work/beside" > "$work/found/logs/beside.log" 2>&1 &
  tests &
  until [ -f "$work/kept/mle-seed$seed/trained.json" ] || ! kill -0 $mle 2> /dev/null; do sleep 0.5; done
  if [ ! -f "$work/kept/mle-seed$seed/trained.json" ]; then log "MLE failed"; touch "$work/done"; exit 1; fi
  read -r steps chosen <<< "$(plan)"
  if [ -z "$chosen" ]; then
    log "MLE is trained"
    wait
    replica
    log "all ended"
    touch "$work/done"
    exit
  fi
  log "MLE is trained; RL: $steps steps of $chosen; $(( $(cat "$work/end") - $(date +%s) )) s left"
  sed -i "s/run.steps=4000/run.steps=$steps/; s/run.validate_every=1000/run.validate_every=$((steps / 4))/" \
    src/karelsynth/reproduce/rows.py
  local only; only=$(printf -- '--only %s ' $chosen)
  reproduce all $only --at-once $(wc -w <<< "$chosen") --runs "$work/runs-rl" --results "$work/results-rl" \
    > "$work/found/logs/rl.log" 2>&1 &
  local rl=$!
  while kill -0 $rl 2> /dev/null; do sleep 5; replica; done
  wait
  replica
  log "all ended"
  touch "$work/done"
}

replica() {  # scores on a private file of tasks, if the caller has one
  local file=$work/tree/weights/replica.jsonl.gz result name model
  [ -f "$file" ] || return 0
  for result in "$work"/results-*/*.json; do
    name=$(basename "$result" .json) model=$(ls -d "$work/kept/$name" "$work"/runs*/"$name"/best 2> /dev/null | head -n 1)
    if [ -n "$model" ] && [ ! -f "$work/found/replica/$name.json" ]; then
      timeout 60 $python -m karelsynth evaluate "$model" "$file" ${EVALUATE:-} --json "$work/found/replica/$name.json" \
        > "$work/found/logs/replica.log" 2>&1
    fi
  done
}

collect() {  # everything that is complete, as one file that is always complete
  local run
  cp "$work"/results-*/*.json "$work/found/results/reproduce-long/" 2> /dev/null
  for run in "$work"/runs*/*/; do
    [ -f "$run/metrics.jsonl" ] && cp "$run/metrics.jsonl" "$work/found/metrics/$(basename "$run").jsonl"
    [ -f "$run/stderr.log" ] && cp "$run/stderr.log" "$work/found/logs/$(basename "$run").stderr"
  done
  [ -d "$work/beside" ] && cp "$work/beside/metrics.jsonl" "$work/found/metrics/beside.jsonl" 2> /dev/null
  tar czf "$work/session.tgz" -C "$work/found" . && cp "$work/session.tgz" "$OUT/.new" && mv "$OUT/.new" "$OUT/session.tgz"
  if [ -f "$work/kept/mle-seed$seed/trained.json" ] && [ ! -d "$work/tree/weights/mle-seed$seed" ] && [ ! -f "$work/sent" ]; then
    tar cf - -C "$work/kept" mle-seed$seed | split -b 15M - "$OUT/weights.tar." && touch "$work/sent"
  fi
}

collect_beside() {  # the newest weights of the run beside
  [ -d "$work/beside" ] || return 0
  $python tools/newest_weights.py "$work/beside" "$work/beside.safetensors"
  [ -f "$work/beside.safetensors" ] && split -b 15M "$work/beside.safetensors" "$OUT/beside.safetensors."
  cp "$work/beside/final/recipe.json" "$OUT/beside-recipe.json" 2> /dev/null
}

standing() {
  cat "$work/found/logs/session.log"
  echo "$(date +%T), $(( $(cat "$work/end") - $(date +%s) )) s left; $(nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv,noheader 2> /dev/null)"
  tail -qn 1 "$work"/found/logs/{mle,gpu-tests,rl,replica,beside}.log 2> /dev/null
  $python - "$work" <<'PYTHON'
import json, pathlib, sys
for path in sorted([*pathlib.Path(sys.argv[1]).glob("runs*/*/metrics.jsonl"), *pathlib.Path(sys.argv[1]).glob("beside/metrics.jsonl")]):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [line for line in lines if "tasks_per_second" in line]
    scores = [(line["step"], line["validation_generalization"], line["validation_exact"]) for line in lines if "validation_exact" in line]
    rate = steps[-1]["tasks_per_second"] if steps else 0
    print(path.parent.name, "step", steps[-1]["step"] if steps else 0, f"{rate:,.0f} tasks/s", lines[-1]["seconds"] if lines else "", *scores)
PYTHON
  ls "$work"/results-*/*.json 2> /dev/null
}

commit=${1:?the commit to record}
if [ "${2:-}" = background ]; then background; exit; fi
wait_for=${2:?seconds to wait} left=${3:?seconds left}
mkdir -p "$OUT"
echo $(( $(date +%s) + left )) > "$work.end"
if [ ! -d "$work/tree" ]; then
  mkdir -p "$work"/{tree,kept,results-mle,results-rl,found/logs,found/metrics,found/replica,found/results/reproduce-long}
  tar cf - --exclude=.git --exclude=.venv . | tar xf - -C "$work/tree"
  [ -d weights/mle-seed$seed ] && cp -r weights/mle-seed$seed "$work/kept/"
  [ -z "${DRY:-}" ] || eval "$DRY"
  mv "$work.end" "$work/end"
  setsid bash "$work/tree/tools/session_long.sh" "$commit" background > "$work/background.log" 2>&1 < /dev/null &
fi
[ -f "$work.end" ] && mv "$work.end" "$work/end"
until=$(( $(date +%s) + wait_for ))
while [ "$(date +%s)" -lt $until ] && [ ! -f "$work/done" ]; do
  for file in ${UNTIL:-}; do [ -e "$file" ] && break 2; done
  sleep 5
  [ $(( $(date +%s) % 20 )) -lt 5 ] && collect
done
collect
collect_beside
standing
cat "$work/background.log"
