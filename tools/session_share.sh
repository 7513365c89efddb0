#!/usr/bin/env bash
# What share of the tasks should be purposeful, and in whose order should their examples come? Five short runs that
# continue the shipped weights, side by side on a GPU machine, about four minutes in all.
# Usage: OUT=folder tools/session_share.sh [options of `karelsynth train`]
# The runs see equally many tasks and differ in `data.purposeful` or `data.shuffle_examples` alone. $OUT/share.md has the
# likelihood of references of fresh tasks of both kinds, and of people's tasks that were used for choices before
# (tools/likelihood.py). $OUT/share.tgz has the logs. No weights are kept.
set -u
work=${WORK:-/tmp/share}
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1 PYTHONPATH=src
: "${OUT:?a folder for the results}"
mkdir -p "$OUT" "$work"
command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d

run() {  # NAME, changes to the recipe
  $python -m karelsynth train execution_anything --out "$work/$1" --set start_from=src/karelsynth/pretrained \
    --set run.steps="${STEPS:-400}" --set run.batch_size=4096 --set run.compile=true --set run.checkpoint_every=100000 \
    --set run.validation_tasks=100 --set optimizer.learning_rate=5e-4 --set optimizer.warmup=40 \
    --set optimizer.decay_steps="$(( ${STEPS:-400} / 2 ))" "${@:2}" > "$work/$1.log" 2>&1
  echo "$1: exit status $?"
}

names=()
for share in 0.2 0.35 0.5 0.65; do
  names+=("share-$share")
  run "share-$share" --set data.purposeful=$share "$@" &
done
names+=(shuffled-0.35)
run shuffled-0.35 --set data.purposeful=0.35 --set data.shuffle_examples=true "$@" &
wait
models=(shipped)
for name in "${names[@]}"; do [ -d "$work/$name/final" ] && models+=("$work/$name/final"); done
$python tools/likelihood.py "${models[@]}" --tasks "${TASKS:-3000}" --file benchmarks/held_out.jsonl \
  --file benchmarks/held_out_2.jsonl | tee "$OUT/share.md"
(cd "$work" && tar czf "$OUT/share.tgz" ./*.log ./*/metrics.jsonl)
tail -qn 2 "$work"/*.log
