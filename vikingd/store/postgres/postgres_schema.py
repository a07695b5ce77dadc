"""The tables and their migrations.

The tables stand in the schema `vikingd`; each key begins with the tenant. The schema
`vikingd_tenant` has views of the same names that show one tenant, the one of the setting
`vikingd.tenant`. All statements of the store go through the views. Without the setting the views
are empty and refuse inserts. So a statement without a tenant cannot touch any rows.

The schema `vikingd_access` has the keys of callers and the limits of tenants. Each change of them
is recorded with a number and with the changed key or tenant.
"""

from __future__ import annotations

from psycopg import Connection, ProgrammingError
from psycopg.errors import InsufficientPrivilege
from psycopg.rows import TupleRow

from vikingd.domain.checksums import KEY, checksum
from vikingd.domain.errors import StoreMismatch
from vikingd.store.checksum_migration import add_checksums
from vikingd.store.postgres.postgres_connection import PostgresConnection

_TENANT = (
    "tenant text COLLATE \"C\" NOT NULL CHECK (tenant <> '') "
    "DEFAULT current_setting('vikingd.tenant')"
)
_OF_TENANT = "WHERE tenant = current_setting('vikingd.tenant')"

_TABLES = f"""
CREATE TABLE vikingd.tenants (
    tenant text COLLATE "C" PRIMARY KEY,
    store text NOT NULL,
    model text NOT NULL,
    dimension integer,
    revision bigint NOT NULL,
    linked bigint NOT NULL,
    forgotten bigint NOT NULL,
    epoch text NOT NULL,
    epochs text NOT NULL,
    timeline text NOT NULL,
    last_context bigint NOT NULL,
    last_text bigint NOT NULL,
    last_entry bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE vikingd.contexts (
    {_TENANT}, id bigint NOT NULL, uri text COLLATE "C" NOT NULL, parent_id bigint,
    is_directory smallint NOT NULL, revision bigint NOT NULL, content_hash bytea NOT NULL,
    time bigint NOT NULL, created_at bigint NOT NULL, updated_at bigint NOT NULL,
    title text NOT NULL, abstract text NOT NULL, metadata text NOT NULL, overview text NOT NULL,
    content text NOT NULL,
    PRIMARY KEY (tenant, id), UNIQUE (tenant, uri)
);
CREATE INDEX contexts_children ON vikingd.contexts (tenant, parent_id, is_directory, uri);
CREATE INDEX contexts_revision ON vikingd.contexts (tenant, revision);
CREATE TABLE vikingd.texts (
    {_TENANT}, id bigint NOT NULL, context_id bigint NOT NULL, ordinal integer NOT NULL,
    section text NOT NULL, "start" integer NOT NULL, "end" integer NOT NULL,
    script integer NOT NULL, embeddable smallint NOT NULL, vector_revision bigint, text text,
    vector bytea, digest bytea,
    PRIMARY KEY (tenant, id), UNIQUE (tenant, context_id, ordinal),
    FOREIGN KEY (tenant, context_id) REFERENCES vikingd.contexts (tenant, id) ON DELETE CASCADE
);
CREATE INDEX texts_vector_revision ON vikingd.texts (tenant, vector_revision)
    WHERE vector_revision IS NOT NULL;
CREATE INDEX texts_digest ON vikingd.texts (tenant, digest) WHERE digest IS NOT NULL;
CREATE INDEX texts_waiting ON vikingd.texts (tenant, embeddable, (ordinal > 0), id)
    WHERE vector IS NULL;
CREATE TABLE vikingd.links (
    {_TENANT}, a bigint NOT NULL, b bigint NOT NULL, reason text NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (tenant, a, b), CHECK (a < b),
    FOREIGN KEY (tenant, a) REFERENCES vikingd.contexts (tenant, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant, b) REFERENCES vikingd.contexts (tenant, id) ON DELETE CASCADE
);
CREATE INDEX links_b ON vikingd.links (tenant, b);
CREATE TABLE vikingd.entries (
    {_TENANT}, text_id bigint NOT NULL, id bigint NOT NULL,
    reinforcement bigint NOT NULL DEFAULT 0, access_count bigint NOT NULL DEFAULT 0,
    time bigint NOT NULL, created_at bigint NOT NULL,
    PRIMARY KEY (tenant, text_id), UNIQUE (tenant, id),
    FOREIGN KEY (tenant, text_id) REFERENCES vikingd.texts (tenant, id) ON DELETE CASCADE
);
CREATE TABLE vikingd.removals (
    {_TENANT}, rowid bigint GENERATED ALWAYS AS IDENTITY, revision bigint NOT NULL,
    uri text COLLATE "C" NOT NULL, PRIMARY KEY (tenant, revision, rowid)
);
CREATE TABLE vikingd.requests (
    {_TENANT}, number bigint NOT NULL, id text COLLATE "C" NOT NULL, digest bytea NOT NULL,
    revision bigint NOT NULL, reply bytea NOT NULL, time bigint NOT NULL,
    PRIMARY KEY (tenant, number), UNIQUE (tenant, id)
);
CREATE INDEX requests_time ON vikingd.requests (tenant, time);
CREATE TABLE vikingd.leases (
    {_TENANT}, text_id bigint NOT NULL, node text NOT NULL, until timestamptz NOT NULL,
    PRIMARY KEY (tenant, text_id)
);
CREATE TABLE vikingd.meta (
    {_TENANT}, key text COLLATE "C" NOT NULL, value bytea NOT NULL, PRIMARY KEY (tenant, key)
);

CREATE SCHEMA vikingd_tenant;
CREATE VIEW vikingd_tenant.contexts AS SELECT 'default'::text AS tenant, id, uri, parent_id,
    is_directory, revision, content_hash, time, created_at, updated_at, title, abstract, metadata,
    overview, content FROM vikingd.contexts {_OF_TENANT};
CREATE VIEW vikingd_tenant.texts AS SELECT id, context_id, ordinal, section, "start", "end", script,
    embeddable, vector_revision, text, vector, digest FROM vikingd.texts {_OF_TENANT};
CREATE VIEW vikingd_tenant.links AS SELECT a, b, reason, created_at FROM vikingd.links {_OF_TENANT};
CREATE VIEW vikingd_tenant.entries AS SELECT text_id, id, reinforcement, access_count, time,
    created_at FROM vikingd.entries {_OF_TENANT};
CREATE VIEW vikingd_tenant.removals AS SELECT rowid, revision, uri
    FROM vikingd.removals {_OF_TENANT};
CREATE VIEW vikingd_tenant.requests AS SELECT number, id, digest, revision, reply, time
    FROM vikingd.requests {_OF_TENANT};
CREATE VIEW vikingd_tenant.meta AS SELECT key, value FROM vikingd.meta {_OF_TENANT};
CREATE VIEW vikingd_tenant.leases AS SELECT text_id, node, until FROM vikingd.leases {_OF_TENANT};
CREATE VIEW vikingd_tenant.state AS SELECT store, model, dimension, revision, linked, forgotten,
    epoch, epochs, timeline, last_context, last_text, last_entry FROM vikingd.tenants {_OF_TENANT};

CREATE FUNCTION vikingd_tenant.each_id(list text) RETURNS TABLE (value bigint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 64
    AS 'SELECT one::bigint FROM json_array_elements_text(list::json) AS one';
CREATE FUNCTION vikingd_tenant.each_name(list text) RETURNS TABLE (value text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 64
    AS 'SELECT one FROM json_array_elements_text(list::json) AS one';
CREATE FUNCTION vikingd_tenant.min(a bigint, b bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT least(a, b)';
"""

