"""A command that fills the caches of a daemon: `python3 -m vikingd.daemon.caches`.

They are the compiled kernels, and the weights of the embedder for processors with and without VNNI.
The build of a container image runs it, so that the first start is quick.
"""

from __future__ import annotations

import sys

from viking_kernels._jit import is_compiled

from vikingd.daemon.kernel_warm_up import compile_kernels
from vikingd.models.embed import e5_weights
from vikingd.models.embed.e5_file import E5File
from vikingd.system.user_cache import cache_directory


def main() -> None:
    """Fill the caches.

    Raises:
        SystemExit: the kernels can't be written; the output names the reason.
        OSError: the weights can't be written.
    """
    compile_kernels(print)
    if not is_compiled():
        sys.exit("the kernels are not in the cache")
    e5_weights.store(E5File(), cache_directory())


if __name__ == "__main__":
    main()
