#!/bin/sh
# The entry point of the image: runs a command with the kernels for the processor of this machine.
#
# numba compiles for one model of processor, and that of the machine which builds an image may differ.
# So these kernels are for two levels of x86-64 that many models have. A level is used only if this
# processor has all of it. `fill-caches` compiles each level that the processor has.
set -eu

cache=/opt/vikingd/cache
levels=$(/lib64/ld-linux-x86-64.so.2 --help 2> /dev/null || true) # other architectures have no levels

has_level() {
    case $levels in *"$1 (supported"*) ;; *) return 1 ;; esac
}

is_for() {
    case $1 in
        vnni) has_level x86-64-v4 && grep --quiet --word-regexp avx512_vnni /proc/cpuinfo ;;
        avx2) has_level x86-64-v3 ;;
    esac
}

take() {
    case $1 in
        vnni) export NUMBA_CPU_NAME=x86-64-v4 NUMBA_CPU_FEATURES=+avx512vnni ;;
        avx2) export NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES= ;;
    esac
    export VIKING_KERNELS_SIMD="$1" XDG_CACHE_HOME="$cache"
}

if [ "${1:-}" = fill-caches ]; then
    for simd in vnni avx2; do
        if is_for "$simd"; then
            take "$simd"
            python3 -m vikingd.daemon.caches
            touch "$cache/$simd"
        fi
    done
    exit
fi

# Without kernels for this processor, the first start compiles them, and the volume keeps them.
export XDG_CACHE_HOME=/data/cache
for simd in avx2 vnni; do
    if [ -e "$cache/$simd" ] && is_for "$simd"; then
        take "$simd"
    fi
done

# What the daemon reads from its environment can be a file, such as a secret of the container.
for name in METRICS_TOKEN OPENAI_API_KEY; do
    file=$(printenv "${name}_FILE" || true)
    if [ -n "$file" ]; then
        value=$(cat "$file")
        export "$name=$value"
    fi
done

exec "$@"
