#if PostgreSQL
/// The tables of a store, and the steps that create them.
///
/// - `entry` has one row for each key that ever had an entry. A deleted key keeps its row, with a value of NULL and a
///   version of its own, so that the change of the deletion stays valid.
/// - `pending` has the changes that committed transactions wrote and that have no number yet.
/// - `change` has the numbered changes, in the order in which they became visible. `feed` has the latest number; its
///   row is the lock of the transaction that numbers changes.
/// - `mark` records the latest change at certain times. `sweep` has the number up to which superseded changes were
///   removed.
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
        """
    ]

    /// The statements that bring a store of version `format` (0 if there is none) to the present one.
    static func migration(from format: Int64, schema: String) -> String {
        (migrations[Int(format)...].joined(separator: "\n")
            + "\nUPDATE @.store SET format = \(Self.format) WHERE id = 0;").replacing("@", with: schema)
    }
}
#endif
