#!/usr/bin/env bash
# One session on a GPU machine, about 28 minutes: seed 0 of the long budget. MLE first, with the GPU tests, the scores of
# the shipped model and a probe of RL's speed beside it; then the RL rows from it, side by side, and MLE continued. On one
# H200 MLE took 767 s, and RL rows did 1,000 to 1,400 tasks a second each, four or five at a time: MLE and 4,000 steps of
# RL do not fit into half an hour. `rl_signed` is run only if there is time for all.
# Usage: OUT=folder tools/session_long.sh COMMIT WAIT LEFT
#   COMMIT  to record in results
#   WAIT    seconds after which the call returns; the work goes on in the background
#   LEFT    seconds until the machine goes back, from now
# The first call starts the work, from a copy of the tree. Every call copies what is complete to $OUT/session.tgz, every
# 20 seconds and at its end, and prints where things stand. To choose the RL rows by hand, write steps and rows into
# $WORK/plan (`3000 rl rl_beam`) before MLE ends. Otherwise `plan` below chooses by the speed that the probe measured.
# Unpack session.tgz in the repository's root: results land in results/reproduce-long.
set -u
work=${WORK:-/tmp/session}
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1 PYTHONPATH=$work/tree/src
rows="rl rl_beam rl_beam_div rl_beam_div_opt"
reproduce() { $python -m karelsynth reproduce "$@" --budget long --seeds 0 --keep "$work/kept" --commit "$commit" ${REPRODUCE:-}; }
log() { echo "$(date +%T) $*" >> "$work/found/logs/session.log"; }

beside() {  # while MLE trains: all that is short
  # Outside of MPS: an illegal access there would end all processes that share the GPU.
  CUDA_MPS_PIPE_DIRECTORY=/nonexistent nice -n 5 $python -m pytest -m "${MARK:-gpu}" -q -p no:cacheprovider \
    --durations 5 ${TESTS:-$(grep -rl mark.gpu tests --include=test_*.py)} > "$work/found/logs/gpu-tests.log" 2>&1
  log "GPU tests ended: $(tail -n 1 "$work/found/logs/gpu-tests.log")"
  until [ -f "$work/runs/mle-seed0/best/recipe.json" ] || [ -f "$work/done" ]; do sleep 1; done
  probe > "$work/found/logs/probe.log" 2>&1
  log "probe ended: $(cat "$work/probe.rates" 2> /dev/null | tr '\n' ' ')"
  nice -n 5 $python -m karelsynth evaluate shipped test ${EVALUATE:-} --json "$work/found/shipped-test.json" \
    > "$work/found/logs/shipped.log" 2>&1
  # Its scores are of other weights, and sets that have been scored on as many tasks would be skipped.
  $python -c "import json, pathlib; path = pathlib.Path('results/karelbench.json'); record = json.loads(path.read_text())
del record['systems']['network']; path.write_text(json.dumps(record))"
  nice -n 5 $python tools/karelbench.py network --tasks ${BENCH:-2500 --device cuda} > "$work/found/logs/karelbench.log" 2>&1
  cp results/karelbench.json "$work/found/results/"
  log "shipped model scored"
}