_ACCESS = """
CREATE SCHEMA vikingd_access;
CREATE TABLE vikingd_access.keys (
    id text COLLATE "C" PRIMARY KEY, digest bytea NOT NULL, old_digest bytea, old_expires_at bigint,
    tenant text COLLATE "C" NOT NULL, "user" text NOT NULL, grants text NOT NULL,
    is_operator smallint NOT NULL, created_at bigint NOT NULL, expires_at bigint, used_at bigint,
    revoked_at bigint, limits text NOT NULL, subject text COLLATE "C" NOT NULL, note text NOT NULL
);
CREATE INDEX keys_tenant ON vikingd_access.keys (tenant, created_at);
CREATE UNIQUE INDEX keys_subject ON vikingd_access.keys (subject)
    WHERE subject <> '' AND revoked_at IS NULL;
CREATE TABLE vikingd_access.tenants (
    name text COLLATE "C" PRIMARY KEY, created_at bigint NOT NULL, limits text NOT NULL
);
CREATE TABLE vikingd_access.state (name text PRIMARY KEY, value bigint NOT NULL);
INSERT INTO vikingd_access.state VALUES ('changes', 0), ('had_key', 0);
CREATE TABLE vikingd_access.changes (
    number bigint PRIMARY KEY, key text NOT NULL, tenant text NOT NULL
);
"""

