#if PostgreSQL
/// The statements that every connection prepares.
enum Query: String, CaseIterable, Sendable {
    /// key, known version or NULL: version, value unless known, true if the entry was deleted.
    case read
    /// key after, first key, end of keys, limit: key, version, size.
    case list
    /// key, version, value, tag: a row.
    case writeAlways
    /// key, version, value, tag: a row if the key was absent.
    case writeAbsent
    /// key, expected version, version, value or NULL to delete, tag: a row if the entry had the expected version.
    case writeMatching
    /// key, version, tag: a row if the key had an entry.
    case deleteAlways
    /// key, a version that is not of interest: version, value. The value is NULL if the entry was deleted.
    case current
    /// timeout in milliseconds: limits the waits for locks until the end of the transaction.
    case waitLonger
    /// The names of the synchronous standbys.
    case standbys
    /// True if the server accepts no writes.
    case role
    /// Numbers the pending changes.
    case sequence
    /// The number and tag of the latest change.
    case latest
    /// The server's time in milliseconds since 1970 UTC.
    case clock
    /// number: the tag of that change.
    case change
    /// number, limit, limit of changes to look at: number, tag, key, version, true if deleted, true if it is the
    /// latest of its key, number of changes looked at.
    case changes
    /// first key, end of keys, limit: the number of keys, at most the limit.
    case countKeys
    /// number, limit of changes to look at, length of the prefix, prefix, limit: as ``changes``.
    case changesFiltered
    /// number, first key, end of keys, limit: number, tag, key, version, true if deleted.
    case changesOfKeys
    /// seconds: records the time and the latest change, at most once in these seconds.
    case mark
    /// seconds, number of changes: removes changes that were superseded before these seconds.
    case sweep

    /// True if the statement changes rows.
    var isWriting: Bool {
        switch self {
        case .writeAlways, .writeAbsent, .writeMatching, .deleteAlways, .sequence, .mark, .sweep: true
        default: false
        }
    }

    /// The text of the statement for the tables in `schema`.
    func sql(schema: String, defects: Defects) -> String {
        guard var text = Self.texts[self] else { preconditionFailure("\(self) has no text") }
        if defects.contains(.numbersAtWrite) {
            text = text.replacing(
                Self.note,
                with: "INSERT INTO @.change SELECT nextval(pg_get_serial_sequence('@.pending', 'n')), ")
        }
        if defects.contains(.readsConflictInOneStatement), self == .writeMatching { text = Self.defectiveWriteMatching }
        return text.replacing("@.", with: "\(schema).")
    }

    private static let put = """
        WITH written AS (
            INSERT INTO @.entry AS e VALUES ($1::bytea, $2::bytea, $3::bytea)
            ON CONFLICT (key) DO UPDATE SET version = EXCLUDED.version, value = EXCLUDED.value
        """
    private static let note = "INSERT INTO @.pending (tag, key, version) SELECT "

