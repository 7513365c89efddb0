#!/usr/bin/env bash
# The attacks of docs/security.md, each with its outcome in a line. Run it as root: it acts as another user, too.
#
#     tools/attacks.sh                               # the package of .venv
#     PYTHONPATH=OTHER/src tools/attacks.sh          # another version
set -u
PYTHON=$(cd "$(dirname "$0")/.." && pwd)/.venv/bin/python
SHIPPED=$("$PYTHON" -c 'import karelsynth, os; print(os.path.dirname(karelsynth.__file__) + "/pretrained")')
HERE=$(mktemp -d) && chmod 755 "$HERE" && cd "$HERE" || exit 1
trap 'rm -rf "$HERE"' EXIT
karelsynth() { "$PYTHON" -m karelsynth "$@"; }
nobody() { setpriv --reuid=65534 --clear-groups "$@"; }
printf 'def run():\n  move()\n' >p

# Run a command; print its name, its exit status, and the last line of its output.
attack() {
    local name=$1 said status
    shift
    said=$("$@" 2>&1)
    status=$?
    said=$(printf '%s' "$said" | grep -v '^ *$' | tail -1 | sed "s|$HERE/||g; s|$SHIPPED|shipped|g" | cut -c1-130)
    printf '%-18s %3d  %s\n' "$name" "$status" "$said"
}

shared_cache() { # another user made the cache folder first
    mkdir -m 1777 cache && nobody mkdir -m 777 cache/karelsynth
    NUMBA_CACHE_DIR=$HERE/cache "$PYTHON" -c 'from karelsynth.karel.compiled import cache_folder; cache_folder()'
    ls cache/karelsynth | grep -q . && echo "code is read from the folder of another user" || echo "a private folder is used"
}
planted_link() {
    mkdir -m 1777 links && echo precious >mine && nobody ln -s "$HERE/mine" links/out
    karelsynth convert p --to tokens --out links/out && head -c 8 mine
}
planted_temporary() {
    mkdir -m 777 temporary && nobody touch temporary/.out.tmp && nobody chmod 666 temporary/.out.tmp
    karelsynth convert p --to tokens --out temporary/out && echo "the file belongs to $(stat -c %U temporary/out)"
}
planted_locks() {
    mkdir -m 1777 tmp && nobody mkdir -m 777 tmp/karelsynth-locks-0 && echo precious >kept
    local digest=$(printf '%s' "$HERE/locked" | sha256sum | cut -c1-16)
    nobody ln -s "$HERE/kept" "tmp/karelsynth-locks-0/$digest.lock"
    TMPDIR=$HERE/tmp karelsynth convert p --to tokens --out locked && echo "the other file has $(wc -c <kept) of 9 bytes"
}
lost_mode() {
    touch secret && chmod 600 secret && karelsynth convert p --to tokens --out secret && echo "the mode is $(stat -c %a secret)"
}
not_a_number() {
    "$PYTHON" -c "
import shutil, torch, safetensors.torch as s
shutil.copytree('$SHIPPED', 'nan'); t = s.load_file('nan/model.safetensors')
name = sorted(t)[0]; t[name].view(-1)[0] = float('nan'); s.save_file(t, 'nan/model.safetensors')"
    rm -f nan/SHA256SUMS && karelsynth solve newspaper --model nan
}
bit_flips() {
    "$PYTHON" -c "
import pathlib, random, shutil
from karelsynth.errors import KarelsynthError
from karelsynth.model.storage import load_model
shutil.copytree('$SHIPPED', 'flipped'); path = pathlib.Path('flipped/model.safetensors')
whole, rng, loaded = bytearray(path.read_bytes()), random.Random(0), 0
for _ in range(40):
    at, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
    whole[at] ^= bit; path.write_bytes(whole); whole[at] ^= bit
    try: load_model('flipped'); loaded += 1
    except KarelsynthError: pass
print(loaded, 'of 40 flipped files loaded')"
}
recipe() { "$PYTHON" -c "print($1)" >recipe.toml && karelsynth train recipe.toml --out run; }
setting() { karelsynth train mle --out run --set "$("$PYTHON" -c "print($1)")"; }
saved_recipe() {
    cp -r "$SHIPPED" model && "$PYTHON" -c "print('[' * 100000)" >model/recipe.json
    karelsynth evaluate model val --limit 1 --beam 1
}
surrogate() { "$PYTHON" -c "
from karelsynth.errors import KarelsynthError
from karelsynth.tasks.task_files import tasks_from_text
try: tasks_from_text('{\"examples\": []}\n\ud800', 'task')
except KarelsynthError as error: print('error:', error)"; }
memory() { # the most memory that a command takes, in MB
    (ulimit -v 16000000 && "$PYTHON" -c "
import resource, subprocess, sys
ended = subprocess.run(sys.argv[1:], capture_output=True, text=True)
print((ended.stderr.strip().splitlines() or [''])[-1][:60], '|', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, 'MB')
" "$PYTHON" -m karelsynth "$@")
}
dotted_key() { "$PYTHON" -c "print('a.' * 30000 + 'a = 1')" >dots.toml && memory train dots.toml --out run; }
large_task() { "$PYTHON" -c "print('[' + '[],' * 40000000)" >large.json && memory solve large.json; }
no_columns() { COLUMNS=0 karelsynth check missing; }
no_jit() { NUMBA_DISABLE_JIT=1 karelsynth generate --count 3 --seed 1 --out set; }
no_threads() { NUMBA_NUM_THREADS=0 karelsynth generate --count 3 --seed 1 --out set; }
import_again() {
    karelsynth generate --count 5 --seed 1 --out five && karelsynth export-msr five --out five.jsonl &&
        karelsynth import-msr five.jsonl --out imported && karelsynth import-msr five.jsonl --out imported
}
long_name() { karelsynth convert p --to tokens --out "$(printf 'x%.0s' {1..255})" && echo written; }

attack "compile cache" shared_cache
attack "planted link" planted_link
attack "planted temporary" planted_temporary
attack "planted locks" planted_locks
attack "lost mode" lost_mode
attack "NaN weights" not_a_number
attack "bit flips" bit_flips
attack "recipe: brackets" recipe "'about = ' + '[' * 1000 + ']' * 1000"
attack "recipe: digits" recipe "'[run]\nsteps = ' + '1' * 4301"
attack "recipe: large rate" recipe "'[optimizer]\nlearning_rate = 1' + '0' * 309"
attack "--set: brackets" setting "'run.steps=' + '[' * 1000 + ']' * 1000"
attack "--set: digits" setting "'run.steps=' + '1' * 4301"
attack "--set: large rate" setting "'optimizer.learning_rate=1' + '0' * 309"
attack "recipe.json" saved_recipe
attack "lone surrogate" surrogate
attack "dotted key" dotted_key
attack "large task file" large_task
attack "COLUMNS=0" no_columns
attack "no JIT" no_jit
attack "no threads" no_threads
attack "import again" import_again
attack "long name" long_name