probe() {  # a hundred steps of five RL rows at once, from MLE's first model: how fast, and how much memory
  local start="start_from=$work/runs/mle-seed0/best" row
  (while sleep 1; do nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv,noheader; done) > "$work/probe.memory" 2>&1 &
  local watch=$!
  for row in $rows rl_signed; do
    KARELSYNTH_THREADS=3 OMP_NUM_THREADS=3 PYTORCH_ALLOC_CONF=expandable_segments:True \
      $python -m karelsynth train "$row" --out "$work/probe/$row" --set "$start" --set run.batch_size="${PROBE_BATCH:-256}" \
      --set run.steps="${PROBE_STEPS:-120}" --set run.validate_every=100000 --set run.validation_tasks="${PROBE_TASKS:-1024}" &
  done
  local pids; pids=$(jobs -rp | grep -v "^$watch$")
  wait $pids
  kill "$watch"
  sort -n "$work/probe.memory" | tail -n 2
  $python - "$work/probe" > "$work/probe.rates" <<'PYTHON'
import json, pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).glob("*/metrics.jsonl")):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [line for line in lines if "tasks_per_second" in line]
    rates = sorted(line["tasks_per_second"] for line in steps[1:] or steps)
    print(path.parent.name, round(rates[len(rates) // 2]) if rates else 0)
PYTHON
  cat "$work/probe.rates"
  rm -rf "$work/probe"
}

plan() {  # steps and rows that end in time: 75 s to start, four validations of 5 s, 60 s to score, a margin of a tenth
  [ -f "$work/plan" ] && { cat "$work/plan"; return; }
  $python - "$(( $(cat "$work/end") - $(date +%s) ))" "$work/probe.rates" "$rows" <<'PYTHON'
import pathlib, sys
left, path, rows = int(sys.argv[1]) - 155, pathlib.Path(sys.argv[2]), sys.argv[3].split()
rates = dict(line.split() for line in path.read_text().splitlines()) if path.exists() else {}
speed = min((float(rate) for row, rate in rates.items() if row in rows), default=1000.0)  # as on one H200
plans = [(4000, [*rows, "rl_signed"]), (4000, rows), *((steps, rows) for steps in (3000, 2600, 2000, 1500, 1000, 500))]
steps, chosen = next((one for one in plans if 1.1 * one[0] * 256 / speed < left), plans[-1])
print(steps, *chosen)
PYTHON
}

background() {
  cd "$work/tree" || exit 1
  command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d
  log "MLE starts"
  reproduce syntax --only mle --runs "$work/runs" --results "$work/results-mle" > "$work/found/logs/mle.log" 2>&1 &
  local mle=$!
  beside &
  until [ -f "$work/kept/mle-seed0/trained.json" ] || ! kill -0 $mle 2> /dev/null; do sleep 0.5; done
  if [ ! -f "$work/kept/mle-seed0/trained.json" ]; then log "MLE failed"; touch "$work/done"; exit 1; fi
  read -r steps chosen <<< "$(plan)"
  log "MLE is trained; RL: $steps steps of $chosen; $(( $(cat "$work/end") - $(date +%s) )) s left"
  sed -i "s/run.steps=4000/run.steps=$steps/; s/run.validate_every=500/run.validate_every=$((steps / 4))/" \
    src/karelsynth/reproduce/budgets.py
  local only; only=$(printf -- '--only %s ' $chosen)
  reproduce all $only --at-once $(wc -w <<< "$chosen") --runs "$work/runs-rl" --results "$work/results-rl" \
    > "$work/found/logs/rl.log" 2>&1 &
  local rl=$!
  KARELSYNTH_THREADS=3 OMP_NUM_THREADS=3 reproduce controls --only mle_continued --runs "$work/runs-control" \
    --results "$work/results-control" > "$work/found/logs/control.log" 2>&1 &
  local control=$!
  while kill -0 $rl 2> /dev/null || kill -0 $control 2> /dev/null; do sleep 5; replica; done
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
  tar czf "$work/session.tgz" -C "$work/found" . && cp "$work/session.tgz" "$OUT/.new" && mv "$OUT/.new" "$OUT/session.tgz"
}

standing() {
  cat "$work/found/logs/session.log"
  echo "$(date +%T), $(( $(cat "$work/end") - $(date +%s) )) s left; $(nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv,noheader 2> /dev/null)"
  tail -qn 1 "$work"/found/logs/{probe,shipped,karelbench,rl,control,replica}.log 2> /dev/null
  cat "$work/probe.rates" 2> /dev/null
  $python - "$work" <<'PYTHON'
import json, pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).glob("runs*/*/metrics.jsonl")):
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
  mkdir -p "$work"/{tree,kept,results-mle,results-rl,results-control,found/logs,found/metrics,found/replica,found/results/reproduce-long}
  tar cf - --exclude=.git --exclude=.venv . | tar xf - -C "$work/tree"
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
standing
cat "$work/background.log"
