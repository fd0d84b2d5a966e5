#if PostgreSQL
/// The tables of a store, and the steps that create them.
///
/// - `entry` has one row for each key that has an entry.
/// - `waiting` has the changes that committed transactions wrote and that have no number yet, each with the number of
///   its transaction.
/// - `change` has the numbered changes, in the order in which they became visible.
/// - `numbering` has the latest number and the snapshot of the transaction that gave it. The next one looks only for
///   changes of transactions that this snapshot does not contain, so it never meets the rows that others have moved,
///   even if an old snapshot elsewhere prevents their removal. No row of a table that is read often is updated, for the
///   same reason.
/// - `mark` records the latest change at certain times. `sweep` has the number up to which superseded changes, and
///   before which deletions, were removed.
enum StoreSchema {
    /// The version of the tables that this software writes.
    static let format = Int64(migrations.count)

    /// The steps from each version to the next, beginning with an empty schema.
    private static let migrations = [
        """
        DO $$ BEGIN IF to_regnamespace('@') IS NULL THEN CREATE SCHEMA @; END IF; END $$;
        CREATE TABLE @.store (id int PRIMARY KEY CHECK (id = 0), format bigint NOT NULL);
        CREATE TABLE @.entry (key bytea PRIMARY KEY, version bytea NOT NULL, value bytea)
            WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);
        ALTER TABLE @.entry ALTER value SET STORAGE EXTERNAL;
        CREATE TABLE @.pending (
            n bigint GENERATED ALWAYS AS IDENTITY, tag bigint NOT NULL, key bytea NOT NULL, version bytea NOT NULL)
            WITH (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0);
        CREATE TABLE @.change (
            n bigint PRIMARY KEY, tag bigint NOT NULL, key bytea NOT NULL, version bytea NOT NULL);
        CREATE INDEX change_by_key ON @.change (key, n);
        CREATE TABLE @.feed (id int PRIMARY KEY CHECK (id = 0), n bigint NOT NULL) WITH (fillfactor = 10);
        CREATE TABLE @.sweep (id int PRIMARY KEY CHECK (id = 0), n bigint NOT NULL) WITH (fillfactor = 10);
        CREATE TABLE @.mark (at timestamptz PRIMARY KEY, n bigint NOT NULL);
        INSERT INTO @.store VALUES (0, 0);
        INSERT INTO @.feed VALUES (0, 0);
        INSERT INTO @.sweep VALUES (0, 0);
        """,
        // Tables of new names make the statements fail that servers of the former version have prepared.
        """
        LOCK TABLE @.entry, @.pending, @.change, @.feed, @.mark, @.sweep IN ACCESS EXCLUSIVE MODE;
        INSERT INTO @.change
            SELECT (SELECT n FROM @.feed) + row_number() OVER (ORDER BY n), tag, key, version FROM @.pending;
        ALTER TABLE @.change ADD deleted boolean NOT NULL DEFAULT false;
        UPDATE @.change c SET deleted = true FROM @.entry e
            WHERE e.key = c.key AND e.version = c.version AND e.value IS NULL;
        CREATE INDEX deletion_by_key ON @.change (key, n) WHERE deleted;
        DELETE FROM @.entry WHERE value IS NULL;
        CREATE TABLE @.waiting (
            n bigint GENERATED ALWAYS AS IDENTITY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
            tag bigint NOT NULL, key bytea NOT NULL, version bytea NOT NULL, deleted boolean NOT NULL)
            WITH (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0);
        CREATE INDEX waiting_by_xid ON @.waiting (xid);
        CREATE TABLE @.numbering (n bigint PRIMARY KEY, snapshot pg_snapshot NOT NULL)
            WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
        INSERT INTO @.numbering SELECT coalesce(max(n), 0), pg_current_snapshot() FROM @.change;
        DROP TABLE @.pending, @.feed;
        DO $$ DECLARE role regrole; BEGIN
            FOR role IN SELECT DISTINCT a.grantee::regrole FROM pg_class c, aclexplode(c.relacl) a
                WHERE c.oid = '@.entry'::regclass AND a.grantee NOT IN (0, c.relowner) LOOP
                EXECUTE format(
                    'GRANT SELECT, INSERT, UPDATE, DELETE ON @.waiting, @.numbering TO %s', role);
            END LOOP;
        END $$;
        """,
    ]

    /// The statements that bring a store of version `format` (0 if there is none) to the present one.
    static func migration(from format: Int64, schema: String) -> String {
        (migrations[Int(format)...].joined(separator: "\n")
            + "\nUPDATE @.store SET format = \(Self.format) WHERE id = 0;").replacing("@", with: schema)
    }
}
#endif