# See `vikingd.domain.checksums`; `migrate` computes those of the rows that are there.
_CHECKSUMS = f"""
ALTER TABLE vikingd.contexts ADD COLUMN checksum integer, ADD COLUMN content_checksum integer;
ALTER TABLE vikingd.texts ADD COLUMN checksum integer, ADD COLUMN vector_checksum integer;
ALTER TABLE vikingd.entries ADD COLUMN checksum integer;
ALTER TABLE vikingd.links ADD COLUMN checksum integer;
CREATE OR REPLACE VIEW vikingd_tenant.contexts AS SELECT 'default'::text AS tenant, id, uri,
    parent_id, is_directory, revision, content_hash, time, created_at, updated_at, title, abstract,
    metadata, overview, content, checksum, content_checksum FROM vikingd.contexts {_OF_TENANT};
CREATE OR REPLACE VIEW vikingd_tenant.texts AS SELECT id, context_id, ordinal, section, "start",
    "end", script, embeddable, vector_revision, text, vector, digest, checksum, vector_checksum
    FROM vikingd.texts {_OF_TENANT};
CREATE OR REPLACE VIEW vikingd_tenant.links AS SELECT a, b, reason, created_at, checksum
    FROM vikingd.links {_OF_TENANT};
CREATE OR REPLACE VIEW vikingd_tenant.entries AS SELECT text_id, id, reinforcement, access_count,
    time, created_at, checksum FROM vikingd.entries {_OF_TENANT};
CREATE FUNCTION vikingd_tenant.each_pair(list text) RETURNS TABLE (key text, value bigint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 64
    AS 'SELECT one.key, one.value::bigint FROM json_each_text(list::json) AS one';
ALTER TABLE vikingd_access.keys ADD COLUMN checksum integer;
"""

# The texts of a model stand in the row of their context; `slots` has the ones that it wrote, see
# `vikingd.domain.description`. A change of the context by others deletes the row.
_DESCRIPTIONS = f"""
CREATE TABLE vikingd.descriptions (
    {_TENANT}, context_id bigint NOT NULL, revision bigint NOT NULL, basis bytea NOT NULL,
    maker text NOT NULL, slots smallint NOT NULL, checksum integer,
    PRIMARY KEY (tenant, context_id),
    FOREIGN KEY (tenant, context_id) REFERENCES vikingd.contexts (tenant, id) ON DELETE CASCADE
);
CREATE INDEX descriptions_revision ON vikingd.descriptions (tenant, revision);
CREATE INDEX descriptions_basis ON vikingd.descriptions (tenant, basis);
CREATE VIEW vikingd_tenant.descriptions AS SELECT context_id, revision, basis, maker, slots,
    checksum FROM vikingd.descriptions {_OF_TENANT};
"""

MIGRATIONS: list[str] = [_TABLES, _ACCESS, _CHECKSUMS, _DESCRIPTIONS]
"""SQL scripts: each migrates the tables to the next version of the schema. Append only."""

WITH_CHECKSUMS = 3
"""The first version of the schema whose rows have checksums."""

_LOCK = 0x76696B696E6764  # "vikingd": one node migrates at a time


def migrate(db: Connection[TupleRow]) -> None:
    """Migrate the tables to the newest schema, all steps in one transaction.

    Raises:
        StoreMismatch: a newer vikingd made the tables, or they do not match their schema number.
    """
    with db.transaction():
        db.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
        db.execute("CREATE SCHEMA IF NOT EXISTS vikingd")
        db.execute("CREATE TABLE IF NOT EXISTS vikingd.schema (version integer NOT NULL)")
        rows = db.execute("SELECT version FROM vikingd.schema").fetchall()
        version = max((number for (number,) in rows), default=0)
        if len(rows) > 1 or version < 0:
            raise _not_of(version, "the number is not one that vikingd writes")
        if version > len(MIGRATIONS):
            raise StoreMismatch(
                f"the database has schema {version}, this vikingd supports up to "
                f"{len(MIGRATIONS)}: use a newer vikingd"
            )
        if version == len(MIGRATIONS):
            return
        try:
            for step, script in enumerate(MIGRATIONS[version:], start=version + 1):
                db.execute(script)
                if step == WITH_CHECKSUMS and version:
                    _add_checksums(db)
        except InsufficientPrivilege:
            raise
        except ProgrammingError as error:  # a table exists already, or an earlier one is missing
            raise _not_of(version, str(error).partition("\n")[0]) from error
        db.execute("DELETE FROM vikingd.schema")
        db.execute(f"INSERT INTO vikingd.schema VALUES ({len(MIGRATIONS)})")


def _add_checksums(db: Connection[TupleRow]) -> None:
    """Compute and store the checksums of all tenants and keys, in the caller's transaction."""
    db.execute("SET LOCAL search_path = vikingd_tenant")
    for (tenant,) in db.execute("SELECT tenant FROM vikingd.tenants ORDER BY 1").fetchall():
        db.execute("SELECT set_config('vikingd.tenant', $1, true)", (tenant,))
        add_checksums(PostgresConnection(db, tenant))
    keys = db.execute(f"SELECT {KEY} FROM vikingd_access.keys").fetchall()
    for row in keys:
        db.execute(
            "UPDATE vikingd_access.keys SET checksum = $1 WHERE id = $2", (checksum(*row), row[0])
        )


def _not_of(version: int, reason: str) -> StoreMismatch:
    return StoreMismatch(
        f"the tables of the database are not those of schema {version}, the number in "
        f"vikingd.schema ({reason}): restore a dump of the database"
    )
