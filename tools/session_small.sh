#!/usr/bin/env bash
# One session on a GPU machine, about eight minutes, for two questions about the small set:
#   - Does a learned syntax beat a decoder with as many parameters? MLE_large and MLE_learned get eight seeds.
#   - What explains the paper's 0 % for RL? Rewards of 1 and -1: as in our recipe, from scratch, with ten times the
#     learning rate, and that without clipping.
# Usage: OUT=folder tools/session_small.sh COMMIT [MINUTES]
# Results, logs and validation scores come to $OUT/session.tgz, every 20 seconds and at the end, so a session that is
# killed loses only what was not finished. Unpack it in the repository's root: new results land in results/reproduce.
set -u
commit=${1:?the commit to record} minutes=${2:-7.5} work=${WORK:-/tmp/session}
export PYTHONPATH=src PYTHONUNBUFFERED=1
karelsynth=${KARELSYNTH:-python -m karelsynth}
mkdir -p "$work/results/reproduce" "$work/found/results/reproduce" "$work/found/logs" "$OUT"
cp results/reproduce/*.json "$work/results/reproduce/"
command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d

collect() {  # everything that is new, as one file that is always complete
  for file in "$work"/results/*/*.json; do
    cmp -s "$file" "results/reproduce/$(basename "$file")" || cp "$file" "$work/found/results/reproduce/"
  done
  for run in "$work"/variants/*/; do
    [ -f "$run/metrics.jsonl" ] && cp "$run/metrics.jsonl" "$work/found/logs/small_rl-$(basename "$run").jsonl"
  done
  tar czf "$work/session.tgz" -C "$work/found" . && cp "$work/session.tgz" "$OUT/.new" && mv "$OUT/.new" "$OUT/session.tgz"
}

# Compiles once what every process needs.
python -c "from karelsynth.tasks.generate import generate; generate(0, 0, 1); import karelsynth.search, karelsynth.train.loop"

$karelsynth reproduce syntax --only small_mle_large --only small_mle_learned --seeds 3,4,5,6,7 --at-once 7 \
  --minutes "$minutes" --runs "$work/runs" --results "$work/results/reproduce" --commit "$commit" \
  > "$work/found/logs/syntax.log" 2>&1 &
$karelsynth reproduce controls --only small_rl_signed --seeds 0,1,2 --keep "$work/kept" --at-once 3 \
  --minutes "$minutes" --runs "$work/runs-rl" --results "$work/results/controls" --commit "$commit" \
  > "$work/found/logs/controls.log" 2>&1 &
(
  until [ -f "$work/kept/small_mle-seed0/trained.json" ]; do sleep 2; done
  start="start_from=$work/kept/small_mle-seed0"
  export KARELSYNTH_THREADS=3
  variant() {
    local name=$1 recipe=$2; shift 2
    $karelsynth train "$recipe" --out "$work/variants/$name" "$@" > "$work/found/logs/$name.log" 2>&1 &
  }
  variant signed-scratch small_rl_signed --set start_from=none
  variant signed-1e-3 small_rl_signed --set "$start" --set optimizer.learning_rate=1e-3
  variant signed-1e-3-unclipped small_rl_signed --set "$start" --set optimizer.learning_rate=1e-3 --set optimizer.clip=none
  variant plain-1e-3-unclipped small_rl --set "$start" --set optimizer.learning_rate=1e-3 --set optimizer.clip=none
  wait
) &
waiting=$(jobs -p)
until [ -z "$(jobs -rp)" ]; do sleep 20; collect; done
wait $waiting
collect
tail -n 4 "$work"/found/logs/*.log
grep -h validation "$work"/found/logs/small_rl-*.jsonl | cut -c 1-120 | tail -n 40
tar tzf "$OUT/session.tgz"
