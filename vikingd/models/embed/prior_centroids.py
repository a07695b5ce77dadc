"""The prior centroids of scripts: mean vectors of everyday sentences in each script.

A store with few texts in a script has no reliable centroid of its own for it. The prior is used
instead, with a weight that falls with each text.
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

    A script for which there are no sentences gets the mean of all sentences.

    Raises:
        EmbedderFailed: the provider can't embed the sentences.
    """
    scripts = [script for script, group in PRIOR_SENTENCES.items() for _ in group]
    vectors = provider.embed_documents([s for group in PRIOR_SENTENCES.values() for s in group])
    means = np.tile(vectors.mean(axis=0), (len(SCRIPTS), 1))
    for script in PRIOR_SENTENCES:
        means[script] = vectors[np.array(scripts) == script].mean(axis=0)
    return np.asarray(means, dtype=np.float32)