    private static let texts: [Query: String] = [
        .list: """
        SELECT key, version, octet_length(value)::bigint FROM @.entry
        WHERE key > $1::bytea AND key >= $2::bytea AND key < $3::bytea AND value IS NOT NULL
        ORDER BY key LIMIT $4::bigint
        """,
        .current: "SELECT version, value FROM @.entry WHERE key = $1::bytea AND version <> $2::bytea",
        .countKeys: """
        SELECT count(*) FROM (
            SELECT FROM @.entry WHERE key >= $1::bytea AND key < $2::bytea LIMIT $3::bigint) AS keys
        """,
        .read: """
        SELECT version, CASE WHEN version = $2::bytea THEN NULL ELSE value END, value IS NULL
        FROM @.entry WHERE key = $1::bytea
        """,
        .writeAlways: "\(put) RETURNING key, version) \(note) $4::bigint, key, version FROM written RETURNING true",
        .writeAbsent: """
        \(put) WHERE e.value IS NULL RETURNING key, version)
        \(note) $4::bigint, key, version FROM written RETURNING true
        """,
        .writeMatching: """
        WITH written AS (
            UPDATE @.entry SET version = $3::bytea, value = $4::bytea
            WHERE key = $1::bytea AND version = $2::bytea AND value IS NOT NULL RETURNING key, version)
        \(note) $5::bigint, key, version FROM written RETURNING true
        """,
        .deleteAlways: """
        WITH written AS (
            UPDATE @.entry SET version = $2::bytea, value = NULL
            WHERE key = $1::bytea AND value IS NOT NULL RETURNING key, version)
        \(note) $3::bigint, key, version FROM written RETURNING true
        """,
        .standbys: "SELECT current_setting('synchronous_standby_names')",
        .role: "SELECT current_setting('transaction_read_only') = 'on'",
        .waitLonger: "SELECT set_config('lock_timeout', ($1::bigint)::text, true)",
        // Only one transaction at a time numbers changes, and what it numbers is committed. Nothing is locked or
        // written if nothing is pending.
        .sequence: """
        WITH locked AS MATERIALIZED (
            SELECT n FROM @.feed WHERE id = 0 AND EXISTS (SELECT FROM @.pending) FOR UPDATE),
        moved AS (DELETE FROM @.pending WHERE EXISTS (SELECT FROM locked) RETURNING n, tag, key, version),
        numbered AS (
            INSERT INTO @.change
            SELECT locked.n + row_number() OVER (ORDER BY moved.n), moved.tag, moved.key, moved.version
            FROM moved, locked RETURNING 1)
        UPDATE @.feed SET n = n + (SELECT count(*) FROM numbered)
        WHERE id = 0 AND (SELECT count(*) FROM numbered) > 0
        """,
        .clock: "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        .change: "SELECT tag FROM @.change WHERE n = $1::bigint",
        .changes: """
        WITH seen AS MATERIALIZED (
            SELECT n, tag, key, version FROM @.change WHERE n > $1::bigint ORDER BY n LIMIT $3::bigint)
        SELECT s.n, s.tag, s.key, s.version, e.value IS NULL, e.version = s.version, (SELECT count(*) FROM seen)
        FROM seen s JOIN @.entry e ON e.key = s.key
        WHERE e.version = s.version OR s.n = (SELECT max(n) FROM seen) ORDER BY s.n LIMIT $2::bigint
        """,
        .changesFiltered: """
        WITH seen AS MATERIALIZED (
            SELECT n, tag, key, version FROM @.change WHERE n > $1::bigint ORDER BY n LIMIT $2::bigint)
        SELECT s.n, s.tag, s.key, s.version, e.value IS NULL,
            e.version = s.version AND substring(s.key FROM 1 FOR $3::bigint::int) = $4::bytea,
            (SELECT count(*) FROM seen)
        FROM seen s JOIN @.entry e ON e.key = s.key
        WHERE (e.version = s.version AND substring(s.key FROM 1 FOR $3::bigint::int) = $4::bytea)
            OR s.n = (SELECT max(n) FROM seen) ORDER BY s.n LIMIT $5::bigint
        """,
        .changesOfKeys: """
        SELECT c.n, c.tag, c.key, c.version, e.value IS NULL
        FROM @.entry e JOIN @.change c ON c.key = e.key AND c.version = e.version AND c.n > $1::bigint
        WHERE e.key >= $2::bytea AND e.key < $3::bytea ORDER BY c.n LIMIT $4::bigint
        """,
        .mark: """
        INSERT INTO @.mark SELECT clock_timestamp(), n FROM @.feed
        WHERE id = 0 AND NOT EXISTS (
            SELECT FROM @.mark WHERE at > clock_timestamp() - $1::bigint * interval '1 second')
        """,
        // Removes a change if a later change of its key was numbered before the bound. So a cursor is valid as
        // long as its next change is younger than the bound.
        .sweep: """
        WITH bound AS MATERIALIZED (
            SELECT at, n FROM @.mark WHERE at < clock_timestamp() - $1::bigint * interval '1 second'
            ORDER BY at DESC LIMIT 1),
        step AS MATERIALIZED (
            SELECT s.n AS old, least(s.n + $2::bigint, (SELECT n FROM bound)) AS new
            FROM @.sweep s WHERE s.id = 0 AND s.n < (SELECT n FROM bound) FOR UPDATE SKIP LOCKED),
        superseded AS (
            DELETE FROM @.change c USING step, @.change d
            WHERE d.n > step.old AND d.n <= step.new AND c.key = d.key AND c.n < d.n),
        forgotten AS (DELETE FROM @.mark WHERE at < (SELECT at FROM bound))
        UPDATE @.sweep SET n = step.new FROM step WHERE id = 0 RETURNING step.new - step.old
        """,
        .latest: "SELECT n, tag FROM @.change ORDER BY n DESC LIMIT 1",
    ]

    private static let defectiveWriteMatching = """
        WITH written AS (
            UPDATE @.entry SET version = $3::bytea, value = $4::bytea
            WHERE key = $1::bytea AND version = $2::bytea AND value IS NOT NULL RETURNING key, version),
        noted AS (INSERT INTO @.pending (tag, key, version) SELECT $5::bigint, key, version FROM written)
        SELECT version, value FROM @.entry WHERE key = $1::bytea AND NOT EXISTS (SELECT FROM written)
        """
}
#endif
