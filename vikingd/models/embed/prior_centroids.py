"""The prior centroids of the scripts: mean vectors of everyday sentences.

A store with few texts in a script has no reliable centroid of its own. The prior replaces it. The
weight of the prior falls with each text.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files

import numpy as np

from vikingd.domain.text import SCRIPTS
from vikingd.models.embed.provider import Provider, Vectors

_SENTENCES = files("vikingd.models.embed").joinpath("prior_sentences.toml")
PRIOR_SENTENCES: dict[int, tuple[str, ...]] = {
    SCRIPTS.index(script): tuple(sentences)
    for script, sentences in tomllib.loads(_SENTENCES.read_text("utf-8")).items()
}


def prior_means(provider: Provider) -> Vectors:
    """Return the mean document vector of each script, (len(SCRIPTS), dimension), not normalized.

    A script without sentences has the mean of all sentences.

    Raises:
        EmbedderFailed: the provider can't embed them.
    """
    scripts = [script for script, group in PRIOR_SENTENCES.items() for _ in group]
    vectors = provider.embed_documents([s for group in PRIOR_SENTENCES.values() for s in group])
    means = np.tile(vectors.mean(axis=0), (len(SCRIPTS), 1))
    for script in PRIOR_SENTENCES:
        means[script] = vectors[np.array(scripts) == script].mean(axis=0)
    return np.asarray(means, dtype=np.float32)
