#!/usr/bin/env bash
# Checks of inference on a GPU machine: tests, and the speed of the batch machine, of beam search and of many tasks through
# `solve`. At most 150 s.
# Usage: OUT=folder tools/session_gpu_checks.sh [SECONDS]
# Run it in the repository's root, with python3 that has torch, Triton, Numba, numba-cuda, pytest and hypothesis. It needs
# no network. Each part has a time limit; a part that fails or runs out of time does not stop the next one. All that they
# print is in $OUT/gpu_checks.log after each part; the end of each and a summary are printed last. SECONDS is the limit of
# all parts together: the last parts get what is left.
#   tests     pytest -m gpu, where this code is tested
#   machine   benchmarks/machine.py --device cuda                goal: 500 M ticks/s, arrays on the GPU
#   decode    benchmarks/decode.py, the shipped model, beam 64   goal: 4,000 tasks/s
#   solve     benchmarks/solve.py --many on `test`               goal: 500 tasks/s, as many right as one by one
#   agree     pytest -m gpu, many tasks on a GPU and on cores find the same
#   where     512 tasks through `solve` again, under Python's profiler: what the searching thread waits for
#   ways      tools/profile_decoding.py: ways of beam search, and which kernels take longest
# Code for cores is compiled in the background, beside the tests.
set -u
end=$(( $(date +%s) + ${1:-150} ))
: "${OUT:?a folder for the log}"
export PYTHONPATH=src PYTHONUNBUFFERED=1
mkdir -p "$OUT"
logs=$(mktemp -d)
python=${PYTHON:-python3}
summary=()

part() {  # NAME SECONDS COMMAND…
  local name=$1 limit=$2 began status
  began=$(date +%s)
  [ $(( end - began )) -lt "$limit" ] && limit=$(( end - began ))
  if [ "$limit" -lt 5 ]; then summary+=("$name: no time was left"); return; fi
  timeout --kill-after=5 "$limit" "${@:3}" > "$logs/$name.log" 2>&1
  status=$?
  [ $status = 124 ] || [ $status = 137 ] && status="$status (ran out of time)"
  summary+=("$name: exit status $status after $(( $(date +%s) - began )) s")
  { echo "=== ${summary[-1]}: ${*:3}"; cat "$logs/$name.log"; } >> "$OUT/gpu_checks.log"
}

test_gpu() { part "$1" "$2" "$python" -m pytest -m gpu -x -v --no-header -p no:cacheprovider --durations 3 "${@:3}"; }

timeout 90 "$python" tools/compile_kernels.py > "$logs/compile.log" 2>&1 &
compiling=$!
test_gpu tests 60 tests/test_syntax.py tests/test_search.py tests/test_machine_cuda.py
part machine 30 "$python" benchmarks/machine.py --device cuda --tasks 20000
wait $compiling || { echo "=== compile"; cat "$logs/compile.log"; } >> "$OUT/gpu_checks.log"
part decode 30 "$python" benchmarks/decode.py shipped --tasks 2500 --batch 512 2500 --alone 5
part solve 60 "$python" benchmarks/solve.py --many --device cuda --tasks 2500 --budgets 0.01 0.05 0.25 --alone 0
test_gpu agree 30 tests/test_solve_many.py
part where 25 "$python" -m cProfile -s tottime benchmarks/solve.py --many --device cuda --tasks 512 --budgets 0.05 --alone 0
part ways 25 "$python" tools/profile_decoding.py shipped --tasks 2048 --rows 15

for name in tests machine decode solve agree where ways; do
  echo "== $name"
  case $name in
    tests | agree) grep -E "PASSED|FAILED|ERROR|^E  |passed|failed" "$logs/$name.log" | tail -n 15 ;;
    where) grep -E -A 25 "^\| |tottime" "$logs/$name.log" | cut -c 1-110 | head -n 30 ;;
    *) tail -n 22 "$logs/$name.log" | cut -c 1-160 ;;
  esac
done 2> /dev/null
echo "== summary"
printf '%s\n' "${summary[@]}" | tee -a "$OUT/gpu_checks.log"
rm -r "$logs"
